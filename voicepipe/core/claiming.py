"""When a session has to tell the device about its next chunk: it takes a claim, moves it, renews it, gives it back.

What a claim means stands in `core.scheduler` (`on_reserve`); this only keeps the telling cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.core.scheduler import LAPSE_S


@dataclass(frozen=True, slots=True)
class Reserve:
    latest_start: float
    """Scheduler time by which the next chunk must begin."""


@dataclass(frozen=True, slots=True)
class Unreserve:
    """Nothing is to be expected any more."""


class Claiming:
    def __init__(self) -> None:
        self._start: float | None = None
        """By when the next chunk must begin, as the device was told; None where nothing is claimed."""

    def on_latest_start(self, latest_start: float | None, now: float) -> Reserve | Unreserve | None:
        """None gives it back. Where that instant has passed, the next chunk may come any moment, and the claim is
        renewed from time to time; where nothing changes, nothing is told."""
        held = self._start
        if latest_start is None:
            self._start = None
            return None if held is None else Unreserve()
        start = max(latest_start, now)
        if held is not None and start == now and held <= now < held + LAPSE_S / 2:
            return None  # overdue before, and now
        if start == held:
            return None
        self._start = start
        return Reserve(start)

    def next_deadline(self) -> float | None:
        """When it wants to be renewed; None where it is not held."""
        return None if self._start is None else self._start + LAPSE_S / 2
