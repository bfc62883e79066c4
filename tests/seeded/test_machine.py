"""The protocol as a state machine: whatever clients do, in whatever order, what holds in every seed holds here too.

Hypothesis draws the steps and makes a failure as short as it gets; the loop, the server and the checks are those
of the seeds. A rule that is missing is one more method.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.seeded.caller import GARBAGE, SeededCaller
from tests.seeded.engines import CALM, CHANGEABLE, STORMY, Weather
from tests.seeded.loop import SeededLoop, Trace
from tests.seeded.world import CLOCK, OVER_S, Plan, World, let_go
from voicepipe.background import TextService
from voicepipe.connection import ConnectionClosed
from voicepipe.wire import messages as wire

TOKEN = "open-sesame"
STEPS = 40
"""Of one example, at most."""
STAND_S = 40.0
"""The machine stands still for so long at most, in one step; a step lets no more time pass."""
PLAN = Plan(CALM, callers=0, sessions=2, places=1, texts=0, abandoned=2, drain_at=None, jump_at=None)


class House(World):
    """A world in which nothing happens by itself."""

    longest_s = 2 * STEPS * STAND_S + 4 * OVER_S

    def __init__(self, loop: SeededLoop, plan: Plan) -> None:
        super().__init__(0, loop, loop.trace, plan)
        self.over = asyncio.Event()
        self.tokens = {TOKEN}

    def _populate(self, group: asyncio.TaskGroup, texts: TextService) -> None:
        self.group = group
        group.create_task(self._until_over())

    async def _until_over(self) -> None:
        await self.over.wait()


WHO = st.integers(0, 3)
MOST = 4
"""Connections at a time: more than there are places."""


def anybody(machine: Protocol) -> bool:
    """Is somebody there?"""
    return bool(machine.live)


class Protocol(RuleBasedStateMachine):
    @initialize(weather=st.sampled_from((CALM, CHANGEABLE, STORMY, STORMY)), abandoned=st.integers(0, 3))
    def open(self, weather: Weather, abandoned: int) -> None:
        self.loop = SeededLoop(0, Trace())
        self.house = House(self.loop, replace(PLAN, weather=weather, abandoned=abandoned))
        self.playing = self.loop.create_task(self.house.play())
        self.run(0.001)

    def run(self, seconds: float) -> None:
        """Time passes."""
        self.loop.run_until_complete(self.loop.create_task(asyncio.sleep(seconds), name=CLOCK))

    def do(self, act: Coroutine[Any, Any, None]) -> None:
        """Begin it: it may have to wait, as in a full pipe, and the others go on."""

        async def guarded() -> None:
            with suppress(ConnectionClosed):
                await act

        self.house.group.create_task(guarded())
        self.run(0.0005)

    # clients

    def arrive(self, token: str | None, capacity: int, resume: str | bool | None = None) -> SeededCaller:
        house = self.house

        async def connect() -> SeededCaller:
            socket = house.server.connect({}, capacity, house._on_send, token)
            return SeededCaller(socket, Random(0), house.trace, f"caller {len(house.callers)}", resume)

        caller = self.loop.run_until_complete(self.loop.create_task(connect(), name=CLOCK))
        house.callers.append(caller)
        self.do(caller.listen())
        return caller

    @property
    def live(self) -> list[SeededCaller]:
        """Those whose connection is open."""
        return [one for one in self.house.callers if one.closed is None and not one.vanished]

    def one(self, number: int) -> SeededCaller:
        return self.live[number % len(self.live)]

    @precondition(lambda self: len(self.live) < MOST)
    @rule(
        capacity=st.sampled_from((4, 4096)),
        manual=st.booleans(),
        interruptible=st.booleans(),
        resume=st.sampled_from((None, True)),
    )
    def connect(self, capacity: int, manual: bool, interruptible: bool, resume: bool | None) -> None:
        """And begin a session."""
        audio = wire.AudioFormat(rate=16_000, channels=1)
        taking: Literal["auto", "manual"] = "manual" if manual else "auto"
        start = wire.SessionStart(
            audio, "voicepipe.v1", 8000, turn_taking=taking, interruptible=interruptible, resume=resume
        )
        self.do(self.arrive(TOKEN, capacity, resume).send(start))

    @property
    def with_token(self) -> list[SeededCaller]:
        return [one for one in self.house.callers if one.ready is not None and one.ready.resume]

    @precondition(lambda self: len(self.live) < MOST and bool(self.with_token))
    @rule(who=st.integers(0, 30), forged=st.sampled_from((False, False, False, True)))
    def resume(self, who: int, forged: bool) -> None:
        """By another connection, be the old one open, dead or long gone, and its token used or not."""
        before = self.with_token[who % len(self.with_token)]
        assert before.ready is not None
        shown = "made up" if forged else before.ready.resume
        audio = wire.AudioFormat(rate=16_000, channels=1)
        start = wire.SessionStart(audio, "voicepipe.v1", 8000, resume=shown)
        self.do(self.arrive(TOKEN, 4096, shown).send(start))
        self.run(0.01)

    @precondition(lambda self: len(self.live) < MOST)
    @rule()
    def connect_and_say_nothing(self) -> None:
        self.arrive(TOKEN, 4)

    @rule(token=st.sampled_from(("wrong", "", None)))
    def authenticate_wrongly(self, token: str | None) -> None:
        """Nobody gets in."""
        caller = self.arrive(token, 4)
        assert caller.closed is not None and caller.closed.code == 1006

    @precondition(anybody)
    @rule(who=WHO, packets=st.integers(1, 12), voiced=st.booleans())
    def audio(self, who: int, packets: int, voiced: bool) -> None:
        """In real time."""
        self.do(self.one(who).sound(packets, voiced=voiced))
        self.run(0.1 * packets)

    @precondition(anybody)
    @rule(who=WHO, after_s=st.sampled_from((0.0, 0.3, 1.0, 2.0)))
    def ask(self, who: int, after_s: float) -> None:
        """Speech, and the pause that ends it."""
        caller = self.one(who)
        for packets, voiced in ((5, True), (4, False)):
            self.do(caller.sound(packets, voiced=voiced))
            self.run(0.1 * packets)
        self.run(after_s)

    @precondition(anybody)
    @rule(who=WHO)
    def commit(self, who: int) -> None:
        self.do(self.one(who).send(wire.InputCommit()))

    @precondition(anybody)
    @rule(who=WHO, after_s=st.sampled_from((0.0, 0.02, 0.2, 2.0)))
    def text(self, who: int, after_s: float) -> None:
        self.do(self.one(who).send(wire.InputText("Hello.")))
        self.run(after_s)

    @precondition(anybody)
    @rule(who=WHO)
    def cancel(self, who: int) -> None:
        self.do(self.one(who).send(wire.ReplyCancel()))

    @precondition(anybody)
    @rule(who=WHO, epoch=st.integers(0, 5), played=st.integers(0, 30_000))
    def playback(self, who: int, epoch: int, played: int) -> None:
        self.do(self.one(who).send(wire.Playback(epoch, played)))

    @precondition(anybody)
    @rule(who=WHO, garbage=st.sampled_from(GARBAGE))
    def garbage(self, who: int, garbage: str | bytes) -> None:
        self.do(self.one(who).send_raw(garbage))

    @precondition(anybody)
    @rule(who=WHO)
    def stall(self, who: int) -> None:
        self.one(who).reading.clear()

    @precondition(anybody)
    @rule(who=WHO)
    def read_on(self, who: int) -> None:
        self.one(who).reading.set()

    @precondition(anybody)
    @rule(who=WHO)
    def end(self, who: int) -> None:
        self.do(self.one(who).send(wire.SessionEnd()))

    @precondition(anybody)
    @rule(who=WHO)
    def drop(self, who: int) -> None:
        self.do(self.one(who).vanish())

    # the server and the machine

    @precondition(lambda self: len(self.house.callers) > 4)
    @rule()
    def drain(self) -> None:
        self.do(self.house.server.stop(3.0))

    @rule(seconds=st.sampled_from((0.01, 0.1, 0.5, 2.0, 10.0, 25.0)))
    def advance(self, seconds: float) -> None:
        self.run(seconds)

    @rule(seconds=st.sampled_from((0.3, 3.0, STAND_S)))
    def stand_still(self, seconds: float) -> None:
        """The whole machine: a clock that jumps."""
        self.loop.jump(seconds)

    # what holds: `World` checks it after each step of the loop, and here once more

    @invariant()
    def leases_are_live_sessions(self) -> None:
        if hasattr(self, "house") and not self.playing.done():
            self.house._check_always()
            self.house._check_bounds()

    def teardown(self) -> None:
        """Everybody reads on and goes; then nothing may be left."""
        if not hasattr(self, "house"):
            return
        try:
            for caller in self.house.callers:
                caller.reading.set()
                self.do(caller.vanish())
            self.house.over.set()
            self.run(3 * OVER_S)
            assert self.playing.done(), "the server does not end"
            self.playing.result()
        finally:
            self.loop.check = lambda: None
            let_go(self.loop)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=300,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
