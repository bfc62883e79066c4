"""The owner of a device: runs the chunks that `core.scheduler` hands out, and nothing beside them.

Each lane has a thread for every chunk that it may run at a time. A chunk that is a coroutine function (a remote
engine, a scripted wait) occupies its lane in the same way while the loop awaits it. All methods are called on
the loop's thread.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from voicepipe.core.events import Timing, Work, WorkKind
from voicepipe.core.scheduler import (
    Discard,
    Reject,
    Run,
    Scheduler,
    SchedulerCommand,
    SchedulerSnapshot,
)
from voicepipe.errors import EngineBusy, EngineError, VoicepipeError

log = logging.getLogger(__name__)

T = TypeVar("T")

Call = Callable[[], Any]
"""A chunk: blocking, or returning an awaitable."""


@dataclass(frozen=True, slots=True)
class Done:
    """The chunk ran and returned `result`."""

    work: Work
    timing: Timing
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The chunk raised, or its lane had no room for it."""

    work: Work
    error: VoicepipeError


@dataclass(frozen=True, slots=True)
class Dropped:
    """The chunk waited and will not run."""

    work: Work


Outcome = Done | Failed | Dropped


@dataclass(frozen=True, slots=True)
class _Job:
    call: Call
    blocking: bool
    answer: Callable[[Outcome], None]
    queued: float


class Device:
    def __init__(
        self,
        placement: Mapping[WorkKind, str],
        lanes: Mapping[str, int],
        *,
        observe: Callable[[Work, Timing], None] = lambda work, timing: None,
    ) -> None:
        """`placement` names the lane of each kind of work, `lanes` how many chunks each lane runs at a time."""
        self._scheduler = Scheduler(placement, lanes)
        self._placement = dict(placement)
        self._lanes = dict(lanes)
        self._observe = observe
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._running: dict[str, int] = {}
        self._leaving: dict[str, Callable[[], None]] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        """Those that await their chunk, and can be cancelled."""

    async def __aenter__(self) -> Device:
        self._loop = asyncio.get_running_loop()
        self._threads = {
            name: ThreadPoolExecutor(chunks, thread_name_prefix=f"lane-{name}")
            for name, chunks in self._lanes.items()
        }
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What waits is dropped; what is awaited is cancelled; a blocking chunk is waited for. An error of the
        block passes through as it is."""
        for session in {work_session for work_session, _ in self._jobs}:
            self.leave(session, self._leaving.get(session, lambda: None))
        for task in self._tasks:
            task.cancel()
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            for session in list(self._leaving):  # whose chunk was cancelled before its first step
                self._leaving.pop(session)()
            for pool in self._threads.values():
                pool.shutdown(wait=True, cancel_futures=True)

    async def prepare(self, kind: WorkKind, call: Callable[[], T]) -> T:
        """Run a blocking call on the thread where chunks of `kind` will run, beside the scheduler: for loading and
        warming up, before there are sessions. OpenMP keeps a team of workers for every thread that calls it;
        engines that are loaded and warmed on one thread and then run on another were a fifth slower."""
        return await self._loop.run_in_executor(self._threads[self._placement[kind]], call)

    def submit(self, work: Work, call: Call, *, blocking: bool, answer: Callable[[Outcome], None]) -> None:
        """Run `call` when its time comes. `answer` is called exactly once, unless the session leaves before."""
        now = self._loop.time()
        self._jobs[work.key] = _Job(call, blocking, answer, now)
        self._execute(self._scheduler.on_submit(work, now))

    def retire(self, session: str, epoch: int, revision: int) -> None:
        self._execute(self._scheduler.on_retire(session, epoch, revision, self._loop.time()))

    def promote(self, session: str, epoch: int) -> None:
        self._execute(self._scheduler.on_promote(session, epoch, self._loop.time()))

    def withdraw(self, work: Work) -> None:
        self._execute(self._scheduler.on_withdraw(work, self._loop.time()))

    def leave(self, session: str, release: Callable[[], None]) -> None:
        """Drop what waits for this session and answer nothing more. `release` is called once none of its
        chunks runs any more: what they use may be given back then, and not before."""
        for key in [key for key in self._jobs if key[0] == session]:
            job = self._jobs[key]
            self._jobs[key] = _Job(job.call, job.blocking, _nobody, job.queued)
        self._execute(self._scheduler.on_close(session, self._loop.time()))
        if self._running.get(session):
            self._leaving[session] = release
        else:
            release()

    def snapshot(self) -> SchedulerSnapshot:
        return self._scheduler.snapshot()

    def _execute(self, commands: list[SchedulerCommand]) -> None:
        for command in commands:
            match command:
                case Run(work, lane):
                    self._running[work.session] = self._running.get(work.session, 0) + 1
                    task = self._group.create_task(self._run(work, lane), name=f"{work.kind}@{lane}")
                    if not self._jobs[work.key].blocking:
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
                case Discard(work):
                    self._jobs.pop(work.key).answer(Dropped(work))
                case Reject(work):
                    # Not at once: whoever submits is in the middle of carrying out its commands.
                    self._loop.call_soon(self._reject, work)

    def _reject(self, work: Work) -> None:
        error = EngineBusy(f"too much work waits for the {work.kind.stage} stage")
        self._jobs.pop(work.key).answer(Failed(work, error))

    async def _run(self, work: Work, lane: str) -> None:
        outcome: Outcome = Dropped(work)
        try:
            outcome = await self._outcome(work, self._jobs[work.key], lane)
        finally:  # also where the device is being closed
            self._execute(self._scheduler.on_done(work, self._loop.time()))
            # Looked up again: the session may have left while the chunk ran.
            self._jobs.pop(work.key).answer(outcome)
            self._release(work.session)

    async def _outcome(self, work: Work, job: _Job, lane: str) -> Outcome:
        started = finished = self._loop.time()

        def timed() -> Any:
            nonlocal started, finished
            started = self._loop.time()
            try:
                return job.call()
            finally:
                finished = self._loop.time()

        try:
            if job.blocking:
                result = await self._loop.run_in_executor(self._threads[lane], timed)
            else:
                result = await _awaited(job.call())
                finished = self._loop.time()
        except EngineError as exc:
            return Failed(work, exc)
        except Exception as exc:  # the worker boundary: whatever an engine raises costs its own turn only
            log.exception("%s chunk failed", work.kind)
            return Failed(work, EngineError(f"the {work.kind.stage} engine failed: {type(exc).__name__}"))
        timing = Timing(job.queued, started, finished)
        self._observe(work, timing)
        return Done(work, timing, result)

    def _release(self, session: str) -> None:
        self._running[session] -= 1
        if not self._running[session]:
            del self._running[session]
            release = self._leaving.pop(session, None)
            if release is not None:
                release()


async def _awaited(value: Awaitable[Any] | Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _nobody(outcome: Outcome) -> None:
    """The session has left."""
