"""When speech begins and pauses, from one probability per frame.

    QUIET  -- onset_s of voiced frames -->  SPEECH   Onset, then Voiced per frame
    SPEECH -- a frame below `exit` ------>  PAUSE    SoftEnd, then Silence per frame
    PAUSE  -- onset_s of voiced frames -->  SPEECH   Resumed
    PAUSE  -- forget_s of silence ------->  QUIET

Works in media time only, so that a recording replays bit for bit. Knows nothing of turns: a commit does not
reset it, and it goes on through one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from voicepipe.core.events import EndpointEvent, Onset, Resumed, Silence, SoftEnd, Voiced

RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    entry: float = 0.5
    """Probability from which a frame begins speech (Silero's own threshold)."""
    exit: float = 0.35
    """Probability below which a frame ends it (Silero: entry - 0.15)."""
    onset_s: float = 0.064
    """Voiced frames in a row before speech is believed: two frames reject a click."""
    pre_roll_s: float = 0.4
    """How far an onset is back-dated; Silero's late onsets ask for 400 ms."""
    forget_s: float = 4.0
    """Silence after which no `Silence` is told any more; above every commit's hard cap."""


class _State(Enum):
    QUIET = auto()
    SPEECH = auto()
    PAUSE = auto()


@dataclass(frozen=True, slots=True)
class EndpointSnapshot:
    listening: bool
    """In speech, or in a pause that may end a turn."""


class Endpointer:
    def __init__(self, settings: EndpointSettings | None = None, *, since: int = 0) -> None:
        """`since`: where it begins to listen; no onset is dated back beyond that."""
        self._settings = settings or EndpointSettings()
        self._state = _State.QUIET
        self._rising_since: int | None = None
        self._speech_since = 0
        self._pause_since = since

    def on_frame(self, probability: float, start: int, samples: int) -> list[EndpointEvent]:
        """One frame of `samples` at media position `start`. Frames are consecutive."""
        end = start + samples
        if self._state is _State.SPEECH:
            if probability < self._settings.exit:
                self._state, self._pause_since = _State.PAUSE, start
                return [SoftEnd(start), Silence(samples)]
            return [Voiced(end - self._speech_since, end)]
        if probability >= self._settings.entry:
            return self._rising(start, end)
        self._rising_since = None
        if self._state is _State.QUIET:
            return []
        silence = end - self._pause_since
        if silence > self._settings.forget_s * RATE_HZ:
            self._state = _State.QUIET
        return [Silence(silence)]

    def _rising(self, start: int, end: int) -> list[EndpointEvent]:
        if self._rising_since is None:
            self._rising_since = start
        if end - self._rising_since < self._settings.onset_s * RATE_HZ:
            return []  # undecided: neither speech nor more silence, so nothing can be committed on it
        first, self._rising_since = self._rising_since, None
        paused = self._state is _State.PAUSE
        self._state, self._speech_since = _State.SPEECH, first
        voiced = Voiced(end - first, end)
        if paused:
            return [Resumed(first), voiced]
        back_dated = first - int(self._settings.pre_roll_s * RATE_HZ)
        return [Onset(max(back_dated, self._pause_since)), voiced]

    def snapshot(self) -> EndpointSnapshot:
        return EndpointSnapshot(self._state is not _State.QUIET)
