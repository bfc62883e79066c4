"""Texts that nobody waits to hear: sequences of their own beside those of the sessions, in the same loaded model.

A chunk splits one prompt into tokens, reads a part of one, or makes a few tokens of several texts at once, in one
batch: four rows take three times as long as one by llama.cpp, and less than twice as long in our own steps. What a
sequence holds goes with its text. `lock` is held for one chunk, as by the slots of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from voicepipe.engines import base
from voicepipe.engines.base import Placement, StepSize, TextRequest, TextStep
from voicepipe.engines.slot import Row, Runtime, TextStream
from voicepipe.errors import EngineBusy, EngineError, PromptRefused, PromptTooLong


class Texts:
    placement: Placement = "thread"

    def __init__(
        self, runtime: Runtime, name: str, sequences: Sequence[int], sampler_of: Callable[[TextRequest], Any]
    ) -> None:
        """`sequences`: numbers that nobody else uses, `limits.prefill` at most."""
        assert len(sequences) <= runtime.limits.prefill
        self.name = name
        self.slots = len(sequences)
        self.context_tokens = runtime.limits.context
        self._runtime = runtime
        self._free = list(sequences)
        self._sampler_of = sampler_of

    def open(self, request: TextRequest) -> Text:
        if not self._free:
            raise EngineBusy(f"all {self.slots} slots for texts are taken")
        return Text(self._runtime, request, self._free.pop(0), self._free, self._sampler_of(request))

    def step(self, texts: Sequence[base.Text], units: int) -> tuple[TextStep, ...]:
        own = cast(Sequence[Text], texts)
        with self._runtime.lock:
            if any(text.phase != "decode" for text in own):
                (text,) = own
                return (text.split() if text.phase == "split" else text.read(units),)
            return self._write(own, units)

    def _write(self, texts: Sequence[Text], steps: int) -> tuple[TextStep, ...]:
        made = [TextStep() for _ in texts]
        for _ in range(steps):
            going = [index for index, step in enumerate(made) if step.finish is None]
            if not going:
                break
            self._runtime.evaluate_rows([texts[index].row() for index in going])
            for row, index in enumerate(going):
                made[index] = _joined(made[index], texts[index].take(row))
        return tuple(made)


class Text:
    def __init__(
        self, runtime: Runtime, request: TextRequest, sequence: int, free: list[int], sampler: Any
    ) -> None:
        self.prompt_tokens = 0
        self.phase: base.TextPhase = "split"
        self._runtime = runtime
        self._request = request
        self._sequence = sequence
        self._free: list[int] | None = free
        self._sampler = sampler
        self._pending: list[int] = []
        """Tokens to evaluate next: what is left of the prompt, then the newest."""
        self._computed = 0
        self._left = request.max_tokens
        self._stream = TextStream(runtime)

    def next_size(self) -> StepSize:
        match self.phase:
            case "split":
                return StepSize("split", self._request.characters)
            case "prefill":
                return StepSize("prefill", len(self._pending), self._computed)
            case "decode":
                return StepSize("decode", self._left, self._computed)

    def close(self) -> None:
        if self._free is not None:
            self._free.append(self._sequence)
            self._free = None

    def split(self) -> TextStep:
        try:
            self._pending = self._runtime.encode(self._request.messages)
        except EngineError as error:
            raise PromptRefused(error.message, field="messages") from error
        self.prompt_tokens = len(self._pending)
        context = self._runtime.limits.context
        if self.prompt_tokens >= context:
            raise PromptTooLong(
                f"the messages have {self.prompt_tokens} tokens; the context has {context}, and at least one of "
                "them must be left for the answer",
                field="messages",
            )
        self._left = min(self._left, context - self.prompt_tokens)
        if self._runtime.keep(self._sequence, 0) != 0:  # what a text before it has left
            raise EngineError("a sequence cannot be cleared")
        self.phase = "prefill"
        return TextStep()

    def read(self, tokens: int) -> TextStep:
        size = max(1, min(tokens, self._runtime.limits.prefill))
        part, self._pending = self._pending[:size], self._pending[size:]
        self._runtime.evaluate(self._sequence, self._computed, part, 1)
        self._computed += len(part)
        if self._pending:
            return TextStep(prefilled=len(part))
        self.phase = "decode"  # the prompt's last token already has the first of the answer in its output
        first = self.take(len(part) - 1, computed=0)
        return TextStep(first.text, first.tokens, len(part), first.finish)

    def row(self) -> Row:
        (token,) = self._pending
        return self._sequence, self._computed, token

    def take(self, index: int, computed: int = 1) -> TextStep:
        """The token behind output `index`; `computed` tokens of this text were evaluated for it."""
        self._computed += computed
        token = self._runtime.sample(self._sampler, index)
        self._left -= 1
        if self._runtime.is_end(token):
            return TextStep(self._stream.flush(), 1, finish="stop")
        self._pending = [token]
        text = self._stream.push(token)
        if self._left == 0:
            return TextStep(text + self._stream.flush(), 1, finish="length")
        return TextStep(text, 1)


def _joined(one: TextStep, next_one: TextStep) -> TextStep:
    return TextStep(one.text + next_one.text, one.tokens + next_one.tokens, finish=next_one.finish)
