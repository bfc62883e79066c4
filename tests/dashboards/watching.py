"""A Prometheus of one's own, and the servers that it watches: one under load, one at rest, and one for each thing
that can go wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from prometheus_client import CollectorRegistry

from voicepipe.app import Serving, serving
from voicepipe.config import (
    AdmissionConfig,
    Config,
    EnginesConfig,
    LimitsConfig,
    OverloadConfig,
    ScriptedConfig,
)
from voicepipe.core.cost import CostKey, CostSnapshot, KeyCost
from voicepipe.core.events import Speculation, TurnRecord, Verdict, WorkKind
from voicepipe.engines.base import Engines, LlmStep, MaybeAwaitable, Prompt
from voicepipe.engines.scripted import ScriptedGeneration, ScriptedLlm, ScriptedLlmSlot
from voicepipe.engines.table import load
from voicepipe.errors import ConnectionLost, EngineError, Refused, VoicepipeError
from voicepipe.metrics import Metrics
from voicepipe.wire.messages import TurnEnded
from voicepipe_client import Clip, ClipSource, connect, talk

RATE_HZ = 16_000
SPEECH = (0.2 * np.sin(np.arange(RATE_HZ // 2) * 0.2)).astype(np.float32)
QUICK = ScriptedConfig(asr_ms=2.0, llm_prefill_ms=2.0, llm_token_ms=1.0, tts_ms=2.0, turn_model_ms=2.0)
"""Of a server that is not looked at for its times: it is warm at once."""
CALM = OverloadConfig(loop_lag_ms=10_000, input_age_ms=10_000, backlog_ms=10_000)
SHORTER = {"5m": "4s", "15m": "6s", "1h": "6s", "6h": "8s"}
"""Windows of the rules, for a test."""


def scripted(script: ScriptedConfig | None = None, **options: Any) -> Config:
    engines = EnginesConfig(kind="scripted", scripted=script or QUICK)
    limits = LimitsConfig(max_sessions=2, grace_s=0.2)
    return Config(**{"port": 0, "engines": engines, "limits": limits, "overload": CALM, **options})


def loader(config: Config, llm: Callable[[Engines], ScriptedLlm] | None = None) -> Callable[[], Engines]:
    def make() -> Engines:
        engines = load(config.engines, None, sessions=config.limits.max_sessions, api_key=None)
        return engines if llm is None else dataclasses.replace(engines, llm=llm(engines))

    return make


# --- what goes wrong


class BrokenLlm(ScriptedLlm):
    """Works until it is told not to."""

    broken = False

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        make = BrokenGeneration if self.broken else ScriptedGeneration
        return make(self._config, self._occupier, prompt.max_tokens)


class BrokenGeneration(ScriptedGeneration):
    def step(self) -> MaybeAwaitable[LlmStep]:
        raise EngineError("the model has gone away")


class BuggyLlm(ScriptedLlm):
    """Has a fault that nobody has foreseen."""

    broken = False

    def open(self, session: str) -> ScriptedLlmSlot:
        if self.broken:
            raise RuntimeError("a fault of ours")
        return super().open(session)


async def caller(served: Serving, budget_ms: float) -> None:
    """Asks again and again, in sessions of one question; who is refused comes back."""
    loop = asyncio.get_running_loop()
    while True:
        source = ClipSource([Clip("tone", SPEECH, len(SPEECH))], RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
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


def url_of(served: Serving) -> str:
    return f"ws://127.0.0.1:{served.server.port}"


# --- servers


@asynccontextmanager
async def servers(group: asyncio.TaskGroup) -> AsyncIterator[dict[str, int]]:
    """Instance to port. All are real but `figures`."""
    async with AsyncExitStack() as stack:

        async def start(config: Config, make: Callable[[], Engines] | None = None) -> Serving:
            return await stack.enter_async_context(serving(config, make or loader(config)))

        busy = await start(
            scripted(
                ScriptedConfig(),
                admission=AdmissionConfig(policy="count", waiting_places=1, waiting_s=1.0, burst=4),
            )
        )
        quiet = await start(scripted())
        slow = await start(scripted(ScriptedConfig(tts_ms=300.0)))
        pressed = await start(scripted(overload=OverloadConfig(loop_lag_ms=0.000_001)))
        failing, buggy = scripted(), scripted()
        broken = await start(failing, loader(failing, lambda engines: BrokenLlm(failing.engines.scripted, 2)))
        faulty = await start(buggy, loader(buggy, lambda engines: BuggyLlm(buggy.engines.scripted, 2)))
        for served in (broken, faulty):
            served.engines.llm.broken = True  # type: ignore[attr-defined]
        tasks = [group.create_task(caller(busy, budget_ms)) for budget_ms in (60.0, 60.0, 2000.0, 2000.0)]
        tasks += [group.create_task(work) for work in (listener(slow), typist(broken), typist(faulty))]
        ports = {"busy": busy, "quiet": quiet, "slow": slow, "pressed": pressed, "broken": broken, "faulty": faulty}
        try:
            with warming() as warms, lagging() as lags, figures() as shown, nobody() as gone:
                yield {name: served.server.port for name, served in ports.items()} | {
                    "warming": warms,
                    "lagging": lags,
                    "figures": shown,
                    "gone": gone,
                }
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


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
    """No server, but what its metrics would say if: sound waits, leases do not come back, bounds are too low,
    background blocks, and speculation is in vain. To bring a server there would take minutes, or a fault."""
    metrics = Metrics(CollectorRegistry())
    key = CostKey(WorkKind.THINK, "m", "cpu", "decode")
    cost = KeyCost(n=1000, coverage=0.8, q=2.0, base_s=0.01, per_unit_s=0.0, per_context_s=0.0, widened=0)
    metrics.follow_costs(lambda: CostSnapshot({key: cost}))
    metrics.lane_known("cpu", frozenset({"llm"}))
    metrics.lease_taken("session")
    metrics.lease_taken("llm")
    ahead = Speculation(attempts=6, wasted_s=0.9)
    record = TurnRecord(1, Verdict.MET, 0.15, 0.02, {}, ahead, None, background_s=0.05)

    def go_on() -> None:
        metrics.chunk_waited("asr", 0.3, is_input=True)
        metrics.turn_ended("met", 0.15, 0.02)
        metrics.turn_recorded(record)
        metrics.chunk_done("cpu", "llm", "speculation", 1.0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            go_on()
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


# --- Prometheus


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def has_data(self, query: str) -> bool:
        """A value that is a number."""
        found = self.get("/api/v1/query", query=query)["result"]
        return any(one["value"][1] != "NaN" for one in found)

    def firing(self) -> set[tuple[str, str]]:
        """(alert, instance)"""
        alerts = self.get("/api/v1/alerts")["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"]["instance"])
            for alert in alerts
            if alert["state"] == "firing"
        }

    def is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


@contextmanager
def prometheus(folder: Path, rules: str, targets: Mapping[str, int]) -> Iterator[Prometheus]:
    """One that looks at them once a second."""
    (folder / "rules.yml").write_text(rules)
    seen = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": instance}} for instance, port in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "voicepipe", "static_configs": seen}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            made, end = Prometheus(port), time.monotonic() + 20
            while not made.is_ready():
                assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.1)
            yield made
        finally:
            process.terminate()
            process.wait(20)


def quicker(rules: str) -> str:
    """The rules with windows and waits of seconds."""
    rules = re.sub(r"\[(\w+)\]", lambda match: f"[{SHORTER[match[1]]}]", rules)
    return re.sub(r"\bfor: \w+", "for: 1s", rules)


def query_of_panel(expression: str) -> str:
    """As Grafana asks it, of all servers."""
    values = {"$__rate_interval": "5s", "$__range": "10s", "$job": ".*", "$instance": ".*"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


class Seen(msgspec.Struct):
    """What Prometheus had to say in half a minute."""

    without_data: set[str]
    firing: set[tuple[str, str]]
    """(alert, instance) of every alert that fired at some time."""


async def watch(folder: Path, rules: str, queries: set[str], alerts: set[tuple[str, str]], limit_s: float) -> Seen:
    """Until every query has had data and every alert has fired, or for so long."""
    seen = Seen(set(queries), set())
    clock = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group, servers(group) as targets:
        with prometheus(folder, quicker(rules), targets) as asked:
            end = clock() + limit_s
            while clock() < end and (seen.without_data or not alerts <= seen.firing):
                for query in sorted(seen.without_data):
                    if await asyncio.to_thread(asked.has_data, query):
                        seen.without_data.discard(query)
                seen.firing |= await asyncio.to_thread(asked.firing)
                await asyncio.sleep(0.5)
    return seen
