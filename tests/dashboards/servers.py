"""The servers that a Prometheus watches: one under load, one at rest, and one for each thing that can go wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from msgspec import structs
from prometheus_client import CollectorRegistry

from tests.dashboards.trouble import BrokenLlm, BuggyLlm, FickleAsr, HangingLlm, SlowVad
from voicepipe.app import Serving, serving
from voicepipe.audio import Samples, silence
from voicepipe.config import (
    AdmissionConfig,
    Config,
    EnginesConfig,
    LimitsConfig,
    LlmPool,
    OverloadConfig,
    ScriptedConfig,
)
from voicepipe.core.cost import CostKey, CostSnapshot, KeyCost
from voicepipe.core.events import WorkKind
from voicepipe.engines.base import ChatMessage, Engines, TextRequest
from voicepipe.engines.table import load
from voicepipe.errors import ConnectionLost, Refused, VoicepipeError
from voicepipe.metrics import Metrics
from voicepipe.wire.messages import TurnCommitted, TurnEnded
from voicepipe_client import Clip, ClipSource, connect, talk

RATE_HZ = 16_000
SPEECH = (0.2 * np.sin(np.arange(RATE_HZ // 2) * 0.2)).astype(np.float32)
QUICK = ScriptedConfig(asr_ms=2.0, llm_prefill_ms=2.0, llm_token_ms=1.0, tts_ms=2.0, turn_model_ms=2.0)
"""Of a server that is not looked at for its times: it is warm at once."""
Start = Callable[..., Awaitable[Serving]]
"""(name, configuration, engines in the place of the scripted ones)"""
CALM = OverloadConfig(loop_lag_ms=10_000, input_age_ms=10_000, backlog_ms=10_000)


def scripted(
    script: ScriptedConfig | None = None, *, text_slots: int = 0, llm_pool: LlmPool = "dedicated", **options: Any
) -> Config:
    engines = EnginesConfig(kind="scripted", scripted=script or QUICK, text_slots=text_slots, llm_pool=llm_pool)
    limits = LimitsConfig(max_sessions=2, grace_s=0.2)
    return Config(**{"port": 0, "engines": engines, "limits": limits, "overload": CALM, **options})


def loader(config: Config, **others: Any) -> Callable[[], Engines]:
    """`others`: engines in the place of the scripted ones, by name."""

    def make() -> Engines:
        engines = load(config.engines, None, sessions=config.limits.max_sessions, api_key=None)
        return dataclasses.replace(engines, **others)

    return make


# --- who calls


def saying(*spans: tuple[float, float]) -> Samples:
    """(seconds of speech, seconds of silence)"""
    return np.concatenate(
        [
            np.concatenate([np.resize(SPEECH, round(loud_s * RATE_HZ)), silence(round(quiet_s * RATE_HZ))])
            for loud_s, quiet_s in spans
        ]
    )


async def caller(served: Serving, budget_ms: float, said: Samples = SPEECH) -> None:
    """Asks again and again, in sessions of one question; who is refused comes back."""
    loop = asyncio.get_running_loop()
    while True:
        source = ClipSource([Clip("tone", said, len(said))], RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
        try:
            async with connect(url_of(served), rate=RATE_HZ, budget_ms=budget_ms) as session:
                await talk(session, source)
        except Refused:
            await asyncio.sleep(0.2)


async def typist(served: Serving) -> None:
    """Writes again and again; a session that ends is begun anew."""
    while True:
        with suppress(VoicepipeError):
            async with connect(url_of(served), rate=RATE_HZ) as session:
                await session.send_text("Hello.")
                async for event in session:
                    if isinstance(event, TurnEnded):
                        await session.send_text("And again.")
        await asyncio.sleep(0.1)


async def listener(served: Serving) -> None:
    """Is there, and says nothing."""
    with suppress(ConnectionLost):
        async with connect(url_of(served), rate=RATE_HZ) as session:
            async for _ in session:
                pass


async def passer_by(served: Serving) -> None:
    """Asks once, and leaves while it is being answered."""
    async with connect(url_of(served), rate=RATE_HZ) as session:
        await session.send_text("Hello.")
        async for event in session:
            if isinstance(event, TurnCommitted):
                return


async def writer(served: Serving) -> None:
    """Has one text made after the other."""
    assert served.texts is not None
    while True:
        with served.texts.open(TextRequest((ChatMessage("user", "Go on."),), 200, 1.0, 1.0, 1)) as text:
            async for _ in text.pieces():
                pass


def url_of(served: Serving) -> str:
    return f"ws://127.0.0.1:{served.server.port}"


# --- servers


@asynccontextmanager
async def servers(group: asyncio.TaskGroup) -> AsyncIterator[dict[str, int]]:
    """Instance to port. All are real but `figures`."""
    async with AsyncExitStack() as stack:
        started: dict[str, Serving] = {}

        async def start(name: str, config: Config, **others: Any) -> Serving:
            started[name] = await stack.enter_async_context(serving(config, loader(config, **others)))
            for engine in others.values():
                engine.broken = True
            return started[name]

        tasks = [group.create_task(work) for work in await ordinary(start) + await troubled(start, stack)]
        try:
            with warming() as warms, lagging() as lags, figures() as shown, nobody() as gone:
                ports = {name: served.server.port for name, served in started.items()}
                yield {**ports, "warming": warms, "lagging": lags, "figures": shown, "gone": gone}
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def ordinary(start: Start) -> list[Coroutine[Any, Any, None]]:
    """Servers as they are, and who calls them."""
    admission = AdmissionConfig(policy="count", waiting_places=1, waiting_s=1.0, burst=4)
    busy = await start("busy", scripted(ScriptedConfig(), admission=admission))
    await start("quiet", scripted())
    slow = await start("slow", scripted(ScriptedConfig(tts_ms=300.0)))
    await start("pressed", scripted(overload=OverloadConfig(loop_lag_ms=0.000_001)))
    crowded = await start(
        "crowded", scripted(structs.replace(QUICK, llm_token_ms=40.0), text_slots=1, llm_pool="monolithic")
    )
    asking = [caller(busy, budget_ms) for budget_ms in (60.0, 60.0, 2000.0, 2000.0)]
    return [*asking, listener(slow), writer(crowded), caller(crowded, 2000.0)]


async def troubled(start: Start, stack: AsyncExitStack) -> list[Coroutine[Any, Any, None]]:
    """Servers with an engine that gives trouble, and who calls them."""
    plain = scripted()
    patient = scripted(structs.replace(QUICK, tts_ms=40.0, reply="Yes."), operating_point="safe")
    broken = await start("broken", plain, llm=BrokenLlm(QUICK, 2))
    faulty = await start("faulty", plain, llm=BuggyLlm(QUICK, 2))
    hanging = HangingLlm(QUICK, 2)
    stack.callback(hanging.go_on.set)
    lenient = structs.replace(plain.limits, chunk_s=120.0, engine_timeout_s=120.0)
    hung = await start("hung", structs.replace(plain, limits=lenient), llm=hanging)
    deaf = await start("deaf", plain, vad=SlowVad())
    hasty = await start("hasty", patient, asr=FickleAsr(patient.engines.scripted))
    hesitant = saying((0.5, 0.25), (0.5, 0.25), (0.5, 0.25), (0.5, 0.0))
    return [
        typist(broken),
        typist(faulty),
        passer_by(hung),
        *(caller(deaf, 2000.0) for _ in range(2)),
        caller(hasty, 2000.0, hesitant),
    ]


@contextmanager
def in_thread(main: Callable[[asyncio.Event, Callable[[int], None]], Any]) -> Iterator[int]:
    """A server with an event loop of its own: `main` is told when to end, and tells its port."""
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    told, port = threading.Event(), 0

    def tell(number: int) -> None:
        nonlocal port
        port = number
        told.set()

    async def run() -> None:
        end = asyncio.Event()
        loops.append((asyncio.get_running_loop(), end))
        await main(end, tell)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert told.wait(20)
    try:
        yield port
    finally:
        loop, end = loops[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(20)


@contextmanager
def warming() -> Iterator[int]:
    """One whose engines load, and load."""
    config, go_on = scripted(), threading.Event()

    def slow() -> Engines:
        assert go_on.wait(120)
        return loader(config)()

    async def main(end: asyncio.Event, tell: Callable[[int], None]) -> None:
        async with serving(config, slow, on_listening=tell):
            await end.wait()

    with in_thread(main) as port:
        try:
            yield port
        finally:
            go_on.set()


@contextmanager
def lagging() -> Iterator[int]:
    """One whose event loop is held up for 50 ms, all the time."""
    config = scripted()

    async def main(end: asyncio.Event, tell: Callable[[int], None]) -> None:
        async with serving(config, loader(config)) as served:
            tell(served.server.port)
            while not end.is_set():
                time.sleep(0.05)  # noqa: ASYNC251 - that is what is shown
                await asyncio.sleep(0.001)

    with in_thread(main) as port:
        yield port


@contextmanager
def figures() -> Iterator[int]:
    """No server, but what its metrics would say if bounds were too low. Of a real one they follow any engine that
    does not tire for minutes."""
    metrics = Metrics(CollectorRegistry())
    key = CostKey(WorkKind.THINK, "m", "cpu", "decode")
    cost = KeyCost(n=1000, coverage=0.8, q=2.0, base_s=0.01, per_unit_s=0.0, per_context_s=0.0, widened=0)
    metrics.follow_costs(lambda: CostSnapshot({key: cost}))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", metrics.CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(metrics.exposition())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def nobody() -> Iterator[int]:
    """A port that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
