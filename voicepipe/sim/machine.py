"""What runs the chunks of all sessions, in virtual time.

A `Machine` is to sessions what the server's device is: it takes works, answers each exactly once, and never takes a
running chunk back. `SchedulerMachine` is that device: `core.scheduler` decides, chunks take what a service model
says, and the hand-offs between loop and lane what was measured. Other machines (a shared engine with batches and
slots) stand behind the same Protocol; they decide themselves in which order works run and what they take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from voicepipe.core.background import TextSettings
from voicepipe.core.events import LaneTiming, Load, Timing, Work, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.scheduler import Discard, Pool, Reject, Run, Scheduler, SchedulerCommand
from voicepipe.sim.draws import Draw, Draws
from voicepipe.sim.service import Times
from voicepipe.sim.texts import Tally, TextJob, Writer
from voicepipe.sim.timeline import Event, Timeline

BUSY = "engine_busy"
"""Code of the error with which too much work is turned away."""


class Client(Protocol):
    """Whose works they are. Each submitted work is answered by exactly one of `on_ran`, `on_dropped` and
    `on_failed`, not before `submit` has returned, and by none of them once the client has left."""

    def on_run(self, work: Work) -> None:
        """It cannot be taken back any more, and this is the size it has; maybe before `submit` has returned."""

    def on_ran(self, work: Work, timing: Timing) -> None:
        """It has run; what this submits competes with what waits."""

    def on_dropped(self, work: Work) -> None:
        """It waited, and will not run."""

    def on_failed(self, work: Work, code: str) -> None:
        """It was turned away."""


class Machine(Protocol):
    """In the meaning of the server's device, whose methods these are."""

    @property
    def heeds_starts(self) -> bool:
        """What sessions announce (`reserve`) makes a difference; else they may spare themselves the trouble."""

    def submit(self, work: Work, client: Client, draw: Draw) -> None:
        """`work.load` says what there is to do, `draw` what luck it will have."""

    def retire(self, session: str, epoch: int, revision: int) -> None: ...
    def withdraw(self, work: Work) -> None: ...
    def promote(
        self, session: str, epoch: int, deadline: float | None = None, kinds: tuple[WorkKind, ...] = ()
    ) -> None: ...
    def reserve(self, session: str, latest_start: float) -> None: ...
    def unreserve(self, session: str) -> None: ...
    def leave(self, session: str, release: Callable[[], None]) -> None:
        """Drop what waits for it and answer nothing more; `release` is called once none of its chunks runs."""

    def has_waiting(self, kind: WorkKind) -> bool: ...
    def spare_s(self, kind: WorkKind, session: str) -> float | None: ...

    def write(self, job: TextJob) -> bool:
        """A text that nobody waits to hear; False where too many wait already. What becomes of it is counted in
        `Site.tally`."""

    def close(self) -> None:
        """The run is over: give back what is still held for texts."""

    def snapshot(self) -> MachineSnapshot: ...


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    queued: int
    """Chunks that wait."""
    running: int
    busy_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Service so far, by lane and class."""
    chunks: int = 0
    """That have run."""
    backlog_s: float = 0.0
    """Expected service of what started turns wait for."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a machine is built on."""

    timeline: Timeline
    times: Times
    draws: Draws
    placement: Mapping[WorkKind, str]
    lanes: Mapping[str, int]
    pool: Pool
    forecaster: Forecaster
    """Prices works before they are submitted."""
    observe: Callable[[Work, Timing, str], None]
    """To be told of each chunk that has run: the work, its times, its lane."""
    learn: Callable[[Work, float, bool], None]
    """To be told of each chunk that has run: the work, its service in seconds, whether it did all that it was to
    do."""
    texts: TextSettings
    tally: Tally
    """Of texts: the machine counts `done` and tokens."""
    on_slots: Callable[[int], None]
    """To be told how many more slots for texts are taken: 1 or -1."""


MakeMachine = Callable[[Site], Machine]


@dataclass(slots=True)
class _Job:
    client: Client | None
    """None: it has left."""
    queued: float
    draw: Draw


class SchedulerMachine:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._timeline = site.timeline
        self._times = site.times
        self._observe, self._learn = site.observe, site.learn
        self._scheduler = Scheduler(site.placement, site.lanes, pool=site.pool)
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._running: dict[str, int] = {}
        """Chunks that run, by session."""
        self._leaving: dict[str, Callable[[], None]] = {}
        self._timer: Event | None = None
        self._busy_s: dict[tuple[str, str], float] = {}
        self._chunks = 0
        self._on_lane = dict.fromkeys(site.lanes, 0)
        """Chunks that run."""
        self._writer = Writer(
            self, site.timeline, site.forecaster, site.draws, site.texts, site.tally, site.on_slots
        )

    @property
    def heeds_starts(self) -> bool:
        return True

    def submit(self, work: Work, client: Client, draw: Draw) -> None:
        now = self._timeline.now
        self._jobs[work.key] = _Job(client, now, draw)
        for command in self._scheduler.on_submit(work, now):
            if isinstance(command, Run):
                self._start(command, now)
            else:  # Not at once: whoever submits is in the middle of carrying out its commands.
                self._timeline.at(now, lambda refused=command: self._refuse(refused))  # type: ignore[misc]
        self._arm()

    def retire(self, session: str, epoch: int, revision: int) -> None:
        now = self._timeline.now
        self._execute(self._scheduler.on_retire(session, epoch, revision, now), now)

    def promote(
        self, session: str, epoch: int, deadline: float | None = None, kinds: tuple[WorkKind, ...] = ()
    ) -> None:
        now = self._timeline.now
        self._execute(self._scheduler.on_promote(session, epoch, now, deadline, kinds), now)

    def withdraw(self, work: Work) -> None:
        now = self._timeline.now
        self._execute(self._scheduler.on_withdraw(work, now), now)

    def reserve(self, session: str, latest_start: float) -> None:
        now = self._timeline.now
        self._execute(self._scheduler.on_reserve(session, latest_start, now), now)

    def unreserve(self, session: str) -> None:
        now = self._timeline.now
        self._execute(self._scheduler.on_unreserve(session, now), now)

    def leave(self, session: str, release: Callable[[], None]) -> None:
        for (owner, _), job in self._jobs.items():
            if owner == session:
                job.client = None
        now = self._timeline.now
        self._execute(self._scheduler.on_close(session, now), now)
        if self._running.get(session):
            self._leaving[session] = release
        else:
            release()

    def has_waiting(self, kind: WorkKind) -> bool:
        return self._scheduler.has_waiting(kind)

    def spare_s(self, kind: WorkKind, session: str) -> float | None:
        return self._scheduler.spare_s(kind, session, self._timeline.now)

    def write(self, job: TextJob) -> bool:
        return self._writer.request(job)

    def close(self) -> None:
        self._writer.close()

    def snapshot(self) -> MachineSnapshot:
        lanes = list(self._scheduler.snapshot().lanes.values())
        queued, running = sum(lane.queued for lane in lanes), sum(lane.running for lane in lanes)
        backlog_s = max(lane.backlog_s for lane in lanes)
        return MachineSnapshot(queued, running, dict(self._busy_s), self._chunks, backlog_s)

    # inner

    def _execute(self, commands: list[SchedulerCommand], granted: float) -> None:
        """`granted`: when the lanes got the room that the commands make use of."""
        for command in commands:
            if isinstance(command, Run):
                self._start(command, granted)
            else:
                self._refuse(command)
        self._arm()

    def _start(self, run: Run, granted: float) -> None:
        self._on_lane[run.lane] += 1
        assert self._on_lane[run.lane] <= self._site.lanes[run.lane], f"too many chunks on {run.lane}"
        times, draw = self._times, self._jobs[run.work.key].draw
        started = self._timeline.now + times.begin_s(draw.begin)
        finished = started + self._service_s(run)
        timings: list[LaneTiming] = []
        for work, blocked_s, background_s in run.all:
            job = self._jobs[work.key]
            self._running[work.session] = self._running.get(work.session, 0) + 1
            if job.client is not None:
                job.client.on_run(work)
            since = max(granted, job.queued)
            timings.append(
                LaneTiming(job.queued, started, finished, since, blocked_s, background_s, batch=1 + len(run.others))
            )
        self._timeline.at(finished + times.end_s(draw.end), lambda: self._end(run, timings))

    def _service_s(self, run: Run) -> float:
        works: list[tuple[WorkKind, Load, float]] = []
        for work, *_ in run.all:
            assert work.load is not None, "a work that is submitted has been priced"
            works.append((work.kind, work.load, self._jobs[work.key].draw.service))
        return self._times.batch_s(works) if run.others else self._times.service_s(*works[0])

    def _end(self, run: Run, timings: Sequence[LaneTiming]) -> None:
        now, first, whole = self._timeline.now, timings[0], run.whole
        self._on_lane[run.lane] -= 1
        place = (run.lane, run.work.klass.name.lower())
        self._busy_s[place] = self._busy_s.get(place, 0.0) + first.service_s
        self._chunks += 1
        for (work, *_), timing in zip(run.all, timings, strict=True):
            self._observe(work, timing, run.lane)
            client = self._jobs.pop(work.key).client
            if client is not None:
                client.on_ran(replace(work, bound_s=whole.bound_s) if run.others else work, timing)
        self._execute(self._scheduler.on_done(run.work, now, first.service_s), first.finished)
        self._learn(whole, first.service_s, True)
        for work, *_ in run.all:
            self._release(work.session)

    def _refuse(self, command: Discard | Reject) -> None:
        client = self._jobs.pop(command.work.key).client
        if client is None:
            return
        if isinstance(command, Discard):
            client.on_dropped(command.work)
        else:
            client.on_failed(command.work, BUSY)

    def _arm(self) -> None:
        """The scheduler's one timer."""
        deadline = self._scheduler.next_deadline()
        if self._timer is not None:
            if self._timer.when == deadline:
                return
            self._timer.cancel()
        self._timer = None if deadline is None else self._timeline.at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._timeline.now
        self._execute(self._scheduler.on_timer(now), now)

    def _release(self, session: str) -> None:
        self._running[session] -= 1
        if not self._running[session]:
            del self._running[session]
            release = self._leaving.pop(session, None)
            if release is not None:
                release()
