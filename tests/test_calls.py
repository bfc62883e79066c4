"""How one call ends, or does not: everything that an engine may do comes back as a value."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests import virtual
from voicepipe.calls import Abandoned, Calls, Overdue, Raised, Returned, Span

LANES = {"main": 1}


def played(story: Callable[[Calls], Awaitable[Any]]) -> Any:
    """In virtual time."""

    async def main() -> Any:
        calls = Calls(LANES)
        calls.open()
        try:
            return await story(calls)
        finally:
            calls.close()

    return virtual.run(main())


def fresh() -> Span:
    now = asyncio.get_running_loop().time()
    return Span(now, now)


@pytest.mark.parametrize("way", ["block", "wait"])
@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), StopIteration(), SystemExit(1)])
def test_whatever_is_raised_comes_back_as_a_value(way: str, error: BaseException) -> None:
    """StopIteration cannot be put into a future: the chunk of a lazy generator never ended. SystemExit ended the
    process."""

    def fails() -> None:
        raise error

    async def story(calls: Calls) -> Any:
        return await getattr(calls, way)("main", fails, 5.0, fresh())

    assert played(story) == Raised(error)


async def test_stop_iteration_in_a_thread_ends_its_chunk() -> None:
    """Also where a future has to carry it. (Real time.)"""
    calls = Calls(LANES)
    calls.open()
    ended = await calls.block("main", lambda: next(iter(())), 5.0, fresh())
    assert isinstance(ended, Raised) and isinstance(ended.error, StopIteration)
    assert await calls.block("main", lambda: 7, 5.0, fresh()) == Returned(7)
    calls.close()


def test_an_awaited_call_that_is_overdue_is_cancelled() -> None:
    """At its limit, and what it held has been let go of by then."""

    async def story(calls: Calls) -> None:
        span, let_go = fresh(), []

        async def hangs() -> None:
            try:
                await asyncio.sleep(1e6)
            finally:
                let_go.append(True)

        assert await calls.wait("main", hangs, 5.0, span) == Overdue(5.0, None)
        assert let_go == [True]
        assert span.finished - span.started == pytest.approx(5.0)

    played(story)


def test_an_awaited_call_that_swallows_its_cancellation_is_abandoned() -> None:
    """Within a bound; when it ends, that can be noticed."""

    async def story(calls: Calls) -> None:
        async def stubborn() -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    continue

        began = asyncio.get_running_loop().time()
        ended = await calls.wait("main", stubborn, 5.0, fresh())
        assert asyncio.get_running_loop().time() - began == pytest.approx(6.0)
        assert isinstance(ended, Overdue) and isinstance(ended.abandoned, Abandoned)
        await ended.abandoned.ended

    played(story)


async def test_a_thread_that_hangs_is_abandoned_and_its_lane_goes_on_with_another() -> None:
    """(Real time.)"""
    calls, go_on = Calls(LANES), threading.Event()
    calls.open()
    ended = await calls.block("main", lambda: go_on.wait(30), 0.05, fresh())
    assert isinstance(ended, Overdue) and ended.abandoned is not None
    calls.replace(ended.abandoned)
    assert await calls.block("main", lambda: 7, 5.0, fresh()) == Returned(7)
    go_on.set()
    assert await ended.abandoned.ended == Returned(True)
    calls.close()


async def test_a_lane_that_has_waited_goes_on_with_the_same_thread() -> None:
    """Where it may not have another one. (Real time.)"""
    calls, go_on = Calls(LANES), threading.Event()
    calls.open()
    thread = await calls.prepare("main", threading.current_thread)
    ended = await calls.block("main", lambda: go_on.wait(30), 0.05, fresh())
    assert isinstance(ended, Overdue) and ended.abandoned is not None
    go_on.set()
    await ended.abandoned.ended
    calls.resume(ended.abandoned)
    assert await calls.block("main", threading.current_thread, 5.0, fresh()) == Returned(thread)
    calls.close()


def test_a_machine_that_stood_still_costs_no_call() -> None:
    """The limit is noticed too late: the call has had no chance either, and gets its time again."""

    async def story(calls: Calls) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual.VirtualLoop)
        loop.call_later(1.0, loop.advance, 60.0)

        async def two_seconds() -> int:
            await asyncio.sleep(2.0)
            await asyncio.sleep(1.0)
            return 7

        assert await calls.wait("main", two_seconds, 5.0, fresh()) == Returned(7)

    played(story)


async def test_the_limit_begins_with_the_call() -> None:
    """Not while the thread prepares something that takes long. (Real time.)"""
    calls, go_on = Calls(LANES), threading.Event()
    calls.open()
    preparing = asyncio.ensure_future(calls.prepare("main", lambda: go_on.wait(30)))
    await asyncio.sleep(0)
    running = asyncio.ensure_future(calls.block("main", lambda: 7, 0.05, fresh()))
    await asyncio.wait({running}, timeout=0.3)
    assert not running.done()
    go_on.set()
    assert await running == Returned(7)
    assert await preparing
    calls.close()
