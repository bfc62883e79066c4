"""What waits on one lane in one class, and which of it goes first.

In time goes by the latest start, then what has no deadline, then what can no longer meet its own; the last two in
the order in which they came, or became late, and first of all once they have waited `AGE_LIMIT_S`. What is in time
does not pass an earlier work of its own session that is late: the thoughts about a reply's second clause are short,
and still in time by themselves when the sound of the first clause, which the turn waits for, is not any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

from voicepipe.core.events import Work

GRID_S = 0.005
"""Latest starts closer than this are no reason to let a short chunk wait for a long one."""
AGE_LIMIT_S = 1.0
"""Waiting time after which what is late, or has no deadline, goes first in its class. Each such work takes one
chunk a second from those in time, at most."""


def chunk_s(work: Work) -> float:
    """Expected service of the chunk. Its bound stands for what nobody has foretold, and for nothing else: one chunk
    in a hundred reaches it."""
    return work.expected_s or work.bound_s


def to_go_s(work: Work) -> float:
    """Expected service until what the deadline is about is done."""
    return chunk_s(work) + work.remaining_s


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
        """By latest start; may hold late ones, until `first` comes upon them."""
        self._untimed: list[_Entry] = []
        """By arrival."""
        self._late: list[_Entry] = []
        """By when they became late, or arrived."""
        self._behind: dict[str, list[_Entry]] = {}
        """Per session, what is in time and would pass an earlier work of its own that is late."""
        self._due: dict[str, dict[int, Waiting]] = {}
        """Per session and by serial number, all that has a deadline."""
        self.size = 0
        """What waits: read where a call would be felt."""
        self.backlog_s = 0.0
        """Its expected service."""

    def __len__(self) -> int:
        return self.size

    def push(self, waiting: Waiting) -> None:
        waiting.queue = self
        self.size += 1
        self.backlog_s += chunk_s(waiting.work)
        start = inf if self._is_line else latest_start(waiting.work)
        if start == inf:
            place = waiting.queued if waiting.place is None else waiting.place
            heappush(self._untimed, (place, 0.0, waiting.serial, waiting))
        else:
            # An undeclared bound may be long: it does not pass a declared one.
            heappush(self._timed, (start // GRID_S, waiting.work.bound_s or inf, waiting.serial, waiting))
            self._due.setdefault(waiting.work.session, {})[waiting.serial] = waiting

    def remove(self, waiting: Waiting) -> None:
        assert waiting.queue is self
        waiting.queue = None
        self.size -= 1
        self.backlog_s = self.backlog_s - chunk_s(waiting.work) if self.size else 0.0
        session = waiting.work.session
        due = self._due.get(session)
        if due is not None:
            due.pop(waiting.serial, None)
            if not due:
                del self._due[session]
        if self._behind:
            for entry in self._behind.pop(session, []):
                if entry[-1].queue is self:
                    heappush(self._timed, entry)
        if len(self._timed) + len(self._untimed) + len(self._late) > 2 * self.size + 16:
            for heap in (self._timed, self._untimed, self._late):
                heap[:] = [entry for entry in heap if entry[-1].queue is self]
                heapify(heap)

    def due(self) -> Iterator[Work]:
        """All that waits here and has a deadline."""
        return (waiting.work for own in self._due.values() for waiting in own.values())

    def earliest(self) -> Waiting | None:
        """Of what was in time when it was last looked at, the one with the earliest latest start."""
        return self._timed[0][-1] if self._has(self._timed) else None

    def first(self, now: float) -> Waiting | None:
        """The one to run at `now`. It stays until it is removed."""
        timed, untimed, late = self._timed, self._untimed, self._late
        while self._has(timed):
            waiting = timed[0][-1]
            if (start := latest_start(waiting.work)) < now:
                heappop(timed)
                heappush(late, (max(waiting.queued, start), 0.0, waiting.serial, waiting))
            elif self._follows_late(waiting, now):
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

    def _follows_late(self, waiting: Waiting, now: float) -> bool:
        due = self._due[waiting.work.session].values()
        return any(other.serial < waiting.serial and latest_start(other.work) < now for other in due)

    def _has(self, heap: list[_Entry]) -> bool:
        """Whether the heap has a living entry; it is on top then."""
        while heap and heap[0][-1].queue is not self:
            heappop(heap)
        return bool(heap)
