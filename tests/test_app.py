"""A whole server with scripted engines on a real loopback socket: turns, callers that vanish, two at once."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from voicepipe.app import Serving, achievable_ms, serving
from voicepipe.audio import to_pcm16
from voicepipe.config import (
    AcknowledgeConfig,
    AdmissionConfig,
    Config,
    EnginesConfig,
    LimitsConfig,
    OverloadConfig,
    PolicyName,
    ScriptedConfig,
)
from voicepipe.engines.base import Engines
from voicepipe.engines.table import load
from voicepipe.errors import ConnectionLost, EngineError, PortInUse, Refused, ServerDrained
from voicepipe.warmup import WarmUp
from voicepipe.wire.native import ReplyAcknowledged, TurnEnded
from voicepipe_client import Clip, ClipSource, Event, Session, connect, talk

RATE_HZ = 16_000
SPEECH = (0.2 * np.sin(np.arange(RATE_HZ) * 0.2)).astype(np.float32)
"""A second of tone: speech to the scripted VAD."""


def scripted(
    sessions: int = 2, policy: PolicyName = "count", **script: object
) -> tuple[Config, Callable[[], Engines]]:
    """Nothing that goes by how busy this machine is."""
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(**script)),  # type: ignore[arg-type]
        limits=LimitsConfig(max_sessions=sessions, grace_s=0.5),
        admission=AdmissionConfig(policy=policy),
        overload=OverloadConfig(loop_lag_ms=10_000, input_age_ms=10_000, backlog_ms=10_000),
    )
    return config, lambda: load(config.engines, None, sessions=sessions, api_key=None)


def url(served: Serving) -> str:
    return f"ws://127.0.0.1:{served.server.port}"


async def ask(served: Serving, clips: int = 1) -> list[tuple[str, str]]:
    """(transcript, reply) of each turn."""
    loop = asyncio.get_running_loop()
    source = ClipSource([Clip("tone", SPEECH, len(SPEECH))] * clips, RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
    async with connect(url(served), rate=RATE_HZ) as session:
        report = await talk(session, source)
    return [(record.transcript, record.reply) for record in report.turns]


async def test_a_spoken_turn_is_heard_answered_and_judged() -> None:
    """Through every layer once: the transcript, the reply, a verdict, and a gap that the client measures."""
    config, loader = scripted(transcripts=("One two three.",), reply="Four five.")
    async with serving(config, loader) as served, connect(url(served), rate=RATE_HZ) as session:
        loop = asyncio.get_running_loop()
        source = ClipSource([Clip("tone", SPEECH, RATE_HZ)], RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
        (record,) = (await talk(session, source)).turns
    assert (record.transcript, record.reply) == ("One two three.", "Four five.")
    assert record.verdict in ("met", "missed")
    assert record.felt_ms is not None and record.felt_ms > 96  # no turn ends before its silence
    felt = sum(
        getattr(record.stages, stage).wait_ms + getattr(record.stages, stage).service_ms
        for stage in ("endpoint", "asr", "llm", "tts", "send")
    )
    assert felt == pytest.approx(record.felt_ms, abs=60)


async def test_two_callers_at_once_hear_only_their_own() -> None:
    """The n-th utterance of a session is the n-th text, whatever another session says meanwhile."""
    config, loader = scripted(transcripts=("First.", "Second.", "Third."), reply="Yes.")
    async with serving(config, loader) as served, asyncio.TaskGroup() as group:
        one, two = group.create_task(ask(served, 3)), group.create_task(ask(served, 2))
    assert one.result() == [("First.", "Yes."), ("Second.", "Yes."), ("Third.", "Yes.")]
    assert two.result() == [("First.", "Yes."), ("Second.", "Yes.")]


@dataclass(frozen=True)
class Holdings:
    """What a process holds."""

    tasks: int
    files: int
    sessions: float
    leases: float


def page(served: Serving, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{served.server.port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


async def holdings(served: Serving) -> Holdings:
    text = await asyncio.to_thread(page, served, "/metrics")
    gc.collect()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return Holdings(
        len(asyncio.all_tasks()),
        len(os.listdir("/proc/self/fd")),
        float(values["voicepipe_sessions_active"]),
        float(values['voicepipe_leases{kind="session"}']),
    )


async def killed(served: Serving, after_s: float) -> None:
    """A caller that speaks, and whose connection breaks without a close after so long."""
    async with connect(url(served), rate=RATE_HZ) as session, asyncio.TaskGroup() as group:
        speaking = group.create_task(_speak(session))
        hearing = group.create_task(_hear(session))
        await asyncio.sleep(after_s)
        session._connection.transport.abort()  # type: ignore[attr-defined]
        speaking.cancel()
        hearing.cancel()


async def _speak(session: Session) -> None:
    frames = [to_pcm16(SPEECH[at : at + 320]) for at in range(0, 16_000, 320)] + [bytes(640)] * 150
    begun = asyncio.get_running_loop().time()
    for number, frame in enumerate(frames):
        await asyncio.sleep(begun + 0.02 * number - asyncio.get_running_loop().time())
        await session.send_audio(frame)


async def _hear(session: Session) -> None:
    async for _ in session:
        pass


async def test_callers_that_vanish_at_any_instant_leave_nothing_behind() -> None:
    """200 connections broken within their first 2.5 seconds: tasks, files, sessions, slots as before."""
    config, loader = scripted(40, transcripts=("One two three.",), reply="Four five six seven eight nine.")
    rng = random.Random(7)
    async with serving(config, loader) as served:
        await ask(served)  # whatever is made once has been made
        before = await holdings(served)
        for _ in range(5):
            async with asyncio.TaskGroup() as group:
                for _ in range(40):
                    group.create_task(killed(served, rng.uniform(0.0, 2.5)))
            await until(served, lambda now: now.sessions == 0)
        await until(served, lambda now: now == before)  # a chunk that was running has ended, too
        assert served.engines.llm.leased == 0  # type: ignore[attr-defined]
        assert await ask(served) == [("One two three.", "Four five six seven eight nine.")]


async def until(served: Serving, condition: Callable[[Holdings], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition(await holdings(served)):  # noqa: ASYNC110 - across a socket there is no event
            await asyncio.sleep(0)


async def test_the_server_listens_before_it_is_ready() -> None:
    """Loading takes long: the port is open and says that it is warming up, and a caller is told to wait."""
    config, loader = scripted()
    loading, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    ports: list[int] = []

    def slow() -> Engines:
        loop.call_soon_threadsafe(loading.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return loader()

    def status(port: int) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:
                assert json.loads(refused.read())["reason"] == "warming_up"
            return refused.code

    async def look() -> None:
        await loading.wait()
        assert await asyncio.to_thread(status, ports[0]) == 503
        go_on.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(look())
        async with serving(config, slow, on_listening=ports.append) as served:
            assert await asyncio.to_thread(status, served.server.port) == 200


async def test_a_port_in_use_is_said_before_anything_is_loaded() -> None:
    """The error names the address; the models are not even touched."""
    config, loader = scripted()

    def never() -> Engines:
        raise AssertionError("loaded in vain")

    async with serving(config, loader) as served:
        taken = Config(port=served.server.port)
        with pytest.raises(PortInUse, match=str(served.server.port)):
            async with serving(taken, never):
                raise AssertionError("two servers on one port")


async def test_an_engine_that_cannot_warm_up_stops_the_start() -> None:
    """Its error comes out of `serving`; nothing keeps listening."""
    config, loader = scripted()

    def broken() -> Engines:
        loader()
        raise EngineError("no such device")

    with pytest.raises(EngineError, match="no such device"):
        async with serving(config, broken):
            raise AssertionError("ready with a broken engine")


async def test_a_drain_lets_the_running_turn_end() -> None:
    """Told to stop in mid-turn: the turn is answered to its end, then the connection closes with 1012."""
    config, loader = scripted(transcripts=("One.",), reply="Two three four.")
    config = msgspec.structs.replace(config, limits=LimitsConfig(max_sessions=2, grace_s=8.0))
    async with serving(config, loader) as served, connect(url(served), rate=RATE_HZ) as session:
        await session.send_text("Hello.")
        seen: list[str] = []
        async with asyncio.TaskGroup() as group:
            with pytest.raises(ServerDrained, match="1012"):
                async for event in session:
                    name = type(event).__name__
                    if name == "TurnCommitted":
                        group.create_task(served.server.stop(8.0))
                    if name != "AudioFrame":
                        seen.append(name)
    assert seen.index("Draining") < seen.index("TurnEnded")
    assert seen[-1] == "TurnEnded"
    assert session.close_code == 1012


def test_the_achievable_gap_is_the_longer_of_silence_and_work() -> None:
    """The work begins with the lull, the silence with the VAD's first frame of it."""
    warm = WarmUp(final_s=0.07, clause_s=0.08, audio_s=0.05)
    assert achievable_ms(warm, Config(), 0.04) == pytest.approx(220)
    assert achievable_ms(warm, Config(operating_point="safe"), 0.04) == pytest.approx(1416)


async def test_an_error_inside_the_block_comes_out_as_it_is() -> None:
    """The command line catches errors by their class: no group is wrapped around them."""
    config, loader = scripted()
    with pytest.raises(ConnectionLost):
        async with serving(config, loader):
            raise ConnectionLost("the other side went away")


async def test_a_late_turn_is_acknowledged_in_the_servers_own_voice() -> None:
    """Rendered before the server is ready, at the rate that the caller asks for; the client measures the content.
    A busy machine may be late with the sound too, which masks nothing then."""
    words = ("One two three four five six.",)
    config, loader = scripted(transcripts=words, reply="Four five.", llm_prefill_ms=450.0)
    config = msgspec.structs.replace(
        config, ladder=("acknowledge",), acknowledge=AcknowledgeConfig(texts=("Hm.", "Well then."), one_in=1)
    )
    told: list[ReplyAcknowledged] = []

    def on_event(event: Event, at: float) -> None:
        if isinstance(event, ReplyAcknowledged):
            told.append(event)

    async with (
        serving(config, loader) as served,
        connect(url(served), rate=RATE_HZ, output_rate=8_000, budget_ms=300.0) as session,
    ):
        loop = asyncio.get_running_loop()
        clip = Clip("tone", SPEECH, RATE_HZ)
        source = ClipSource([clip, clip], RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
        turns = (await talk(session, source, on_event=on_event)).turns
    assert {turn.verdict for turn in turns} <= {"masked", "missed"} and len(turns) == 2
    assert [one.samples for one in told] == [2_400, 4_800]
    assert all(turn.felt_ms is not None and turn.felt_ms > 400 and turn.reply == "Four five." for turn in turns)


# --- admission


def metric(page: str, name: str, **labels: str) -> float:
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        found, _, inside = series.partition("{")
        if found == f"voicepipe_{name}" and wanted <= set(inside.rstrip("}").split(",")):
            return float(value)
    raise AssertionError(f"no {name} {labels}")


async def page_of(served: Serving) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
    page = await reader.read()
    writer.close()
    return page.decode()


async def test_a_machine_too_slow_for_its_budget_serves_one_and_says_why_no_more() -> None:
    """300 ms for a clause's sound: no turn makes 200, and an idle server takes a session all the same."""
    config, loader = scripted(4, "deadline", tts_ms=300.0)
    async with serving(config, loader) as served, connect(url(served), rate=RATE_HZ):
        with pytest.raises(Refused) as caught:
            async with connect(url(served), rate=RATE_HZ):
                pass
        assert caught.value.reason == "burst" and 750 <= caught.value.retry_after_ms <= 37_500
        page = await page_of(served)
    assert metric(page, "admission_decisions_total", policy="deadline", decision="admitted", reason="") == 1
    assert metric(page, "admission_decisions_total", policy="deadline", decision="refused", reason="burst") == 1
    assert metric(page, "admission_use", policy="deadline", limit="burst") > 1.0
    assert metric(page, "refusals_total", reason="burst") == 1
    assert metric(page, "refusal_seconds_count") == 1
    assert metric(page, "overload_level") == 0.0


async def test_the_cost_of_a_turn_is_what_finished_turns_took() -> None:
    """The warm-up expects 30 ms; the answers that people get take longer, and admission learns it of turns."""
    config, loader = scripted(4, "deadline", asr_ms=10.0, llm_prefill_ms=1.0, llm_token_ms=1.0, tts_ms=10.0)
    async with serving(config, loader) as served:
        before = served.demand.snapshot()
        await ask(served)
        after = served.demand.snapshot()
    assert before.turns == 0 and after.turns >= 1
    learnt = after.hit if after.hit_rate else after.miss
    assert learnt.path_s != before.miss.path_s and 0.005 < learnt.path_s < 0.15
    assert after.share != before.share


async def test_without_a_cap_in_the_way_many_are_admitted_and_the_burst_refuses_the_rest() -> None:
    config, loader = scripted(40, "deadline")
    config = msgspec.structs.replace(config, admission=AdmissionConfig(loop_lag_ms=1000.0))
    async with serving(config, loader) as served, AsyncExitStack() as stack:
        admitted, reasons = 0, set()
        for _ in range(40):
            try:
                await stack.enter_async_context(connect(url(served), rate=RATE_HZ))
                admitted += 1
            except Refused as refused:
                reasons.add(refused.reason)
        assert 3 <= admitted <= 20 and reasons == {"burst"}


async def test_an_engine_that_is_stuck_makes_the_server_not_ready_until_it_is_not() -> None:
    """More calls than may be abandoned do not end: nobody else is let in, and everybody may know why."""
    config, _ = scripted(reply="Four five.", occupy="spin", tts_ms=0)
    limits = msgspec.structs.replace(config.limits, chunk_s=0.1, abandoned_chunks=0, engine_timeout_s=0.5)
    config = msgspec.structs.replace(config, limits=limits)
    go_on, hangs = threading.Event(), threading.Event()

    def loader() -> Engines:
        engines = load(config.engines, None, sessions=2, api_key=None)
        synthesize = engines.tts.synthesize

        def hanging(text: str, *args: Any, **more: Any) -> Any:
            synthesis = synthesize(text, *args, **more)
            step = synthesis.step

            def block() -> Any:
                if hangs.is_set():
                    go_on.wait(30)
                return step()

            synthesis.step = block  # type: ignore[method-assign]
            return synthesis

        engines.tts.synthesize = hanging  # type: ignore[method-assign]
        return engines

    async with serving(config, loader) as served:
        assert served.server.readiness().ready
        hangs.set()
        async with connect(url(served), rate=RATE_HZ) as session:
            await session.send_text("Hello.")
            async for event in session:
                if isinstance(event, TurnEnded):
                    assert (event.verdict, event.reason) == ("failed", "engine_timeout")
                    break
            readiness = served.server.readiness()
            assert (readiness.ready, readiness.reason) == (False, "engine_stuck")
            with pytest.raises(Refused, match="engine_stuck"):
                async with connect(url(served), rate=RATE_HZ):
                    pass
            assert 'voicepipe_lane_held{lane="cpu"} 1.0' in await asyncio.to_thread(page, served, "/metrics")
            hangs.clear()
            go_on.set()
            async with asyncio.timeout(10):
                await served.on_thread(lambda: None)  # behind the call that has ended
        while not served.server.readiness().ready:  # noqa: ASYNC110 - the thread has ended; the loop hears of it next
            await asyncio.sleep(0)
