"""Second thoughts about what was said: committed turns are decoded again by a larger recogniser, in slack.

One pass is at the device at a time, a chunk of it; the others wait here, the newest `MAX_WAITING` of them. A pass
depends on neither epoch nor revision: what the user has said stays said when the reply is interrupted. Only a
turn that is reopened, whose words are not complete, loses it. What it corrects is the user's line in the history
and what the client is shown; a reply that was made for the first words is not touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from voicepipe.core.events import Line, Rehear, Submit, TurnCommand, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.spelling import normalised
from voicepipe.core.utterance import RATE_HZ, Span

MAX_WAITING = 4
"""Passes of one session that may wait: after so many more turns nobody reads the correction."""
TAIL_S = 0.1
"""Sound behind the last position that the turn is known to reach: a lull's decode may end up to 80 ms before the
pause. A pause that commits is longer, so that no word of the next turn is in it."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Put `right` in the place of `wrong`, the user's line of that turn."""

    turn: int
    wrong: Line
    right: Line


@dataclass(frozen=True, slots=True)
class _Pass:
    turn: int
    said: Line
    epoch: int
    task: Rehear


class SecondPasses:
    def __init__(self, session: str, serial: Iterator[int]) -> None:
        self._session = session
        self._serial = serial
        self._waiting: deque[_Pass] = deque()
        self._pass: _Pass | None = None
        self._work: Work | None = None
        """The chunk at the device; one of a pass that is not `_pass` any more is answered all the same."""

    def begin(self, span: Span, upto: int, said: Line, epoch: int) -> list[TurnCommand]:
        """`said`: the line that the turn was committed with, heard between `span.start` and `upto`."""
        task = Rehear(span.turn, span.start, upto + round(TAIL_S * RATE_HZ), span.speech_samples)
        self._waiting.append(_Pass(span.turn, said, epoch, task))
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popleft()
        return self._next()

    def on_reheard(self, work: Work, text: str, finished: bool) -> tuple[list[TurnCommand], Correction | None]:
        """A chunk has ended; `text` is the whole turn's once it is `finished`. A recogniser that is left without
        words does not take those away that were there."""
        if work != self._work:
            return [], None
        heard, self._work = self._pass, None
        if heard is not None and not finished:
            return [self._chunk(heard)], None
        self._pass = None
        commands = self._next()
        if heard is None or not text or normalised(text) == normalised(heard.said.text):
            return commands, None
        return commands, Correction(heard.turn, heard.said, Line(heard.said.role, text))

    def on_lost(self, work: Work) -> list[TurnCommand]:
        """The chunk failed or was discarded: this pass brings nothing."""
        if work != self._work:
            return []
        self._pass = self._work = None
        return self._next()

    def drop(self, turn: int) -> list[TurnCommand]:
        """The turn goes on: what it was committed with is not all that it says. A chunk that waits will be
        answered as discarded; one that runs, with words that nobody wants."""
        self._waiting = deque(one for one in self._waiting if one.turn != turn)
        if self._pass is None or self._pass.turn != turn:
            return []
        assert self._work is not None
        self._pass = None
        return [Withdraw(self._work)]

    def _next(self) -> list[TurnCommand]:
        if self._work is not None or not self._waiting:
            return []
        self._pass = self._waiting.popleft()
        return [self._chunk(self._pass, self._pass.task)]

    def _chunk(self, one: _Pass, task: Rehear | None = None) -> Submit:
        self._work = Work(
            id=next(self._serial),
            session=self._session,
            turn=one.turn,
            epoch=one.epoch,
            revision=0,
            kind=WorkKind.SECOND_PASS,
            klass=WorkClass.BACKGROUND,
        )
        return Submit(self._work, task)
