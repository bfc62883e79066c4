"""The owner of a device: runs the chunks that `core.scheduler` hands out, and nothing beside them.

Each lane has a thread for every chunk that it may run at a time. A chunk that is a coroutine function (a remote
engine, a scripted wait) occupies its lane in the same way while the loop awaits it. All methods are called on
the loop's thread.

A lane holds the chunk that runs and none beside it. The next one is chosen when that has ended and its answer has
been heard, so that what the answer submits (the next step of the same reply) competes with what waits. A chunk
laid out ahead would save the hand-off, which is measured, and would run before a more urgent successor.

A chunk that does not end has a limit (`core.engine_health`): it fails, and if its call cannot be stopped, its lane
goes on without it, as often as that is bearable. What the call uses is given back when it has ended, not before.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

from voicepipe.calls import Abandoned, Calls, Overdue, Raised, Returned, Span
from voicepipe.chunk import Call, Done, Dropped, Failed, Outcome, Together, nothing_before
from voicepipe.core.engine_health import Asked, EngineHealth, HealthSettings, HealthSnapshot
from voicepipe.core.events import LaneTiming, Work, WorkKind
from voicepipe.core.scheduler import (
    Discard,
    Reject,
    Run,
    Scheduler,
    SchedulerCommand,
    SchedulerSnapshot,
)
from voicepipe.errors import (
    EngineBusy,
    EngineError,
    EngineThrottled,
    EngineTimeout,
    EngineUnavailable,
    PromptRefused,
    type_and_place,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Job:
    before: Callable[[], None]
    call: Call
    blocking: bool
    answer: Callable[[Outcome], None]
    queued: float
    is_whole: Callable[[Any], bool]
    on_run: Callable[[Work], None]
    together: Together | None


MakeScheduler = Callable[[Mapping[WorkKind, str], Mapping[str, int]], Scheduler]
"""From `placement` and `lanes`."""

Observe = Callable[[Work, LaneTiming, str], None]
"""Told of each chunk that returned: the work, its times, its lane."""


Learn = Callable[[Work, float, bool], None]
"""Told of each chunk that ran, also of those that failed or were cancelled: the work, its service in seconds, and
whether it did all that it was to do."""


def _unobserved(work: Work, timing: LaneTiming, lane: str) -> None:
    """Nobody measures."""


def _unlearnt(work: Work, service_s: float, whole: bool) -> None:
    """Nobody predicts."""


def _always(result: Any) -> bool:
    return True


def _fixed(work: Work) -> None:
    """The chunk has one size."""


class Device:
    def __init__(
        self,
        placement: Mapping[WorkKind, str],
        lanes: Mapping[str, int],
        *,
        observe: Observe = _unobserved,
        make_scheduler: MakeScheduler = Scheduler,
        learn: Learn = _unlearnt,
        health: HealthSettings | None = None,
    ) -> None:
        """`placement` names the lane of each kind of work, `lanes` how many chunks each lane runs at a time,
        `health` what an engine is given to end a call."""
        self._health = EngineHealth(health or HealthSettings(), lanes)
        self._calls = Calls(lanes)
        self._scheduler = make_scheduler(placement, lanes)
        self._placement = dict(placement)
        self._observe = observe
        self._learn = learn
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._running: dict[str, int] = {}
        self._leaving: dict[str, Callable[[], None]] = {}
        self._abandoned: Counter[str] = Counter()
        """Of sessions that leave, calls that could not be stopped and still run."""
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        """Those that await their chunk, and can be cancelled."""
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Device:
        self._loop = asyncio.get_running_loop()
        self._calls.open()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What waits is dropped; what is awaited is cancelled; a blocking chunk is waited for, until its limit. An
        error of the block passes through as it is."""
        for session in {work_session for work_session, _ in self._jobs}:
            self.leave(session, self._leaving.get(session, lambda: None))
        for task in self._tasks:
            task.cancel()
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            for session in [one for one in self._leaving if not self._abandoned[one]]:
                self._leaving.pop(session)()  # its chunk was cancelled before its first step
            if self._timer is not None:
                self._timer.cancel()
            self._calls.close()

    async def prepare(self, kind: WorkKind, call: Callable[[], T]) -> T:
        """Run a blocking call on the thread where chunks of `kind` will run, beside the scheduler: for loading and
        warming up, before there are sessions. OpenMP keeps a team of workers for every thread that calls it;
        engines that are loaded and warmed on one thread and then run on another were a fifth slower."""
        return await self._calls.prepare(self._placement[kind], call)

    def submit(
        self,
        work: Work,
        call: Call,
        *,
        blocking: bool,
        answer: Callable[[Outcome], None],
        is_whole: Callable[[Any], bool] = _always,
        before: Callable[[], None] = nothing_before,
        on_run: Callable[[Work], None] = _fixed,
        together: Together | None = None,
    ) -> None:
        """Run `call` when its time comes, and `before` on the loop's thread just before that. `answer` is called
        exactly once and not before this returns, unless the session leaves before. `is_whole` tells from a result
        whether the chunk did all that it was to do. `on_run` is told, on the loop and maybe before this returns,
        that it cannot be taken back any more, and which size it has. `together`: to be given where its load
        allows a batch."""
        now = self._loop.time()
        self._jobs[work.key] = _Job(before, call, blocking, answer, now, is_whole, on_run, together)
        for command in self._scheduler.on_submit(work, now):
            if isinstance(command, Run):
                self._start(command, now)
            else:  # Not at once: whoever submits is in the middle of carrying out its commands.
                self._loop.call_soon(self._refuse, command)
        self._arm()

    def retire(self, session: str, epoch: int, revision: int) -> None:
        now = self._loop.time()
        self._execute(self._scheduler.on_retire(session, epoch, revision, now), now)

    def promote(
        self, session: str, epoch: int, deadline: float | None = None, kinds: tuple[WorkKind, ...] = ()
    ) -> None:
        now = self._loop.time()
        self._execute(self._scheduler.on_promote(session, epoch, now, deadline, kinds), now)

    def withdraw(self, work: Work) -> None:
        now = self._loop.time()
        self._execute(self._scheduler.on_withdraw(work, now), now)

    def reserve(self, session: str, latest_start: float) -> None:
        """A chunk of a turn is about to come and must begin by `latest_start`: background must not be in its way.
        Replaces the session's former reservation."""
        now = self._loop.time()
        self._execute(self._scheduler.on_reserve(session, latest_start, now), now)

    def unreserve(self, session: str) -> None:
        now = self._loop.time()
        self._execute(self._scheduler.on_unreserve(session, now), now)

    def leave(self, session: str, release: Callable[[], None]) -> None:
        """Drop what waits for this session and answer nothing more. `release` is called once none of its
        chunks runs any more: what they use may be given back then, and not before. Calls of which it was told that
        they do not end (`Failed.still`) do not count."""
        for key in [key for key in self._jobs if key[0] == session]:
            job = self._jobs[key]
            self._jobs[key] = replace(job, answer=_nobody)
        now = self._loop.time()
        self._execute(self._scheduler.on_close(session, now), now)
        if self._running.get(session):
            self._leaving[session] = release
        else:
            release()

    def has_waiting(self, kind: WorkKind) -> bool:
        """Would a chunk of this kind have others beside it in the queues of its lane? Background does not count."""
        return self._scheduler.has_waiting(kind)

    def spare_s(self, kind: WorkKind, session: str) -> float | None:
        """Of the lane of this kind: how long a turn of `session` may keep it before it makes another one late; None
        where it makes nobody late."""
        return self._scheduler.spare_s(kind, session, self._loop.time())

    def snapshot(self) -> SchedulerSnapshot:
        return self._scheduler.snapshot()

    def health(self) -> HealthSnapshot:
        return self._health.snapshot()

    def _execute(self, commands: list[SchedulerCommand], granted: float) -> None:
        """`granted`: when the lanes got the room that the commands make use of."""
        for command in commands:
            if isinstance(command, Run):
                self._start(command, granted)
            else:
                self._refuse(command)
        self._arm()

    def _start(self, command: Run, granted: float) -> None:
        for work, *_ in command.all:
            self._running[work.session] = self._running.get(work.session, 0) + 1
            self._jobs[work.key].on_run(work)
        chunk = self._run(command, granted)
        task = self._group.create_task(chunk, name=f"{command.work.kind}@{command.lane}")
        if not self._jobs[command.work.key].blocking:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _refuse(self, command: Discard | Reject) -> None:
        work = command.work
        answer = self._jobs.pop(work.key).answer
        if isinstance(command, Discard):
            answer(Dropped(work))
        else:
            answer(Failed(work, EngineBusy(f"too much work waits for the {work.kind.stage} stage")))

    def _arm(self) -> None:
        """The scheduler's one timer."""
        deadline = self._scheduler.next_deadline()
        if self._timer is not None:
            if self._timer.when() == deadline:
                return
            self._timer.cancel()
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        self._timer = None
        # The loop may fire a little early by its clock's resolution.
        now = max(deadline, self._loop.time())
        self._execute(self._scheduler.on_timer(now), now)

    async def _run(self, command: Run, granted: float) -> None:
        now = self._loop.time()
        span = Span(now, now)
        outcomes: Sequence[Outcome] = [Dropped(work) for work, *_ in command.all]
        abandoned: Abandoned | None = None
        try:
            outcomes, abandoned = await self._outcomes(command, span, granted)
        finally:  # also where the device is being closed
            try:
                for outcome in outcomes:
                    # Looked up again: the session may have left while the chunk ran.
                    self._jobs.pop(outcome.work.key).answer(outcome)
            finally:
                service_s = span.finished - span.started
                whole = all(isinstance(outcome, Done) and outcome.timing.whole for outcome in outcomes)
                goes_on = abandoned is None or self._abandon(command, abandoned, service_s)
                if goes_on:
                    commands = self._scheduler.on_done(command.work, self._loop.time(), service_s)
                    self._execute(commands, span.finished)
                if span.has_begun:
                    self._learn(command.whole, service_s, whole)  # when the lane is at work again
                if abandoned is None:
                    for outcome in outcomes:
                        self._release(outcome.work.session)

    async def _outcomes(
        self, command: Run, span: Span, granted: float
    ) -> tuple[Sequence[Outcome], Abandoned | None]:
        """Of each of its works; and the call, where that runs on."""
        works = [work for work, *_ in command.all]
        jobs = [self._jobs[work.key] for work in works]
        asked = self._health.on_start(works[0], self._loop.time())
        if isinstance(asked, str):
            error = EngineUnavailable(f"the {works[0].kind.stage} engine is not asked: {asked}")
            return [Failed(work, error) for work in works], None
        try:
            ended = await self._call(command, jobs, span)
            if isinstance(ended, Returned):
                ended = self._dones(command, jobs, ended.value, span, granted)
        except BaseException:  # cancelled, or a fault of our own
            self._health.on_nothing(asked)
            raise
        if isinstance(ended, Overdue | Raised):
            failure = self._failure(command, ended)
            self._judge(asked, failure)
            abandoned = ended.abandoned if isinstance(ended, Overdue) else None
            still = None if abandoned is None else abandoned.ended
            return [Failed(work, failure, still) for work in works], abandoned
        self._health.on_success(asked)
        return ended.value, None

    async def _call(self, command: Run, jobs: Sequence[_Job], span: Span) -> Returned | Raised | Overdue:
        def call() -> Any:
            together = jobs[0].together
            if len(jobs) == 1 or together is None:
                return jobs[0].call()
            return together.call([job.together.member for job in jobs if job.together is not None])

        try:
            for job in jobs:
                job.before()
        except Exception as exc:  # the worker boundary: it costs its own turns only
            return Raised(exc)
        way = self._calls.block if jobs[0].blocking else self._calls.wait
        return await way(command.lane, call, self._health.limit_s(command.whole), span)

    def _dones(
        self, command: Run, jobs: Sequence[_Job], value: Any, span: Span, granted: float
    ) -> Returned | Raised:
        """Of each work what it got; or what is wrong with what the engine returned."""
        try:
            results = list(value) if command.others else [value]
            wholes = [job.is_whole(result) for job, result in zip(jobs, results, strict=True)]
        except Exception as exc:  # the worker boundary: it is not what an engine promises
            return Raised(exc)
        began, ended, bound_s = span.started, span.finished, command.whole.bound_s
        dones: list[Done] = []
        for (work, blocked_s, background_s), job, result, whole in zip(
            command.all, jobs, results, wholes, strict=True
        ):
            timing = LaneTiming(
                job.queued,
                began,
                ended,
                max(granted, job.queued),
                blocked_s,
                background_s,
                whole=whole,
                batch=len(jobs),
            )
            self._observe(work, timing, command.lane)
            dones.append(Done(replace(work, bound_s=bound_s) if command.others else work, timing, result))
        return Returned(dones)

    def _failure(self, command: Run, ended: Raised | Overdue) -> EngineError:
        work = command.work
        if isinstance(ended, Overdue):
            self._health.on_overdue(work)
            log.error("a %s chunk has not ended within %.1f s", work.kind, ended.limit_s)
            return EngineTimeout(f"the {work.kind.stage} engine did not end within {ended.limit_s:.1f} s")
        if isinstance(ended.error, EngineError):
            return ended.error
        log.error("%s chunk failed: %s", work.kind, type_and_place(ended.error))
        return EngineError(f"the {work.kind.stage} engine failed: {type(ended.error).__name__}")

    def _judge(self, asked: Asked, failure: EngineError) -> None:
        """Is it the engine's fault, or one session's?"""
        if isinstance(failure, EngineThrottled | EngineBusy | PromptRefused):
            self._health.on_nothing(asked)
        else:
            self._health.on_failure(asked, self._loop.time())

    def _abandon(self, command: Run, abandoned: Abandoned, service_s: float) -> bool:
        """The call runs on. Does its lane go on without it?"""
        goes_on = self._health.on_abandoned(command.work, command.lane)
        if goes_on:
            self._calls.replace(abandoned)
        # Who has left was not told that the call is lost, and so what it uses is not parted from the rest.
        gone = [work.session for work, *_ in command.all if work.session in self._leaving]
        self._abandoned.update(gone)
        for work, *_ in command.all:
            if work.session not in gone:
                self._release(work.session)
        log.error("a %s chunk cannot be stopped; its lane %s", command.work.kind, "goes on" if goes_on else "waits")

        def on_ended(_: asyncio.Future[Any]) -> None:
            self._health.on_ended(command.work, command.lane, held=not goes_on)
            self._abandoned -= Counter(gone)
            for session in gone:
                self._release(session)
            if not goes_on:
                self._calls.resume(abandoned)
                now = self._loop.time()
                self._execute(self._scheduler.on_done(command.work, now, service_s), now)

        abandoned.ended.add_done_callback(on_ended)
        return goes_on

    def _release(self, session: str) -> None:
        self._running[session] -= 1
        if not self._running[session]:
            del self._running[session]
            release = self._leaving.pop(session, None)
            if release is not None:
                release()


def _nobody(outcome: Outcome) -> None:
    """The session has left."""
