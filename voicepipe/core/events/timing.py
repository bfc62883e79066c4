"""When a chunk was queued, started and finished, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a chunk stood between `queued` and `started`, in this order of time; the rest is unattributed."""

    lower_s: float = 0.0
    """A chunk of a lower class was running, and chunks are not taken back."""
    others_s: float = 0.0
    """Chunks of its own or a higher class ran."""
    hand_off_s: float = 0.0
    """It had the lane, and its thread had not begun."""
    background_s: float = 0.0
    """How much of `lower_s` was background."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Scheduler times of one chunk."""

    queued: float
    started: float
    finished: float
    whole: bool = field(default=True, kw_only=True)
    """False: the chunk was cut off, and its service is the least that it would have taken."""
    batch: int = field(default=1, kw_only=True)
    """Works that were done in it, of as many sessions."""

    @property
    def wait_s(self) -> float:
        return self.started - self.queued

    @property
    def service_s(self) -> float:
        return self.finished - self.started

    @property
    def share_s(self) -> float:
        """What of the service is this work's."""
        return self.service_s / self.batch

    @property
    def waits(self) -> Waits:
        """Where nothing more is known, all waiting was for other chunks."""
        return Waits(others_s=self.wait_s)


@dataclass(frozen=True, slots=True)
class LaneTiming(Timing):
    """Scheduler times of one chunk, and where its wait came from."""

    granted: float
    """From when on the lane was the chunk's: it was queued, and had room, and nothing else went before."""
    blocked_s: float
    """How much of its wait a chunk of a lower class ran on."""
    background_s: float = 0.0
    """How much of that was background."""

    @property
    def waits(self) -> Waits:
        """The wait in its parts. The hand-off goes from the end of the chunk before it, through the loop, to its
        own first instruction."""
        waited_s = self.granted - self.queued
        lower_s = min(self.blocked_s, waited_s)  # the loop learns of an end a little after it
        background_s = min(self.background_s, lower_s)
        return Waits(lower_s, waited_s - lower_s, self.started - self.granted, background_s)
