"""Texts beside the slots of sessions, with a model that is a function of the tokens before."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from voicepipe.engines.base import ChatMessage, TextRequest, TextStep
from voicepipe.engines.slot import Limits
from voicepipe.engines.texts import Row, Text, Texts
from voicepipe.errors import EngineBusy, EngineError, PromptRefused, PromptTooLong

END = ord(".")
LETTERS = "abcdefghij"


class Model:
    """One token per character. The sampler is the text that it says, whose end is a full stop."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = threading.Lock()
        self.can_cut = True
        self.held: dict[int, list[int]] = {}
        self.rows: list[int] = []
        """Rows of each batch."""
        self.outputs: list[int] = []
        """The sequence of each row that has an output."""
        self.fails = False
        self.refuses = False

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        if self.refuses:
            raise EngineError("the model's chat template refuses the order of turns")
        return self.split("".join(message.content for message in messages))

    def split(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))

    def keep(self, sequence: int, tokens: int) -> int:
        del self.held.setdefault(sequence, [])[tokens:]
        return tokens

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None:
        assert self.lock.locked() and position == len(self.held[sequence])
        assert 1 <= len(tokens) <= self.limits.prefill and wanted == 1
        self.held[sequence] += tokens
        self.outputs = [-1] * (len(tokens) - 1) + [sequence]

    def evaluate_rows(self, rows: Sequence[Row]) -> None:
        assert self.lock.locked()
        if self.fails:
            raise EngineError("out of memory")
        for sequence, position, token in rows:
            assert position == len(self.held[sequence]), "a token in the wrong place"
            self.held[sequence].append(token)
        self.rows.append(len(rows))
        self.outputs = [row[0] for row in rows]

    def sample(self, sampler: list[str], index: int) -> int:
        assert self.outputs[index] >= 0, "there is no output"
        return ord(sampler.pop(0))

    def is_end(self, token: int) -> bool:
        return token == END


def pool(slots: int = 2, context: int = 64, prefill: int = 4) -> tuple[Texts, Model]:
    model = Model(Limits(context, context, prefill, 2))
    return Texts(model, "m", range(3, 3 + slots), lambda request: list(LETTERS + ".")), model


def ask(content: str = "hello", max_tokens: int = 20) -> TextRequest:
    return TextRequest((ChatMessage("user", content),), max_tokens)


def step(texts: Texts, *each: Text, units: int = 2) -> tuple[TextStep, ...]:
    return texts.step(each, units)


def opened(texts: Texts, request: TextRequest) -> Text:
    """Split and read."""
    text = texts.open(request)
    while text.next_size().variant != "decode":
        step(texts, text, units=4)
    return text


def test_a_prompt_is_split_read_and_answered() -> None:
    """Its size is told before each step; the prompt's last chunk brings the first token."""
    texts, model = pool()
    text = texts.open(ask())
    sizes, said = [], ""
    for units in (1, 4, 4, 8, 8):
        size = text.next_size()
        sizes.append((size.variant, size.units, size.context))
        (one,) = step(texts, text, units=units)
        said += one.text
    assert sizes == [
        ("split", 5, 0),
        ("prefill", 5, 0),
        ("prefill", 1, 4),
        ("decode", 19, 5),
        ("decode", 11, 13),
    ]
    assert (said, one.finish, text.prompt_tokens) == (LETTERS, "stop", 5)
    assert model.held[3] == model.split("hello" + LETTERS)


def test_texts_are_written_together_and_one_that_ends_drops_out() -> None:
    """Rows of a batch: two while both have something to say."""
    texts, model = pool()
    short, long = opened(texts, ask(max_tokens=3)), opened(texts, ask("hi"))
    first, second = step(texts, short, long, units=4)
    assert (first.text, first.tokens, first.finish) == ("bc", 2, "length")
    assert (second.text, second.tokens, second.finish) == ("bcde", 4, None)
    assert model.rows == [2, 2, 1, 1]


def test_a_text_ends_where_the_context_does() -> None:
    """However many tokens were asked for."""
    texts, _ = pool(context=8)
    text = opened(texts, ask("hello", max_tokens=50))
    (one,) = step(texts, text, units=20)
    assert ("a" + one.text, one.finish) == ("abc", "length")


def test_a_prompt_that_fills_the_context_is_refused() -> None:
    texts, _ = pool(context=5)
    with pytest.raises(PromptTooLong, match="5 tokens") as caught:
        step(texts, texts.open(ask()))
    assert caught.value.field == "messages"


def test_messages_that_the_template_does_not_take_are_refused() -> None:
    """That is no fault of the engine."""
    texts, model = pool()
    model.refuses = True
    with pytest.raises(PromptRefused, match="order of turns"):
        step(texts, texts.open(ask()))


def test_slots_are_leased_and_what_they_held_is_forgotten() -> None:
    """Sequences of their own; a slot that is given back twice is given back once."""
    texts, model = pool(slots=1)
    text = opened(texts, ask())
    with pytest.raises(EngineBusy):
        texts.open(ask())
    text.close()
    text.close()
    opened(texts, ask("abc"))
    assert model.held == {3: model.split("abc")}
    with pytest.raises(EngineBusy):
        texts.open(ask())


def test_a_failed_batch_costs_its_texts_and_lets_go_of_the_lock() -> None:
    texts, model = pool()
    text = opened(texts, ask())
    model.fails = True
    with pytest.raises(EngineError, match="memory"):
        step(texts, text)
    text.close()
    model.fails = False
    assert step(texts, opened(texts, ask()))[0].text == "bc"
