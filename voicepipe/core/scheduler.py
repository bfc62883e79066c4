"""What runs next on each lane of a device.

A lane runs `capacity` chunks at a time and never takes one back. Within a lane the lower class goes first,
within a class the earlier one. Every submitted work is answered exactly once: `Run`, `Discard` or `Reject`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from voicepipe.core.events import Stage, Work, WorkClass, WorkKind


@dataclass(frozen=True, slots=True)
class Run:
    work: Work
    lane: str


class DiscardReason(StrEnum):
    WITHDRAWN = "withdrawn"
    STALE = "stale"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Discard:
    """It waited, and will not run."""

    work: Work
    reason: DiscardReason


@dataclass(frozen=True, slots=True)
class Reject:
    """The lane's queue is full."""

    work: Work


SchedulerCommand = Run | Discard | Reject


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    running: int
    queued: int
    served: int


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    lanes: dict[str, LaneSnapshot]


@dataclass(slots=True)
class _Lane:
    capacity: int
    heap: list[tuple[WorkClass, int, Work]] = field(default_factory=list)
    running: set[tuple[str, int]] = field(default_factory=set)
    served: int = 0


_REPLY_STAGES = frozenset({Stage.LLM, Stage.TTS})


def is_stale(work: Work, epoch: int, revision: int) -> bool:
    """Reply work depends on the text (epoch and revision), recognition on the turn (epoch), the VAD on
    neither."""
    if work.kind is WorkKind.HEAR:
        return False
    if work.epoch != epoch:
        return work.epoch < epoch
    return work.kind.stage in _REPLY_STAGES and work.revision < revision


class Scheduler:
    def __init__(
        self,
        placement: Mapping[WorkKind, str],
        capacity: Mapping[str, int],
        *,
        max_queued: int = 256,
    ) -> None:
        """`placement` names each kind's lane, `capacity` each lane's chunks at a time, `max_queued` the works
        that may wait on one lane."""
        assert set(placement.values()) <= set(capacity)
        self._placement = dict(placement)
        self._lanes = {name: _Lane(chunks) for name, chunks in capacity.items()}
        self._max_queued = max_queued
        self._serial = 0

    def on_submit(self, work: Work, now: float) -> list[SchedulerCommand]:
        lane = self._lanes[self._placement[work.kind]]
        if len(lane.heap) >= self._max_queued:
            return [Reject(work)]
        self._push(lane, work)
        return self._dispatch(self._placement[work.kind])

    def on_done(self, work: Work, now: float) -> list[SchedulerCommand]:
        name = self._placement[work.kind]
        self._lanes[name].running.remove(work.key)
        self._lanes[name].served += 1
        return self._dispatch(name)

    def on_retire(self, session: str, epoch: int, revision: int, now: float) -> list[SchedulerCommand]:
        return self._discard(
            lambda work: work.session == session and is_stale(work, epoch, revision),
            DiscardReason.STALE,
        )

    def on_withdraw(self, work: Work, now: float) -> list[SchedulerCommand]:
        return self._discard(lambda other: other.key == work.key, DiscardReason.WITHDRAWN)

    def on_close(self, session: str, now: float) -> list[SchedulerCommand]:
        return self._discard(lambda work: work.session == session, DiscardReason.CLOSED)

    def on_promote(self, session: str, epoch: int, now: float) -> list[SchedulerCommand]:
        """Waiting works of this epoch now belong to a started turn; they keep their place in time."""
        for lane in self._lanes.values():
            for index, (klass, serial, work) in enumerate(lane.heap):
                if work.session == session and work.epoch == epoch and klass > WorkClass.STARTED:
                    started = replace(work, klass=WorkClass.STARTED)
                    lane.heap[index] = (WorkClass.STARTED, serial, started)
            heapq.heapify(lane.heap)
        return []

    def next_deadline(self) -> float | None:
        return None

    def on_timer(self, now: float) -> list[SchedulerCommand]:
        return []

    def snapshot(self) -> SchedulerSnapshot:
        return SchedulerSnapshot(
            {
                name: LaneSnapshot(len(lane.running), len(lane.heap), lane.served)
                for name, lane in self._lanes.items()
            }
        )

    def _push(self, lane: _Lane, work: Work) -> None:
        self._serial += 1
        heapq.heappush(lane.heap, (work.klass, self._serial, work))

    def _dispatch(self, name: str) -> list[SchedulerCommand]:
        lane = self._lanes[name]
        commands: list[SchedulerCommand] = []
        while lane.heap and len(lane.running) < lane.capacity:
            work = heapq.heappop(lane.heap)[2]
            lane.running.add(work.key)
            commands.append(Run(work, name))
        return commands

    def _discard(self, condition: Callable[[Work], bool], reason: DiscardReason) -> list[SchedulerCommand]:
        commands: list[SchedulerCommand] = []
        for lane in self._lanes.values():
            dropped = [entry for entry in lane.heap if condition(entry[2])]
            if dropped:
                lane.heap = [entry for entry in lane.heap if not condition(entry[2])]
                heapq.heapify(lane.heap)
                commands += [Discard(entry[2], reason) for entry in sorted(dropped)]
        return commands
