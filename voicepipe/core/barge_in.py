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
        self._settings = settings
        self._start: int | None = None
        """Where the speech began that may become one."""
        self.speech_s = 0.0
        """Speech since then in stretches that are over."""
        self._stretch_s = 0.0
        """Of the present one."""

    def on_settings(self, settings: TurnSettings) -> None:
        """Others hold from now on."""
        self._settings = settings

    @property
    def user_sounds(self) -> bool:
        return self._start is not None and self._settings.interruptible

    def on_speech(self, start: int) -> None:
        """It begins at sample `start`. Where it may not interrupt, it opens the next turn if it goes on for longer
        than the reply; and where turns begin and end on demand alone, whenever one is demanded."""
        if self._start is None or not self._is_kept:
            self._start, self.speech_s = start, 0.0

    def keep(self, start: int, speech_s: float) -> None:
        """What was said from sample `start` on makes way for a reply, `speech_s` of it in stretches that are over.
        Where turns begin on demand alone, it is still there when one is demanded."""
        if self._is_kept:
            self._start, self.speech_s = start, speech_s

    def on_pause(self) -> None:
        """It was too short to mean anything by itself."""
        if self._is_kept:
            self.speech_s, self._stretch_s = self.speech_s + self._stretch_s, 0.0
        else:
            self._start = None

    def forget(self) -> None:
        """Something else begins."""
        self._start = None

    @property
    def _is_kept(self) -> bool:
        return self._settings.manual and not self._settings.interruptible

    def take(self) -> int | None:
        """Where the speech began that a turn is to open or to go on with; None where there is none."""
        start, self._start = self._start, None
        return start

    def weigh(self, turn: Turn, speech_s: float, now: float) -> Finding | None:
        """So much has been said by now over the reply of `turn`. Within the grace time less of it is enough."""
        settings = self._settings
        self._stretch_s = speech_s
        if self._start is None or not settings.interruptible:
            return None
        if turn.in_grace(now):
            return Finding.FALSE_START if speech_s >= settings.reopen_speech_s else None
        return Finding.BARGE_IN if speech_s >= settings.barge_in_speech_s else None
