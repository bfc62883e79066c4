"""An even sample of the labelled set, and a set that needs no model."""

from __future__ import annotations

from collections import Counter

import pytest
from dialogues import RATE_HZ, LabelledTurn
from labelled import as_clip, even_sample, toned_turns


@pytest.fixture(scope="module")
def turns() -> list[LabelledTurn]:
    return toned_turns(half="report", takes=2, seed=0)


def test_a_tone_has_the_pauses_of_the_texts(turns: list[LabelledTurn]) -> None:
    assert {turn.half for turn in turns} == {"report"}
    assert sum(bool(turn.pauses) for turn in turns) >= len(turns) / 3
    assert len(toned_turns(half=None, takes=2, seed=0)) > 1.5 * len(turns)


@pytest.mark.parametrize("count", [10, 20, 40])
def test_a_sample_is_as_the_set_is(turns: list[LabelledTurn], count: int) -> None:
    """Turns with pauses, kinds of places, and lengths of pauses: each to a turn or two as often as in the set."""
    sample = even_sample(turns, count, seed=0)
    assert len({turn.name for turn in sample}) == count
    part = count / len(turns)
    assert sum(bool(t.pauses) for t in sample) == pytest.approx(part * sum(bool(t.pauses) for t in turns), abs=1)
    whole, drawn = Counter(t.kind for t in turns), Counter(t.kind for t in sample)
    assert all(abs(drawn[kind] - part * whole[kind]) <= 2 for kind in whole)


def test_short_and_long_pauses_are_in_the_sample(turns: list[LabelledTurn]) -> None:
    longest = [
        max(end - start for start, end in turn.pauses) / RATE_HZ
        for turn in even_sample(turns, 20, seed=0)
        if turn.pauses
    ]
    assert min(longest) < 0.7 and max(longest) > 1.2


def test_kinds_are_mixed_in_an_order_that_the_seed_draws(turns: list[LabelledTurn]) -> None:
    first, again, other = (even_sample(turns, 20, seed) for seed in (0, 0, 1))
    assert [t.name for t in first] == [t.name for t in again]
    assert [t.name for t in first] != [t.name for t in other]
    assert {t.name for t in first} == {t.name for t in other}


def test_a_sample_larger_than_the_set_is_the_set(turns: list[LabelledTurn]) -> None:
    assert len(even_sample(turns, 10_000, seed=0)) == len(turns)


def test_what_cannot_be_understood_has_no_text(turns: list[LabelledTurn]) -> None:
    turn = turns[0]
    assert as_clip(turn, understood=False).text is None
    clip = as_clip(turn)
    assert (clip.text, clip.speech_end, clip.pauses) == (turn.text, turn.speech_end, turn.pauses)
