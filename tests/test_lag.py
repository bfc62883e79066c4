"""The lag probe on a loop whose clock the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from voicepipe.lag import INTERVAL_S, LagProbe


class StandstillLoop(asyncio.AbstractEventLoop):
    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[..., object], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        self.timers.append((when, callback, args))
        return asyncio.TimerHandle(when, callback, args, self)

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.timers.clear()

    def run_late(self, lag_s: float) -> None:
        when, callback, args = self.timers.pop()
        self.now = when + lag_s
        callback(*args)


def test_lateness_is_measured_and_passed_on() -> None:
    loop, seen = StandstillLoop(), list[float]()
    probe = LagProbe(seen.append)
    probe.start(loop)
    assert loop.timers[0][0] == pytest.approx(100.0 + INTERVAL_S)
    loop.run_late(0.004)
    loop.run_late(-0.0001)  # a clock's grain is no negative lag
    assert seen == [pytest.approx(0.004), 0.0]
    assert probe.last_s == 0.0


def test_a_finer_probe_looks_more_often() -> None:
    loop, seen = StandstillLoop(), list[float]()
    LagProbe(seen.append, interval_s=0.005).start(loop)
    loop.run_late(0.002)
    assert loop.timers[0][0] == pytest.approx(100.0 + 0.005 + 0.002 + 0.005)
    assert seen == [pytest.approx(0.002)]


def test_p99_forgets_after_half_a_minute() -> None:
    loop = StandstillLoop()
    probe = LagProbe(lambda lag_s: None)
    probe.start(loop)
    for _ in range(10):
        loop.run_late(0.5)
    assert probe.p99_s == pytest.approx(0.5)
    for _ in range(300):
        loop.run_late(0.001)
    assert probe.p99_s == pytest.approx(0.001)


def test_a_stopped_probe_leaves_no_timer() -> None:
    loop = StandstillLoop()
    probe = LagProbe(lambda lag_s: None)
    probe.start(loop)
    probe.stop()
    probe.stop()
    assert loop.timers == []
