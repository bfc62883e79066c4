"""A reply slot of the simulated model: what it has read it keeps, and reads what is new.

Tokens are counted, not made: a word has so many, and a line of the conversation some more around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from voicepipe.core.events import Line, Load, Think
from voicepipe.sim.replies import Reply, steps_of
from voicepipe.sim.service import MODEL, SMALL, Manner


class Prompt(NamedTuple):
    lines: list[Line]
    same: int
    """Of them, that the model's memory begins with."""
    known: int
    """Tokens that are in its memory."""
    unread: int
    """Tokens to read."""


class Generation:
    """One reading, or one reply. `size` says what the next step has to do, `step` does it."""

    def __init__(self, slot: Slot, prompt: Prompt, steps: tuple[tuple[str, int], ...], model: str) -> None:
        self._slot = slot
        self._prompt = prompt
        self._unread, self._context = prompt.unread, prompt.known
        self._steps = steps
        self._next = 0
        self._model = model

    def size(self) -> Load:
        if self._unread:
            units = min(self._unread, self._slot.manner.read_tokens)
            return Load(self._model, units, self._context, "prefill")
        tokens = self._steps[self._next][1]
        return Load(self._model, tokens, self._context, "decode", self._slot.manner.write_batch)

    def step(self) -> tuple[str, bool]:
        """(text, whether it is the last)"""
        load = self.size()
        units = round(load.units)
        self._context += units
        if load.variant == "prefill":
            self._unread -= units
            self._slot.read(self._prompt, whole=not self._unread)
            return "", not self._unread and not self._steps
        text, _ = self._steps[self._next]
        self._next += 1
        self._slot.wrote(text)
        return text, self._next == len(self._steps)


class Slot:
    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self._read: list[Line] = []
        """What the model's memory begins with."""
        self._written = ""
        """Of the reply behind it."""
        self._first: Line | None = None
        """The oldest line of the history that is shown; None: all of it."""

    def begin(self, task: Think, reply: Reply) -> Generation:
        """Read these lines, and say `reply`; or read only, where no more than a token is wanted."""
        manner = self.manner
        prompt = self._prompt(self._shown(task.lines))
        reads_only = task.max_tokens == 1
        steps = steps_of(reply, 1 if reads_only else manner.write_tokens, manner.tokens_per_word)
        if reads_only:
            steps = steps[:1] if manner.reading_writes else ()
        elif sum(tokens for _, tokens in steps) > task.max_tokens:
            steps = _at_most(steps, task.max_tokens)
        return Generation(self, prompt, steps, SMALL if task.small else MODEL)

    def read(self, prompt: Prompt, *, whole: bool) -> None:
        """A step has read of it; what was behind the common beginning is gone."""
        self._read, self._written = (prompt.lines if whole else prompt.lines[: prompt.same]), ""

    def wrote(self, text: str) -> None:
        self._written += text

    # inner

    def _prompt(self, lines: list[Line]) -> Prompt:
        manner = self.manner
        if not manner.keeps_prefix:
            return Prompt(lines, 0, 0, sum(map(self._tokens, lines)) + manner.template_tokens)
        had = [*self._read, Line("assistant", self._written)] if self._written else self._read
        known = same = 0
        for line, other in zip(lines, had, strict=False):
            if line.text != other.text or line.role != other.role:
                break
            known += self._tokens(line)
            same += 1
        unread = sum(self._tokens(line) for line in lines[same:])
        if same < min(len(lines), len(had)) and lines[same].role == had[same].role:
            common = round(_common_words(lines[same].text, had[same].text) * manner.tokens_per_word)
            known, unread = known + common, unread - common
        return Prompt(lines, same, known, max(1, unread + manner.template_tokens))

    def _tokens(self, line: Line) -> int:
        manner = self.manner
        if line.role == "system":
            return manner.instruction_tokens
        words = line.text.count(" ") + 1 if line.text else 0
        return round(words * manner.tokens_per_word) + manner.template_tokens

    def _shown(self, lines: Sequence[Line]) -> list[Line]:
        """Where the history has grown too long, its newer half."""
        most = self.manner.memory_tokens
        if not most or len(lines) < 3:
            return list(lines)
        system, *history = lines[:-1]
        if self._first is not None:
            start = next((index for index, line in enumerate(history) if line is self._first), 0)
            history = history[start:]
        tokens = sum(map(self._tokens, history))
        if tokens > most:
            while history and tokens > most // 2:
                tokens -= self._tokens(history.pop(0))
            self._first = history[0] if history else None
        return [system, *history, lines[-1]]


def _at_most(steps: Sequence[tuple[str, int]], tokens: int) -> tuple[tuple[str, int], ...]:
    kept: list[tuple[str, int]] = []
    for text, made in steps:
        if tokens <= 0:
            break
        kept.append((text, min(made, tokens)))
        tokens -= made
    return tuple(kept)


def _common_words(text: str, other: str) -> int:
    if other and text.startswith(other):  # the usual case: more has been said
        return other.count(" ") + 1
    count = 0
    for word, another in zip(text.split(), other.split(), strict=False):
        if word != another:
            break
        count += 1
    return count
