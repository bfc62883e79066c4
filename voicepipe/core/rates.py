"""How fast a client may send: a bucket for sound, measured by how long it plays, and one for everything else.

A bucket is refused from when it is empty, so that the largest message always fits a full one. What is refused is
lost. The client is told at the first loss, and again whenever a second has passed or a bucketful is lost; each time
is a warning, and good behaviour takes them back one by one. With too many of them its session ends. So a client
that is a little too fast has ten seconds in which it hears of it, and one that floods is gone in a blink.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TELL_EVERY_S = 1.0
FORGIVEN_S = 10.0
"""After so long, one warning counts no more."""
LEAST_SOUND_S = 0.002
"""A packet of sound counts as no less: packets cost, too. The shortest in use are 2.7 ms (an audio worklet's 128
samples at 48 kHz)."""
BYTES_PER_MESSAGE = 4096
"""A message that is larger counts as several."""


class What(StrEnum):
    SOUND = "sound"
    MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class RateSettings:
    sound: float = 2.0
    """Seconds of sound per second."""
    sound_burst_s: float = 4.0
    """Of sound, beyond that rate."""
    messages_hz: float = 50.0
    messages_burst: float = 250.0
    warnings: int = 10
    """With one more than these, the session ends."""


@dataclass(frozen=True, slots=True)
class Over:
    """A message that is refused."""

    what: What
    lost: float
    """Seconds of sound, or messages, since the session began; this one included."""
    told: bool
    """Whether the client is to be told: not of each."""
    ends: bool
    """It has been told often enough."""


class Rates:
    """One client's."""

    def __init__(self, settings: RateSettings, now: float) -> None:
        warnings = settings.warnings
        self._sound = _Meter(What.SOUND, settings.sound, settings.sound_burst_s, warnings, now)
        self._messages = _Meter(What.MESSAGES, settings.messages_hz, settings.messages_burst, warnings, now)

    def on_sound(self, seconds: float, now: float) -> Over | None:
        """A packet of sound that plays for so long. None: it is taken."""
        return self._sound.on_amount(max(seconds, LEAST_SOUND_S), now)

    def on_message(self, size: int, now: float) -> Over | None:
        """A message of so many bytes that is no sound. None: it is taken."""
        return self._messages.on_amount(max(1.0, size / BYTES_PER_MESSAGE), now)


class _Meter:
    def __init__(self, what: What, rate: float, burst: float, warnings: int, now: float) -> None:
        self._what = what
        self._rate, self._burst = rate, burst
        self._most_warnings = warnings
        self._level = burst
        self._at = now
        self._lost = 0.0
        self._lost_untold = 0.0
        self._warnings = 0.0
        self._warned_at: float | None = None

    def on_amount(self, amount: float, now: float) -> Over | None:
        self._level = min(self._burst, self._level + self._rate * max(0.0, now - self._at))
        self._at = max(now, self._at)
        if self._level > 0.0:
            self._level -= amount
            return None
        self._lost += amount
        self._lost_untold += amount
        due = self._warned_at is None or now - self._warned_at >= TELL_EVERY_S or self._lost_untold >= self._burst
        if due:
            self._warn(now)
        return Over(self._what, self._lost, due, due and self._warnings > self._most_warnings)

    def _warn(self, now: float) -> None:
        forgiven = 0.0 if self._warned_at is None else max(0.0, now - self._warned_at) / FORGIVEN_S
        self._warnings = max(0.0, self._warnings - forgiven) + 1.0
        self._warned_at = now
        self._lost_untold = 0.0


class Hush:
    """So that what happens with every packet is told at most once a second."""

    def __init__(self) -> None:
        self._told_at: float | None = None

    def on_event(self, now: float) -> bool:
        """Whether to tell it."""
        if self._told_at is not None and now - self._told_at < TELL_EVERY_S:
            return False
        self._told_at = now
        return True
