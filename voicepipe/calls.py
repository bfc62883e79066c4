"""How a chunk's call is run: on a thread of its lane or awaited by the loop, and for so long at most.

The boundary to engines: whatever they raise comes back as a value. `StopIteration` and `SystemExit` too, of which
the one would be lost in a future, so that its chunk never ended, and the other would end the process.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from voicepipe.worker import Crew

T = TypeVar("T")

CANCEL_S = 1.0
"""How long an awaited call may take to heed its cancellation."""
STOOD_STILL_S = 0.25
"""A limit that is noticed so much too late says that the loop, or the machine, stood still: the call has had no
fair chance either, and gets its time once more."""


@dataclass(slots=True)
class Span:
    """When a call began and ended, as far as it has."""

    started: float
    finished: float
    has_begun: bool = False
    was_cut: bool = False

    def begin(self, now: float) -> None:
        self.started, self.has_begun = now, True

    def end(self, now: float) -> None:
        """Unless it was cut off before: an abandoned call may come to an end of its own, long after."""
        if not self.was_cut:
            self.finished = now

    def cut(self, now: float) -> None:
        """It counts up to here."""
        self.finished, self.was_cut = now, True


@dataclass(frozen=True, slots=True)
class Returned:
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A call that is overdue and runs on."""

    ended: asyncio.Future[Any]
    lane: str
    worker: Any = None


@dataclass(frozen=True, slots=True)
class Overdue:
    limit_s: float
    abandoned: Abandoned | None
    """None where it heeded its cancellation."""


Outcome = Returned | Raised | Overdue


class Calls:
    """Between `open` and `close` there are threads. Everything is called on the loop's thread."""

    def __init__(self, lanes: Mapping[str, int]) -> None:
        self._lanes = dict(lanes)
        self._crews: dict[str, Crew] = {}

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._crews = {name: Crew(f"lane-{name}", chunks) for name, chunks in self._lanes.items()}

    def close(self) -> None:
        """What has been abandoned is not waited for."""
        for crew in self._crews.values():
            crew.dismiss()

    async def prepare(self, lane: str, call: Callable[[], T]) -> T:
        """A blocking call outside all chunks, on the lane's first thread, for as long as it takes."""
        return await self._loop.run_in_executor(self._crews[lane].first, call)

    async def block(self, lane: str, call: Callable[[], Any], limit_s: float, span: Span) -> Outcome:
        """Run `call` on a thread of the lane, which has one to spare."""
        crew = self._crews[lane]
        worker = crew.take()

        def timed() -> Outcome:
            span.begin(self._loop.time())
            try:
                return Returned(call())
            except BaseException as exc:
                return Raised(exc)
            finally:
                span.end(self._loop.time())

        running: asyncio.Future[Outcome] = self._loop.run_in_executor(worker, timed)
        if await self._ends(running, limit_s, span):
            crew.put_back(worker)
            return running.result()
        span.cut(self._loop.time())
        return Overdue(limit_s, Abandoned(running, lane, worker))

    async def wait(self, lane: str, call: Callable[[], Any], limit_s: float, span: Span) -> Outcome:
        """Await what `call` returns. CancelledError where it was cancelled from within, or this is from without."""

        async def timed() -> Outcome:
            span.begin(self._loop.time())
            try:
                return Returned(await _awaited(call()))
            except (Exception, SystemExit) as exc:
                return Raised(exc)
            finally:
                span.end(self._loop.time())

        running = self._loop.create_task(timed(), name=f"call@{lane}")
        try:
            if await self._ends(running, limit_s, span):
                return running.result()
        except asyncio.CancelledError:
            await self._cancel(running)
            raise
        heeded = await self._cancel(running)
        span.cut(self._loop.time())
        return Overdue(limit_s, None if heeded else Abandoned(running, lane))

    def replace(self, abandoned: Abandoned) -> None:
        """The lane goes on without the thread that is lost in the call."""
        if abandoned.worker is not None:
            crew = self._crews[abandoned.lane]
            crew.lose(abandoned.worker)
            crew.hire()

    def resume(self, abandoned: Abandoned) -> None:
        """The call has ended after all, and the lane had waited for it."""
        if abandoned.worker is not None:
            self._crews[abandoned.lane].put_back(abandoned.worker)

    async def _ends(self, running: asyncio.Future[Any], limit_s: float, span: Span) -> bool:
        """False when it has not within its time, which begins when the call does."""
        since = self._loop.time()
        while not running.done():
            due = max(since, span.started) + limit_s
            await asyncio.wait({running}, timeout=max(0.0, due - self._loop.time()))
            now = self._loop.time()
            if now >= due + STOOD_STILL_S or not span.has_begun:
                since = now
            elif now >= max(since, span.started) + limit_s:
                break
        return running.done()

    async def _cancel(self, running: asyncio.Task[Any]) -> bool:
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=CANCEL_S)
        return bool(done)


async def _awaited(value: Awaitable[Any] | Any) -> Any:
    return await value if inspect.isawaitable(value) else value
