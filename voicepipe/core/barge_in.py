"""Speech over a reply that is due or heard: too little to mean anything, more of the turn, or a barge-in."""

from __future__ import annotations

from enum import Enum, auto

from voicepipe.core.turn_state import Turn, TurnSettings


class Finding(Enum):
    FALSE_START = auto()
    """The user goes on with the turn: its commit came too early."""
    BARGE_IN = auto()
    """The user interrupts the reply."""


class BargeIn:
    def __init__(self, settings: TurnSettings) -> None:
        self._interruptible = settings.interruptible
        self._reopen_speech_s = settings.reopen_speech_s
        self._barge_in_speech_s = settings.barge_in_speech_s
        self._start: int | None = None
        """Where the speech began that may become one."""

    @property
    def user_sounds(self) -> bool:
        return self._start is not None

    def on_speech(self, start: int) -> None:
        """It begins at sample `start`."""
        if self._interruptible:
            self._start = start

    def forget(self) -> None:
        """It was too short, or something else begins."""
        self._start = None

    def take(self) -> int | None:
        """Where the speech began that a turn is to open or to go on with; None where there is none."""
        start, self._start = self._start, None
        return start

    def weigh(self, turn: Turn, speech_s: float, now: float) -> Finding | None:
        """So much has been said by now over the reply of `turn`. Within the grace time less of it is enough."""
        if self._start is None:
            return None
        if turn.in_grace(now):
            return Finding.FALSE_START if speech_s >= self._reopen_speech_s else None
        return Finding.BARGE_IN if speech_s >= self._barge_in_speech_s else None
