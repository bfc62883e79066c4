"""A session's claim on the device: while somebody speaks or waits in it, background only begins what fits before
the session's next chunk.

A background chunk cannot be taken back, and a second pass may take longer than a turn's whole budget. So from the
first word of a turn until its answer has been made, the session announces by when its next chunk must begin. Where
that instant has passed, the next chunk may come any moment.
"""

from __future__ import annotations

from collections.abc import Callable

from voicepipe.core.claiming import Claiming, Reserve, Unreserve
from voicepipe.device import Device


class Claim:
    def __init__(self, session: str, device: Device, clock: Callable[[], float]) -> None:
        self._session = session
        self._device = device
        self._clock = clock
        self._claiming = Claiming()

    def update(self, latest_start: float | None) -> None:
        """Take it, move it, renew it before it lapses, or with None give it back. Cheap where nothing changes."""
        match self._claiming.on_latest_start(latest_start, self._clock()):
            case Reserve(start):
                self._device.reserve(self._session, start)
            case Unreserve():
                self._device.unreserve(self._session)

    def next_deadline(self) -> float | None:
        """When it wants to be renewed; None where it is not held."""
        return self._claiming.next_deadline()
