"""A session's claim on the device: while somebody speaks or waits in it, background only begins what fits before
the session's next chunk.

A background chunk cannot be taken back, and a second pass may take longer than a turn's whole budget. So from the
first word of a turn until its answer has been made, the session announces by when its next chunk must begin. Where
that instant has passed, the next chunk may come any moment.
"""

from __future__ import annotations

from collections.abc import Callable

from voicepipe.core.scheduler import LAPSE_S
from voicepipe.device import Device


class Claim:
    def __init__(self, session: str, device: Device, clock: Callable[[], float]) -> None:
        self._session = session
        self._device = device
        self._clock = clock
        self._start: float | None = None
        """By when the next chunk must begin, as the device was told; None where nothing is claimed."""

    def update(self, latest_start: float | None) -> None:
        """Take it, move it, renew it before it lapses, or with None give it back. Cheap where nothing changes."""
        if latest_start is None:
            if self._start is not None:
                self._start = None
                self._device.unreserve(self._session)
            return
        now, held = self._clock(), self._start
        start = max(latest_start, now)
        if held is not None and start == now and held <= now < held + LAPSE_S / 2:
            return  # overdue before, and now
        if start != held:
            self._start = start
            self._device.reserve(self._session, start)

    def next_deadline(self) -> float | None:
        """When it wants to be renewed; None where it is not held."""
        return None if self._start is None else self._start + LAPSE_S / 2
