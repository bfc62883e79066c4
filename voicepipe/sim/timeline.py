"""Events in virtual time: a heap of (time, serial, call). Events of one instant happen in the order in which they
were set, so that the same calls give the same run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf


class Event:
    """One that was set; it may be cancelled before it happens, and after it to no effect."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timeline:
    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the beginning."""
        self.happened = 0
        """Events so far; those that were cancelled are none."""
        self._heap: list[tuple[float, int, Event]] = []
        self._serial = 0

    def at(self, when: float, call: Callable[[], None]) -> Event:
        """What is late happens now, after what is due now."""
        event = Event(max(when, self.now), call)
        self._serial += 1
        heappush(self._heap, (event.when, self._serial, event))
        return event

    def after(self, seconds: float, call: Callable[[], None]) -> Event:
        return self.at(self.now + seconds, call)

    def run(self, until: float = inf) -> None:
        """Up to and with that instant, or until nothing is left. What an event raises ends the run."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, event = heappop(heap)
            call, event.call = event.call, None
            if call is not None:
                self.now = when
                self.happened += 1
                call()
        if until < inf:
            self.now = max(self.now, until)
