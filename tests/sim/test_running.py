"""What is counted without looking at each sequence is what looking at each gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voicepipe.sim.kv import blocks_of
from voicepipe.sim.requests import Request
from voicepipe.sim.running import Decoding, Sequence


def joined(decoding: Decoding, private_tokens: int, prefix_tokens: int = 0, left: int = 100) -> Sequence:
    request = Request(0.0, prefix_tokens + private_tokens, left, prefix_tokens=prefix_tokens)
    sequence = Sequence(request, private_tokens, left, 0)
    decoding.add(sequence)
    return sequence


@given(st.lists(st.tuples(st.integers(1, 70), st.integers(0, 40)), min_size=1, max_size=8), st.integers(0, 60))
def test_growth_is_that_of_every_sequence(joining: list[tuple[int, int]], steps: int) -> None:
    decoding, lengths = Decoding(), list[int]()
    for tokens, before in joining:
        decoding.advance(before)
        lengths = [length + before for length in lengths]
        joined(decoding, tokens)
        lengths.append(tokens)
    growth = sum(blocks_of(length + steps) - blocks_of(length) for length in lengths)
    assert decoding.growth(steps) == growth
    assert decoding.context_tokens == sum(lengths)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=8), st.integers(0, 30), st.integers(1, 90))
def test_so_many_steps_fit_and_no_more(lengths: list[int], blocks: int, most: int) -> None:
    decoding = Decoding()
    for tokens in lengths:
        joined(decoding, tokens)
    steps = decoding.steps_within(blocks, most)
    assert decoding.growth(steps) <= blocks
    assert steps == most or decoding.growth(steps + 1) > blocks


def test_goals_are_reached_in_order_and_forgotten_with_their_sequence() -> None:
    decoding = Decoding()
    first, second, third = (joined(decoding, tokens, prefix_tokens=5) for tokens in (10, 20, 30))
    decoding.wake(first, 4)
    decoding.wake(second, 2)
    decoding.wake(third, 4)
    assert decoding.steps_to_event() == 2
    assert decoding.advance(2) == [second]
    assert decoding.left(second) == 97
    decoding.remove(first)
    assert (first.private_tokens, first.tokens_left) == (12, 97)
    assert decoding.steps_to_event() == 2
    assert decoding.advance(2) == [third]
    assert (decoding.count, decoding.context_tokens) == (2, 24 + 34 + 10)
