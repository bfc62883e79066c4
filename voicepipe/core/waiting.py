"""What waits on one lane in one class, and which of it goes first.

In time goes by the deadline, then what has no deadline, then what can no longer meet its own; the last two in
the order in which they came, or became late, and first of all once they have waited `AGE_LIMIT_S`. By the deadline,
and not by the latest start: of two turns that are due together, the one that has waited has the earlier latest
start, so that they would take turns and both be late where one could have been in time.

What is in time does not pass an earlier work of its own session that is late, or due no later: the thoughts about a
reply's second clause are short, and the turn waits for the sound of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

from voicepipe.core.events import Work

GRID_S = 0.005
"""Deadlines closer than this are no reason to let what is done soon wait for what takes long."""
AGE_LIMIT_S = 1.0
"""Waiting time after which what is late, or has no deadline, goes first in its class. Each such work takes one
chunk a second from those in time, at most."""


def to_go_s(work: Work) -> float:
    """Expected service until what the deadline is about is done. Without a forecast the bound stands for it: being
    late by a bound that one chunk in a hundred reaches is not being late."""
    return (work.expected_s or work.bound_s) + work.remaining_s


def _deadline(work: Work) -> float:
    return inf if work.deadline is None else work.deadline


def latest_start(work: Work) -> float:
    """Scheduler time after which the work, begun, is expected to miss its deadline; infinite without one."""
    return inf if work.deadline is None else work.deadline - to_go_s(work)


@dataclass(slots=True)
class Waiting:
    work: Work
    serial: int
    queued: float
    queue: Queue | None = None
    """Where it waits; None once it does not. A heap's entry is dead where this is another queue or none."""
    place: float | None = None
    """Its place in a line; None: `queued`."""
    background_s: float = 0.0
    """How long background had run on its lane when it came."""


_Entry = tuple[float, float, int, Waiting]
"""Two sort keys and a serial number that no other entry of the heap has."""


class Queue:
    """What waits on one lane in one class. Removal leaves a dead entry behind, which is dropped when it comes to
    the top, or when the dead outnumber the living."""

    def __init__(self, *, is_line: bool = False) -> None:
        """`is_line`: first come, first served, whatever the deadlines."""
        self._is_line = is_line
        self._timed: list[_Entry] = []
        """By deadline; may hold late ones, until `first` comes upon them."""
        self._untimed: list[_Entry] = []
        """By arrival."""
        self._late: list[_Entry] = []
        """By when they became late, or arrived."""
        self._behind: dict[str, list[_Entry]] = {}
        """Per session, what is in time and would pass an earlier work of its own that it must not."""
        self._due: dict[str, dict[int, Waiting]] = {}
        """Per session and by serial number, all that has a deadline."""
        self._living = 0

    def __len__(self) -> int:
        return self._living

    def push(self, waiting: Waiting) -> None:
        waiting.queue = self
        self._living += 1
        deadline = None if self._is_line else waiting.work.deadline
        if deadline is None:
            place = waiting.queued if waiting.place is None else waiting.place
            heappush(self._untimed, (place, 0.0, waiting.serial, waiting))
        else:
            # What nobody has foretold may be long: it does not pass what is known.
            heappush(self._timed, (deadline // GRID_S, to_go_s(waiting.work) or inf, waiting.serial, waiting))
            self._due.setdefault(waiting.work.session, {})[waiting.serial] = waiting

    def remove(self, waiting: Waiting) -> None:
        assert waiting.queue is self
        waiting.queue = None
        self._living -= 1
        session = waiting.work.session
        due = self._due.get(session, {})
        due.pop(waiting.serial, None)
        if not due:
            self._due.pop(session, None)
        for entry in self._behind.pop(session, []):
            if entry[-1].queue is self:
                heappush(self._timed, entry)
        heaps = (self._timed, self._untimed, self._late)
        if sum(map(len, heaps)) > 2 * self._living + 16:
            for heap in heaps:
                heap[:] = [entry for entry in heap if entry[-1].queue is self]
                heapify(heap)

    def due(self) -> Iterator[Work]:
        """All that waits here and has a deadline."""
        return (waiting.work for own in self._due.values() for waiting in own.values())

    def first(self, now: float) -> Waiting | None:
        """The one to run at `now`. It stays until it is removed."""
        timed, untimed, late = self._timed, self._untimed, self._late
        while self._has(timed):
            waiting = timed[0][-1]
            if (start := latest_start(waiting.work)) < now:
                heappop(timed)
                heappush(late, (max(waiting.queued, start), 0.0, waiting.serial, waiting))
            elif self._follows(waiting, now):
                self._behind.setdefault(waiting.work.session, []).append(heappop(timed))
            else:
                break
        patient = [heap[0] for heap in (untimed, late) if self._has(heap)]
        aged = [entry for entry in patient if entry[0] + AGE_LIMIT_S <= now]
        if aged:
            return min(aged)[-1]
        if timed:
            return timed[0][-1]
        return patient[0][-1] if patient else None

    def _follows(self, waiting: Waiting, now: float) -> bool:
        """Something of its own session goes before it."""
        return any(
            other.serial < waiting.serial
            and (_deadline(other.work) <= _deadline(waiting.work) or latest_start(other.work) < now)
            for other in self._due[waiting.work.session].values()
        )

    def _has(self, heap: list[_Entry]) -> bool:
        """Whether the heap has a living entry; it is on top then."""
        while heap and heap[0][-1].queue is not self:
            heappop(heap)
        return bool(heap)
