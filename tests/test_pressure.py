"""Signals in, a level out, and admission told where it matters."""

from __future__ import annotations

import asyncio

from tests import virtual
from voicepipe.core.events import Timing, Work, WorkClass, WorkKind
from voicepipe.core.overload import WINDOW, Level, Overload
from voicepipe.pressure import Pressure


def chunk(kind: WorkKind) -> Work:
    return Work(1, "s", 1, 1, 0, kind, WorkClass.ASR)


class House:
    def __init__(self) -> None:
        self.refused: list[bool] = []
        self.backlog_s = 0.0
        self.pressure = Pressure(Overload(), self.refused.append)

    def begin(self) -> None:
        self.pressure.begin(lambda: self.backlog_s)

    async def look(self, times: int, lag_s: float = 0.0) -> None:
        for _ in range(times):
            await asyncio.sleep(0.1)
            self.pressure.on_lag(lag_s)


def test_before_the_server_is_ready_nothing_counts() -> None:
    async def scene() -> None:
        house = House()
        await house.look(50, lag_s=3.0)
        assert house.pressure.level is Level.NONE and house.pressure.snapshot().uses == {}

    virtual.run(scene())


def test_sessions_are_refused_at_the_highest_level_and_told_so_once() -> None:
    async def scene() -> None:
        house = House()
        house.begin()
        await house.look(WINDOW, lag_s=0.0094)
        assert (house.pressure.level, house.refused) == (Level.SHED_SPECULATION, [])
        await house.look(3 * WINDOW, lag_s=0.02)
        assert (house.pressure.level, house.refused) == (Level.REFUSE, [True])
        await house.look(54)
        assert (house.pressure.level, house.refused) == (Level.SHED_BACKGROUND, [True, False])
        await house.look(110)
        assert (house.pressure.level, house.refused) == (Level.NONE, [True, False])

    virtual.run(scene())


def test_the_age_of_sound_is_the_worst_since_the_last_look() -> None:
    async def scene() -> None:
        house = House()
        house.begin()
        house.pressure.on_chunk(chunk(WorkKind.HEAR), Timing(1.0, 1.05, 1.06))
        house.pressure.on_chunk(chunk(WorkKind.HEAR), Timing(1.0, 1.02, 1.03))
        house.pressure.on_chunk(chunk(WorkKind.FINAL), Timing(1.0, 3.0, 3.1))  # a decode waits its turn
        await house.look(1)
        assert round(house.pressure.snapshot().uses["input-age"], 6) == 0.5
        await house.look(1)
        assert house.pressure.snapshot().uses["input-age"] == 0.0

    virtual.run(scene())


def test_a_backlog_that_stays_is_overload() -> None:
    async def scene() -> None:
        house = House()
        house.begin()
        house.backlog_s = 0.3
        await house.look(WINDOW)
        assert house.refused == [True]

    virtual.run(scene())
