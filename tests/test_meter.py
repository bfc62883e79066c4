"""Chunks outside any session: where they run, and what they take."""

from __future__ import annotations

import asyncio

import pytest

from tests import virtual
from voicepipe.core.events import Load, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.engines.base import StepSize
from voicepipe.meter import Meter, load_of

LOAD = Load("m", 3)


def test_an_awaited_chunk_is_measured_until_its_end() -> None:
    """Not until its call has returned."""

    async def story() -> Meter:
        meter = Meter(asyncio.get_running_loop().time, asyncio.to_thread)
        value, service_s = await meter.run(WorkKind.FINAL, LOAD, "loop", lambda: asyncio.sleep(0.25, "heard"))
        assert value == "heard" and service_s == pytest.approx(0.25)
        return meter

    (chunk,) = virtual.run(story()).chunks
    assert chunk == Measured(WorkKind.FINAL, LOAD, pytest.approx(0.25))


def test_a_blocking_chunk_is_measured_on_its_thread() -> None:
    """Without the way there and back."""
    times = iter([0.0, 5.0, 5.5, 9.0])

    async def story() -> tuple[str, float]:
        meter = Meter(lambda: next(times), asyncio.to_thread)
        return await meter.run(WorkKind.FINAL, LOAD, "thread", lambda: "heard")

    assert virtual.run(story()) == ("heard", 0.5)


def test_a_failure_is_passed_on() -> None:
    """And measured as nothing."""

    def fails() -> str:
        raise ZeroDivisionError

    async def story() -> None:
        meter = Meter(asyncio.get_running_loop().time, asyncio.to_thread)
        with pytest.raises(ZeroDivisionError):
            await meter.run(WorkKind.FINAL, LOAD, "thread", fails)
        assert meter.chunks == []

    virtual.run(story())


def test_an_engines_size_is_the_cores_load() -> None:
    """Under the engine's name."""
    assert load_of("m", StepSize("decode", 2, 60)) == Load("m", 2, 60, "decode")
