"""What the model reads before there is something to answer: instructions, history, the words heard so far.

A reply then begins on a warm prefix. One reading is under way at most, a step at a time, and each new one replaces
the one before; it is speculation, and makes way for whatever is to be generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from voicepipe.core.events import Line, Submit, Think, Tools, TurnCommand, Withdraw, Work


class Reading:
    def __init__(self, serial: Iterator[int], *, wanted: bool, least_words: int) -> None:
        """`wanted`: the model keeps prefixes, and replies will come. `least_words`: new words that are worth a
        step, because each also reads the template's end anew."""
        self._serial = serial
        self._wanted = wanted
        self._least_words = least_words
        self._step: Work | None = None
        self._words = 0

    def on_wanted(self, wanted: bool) -> None:
        """Whether it pays from now on."""
        self._wanted = wanted

    def begin(
        self,
        work: Work,
        lines: Sequence[Line],
        heard: str = "",
        tools: Tools = Tools(),  # noqa: B008 - a value
    ) -> list[TurnCommand]:
        """Read these lines and what the user has said so far. `work` is its first step."""
        self._words = len(heard.split())
        if not self._wanted:
            return []
        commands = self.stop()
        self._step = work
        return [*commands, Submit(work, Think((*lines, Line("user", heard)), max_tokens=1, tools=tools))]

    def is_worth(self, heard: str) -> bool:
        return self._wanted and len(heard.split()) - self._words >= self._least_words

    def on_step(self, work: Work, finished: bool) -> list[TurnCommand]:
        if work != self._step:
            return []
        self._step = None if finished else replace(work, id=next(self._serial))
        return [] if self._step is None else [Submit(self._step)]

    def stop(self) -> list[TurnCommand]:
        """Something else is to be generated; a step that still waits must not run on what it replaces."""
        work, self._step = self._step, None
        return [] if work is None else [Withdraw(work)]
