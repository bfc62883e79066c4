"""Replies in a slot, with a model that is a function of the tokens before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.engines.base import ChatMessage, Context, LlmStep, Prompt
from voicepipe.engines.slot import GUESS_PRICE, GUESS_TOKENS, Limits, Slot
from voicepipe.errors import EngineError

CONTEXT = Context("s", 1, 1, 1)
END = ord(".")
WORDS = "abcdefgh "


class Model:
    """One token per character. Outputs are only there where they were wanted."""

    def __init__(self, limits: Limits, *, can_cut: bool = True) -> None:
        self.limits = limits
        self.lock = threading.Lock()
        self.can_cut = can_cut
        self.held: list[int] = []
        self.batches: list[tuple[int, int]] = []
        """(tokens evaluated, outputs wanted) of each batch."""
        self.outputs: dict[int, int] = {}
        self.fails = False

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        return self.split("".join(f"{m.role[0]}{m.content}|" for m in messages) + "a:")

    def split(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))

    def keep(self, sequence: int, tokens: int) -> int:
        if not self.can_cut and tokens < len(self.held):
            tokens = 0
        del self.held[tokens:]
        return tokens

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None:
        if self.fails:
            raise EngineError("out of memory")
        assert position == len(self.held), "a token in the wrong place"
        assert 1 <= len(tokens) <= self.limits.prefill
        self.batches.append((len(tokens), wanted))
        self.outputs = {}
        for index, token in enumerate(tokens):
            self.held.append(token)
            if index >= len(tokens) - wanted:
                self.outputs[index] = self.next_token()
        assert len(self.held) <= self.limits.context

    def next_token(self) -> int:
        """Like a model that answers the beginning of a question much as the whole of it."""
        if ord(":") not in self.held:
            return END
        opening = len(self.held) - 1 - self.held[::-1].index(ord(":"))
        said, question = self.held[opening + 1 :], self.held[:opening]
        if len(said) > 5:
            said = [*question[-3:], *said]
        return ord((WORDS + ".")[hash((len(said), *said[-3:], *said[:3])) % (len(WORDS) + 1)])

    def sample(self, sampler: object, index: int) -> int:
        return self.outputs[index]

    def is_end(self, token: int) -> bool:
        return token == END

    def sampler(self) -> object:
        return self


def slot_of(model: Model) -> Slot:
    return Slot(model, 0, model, [])


def prompt(said: str, max_tokens: int = 40) -> Prompt:
    return Prompt((ChatMessage("system", "be brief"), ChatMessage("user", said)), max_tokens)


def finish(slot: Slot, asked: Prompt) -> list[LlmStep]:
    generation = slot.generate(asked, CONTEXT)
    steps = [generation.step()]
    while steps[-1].finish is None:
        steps.append(generation.step())
    return steps


def text(steps: Sequence[LlmStep]) -> str:
    return "".join(step.text for step in steps)


limits = st.builds(Limits, context=st.integers(64, 120), prefill=st.integers(1, 20), decode=st.integers(1, 4))
attempts = st.lists(st.tuples(st.text(WORDS, max_size=20), st.integers(0, 12), st.integers(1, 40)), max_size=6)


@given(limits, attempts, st.text(WORDS, max_size=20), st.integers(1, 60))
def test_what_is_said_does_not_depend_on_what_was_begun_before(
    limits: Limits, attempts: list[tuple[str, int, int]], said: str, max_tokens: int
) -> None:
    model = Model(limits)
    slot = slot_of(model)
    for heard, steps, most in attempts:
        generation = slot.generate(prompt(heard, most), CONTEXT)
        for _ in range(steps):
            if generation.step().finish is not None:
                break
        assert slot.computed == model.held
    again = finish(slot, prompt(said, max_tokens))
    alone = finish(slot_of(Model(limits)), prompt(said, max_tokens))
    assert (text(again), again[-1].finish) == (text(alone), alone[-1].finish)
    assert sum(step.tokens for step in again) == sum(step.tokens for step in alone)
    assert slot.computed == model.held


def begun(model: Model, heard: str = "what is it") -> Slot:
    slot = slot_of(model)
    generation = slot.generate(prompt(heard), CONTEXT)
    for _ in range(20):
        generation.step()
    return slot


ROOMY = Limits(context=200, memory=200, prefill=64, decode=2)


def test_a_guess_that_is_right_comes_in_the_step_that_reads_the_prompt() -> None:
    slot = begun(Model(ROOMY))
    first = finish(slot, prompt("what is it now"))[0]
    assert first.tokens > 3


def test_a_reply_that_was_given_is_a_guess_for_the_next_turn() -> None:
    slot = slot_of(Model(ROOMY))
    finish(slot, prompt("what is it"))
    assert finish(slot, prompt("what is it now"))[0].tokens > 3


def test_a_reply_that_stopped_sooner_leaves_the_longer_guess() -> None:
    """One that said something else does not."""
    slot = slot_of(Model(ROOMY))
    slot.remember([1, 2, 3, 4])
    slot.remember([1, 2])
    assert slot.guess() == [1, 2, 3]
    slot.remember([1, 9])
    assert slot.guess() == [1]


def test_reading_alone_leaves_the_guess() -> None:
    slot = begun(Model(ROOMY))
    finish(slot, prompt("what is it", max_tokens=1))
    assert finish(slot, prompt("what is it now"))[0].tokens > 3


def test_a_model_that_cannot_be_cut_is_given_no_guess() -> None:
    model = Model(ROOMY, can_cut=False)
    slot = begun(model)
    model.batches.clear()
    finish(slot, prompt("what is it now"))
    assert {wanted for _, wanted in model.batches} == {1}


def test_a_guess_is_bounded() -> None:
    model = Model(ROOMY)
    slot = begun(model)
    model.batches.clear()
    finish(slot, prompt("what is it now"))
    assert max(wanted for _, wanted in model.batches) == 1 + GUESS_TOKENS


def test_a_guess_that_is_still_to_be_tried_counts_for_what_it_takes() -> None:
    """Here the rest of the prompt leaves no room for it."""
    model = Model(ROOMY)
    slot = begun(model)
    guess = slot.guess()
    model.limits = replace(ROOMY, prefill=len("now|a:") + 1)
    generation = slot.generate(prompt("what is it now"), CONTEXT)
    assert generation.step().tokens == 1
    assert generation.next_size().units == ROOMY.decode + GUESS_PRICE * (len(guess) - 1)
    assert generation.step().tokens > ROOMY.decode


def test_a_batch_that_fails_leaves_nothing_to_trust() -> None:
    model = Model(ROOMY)
    slot = begun(model)
    model.fails = True
    with pytest.raises(EngineError):
        slot.generate(prompt("what is it now"), CONTEXT).step()
    assert slot.computed == []
