"""One session's sequence of tokens in a model that computes them, and the replies that are made in it.

A slot remembers which tokens its sequence holds; a generation keeps their longest common prefix with the new prompt
and computes only what follows.

It also remembers how the last reply began. A reply that is made anew, because one more word has been heard, mostly
begins like the one before, and a small model begins most replies alike: so its tokens are computed together with
the prompt's as a guess, which costs a quarter of decoding them one by one, and kept as far as the model would have
said the same (Leviathan, Kalman and Matias, 2023, with an earlier reply in place of a smaller model). What is said
does not depend on the guess.

Replies of several slots that have no guess left can be decoded together, a token of each at a time
(`decode_together`): on two cores two take a fifth longer than one, and four take half as long again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from voicepipe.engines.base import ChatMessage, Context, LlmStep, Prompt, StepSize
from voicepipe.engines.fit import Fitter, Tokens
from voicepipe.engines.unread import unread_tokens
from voicepipe.errors import EngineError

Finish = Literal["stop", "length"]
Row = tuple[int, int, int]
"""Sequence, position and token."""

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_HELD_TOKENS_MAX = 16
"""Longest wait for the rest of a character. One has at most 4 bytes, so more is a broken stream."""
GUESS_TOKENS = 6
"""A first clause of three to six words; what comes after it can wait. A token of a guess costs 1.5 ms on two cores,
whether it holds or fails."""

GUESS_PRICE = 0.25
"""Of what a token takes that is decoded by itself. A guess that holds saves such tokens too, so that this is on the
careful side."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in tokens; `context` is one slot's."""

    context: int
    memory: int
    """Of what was said before the newest message."""
    prefill: int
    """Evaluated at a time, at most."""
    decode: int
    """Decoded one after the other in a chunk."""
    together: int = 1
    """Replies that are decoded in one chunk, at most."""


class Runtime(Tokens, Protocol):
    """A loaded model. `lock` is held for one chunk."""

    limits: Limits
    lock: Any
    can_cut: bool
    """Tokens at the end of a sequence can be forgotten."""

    def keep(self, sequence: int, tokens: int) -> int:
        """Cut the sequence to its first `tokens`; returns what is left (0 if the model cannot be cut)."""
        ...

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None:
        """Compute `tokens` at `position` of the sequence, with outputs of the last `wanted`. Raises EngineError."""
        ...

    def evaluate_rows(self, rows: Sequence[Row]) -> None:
        """One token of each sequence, with an output each; at most `limits.prefill` rows. Raises EngineError."""
        ...

    def sample(self, sampler: Any, index: int) -> int:
        """The token that follows number `index` of those that were evaluated last."""
        ...

    def is_end(self, token: int) -> bool: ...


class Slot:
    """One leased sequence. `computed` is what its cache holds, in order, as far as it can be trusted."""

    def __init__(self, runtime: Runtime, sequence: int, sampling: Any, free: list[int]) -> None:
        """`sampling` makes samplers. `close` returns `sequence` to `free`."""
        self.runtime = runtime
        self.sequence = sequence
        self.computed: list[int] = []
        self.serial = 0
        """Number of the generation that may compute. None has it after a cancel or a close."""
        self._sampling = sampling
        self._free: list[int] | None = free
        self._fitter = Fitter(runtime, runtime.limits.context, runtime.limits.memory)
        self._began: list[int] = []
        """How the last reply began."""
        self.read: tuple[ChatMessage, ...] = ()
        """The last prompt that was computed to its end."""

    def generate(self, prompt: Prompt, ctx: Context) -> Generation:
        if self._free is None:
            raise EngineError("the slot was given back")
        if prompt.max_tokens < 1:
            raise EngineError("max_tokens must be at least 1")
        self.serial += 1
        return Generation(self, prompt, self._sampling.sampler())

    def close(self) -> None:
        if self._free is not None:
            self.serial += 1  # a chunk still on its way to the device will find that it is over
            self._free.append(self.sequence)
            self._free = None

    def fit(self, prompt: Prompt) -> list[int]:
        return self._fitter.fit(prompt)

    def rewind(self, tokens: list[int]) -> list[int]:
        """Keep the longest prefix shared with `tokens`; returns the rest, at least one token."""
        shared = 0
        for old, new in zip(self.computed, tokens[:-1], strict=False):
            if old != new:
                break
            shared += 1
        self._cut(shared)
        return tokens[len(self.computed) :]

    def guess(self) -> list[int]:
        """How a reply may begin."""
        return self._began[:-1] if self.runtime.can_cut else []  # where it all comes true, the step brings one more

    def remember(self, began: Sequence[int]) -> None:
        """A reply that stopped sooner than the one before it, and said the same so far, takes nothing from it."""
        if self._began[: len(began)] != began:
            self._began = list(began[: GUESS_TOKENS + 1])

    def extend(self, tokens: Sequence[int], guess: Sequence[int] = ()) -> None:
        """Compute both; then outputs are there from the last of `tokens` on. `shorten` takes back what of the
        guess was wrong."""
        try:
            self.runtime.evaluate(self.sequence, len(self.computed), [*tokens, *guess], 1 + len(guess))
        except EngineError:
            self.forget()
            raise
        self.computed += [*tokens, *guess]

    def forget(self) -> None:
        """The cache may hold a part of what failed: start afresh next time."""
        self.computed.clear()
        self.read = ()

    def shorten(self, tokens: int) -> None:
        """Forget the last `tokens`."""
        if tokens:
            self._cut(len(self.computed) - tokens)

    def _cut(self, length: int) -> None:
        del self.computed[self.runtime.keep(self.sequence, length) :]


class Generation:
    """One reply. `_pending` are the tokens to evaluate next: what is left of the prompt, then the newest."""

    def __init__(self, slot: Slot, prompt: Prompt, sampler: Any) -> None:
        self._slot = slot
        self._serial = slot.serial
        self._prompt: Prompt | None = prompt
        self._messages = prompt.messages
        self._pending: list[int] = []
        self._guess: list[int] = []
        """Tokens that may follow `_pending`; holds as long as the reply goes on with them."""
        self._said: list[int] = []
        self._sampler = sampler
        self._left = prompt.max_tokens
        self._decoding = False
        self._text = TextStream(slot.runtime)

    def next_size(self) -> StepSize:
        """What it evaluates: a guess is, whether it will hold or not."""
        limits, computed = self._slot.runtime.limits, len(self._slot.computed)
        if self._decoding:
            guess = min(len(self._guess), limits.prefill - 1)
            units = min(limits.decode, self._left) + GUESS_PRICE * guess
            return StepSize("decode", units, computed, 1 if guess else limits.together)
        if self._prompt is None:
            unread, guess = len(self._pending), len(self._guess)
        else:
            unread = round(unread_tokens(self._slot.read, self._messages))
            guess = len(self._slot.guess())
        return StepSize("prefill", min(limits.prefill, unread + guess), computed)

    def step(self) -> LlmStep:
        with self._slot.runtime.lock:
            if self.is_over:
                return LlmStep("", 0, finish="stop", cut=True)
            if self._prompt is not None:
                self._pending = self._slot.rewind(self._slot.fit(self._prompt))
                self._guess = self._slot.guess()
                self._prompt = None
            return self._decode() if self._decoding else self._prefill()

    @property
    def is_over(self) -> bool:
        """Cancelled, or its slot given back."""
        return self._slot.serial != self._serial

    def row(self) -> Row:
        """What is to be evaluated next, where it decodes without a guess."""
        (token,) = self._pending
        return self._slot.sequence, len(self._slot.computed), token

    def take(self, index: int) -> tuple[str, Finish | None]:
        """Its row was evaluated, as number `index`: the text that follows, and whether it ends there."""
        self._slot.computed += self._pending
        taken = self._next(index, unsure=0)
        self._slot.remember(self._said)
        return taken

    def lose(self) -> None:
        """Its row could not be evaluated."""
        self._slot.forget()

    def cancel(self) -> None:
        """A running chunk ends at its next token."""
        if not self.is_over:
            self._slot.serial += 1

    def _prefill(self) -> LlmStep:
        size = self._slot.runtime.limits.prefill
        part, rest = self._pending[:size], self._pending[size:]
        if rest:
            self._slot.extend(part)
            self._pending = rest
            return LlmStep("", 0, prefilled=len(part))
        self._slot.read = self._messages
        self._decoding = True  # the prompt's last token already has the reply's first in its output
        text, tokens, finish = self._go_on()
        return LlmStep(text, tokens, prefilled=len(part), finish=finish)

    def _decode(self) -> LlmStep:
        texts: list[str] = []
        tokens, finish = 0, None
        while tokens < self._slot.runtime.limits.decode and finish is None and not self.is_over:
            text, new, finish = self._go_on()
            texts.append(text)
            tokens += new
        cut = finish is None and tokens < self._slot.runtime.limits.decode
        return LlmStep("".join(texts), tokens, finish=finish, cut=cut)

    def _go_on(self) -> tuple[str, int, Finish | None]:
        """Evaluate what is pending: the text that follows, its tokens, and whether it ends there. One token, and
        one more for each of the guess that was right."""
        slot, part = self._slot, self._pending
        limits = slot.runtime.limits
        room = min(limits.prefill - len(part), self._left - 1, limits.context - len(slot.computed) - len(part))
        guess = self._guess[: max(0, room)]
        slot.extend(part, guess)
        right, texts, finish = 0, [], None
        while True:
            text, finish = self._next(len(part) - 1 + right, unsure=len(guess) - right)
            texts.append(text)
            if finish is not None or guess[right : right + 1] != self._pending:
                break
            right += 1
        self._guess = self._guess[right + 1 :] if self._guess[right : right + 1] == self._pending else []
        slot.shorten(len(guess) - right)
        if len(self._said) > 1:  # one token alone was only to read the prompt
            slot.remember(self._said)
        return "".join(texts), len(texts), finish

    def _next(self, index: int, unsure: int) -> tuple[str, Finish | None]:
        """Sample one token: its text and whether it is the last. `unsure` are the computed tokens behind it."""
        runtime = self._slot.runtime
        token = runtime.sample(self._sampler, index)
        self._left -= 1
        if runtime.is_end(token):
            return self._text.flush(), "stop"
        self._pending = [token]
        self._said.append(token)
        text = self._text.push(token)
        if self._left == 0 or len(self._slot.computed) - unsure == runtime.limits.context:
            return text + self._text.flush(), "length"
        return text, None


def decode_together(runtime: Runtime, generations: Sequence[Generation]) -> tuple[LlmStep, ...]:
    """A chunk of each, a token of all at a time; `runtime.lock` is held. Raises EngineError, of which all fail."""
    texts: list[list[str]] = [[] for _ in generations]
    finishes: list[Finish | None] = [None] * len(generations)
    for _ in range(runtime.limits.decode):
        going = [
            number
            for number, generation in enumerate(generations)
            if finishes[number] is None and not generation.is_over
        ]
        if not going:
            break
        try:
            runtime.evaluate_rows([generations[number].row() for number in going])
        except EngineError:
            for generation in generations:
                generation.lose()
            raise
        for row, number in enumerate(going):
            text, finishes[number] = generations[number].take(row)
            texts[number].append(text)
    return tuple(
        LlmStep("".join(own), len(own), finish=finish, cut=finish is None and len(own) < runtime.limits.decode)
        for own, finish in zip(texts, finishes, strict=True)
    )


class TextStream:
    """Tokens to text, without a loss at the seams: a token may end inside a character."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._held: list[int] = []

    def push(self, token: int) -> str:
        self._held.append(token)
        text = self._tokens.text(self._held)
        if text.endswith(UNFINISHED) and len(self._held) < _HELD_TOKENS_MAX:
            return ""
        self._held.clear()
        return text.replace(UNFINISHED, "")

    def flush(self) -> str:
        """What is held, without the character that never ended."""
        text = self._tokens.text(self._held) if self._held else ""
        self._held.clear()
        return text.replace(UNFINISHED, "")
