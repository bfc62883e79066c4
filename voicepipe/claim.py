"""A session's claim on the device: while somebody speaks or waits in it, background does not begin a chunk.

A background chunk cannot be taken back, and a second pass may take longer than a turn's whole budget. So from the
first word of a turn until its answer has been made, the session announces that its next chunk may come any moment.
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
        self._held_since: float | None = None

    def update(self, wanted: bool) -> None:
        """Take it, give it back, or renew it before it lapses. Cheap where nothing changes."""
        if not wanted:
            if self._held_since is not None:
                self._held_since = None
                self._device.unreserve(self._session)
            return
        due = self.next_deadline()
        now = self._clock()
        if due is None or now >= due:
            self._held_since = now
            self._device.reserve(self._session, now)

    def next_deadline(self) -> float | None:
        """When it wants to be renewed; None where it is not held."""
        return None if self._held_since is None else self._held_since + LAPSE_S / 2
