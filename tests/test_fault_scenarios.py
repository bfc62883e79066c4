"""Symptoms from public reports about engines that fail, and about ends: as sessions in virtual time.

Like `test_scenarios`, each test is named by the id of its report, and what holds in every session is checked after
each call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import httpx
import pytest

from tests import virtual
from tests.driving import (
    LANES,
    PLACEMENT,
    Caller,
    Faults,
    FaultyTts,
    Hang,
    NumberedLlm,
    call,
    check_nothing_left,
    engines,
    limits,
    open_house,
    visit,
)
from tests.seeded.door import Counts, MemoryServer, Socket
from voicepipe.config import ScriptedConfig
from voicepipe.connection import Connection, ConnectionClosed
from voicepipe.core.admission import CountAdmission, Grant
from voicepipe.core.breaker import BreakerSettings, BreakerState
from voicepipe.core.engine_health import HealthSettings
from voicepipe.core.events import WorkKind
from voicepipe.device import Device
from voicepipe.engines.base import Context, Transcript, Window
from voicepipe.engines.openai_chat import OpenAiChat
from voicepipe.engines.scripted import ScriptedAsr, ScriptedVad
from voicepipe.pages import Readiness
from voicepipe.reception import serve_session
from voicepipe.server import ServerSettings
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server, encode_client

SHORT = ScriptedConfig(reply="Yes.", transcripts=("One.", "Two.", "Three."))
HEALTH = HealthSettings(floor_s=2.0, unbounded_s=2.0)


def burn(seconds: float) -> None:
    """As a blocking call, on its thread."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual.VirtualLoop)
    loop.burn(seconds)


class BlockingAsr(ScriptedAsr):
    """Takes a thread for so long, decode by decode; the last time for good. Counts how many are at work at once."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(replace_occupy(SHORT))
        self.placement = "thread"
        self.left = list(seconds)

    def open(self) -> Any:
        asr, stream = self, super().open()
        decode = stream.decode

        def blocking(window: Window, *, final: bool, ctx: Context) -> Transcript:
            burn(asr.left.pop(0) if len(asr.left) > 1 else asr.left[0])
            return decode(window, final=final, ctx=ctx)  # type: ignore[return-value]

        stream.decode = blocking  # type: ignore[method-assign,assignment]
        return stream


def replace_occupy(config: ScriptedConfig) -> ScriptedConfig:
    """No time of its own."""
    return ScriptedConfig(reply=config.reply, transcripts=config.transcripts, asr_ms=0.0, occupy="spin")


async def speaks_once(caller: Caller) -> None:
    await caller.start()
    await caller.speak(0.5)
    await caller.pause_until_verdict(1)
    await caller.end()


def together(house: Any, scripts: dict[str, Callable[[Caller], Any]]) -> Any:
    """All of them at once; the callers by name."""

    async def main() -> dict[str, Caller]:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(visit(house, script, ident=name)) for name, script in scripts.items()}
        return {name: task.result() for name, task in tasks.items()}

    return main()


def test_s49_a_thousand_clean_closes_leave_nothing() -> None:
    """In whichever state: idle, heard, thought about, answered."""

    async def main() -> None:
        async with open_house(engines(SHORT, slots=1)) as house:
            for number in range(1000):

                async def script(caller: Caller, number: int = number) -> None:
                    await caller.start()
                    if number % 4 == 1:
                        await caller.speak(0.1)
                    elif number % 4:
                        await caller.send(wire.InputText("Hello."))
                        await caller.wait(0.01 * (number % 7))
                    assert (await caller.end()).code == 1000

                await visit(house, script, ident=f"s{number}")
                assert house.leased == 0
                assert len(asyncio.all_tasks()) == 1
        check_nothing_left()

    virtual.run(main())


def test_s101_a_thread_that_hangs_costs_one_turn_and_its_lane_goes_on() -> None:
    """Without its thread, which cannot be stopped: others' turns are in time from then on, and so are its own."""

    async def main() -> None:
        async with open_house(engines(SHORT, asr=BlockingAsr(inf, 0.02), slots=3), health=HEALTH) as house:

            async def hangs(caller: Caller) -> None:
                await caller.start()
                await caller.speak(0.5)
                await caller.pause_until_verdict(1)
                await caller.speak(0.5)
                await caller.pause_until_verdict(2)
                await caller.end()

            async def comes_later(caller: Caller) -> None:
                await caller.start()
                await caller.pause(3.0)
                await caller.speak(0.5)
                await caller.pause_until_verdict(1)
                await caller.end()

            callers = await together(house, {"a": hangs, "b": comes_later})
            assert (callers["a"].verdicts, callers["a"].errors) == (["failed", "met"], ["engine_timeout"])
            assert callers["b"].verdicts == ["met"]
            health = house.services.device.health()
            assert health.abandoned == {"main": 1, "ears": 0} and not health.stuck
            assert house.leased == 0

    # The lane is not free in the eyes of `open_house`, which asks the scheduler: it has been replaced.
    virtual.run(main())


def test_s103_a_limit_inside_the_session_says_why_before_it_closes() -> None:
    """An error with its code, then 4409: no traceback, no bare 1006."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.3)
        await caller.gone(within_s=40.0)

    caller = call(script, engines(SHORT), limits(idle_s=15.0))
    assert caller.errors == ["session_limit"]
    assert caller.closed is not None and (caller.closed.code, caller.closed.reason) == (4409, "session_limit")
    assert len(caller.records) == 1


def test_s104_a_blocking_recogniser_keeps_nobody_from_connecting() -> None:
    """Eight seconds on its thread: who connects meanwhile is ready at once, and is heard at once."""

    async def main() -> None:
        health = HealthSettings(floor_s=60.0, unbounded_s=60.0)
        asr = BlockingAsr(8.0, 0.02)
        async with open_house(engines(SHORT, asr=asr, slots=7), health=health) as house:

            def connects(after_s: float) -> Callable[[Caller], Any]:
                async def script(caller: Caller) -> None:
                    await caller.wait(after_s)
                    await caller.start()
                    await caller.pause(0.1)
                    assert caller.at(wire.SessionReady) == pytest.approx(after_s)
                    began = caller.now
                    await caller.speak(0.5)
                    assert caller.at(wire.SpeechStarted) - began < 0.1
                    await caller.end()

                return script

            scripts = {f"s{number}": connects(1.0 + number) for number in range(6)}
            callers = await together(house, {"slow": speaks_once} | scripts)
            assert callers["slow"].verdicts == ["missed"]

    virtual.run(main())


class Provider:
    """Answers what it is asked, and to those that say `busy` "too many". Counts requests per speaker."""

    def __init__(self) -> None:
        self.asked: dict[str, list[float]] = {}
        self.busy: set[str] = set()
        self.down = False
        self.silent = False

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        who = json.loads(request.content)["messages"][-1]["content"]
        self.asked.setdefault(who, []).append(asyncio.get_running_loop().time())
        if self.down:
            raise httpx.ConnectError("refused")
        if who in self.busy:
            return httpx.Response(429)
        if self.silent:
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=_nothing())
        event = {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n"
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


async def _nothing() -> Any:
    await asyncio.sleep(1e6)
    yield b""


async def remote(provider: Provider, story: Callable[[Any, Device], Any], failures: int = 3) -> None:
    """A house whose model is behind a URL, with a breaker before it."""
    thinking = (WorkKind.WARM, WorkKind.THINK)
    health = HealthSettings(
        floors_s=dict.fromkeys(thinking, 6.0),
        breakers=dict.fromkeys(thinking, ("llm", BreakerSettings(failures, 1.0, 30.0))),
    )
    llm = OpenAiChat("http://llm/v1", "m", slots=4, timeout_s=5.0, transport=httpx.MockTransport(provider))
    placement = PLACEMENT | dict.fromkeys(thinking, "remote")
    device = Device(placement, LANES | {"remote": 4}, health=health)
    these = replace(engines(SHORT, slots=4), llm=llm)
    async with device, open_house_of(these, device) as house:
        await story(house, device)
    await llm.aclose()


def open_house_of(these: Any, device: Device) -> Any:
    """`open_house` asks a scripted model how many slots are leased."""
    these.llm.leased = 0
    return open_house(these, limits(failed_turns=0), device=NoContext(device))


class NoContext:
    """A device that somebody else opens and closes."""

    def __init__(self, device: Device) -> None:
        self._device = device

    async def __aenter__(self) -> Device:
        return self._device

    async def __aexit__(self, *exc: object) -> None:
        """Not here."""


def types(who: str, *pauses_s: float) -> Callable[[Caller], Any]:
    """A turn after each pause."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for number, pause_s in enumerate(pauses_s, 1):
            await caller.wait(pause_s)
            await caller.send(wire.InputText(who))
            await caller.pause_until_verdict(number)
        await caller.end()

    return script


def test_s109_a_provider_that_slows_one_session_down_leaves_the_others_theirs() -> None:
    """Its pauses grow up to a cap, nobody is asked meanwhile, the breaker stays closed, and the others are
    answered."""
    provider = Provider()
    provider.busy = {"a"}

    async def story(house: Any, device: Device) -> None:
        turns = [0.1] * 40
        callers = await together(house, {"a": types("a", *turns), "b": types("b", *turns)})
        assert set(callers["a"].verdicts) == {"failed"}
        assert set(callers["a"].errors) == {"engine_throttled"}
        assert set(callers["b"].verdicts) <= {"met", "missed"}
        asked = provider.asked["a"]
        gaps = [later - sooner for sooner, later in pairwise(asked)]
        assert len(asked) < 10 and gaps == sorted(gaps)
        assert device.health().breakers["llm"].opened == 0

    virtual.run(remote(provider, story))


def test_s109_an_endpoint_that_is_down_is_left_alone_and_tried_once_in_a_while() -> None:
    """After three requests in a row without an answer turns fail at once; when it is back, so are the answers."""
    provider = Provider()
    provider.down = True

    async def story(house: Any, device: Device) -> None:
        asyncio.get_running_loop().call_later(60.0, setattr, provider, "down", False)
        caller = await visit(house, types("a", *[0.5] * 250), ident="a")
        health = device.health().breakers["llm"]
        assert health.state is BreakerState.CLOSED and health.opened >= 5 and health.refused > 100
        assert len([at for at in provider.asked["a"] if at < 1060.0]) < 3 + 1 + 10
        assert caller.verdicts.index("failed") == 0 and caller.verdicts[-1] in ("met", "missed")
        first = next(index for index, verdict in enumerate(caller.verdicts) if verdict != "failed")
        assert "failed" not in caller.verdicts[first:]

    virtual.run(remote(provider, story))


def test_s139_an_endpoint_that_opens_a_stream_and_sends_nothing_trips_the_deadline() -> None:
    """A typed error within its limit, and nothing of the request is left."""
    provider = Provider()
    provider.silent = True

    async def story(house: Any, device: Device) -> None:
        caller = await visit(house, types("a", 0.0), ident="a")
        assert (caller.verdicts, caller.errors) == (["failed"], ["engine_timeout"])
        assert caller.at(wire.TurnEnded) == pytest.approx(5.0, abs=0.1)
        assert device.snapshot().lanes["remote"].running == 0

    virtual.run(remote(provider, story))


def test_s110_an_engine_that_fails_and_recovers_is_not_given_up_over_hours() -> None:
    """The count begins anew with each answer: a hundred failed turns, never five in a row."""
    faults = [MemoryError(), MemoryError()] * 4 + [None]

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(125):
            await caller.send(wire.InputText("Hello."))
            await caller.pause_until_verdict(number + 1)
        await caller.end()

    own_words = NumberedLlm(SHORT, 1)  # what was said before is not made again
    caller = call(script, engines(SHORT, llm=own_words, tts=FaultyTts(SHORT, faults * 25)))
    assert caller.verdicts == (["failed"] * 4 + ["met"]) * 25


def test_s110_an_engine_that_fails_for_good_ends_the_session_with_a_reason() -> None:
    """After five turns in a row, all of which were told; its place is free for others."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(9):
            await caller.send(wire.InputText("Hello."))
            await caller.pause_until_verdict(number + 1)

    caller = call(script, engines(SHORT, tts=FaultyTts(SHORT, [MemoryError()] * 99)))
    assert caller.verdicts == ["failed"] * 5
    assert caller.errors == ["engine_failed"] * 5 + ["engine_exhausted"]
    assert caller.closed is not None
    assert (caller.closed.code, caller.closed.reason) == (1013, "engine_exhausted")


class Stubborn(FaultyTts):
    """Its first step swallows every cancellation for so long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(SHORT, [])
        first = [seconds]

        class Swallows(Faults):
            async def around(self, chunk: Callable[[], Any]) -> Any:
                loop = asyncio.get_running_loop()
                until = loop.time() + (first.pop() if first else 0.0)
                while loop.time() < until:
                    try:
                        await asyncio.sleep(until - loop.time())
                    except asyncio.CancelledError:
                        continue
                value = chunk()
                return await value if asyncio.iscoroutine(value) else value

        self.faults = Swallows(())


def test_s113_a_coroutine_that_swallows_its_cancellation_is_left_behind_and_counted() -> None:
    """The cancel is bounded by time, the turn has failed, the session goes on; when it ends it counts no more."""

    async def main() -> None:
        async with open_house(engines(SHORT, tts=Stubborn(30.0)), health=HEALTH) as house:

            async def script(caller: Caller) -> None:
                await caller.start()
                for number in (1, 2):
                    await caller.send(wire.InputText("Hello."))
                    await caller.pause_until_verdict(number)
                assert caller.at(wire.TurnEnded) < 2.0 + 1.0 + 0.2
                assert house.services.device.health().abandoned["main"] == 1
                await caller.end()

            caller = await visit(house, script)
            assert (caller.verdicts, caller.errors) == (["failed", "met"], ["engine_timeout"])
            await asyncio.sleep(30.0)
            assert house.services.device.health().abandoned["main"] == 0
        check_nothing_left()

    virtual.run(main())


class DeafAfter(ScriptedVad):
    """Blocks a thread for ever in its n-th frame."""

    def __init__(self, frames: int) -> None:
        self.left = frames

    def open(self) -> Any:
        vad, stream = self, super().open()
        probability = stream.probability

        def blocking(frame: Any) -> float:
            vad.left -= 1
            if vad.left == 0:
                burn(inf)
            return probability(frame)

        stream.probability = blocking  # type: ignore[method-assign]
        return stream


def test_s101_ears_that_hang_hear_again_with_a_state_of_their_own() -> None:
    """The turn in which it happens has failed, the next one is heard."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.5)
        await caller.pause_until_verdict(1)
        await caller.pause(1.0)
        await caller.speak(0.5)
        await caller.pause_until_verdict(2)
        await caller.end()

    async def main() -> Caller:
        async with open_house(engines(SHORT, vad=DeafAfter(6)), health=HEALTH) as house:
            return await visit(house, script)

    caller = virtual.run(main())
    assert (caller.verdicts[0], caller.verdicts[-1]) == ("failed", "met")
    assert caller.errors == ["engine_timeout"]


@pytest.mark.parametrize("how", ["slow_reader", "hung", "drained"])
def test_s148_a_slot_comes_back_from_these_ends_too(how: str) -> None:
    """A client that takes nothing, an engine that hangs in its turn, a server that goes away."""

    async def main() -> None:
        tts = FaultyTts(SHORT, [Hang(20.0)] if how == "hung" else [])
        async with open_house(engines(SHORT, slots=1, tts=tts), limits(send_timeout_s=1.0), health=HEALTH) as house:
            draining = asyncio.Event()
            house.services = replace(house.services, draining=draining)

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.send(wire.InputText("Hello."))
                await caller.wait(0.05)
                match how:
                    case "slow_reader":
                        caller.reading = False
                        for _ in range(30):
                            await caller.send(wire.InputText("Hello."))
                    case "hung":
                        await caller.end()
                    case "drained":
                        draining.set()
                        await caller.pause_until_verdict(1)
                        await caller.gone()

            await visit(house, script, capacity=8 if how == "slow_reader" else 1000)
            await asyncio.sleep(5.0)
            assert house.leased == 0
            draining.clear()
            assert (await visit(house, speaks_once, ident="next")).verdicts == ["met"]

    virtual.run(main())


def test_s149_a_server_that_goes_away_closes_every_socket_with_1012_within_its_grace() -> None:
    """Idle, in a turn that takes longer, with a full queue: never 1006, never endless, and nobody gets in."""

    async def main() -> None:
        counts = Counts()
        longer = ScriptedConfig(reply="word " * 60)  # than the grace
        async with open_house(engines(longer, slots=4), limits(send_timeout_s=1.0)) as house:

            async def handler(connection: Connection, grant: Grant) -> None:
                await serve_session(connection, house.services, f"s{grant.lease_id}")

            settings = ServerSettings(send_timeout_s=1.0, grace_s=3.0, close_timeout_s=1.0)
            server = MemoryServer(
                settings, handler, CountAdmission(4), counts, lambda: Readiness(True), lambda: 1.0
            )
            house.services = replace(house.services, draining=server.draining)
            sockets = [server.connect({}, 16, lambda socket, data: None) for _ in range(5)]
            readers = [asyncio.ensure_future(read(socket)) for socket in sockets[:3]]
            for number, socket in enumerate(sockets[:4]):
                start = wire.SessionStart(audio=wire.AudioFormat(rate=16_000), protocol="voicepipe.v1")
                await socket.far.send(encode_client(start))
                for _ in range((0, 1, 1, 9)[number]):
                    await socket.far.send(encode_client(wire.InputText("Hello.")))
            await asyncio.sleep(0.1)
            began = asyncio.get_running_loop().time()
            await server.stop(3.0)
            assert asyncio.get_running_loop().time() - began <= 3.0 + 2 * 1.0 + 0.1
            assert [socket.near.closed_with for socket in sockets[:3]] == [(1012, "the server goes away")] * 3
            assert sockets[3].near.closed_with is not None and sockets[3].near.closed_with[0] in (1012, 4409, 1008)
            assert sockets[4].near.closed_with is not None and sockets[4].near.closed_with[0] == 1013
            for reader in readers:
                kinds, closed = await reader
                assert "Draining" in kinds and closed.code == 1012
            late = server.connect({}, 16, lambda socket, data: None)
            await asyncio.sleep(0.1)
            assert late.near.closed_with == (1006, "503") and server.live == 0
            assert counts.leases["session"] == 0
        check_nothing_left()

    virtual.run(main())


async def read(socket: Socket) -> tuple[list[str], ConnectionClosed]:
    kinds: list[str] = []
    try:
        while True:
            kinds.append(type(decode_server(await socket.far.recv())).__name__)
    except ConnectionClosed as closed:
        return kinds, closed
