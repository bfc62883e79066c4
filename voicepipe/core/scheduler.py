"""What runs next on each lane of a device.

A lane runs `capacity` chunks at a time and never takes one back. Every submitted work is answered exactly once:
`Run`, `Discard` or `Reject`. Who goes first is decided when a lane has room, with that instant's `now`:

1. The lower class. What makes audio beyond the playback frontier becomes a started turn's when playback is about
   to run dry: half a second before its latest start.
2. Within a class the earlier latest start (deadline - remaining_s - expected_s), counted on a grid of 5 ms; on the
   same point of the grid the shorter bound, then the earlier. "Within 5 ms of each other" would not be
   transitive: of three works 4 ms apart it ties the first to the second and the second to the third, but not the
   first to the third. Points of a grid are, so this is a total order.
3. After those, what has no deadline; after that, what can no longer meet its own, so that one late turn does not
   make the next one late. Both in the order in which they came (the late: in which they became late), and ahead
   of everything in their class once they have waited `AGE_LIMIT_S`, so that they do not starve. What is in time
   does not pass an earlier work of its own session that is late (`core.waiting`).

Background runs only in slack: nothing else waits on its lane, and no turn that has announced a start (`on_reserve`)
would be made late by its bound. Where it may have several sizes, it gets the largest that fits.

Where an engine does its works of several sessions in one chunk, those go together (`core.batches`).

What the language model does for texts that nobody waits to hear depends on the pool's layout (`Pool`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from voicepipe.core.batches import Like, companions, joined, like
from voicepipe.core.events import URGENT_S, Stage, Work, WorkClass, WorkKind
from voicepipe.core.turn_demand import spare_s
from voicepipe.core.waiting import Queue, Waiting, latest_start

MARGIN_S = 0.002
"""Slack that background leaves beyond its bound: the hand-off to the next chunk."""
LAPSE_S = 1.0
"""An announced start that is this long past counts no more: whoever announced it does not come."""


class Pool(StrEnum):
    """How voice and background share the language model."""

    DEDICATED = "dedicated"
    """Background runs only in slack."""
    SHARED = "shared"
    """Voice goes first at every chunk. Background waits for nothing else, and its chunks are large."""
    MONOLITHIC = "monolithic"
    """First come, first served: a generation that came earlier goes on until it is done. For experiments."""


class Joined(NamedTuple):
    """A work that is done in another one's chunk."""

    work: Work
    blocked_s: float = 0.0
    """How much of its wait went to chunks of a lower class that could not be taken back, or came first."""
    background_s: float = 0.0
    """How much of that was background."""


@dataclass(frozen=True, slots=True)
class Run:
    work: Work
    lane: str
    blocked_s: float = field(default=0.0, compare=False)
    """As of those that are joined."""
    background_s: float = field(default=0.0, compare=False)
    others: tuple[Joined, ...] = ()
    """To be done in the same chunk."""

    @property
    def all(self) -> tuple[Joined, ...]:
        """Every work of the chunk."""
        return (Joined(self.work, self.blocked_s, self.background_s), *self.others)

    @property
    def whole(self) -> Work:
        """The chunk as one work."""
        return joined([one.work for one in self.all]) if self.others else self.work


class DiscardReason(StrEnum):
    WITHDRAWN = "withdrawn"
    STALE = "stale"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Discard:
    """It waited, or was stale when it came, and will not run."""

    work: Work
    reason: DiscardReason


@dataclass(frozen=True, slots=True)
class Reject:
    """Too much of its class waits on the lane."""

    work: Work


SchedulerCommand = Run | Discard | Reject


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    running: int
    queued: int
    served: int
    overruns: int = 0
    """Chunks that took longer than their declared bound."""
    backlog_s: float = 0.0
    """Expected service of what started turns wait for."""


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    lanes: dict[str, LaneSnapshot]
    reserved: int = 0
    """Sessions with an announced start."""


_TIMELESS = frozenset({WorkKind.HEAR, WorkKind.SECOND_PASS})
_REPLY_STAGES = frozenset({Stage.LLM, Stage.TTS})
_GENERATIONS = frozenset({WorkKind.WARM, WorkKind.THINK, WorkKind.GENERATE})


def is_stale(work: Work, epoch: int, revision: int) -> bool:
    """Reply work depends on the text (epoch and revision), recognition on the turn (epoch), the VAD on
    neither; nor does a second pass, whose turn may have ended."""
    if work.kind in _TIMELESS:
        return False
    if work.epoch != epoch:
        return work.epoch < epoch
    return work.kind.stage in _REPLY_STAGES and work.revision < revision


class _Lane:
    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.queues = {klass: Queue() for klass in WorkClass}
        self.line = Queue(is_line=True)
        """Texts, and in a monolithic pool all generations, in the order in which they came; after the classes."""
        self._in_order = (*self.queues.values(), self.line)
        self.background = self.queues[WorkClass.BACKGROUND]
        self.foreground = [queue for klass, queue in self.queues.items() if klass is not WorkClass.BACKGROUND]
        self.likes: dict[Like, dict[int, Waiting]] = {}
        """What waits and may be done with its like, by serial number."""
        self.waits = 0
        """Works that wait, of all classes."""
        self.running: dict[tuple[str, int], tuple[Work, float]] = {}
        """Each chunk, by its first work, with when it was handed out."""
        self.last_ran = dict.fromkeys(WorkClass, (-inf, -inf))
        """When the last chunk of each class that has ended was handed out, and when it ended."""
        self.background_s = 0.0
        """How long chunks of background ran that have ended."""
        self.served = 0
        self.overruns = 0

    @property
    def has_room(self) -> bool:
        return len(self.running) < self.capacity

    def push(self, waiting: Waiting, queue: Queue) -> None:
        queue.push(waiting)
        self.waits += 1
        kind = like(waiting.work)
        if kind is not None and queue is not self.line:
            self.likes.setdefault(kind, {})[waiting.serial] = waiting

    def remove(self, waiting: Waiting) -> None:
        queue = waiting.queue
        assert queue is not None
        queue.remove(waiting)
        self.waits -= 1
        kind = like(waiting.work)
        if kind is not None and queue is not self.line:
            del self.likes[kind][waiting.serial]

    def beside(self, chosen: Waiting, work: Work, now: float) -> list[Waiting]:
        """What goes with it, as `work`."""
        kind = like(work)
        alike = self.likes.get(kind, {}) if kind is not None else {}
        if len(alike) < 2 or chosen.serial not in alike:
            return []
        return companions(work, (other for other in alike.values() if other is not chosen), now)

    def firsts(self, now: float) -> Iterator[Waiting]:
        """Of each queue, in the order of their classes."""
        for queue in self._in_order:
            if queue.size and (waiting := queue.first(now)) is not None:
                yield waiting

    def blocked_s(self, waiting: Waiting, now: float) -> tuple[float, float]:
        """(how long lower classes ran on while this waited, how long of that background did). What is no background
        began before this came, or before a promotion, so that only the last chunk of a class can have."""
        klass, background = waiting.work.klass, WorkClass.BACKGROUND
        if klass is background:
            return 0.0, 0.0
        speculative_s = 0.0
        for other, (began, ended) in self.last_ran.items():
            if klass < other < background and ended > waiting.queued:
                speculative_s += ended - max(waiting.queued, began)
        background_s = self.background_until(now) - waiting.background_s
        return speculative_s + background_s, background_s

    def background_until(self, now: float) -> float:
        """How long background has run, chunks that still do included."""
        until_s = self.background_s
        for work, began in self.running.values():
            if work.klass is WorkClass.BACKGROUND:
                until_s += now - began
        return until_s

    def ended(self, work: Work, now: float) -> tuple[Work, float]:
        """A chunk has; what it was, and when it was handed out."""
        ran, began = self.running.pop(work.key)
        self.last_ran[ran.klass] = (began, now)
        if ran.klass is WorkClass.BACKGROUND:
            self.background_s += now - began
        self.served += 1
        return ran, began

    def snapshot(self) -> LaneSnapshot:
        backlog_s = self.queues[WorkClass.STARTED].backlog_s
        return LaneSnapshot(len(self.running), self.waits, self.served, self.overruns, backlog_s)


class _Reservations:
    """The latest start of each session that has announced one."""

    def __init__(self) -> None:
        self._starts: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._starts)

    def put(self, session: str, start: float) -> None:
        self._starts[session] = start
        heappush(self._heap, (start, session))
        self._compact()

    def drop(self, session: str) -> None:
        self._starts.pop(session, None)
        self._compact()

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._starts) + 16:
            self._heap = [(start, session) for session, start in self._starts.items()]
            heapify(self._heap)

    def earliest(self) -> float | None:
        while self._heap and self._starts.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def lapse(self, now: float) -> None:
        while (start := self.earliest()) is not None and start + LAPSE_S <= now:
            self.drop(self._heap[0][1])


class Scheduler:
    def __init__(
        self,
        placement: Mapping[WorkKind, str],
        capacity: Mapping[str, int],
        *,
        max_queued: int = 4096,
        pool: Pool = Pool.DEDICATED,
    ) -> None:
        """`placement` names each kind's lane, `capacity` each lane's chunks at a time, `max_queued` the works
        of one class that may wait on one lane; `pool` is the layout of the language model's."""
        assert set(placement.values()) <= set(capacity)
        self._lanes = {name: _Lane(name, chunks) for name, chunks in capacity.items()}
        self._lane_of = {kind: self._lanes[name] for kind, name in placement.items()}
        self._max_queued = max_queued
        self._pool = pool
        self._came: dict[str, tuple[tuple[WorkKind, int, int], float]] = {}
        """Per session, its newest generation (kind, epoch and revision), and when that came; where it matters."""
        self._waiting: dict[str, dict[int, Waiting]] = {}
        """Per session, by work id."""
        self._newest: dict[str, tuple[int, int]] = {}
        """Epoch and revision below which a session's work is stale."""
        self._reservations = _Reservations()
        self._serial = 0

    def on_submit(self, work: Work, now: float) -> list[SchedulerCommand]:
        newest = self._newest.get(work.session)
        if newest is not None and is_stale(work, *newest):
            return [Discard(work, DiscardReason.STALE)]
        lane, queue = self._lane_of[work.kind], self._queue(work)
        if len(queue) >= self._max_queued:
            return [Reject(work)]
        self._serial += 1
        waiting = Waiting(work, self._serial, now, background_s=lane.background_until(now))
        if self._pool is Pool.MONOLITHIC and queue is lane.line:
            waiting.place = self._place(work, now)
        self._waiting.setdefault(work.session, {})[work.id] = waiting
        lane.push(waiting, queue)
        return self._dispatch(lane, now)

    def on_done(self, work: Work, now: float, service_s: float | None = None) -> list[SchedulerCommand]:
        """The chunk of `work` has ended, with whatever else was done in it; `service_s` as measured, by default the
        time since it was handed out."""
        lane = self._lane_of[work.kind]
        whole, began = lane.ended(work, now)
        took_s = now - began if service_s is None else service_s
        lane.overruns += took_s > whole.bound_s > 0
        return self._dispatch(lane, now)

    def on_retire(self, session: str, epoch: int, revision: int, now: float) -> list[SchedulerCommand]:
        """Also what comes later with an older epoch or revision is discarded. An announced start stays: the turn
        whose reply is made anew has the same deadline."""
        newest = self._newest[session] = max((epoch, revision), self._newest.get(session, (epoch, revision)))
        return self._discard(session, lambda work: is_stale(work, *newest), DiscardReason.STALE)

    def on_withdraw(self, work: Work, now: float) -> list[SchedulerCommand]:
        waiting = self._waiting.get(work.session, {}).get(work.id)
        if waiting is None:
            return []
        self._remove(waiting)
        return [Discard(waiting.work, DiscardReason.WITHDRAWN)]

    def on_close(self, session: str, now: float) -> list[SchedulerCommand]:
        """Forget the session."""
        discarded = self._discard(session, lambda work: True, DiscardReason.CLOSED)
        self._newest.pop(session, None)
        self._came.pop(session, None)
        return discarded + self.on_unreserve(session, now)

    def on_promote(
        self,
        session: str,
        epoch: int,
        now: float,
        deadline: float | None = None,
        kinds: tuple[WorkKind, ...] = (),
    ) -> list[SchedulerCommand]:
        """Waiting works of this epoch, or those of some kinds, now belong to a started turn. They keep their place
        in time, unless its deadline is given."""
        for waiting in list(self._waiting.get(session, {}).values()):
            work = waiting.work
            if work.epoch == epoch and work.klass > WorkClass.STARTED and work.kind in (kinds or WorkKind):
                self._start(waiting, work.deadline if deadline is None else deadline)
        return self.on_timer(now)  # it may have been background that was held back

    def on_reserve(self, session: str, latest_start_s: float, now: float) -> list[SchedulerCommand]:
        """The session has a turn whose next chunk, not submitted yet, must begin by this scheduler time on any
        lane. Holds until it is replaced, `on_unreserve`, `on_close`, or `LAPSE_S` after that time."""
        self._reservations.put(session, latest_start_s)
        return self.on_timer(now)

    def on_unreserve(self, session: str, now: float) -> list[SchedulerCommand]:
        self._reservations.drop(session)
        return self.on_timer(now)

    def next_deadline(self) -> float | None:
        """When a reservation lapses that holds background back. Until then time alone lets nothing run: slack
        only shrinks."""
        for lane in self._lanes.values():
            if lane.waits and lane.has_room and (lane.background.size or lane.line.size):
                start = self._reservations.earliest()
                return None if start is None else start + LAPSE_S
        return None

    def on_timer(self, now: float) -> list[SchedulerCommand]:
        commands: list[SchedulerCommand] = []
        for lane in self._lanes.values():
            commands += self._dispatch(lane, now)
        return commands

    def has_waiting(self, kind: WorkKind) -> bool:
        """Does anything wait for the lane of this kind? Background, which waits for slack, does not count."""
        return any(queue.size for queue in self._lane_of[kind].foreground)

    def spare_s(self, kind: WorkKind, session: str, now: float) -> float | None:
        """How long a turn of `session` may keep the lane of this kind before another started turn that waits there
        is late; None where none would be (`core.turn_demand`)."""
        started = self._lane_of[kind].queues[WorkClass.STARTED]
        return spare_s((work for work in started.due() if work.session != session), now) if started else None

    def snapshot(self) -> SchedulerSnapshot:
        lanes = {name: lane.snapshot() for name, lane in self._lanes.items()}
        return SchedulerSnapshot(lanes, len(self._reservations))

    def _start(self, waiting: Waiting, deadline: float | None) -> None:
        """It belongs to a started turn now."""
        work = waiting.work
        started = replace(work, klass=WorkClass.STARTED, deadline=deadline)
        if self._queue(started) is self._queue(work):  # a line
            waiting.work = started
            return
        lane = self._lane_of[work.kind]
        lane.remove(waiting)
        moved = self._waiting[work.session][work.id] = replace(waiting, work=started, queue=None)
        lane.push(moved, self._queue(started))

    def _start_urgent(self, lane: _Lane, now: float) -> None:
        ahead, urgent = lane.queues[WorkClass.AHEAD], now + URGENT_S
        while ahead.size and (waiting := ahead.earliest()) is not None and latest_start(waiting.work) < urgent:
            self._start(waiting, waiting.work.deadline)

    def _dispatch(self, lane: _Lane, now: float) -> list[SchedulerCommand]:
        commands: list[SchedulerCommand] = []
        if not lane.waits:
            return commands
        self._start_urgent(lane, now)
        while lane.has_room and (chosen := self._choice(lane, now)) is not None:
            waiting, work = chosen
            beside = lane.beside(waiting, work, now)
            first, *others = [
                Joined(one, *lane.blocked_s(each, now))
                for each, one in [(waiting, work), *((other, other.work) for other in beside)]
            ]
            for each in (waiting, *beside):
                self._remove(each)
            run = Run(work, lane.name, first.blocked_s, first.background_s, tuple(others))
            lane.running[work.key] = (run.whole, now)
            commands.append(run)
        return commands

    def _choice(self, lane: _Lane, now: float) -> tuple[Waiting, Work] | None:
        """What goes first, and as what it runs. Background that has to wait for slack is passed by what has not."""
        for waiting in lane.firsts(now):
            if (work := self._sized(waiting.work, now)) is not None:
                return waiting, work
        return None

    def _sized(self, work: Work, now: float) -> Work | None:
        """As large as it may be; None where background must wait."""
        if work.klass is not WorkClass.BACKGROUND:
            return work
        waits_for_slack = self._pool is Pool.DEDICATED or work.kind is not WorkKind.GENERATE
        slack_s = self._slack_s(now) if waits_for_slack else inf
        # Without a declared bound it may take for ever, so that nobody may be expected.
        if slack_s < (work.bound_s or inf):
            return None
        fitting = [offer for offer in work.larger if offer.bound_s <= slack_s]
        return replace(work, load=fitting[-1].load, bound_s=fitting[-1].bound_s) if fitting else work

    def _slack_s(self, now: float) -> float:
        """How long a chunk may take that nobody waits for; infinite where nobody is expected."""
        self._reservations.lapse(now)
        start = self._reservations.earliest()
        return inf if start is None else start - now - MARGIN_S

    def _queue(self, work: Work) -> Queue:
        lane = self._lane_of[work.kind]
        is_text = work.kind is WorkKind.GENERATE and work.klass is WorkClass.BACKGROUND
        in_line = is_text or (self._pool is Pool.MONOLITHIC and work.kind in _GENERATIONS)
        return lane.line if in_line else lane.queues[work.klass]

    def _place(self, work: Work, now: float) -> float:
        """When the generation came that this is a step of."""
        if work.since is not None:
            return work.since
        generation = (work.kind, work.epoch, work.revision)
        newest, came = self._came.get(work.session, (None, now))
        if newest != generation:
            came = now
            self._came[work.session] = (generation, came)
        return came

    def _remove(self, waiting: Waiting) -> None:
        """From the queue and from the index."""
        work = waiting.work
        self._lane_of[work.kind].remove(waiting)
        of_session = self._waiting[work.session]
        del of_session[work.id]
        if not of_session:
            del self._waiting[work.session]

    def _discard(
        self, session: str, condition: Callable[[Work], bool], reason: DiscardReason
    ) -> list[SchedulerCommand]:
        """In the order in which they came."""
        dropped = [w for w in self._waiting.get(session, {}).values() if condition(w.work)]
        for waiting in dropped:
            self._remove(waiting)
        return [Discard(waiting.work, reason) for waiting in dropped]
