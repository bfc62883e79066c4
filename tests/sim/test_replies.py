"""Replies, and the steps that a model makes of them."""

from __future__ import annotations

import pytest

from voicepipe.core.clauses import ClauseSplitter
from voicepipe.sim.replies import REPLIES, Reply, reply_to, steps_of


@pytest.mark.parametrize("step_tokens", [1, 3, 4])
def test_steps_make_the_whole_reply_and_no_token_more(step_tokens: int) -> None:
    for reply in REPLIES:
        steps = steps_of(reply, step_tokens, 1.3)
        assert "".join(text for text, _ in steps) == reply.text
        assert sum(tokens for _, tokens in steps) == round(1.3 * reply.words)
        assert all(0 < tokens <= step_tokens for _, tokens in steps)


def test_with_a_token_a_word_each_step_is_one() -> None:
    assert steps_of(Reply("One two. Three."), 1, 1.0) == (("One ", 1), ("two. ", 1), ("Three.", 1))


def test_replies_differ_in_length_and_have_first_clauses() -> None:
    """From two seconds to nine, as answers to spoken questions do."""
    lengths = sorted(reply.seconds for reply in REPLIES)
    assert lengths[0] < 2.5 and lengths[-1] > 8.0 and 3.5 < sum(lengths) / len(lengths) < 5.0
    for reply in REPLIES:
        splitter = ClauseSplitter()
        clauses = [*splitter.feed(reply.text), *splitter.flush()]
        assert " ".join(clauses) == reply.text and 1 <= len(clauses[0].split()) <= 11


def test_other_words_have_another_reply_every_other_time_and_always_the_same() -> None:
    own = REPLIES[0]
    found = [reply_to(f"What is it number {number}", own, whole=False) for number in range(200)]
    assert 80 < sum(reply is own for reply in found) < 140 and len(set(found)) > 8
    assert found == [reply_to(f"What is it number {number}", own, whole=False) for number in range(200)]
    assert {reply_to(f"What is it number {number}", own, whole=True) for number in range(50)} == {own}
