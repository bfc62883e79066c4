"""What the ears tell: speech, pauses and lulls, and how it came to be known. Positions are media time: samples at
16 kHz.
"""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.core.events.timing import LaneTiming


@dataclass(frozen=True, slots=True)
class Listened:
    """A HEAR chunk that has run."""

    timing: LaneTiming
    bound_s: float
    """Declared for its service; 0 where none was."""
    taken: float
    """When its result was taken up by the loop."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """How sound came to be listened to."""

    since: float
    """When it had arrived, or was asked about: what the ears took from then on is their own time."""
    chunks: tuple[Listened, ...]
    """Those that ran from then on until it had been listened to, one after the other; at least one."""

    @property
    def taken(self) -> float:
        """When it was known what there was to hear."""
        return self.chunks[-1].taken


@dataclass(frozen=True, slots=True)
class Onset:
    """Speech has begun. `start` is back-dated by the pre-roll, never into the speech before."""

    start: int


@dataclass(frozen=True, slots=True)
class Voiced:
    """Speech goes on: `speech_samples` in this stretch, up to position `at`."""

    speech_samples: int
    at: int


@dataclass(frozen=True, slots=True)
class SoftEnd:
    """First silent frame after speech; `at` is its first sample."""

    at: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """Speech again, within the same pause; `start` is its first sample."""

    start: int


@dataclass(frozen=True, slots=True)
class Silence:
    """The pause has lasted `samples`, counted from the start of its first silent frame. `completeness` is a
    turn model's score in [0, 1], None where none was asked."""

    samples: int
    completeness: float | None = None


@dataclass(frozen=True, slots=True)
class Lull:
    """The sound has fallen away, from sample `quiet_from` on; heard up to `upto`. Speech may go on."""

    quiet_from: int
    upto: int


@dataclass(frozen=True, slots=True)
class Swell:
    """Sound again after a lull, from sample `at` on."""

    at: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """A lull has lasted for `samples`; told while somebody speaks, or may go on to."""

    samples: int


EndpointEvent = Onset | Voiced | SoftEnd | Resumed | Silence | Lull | Swell | Quiet
