"""A crowd of callers against one server in virtual time: whole sessions on scripted engines, minutes in seconds.

All that decides is the server's own: sessions, device, scheduler, cost model, admission, overload. What is not
there are sockets and the CPU's own time: chunks take exactly what the scripted engines state, and deciding takes
nothing. So a refusal costs nothing here; how long one takes is measured on a real server (`door.py`).

A caller sends sound while it speaks and for `TAIL_S` after that, like a client that does not send silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from arrivals import Call, Question
from prometheus_client import CollectorRegistry

from tests import virtual
from voicepipe.config import Config
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.core.admission import Refuse, SessionAdmission, SessionRequest
from voicepipe.core.demand import Demand, DemandSnapshot, Expected, shared_kinds
from voicepipe.core.events import Timing, TurnRecord, Verdict, Work, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.outcomes import observe
from voicepipe.core.overload import Overload
from voicepipe.core.turn_state import DOWNLINK_S
from voicepipe.device import Device
from voicepipe.engines.table import load, plan
from voicepipe.entrance import make_admission, make_policy, overload_settings
from voicepipe.lag import LagProbe
from voicepipe.metrics import Metrics
from voicepipe.pressure import Pressure
from voicepipe.reception import serve_session
from voicepipe.services import Services
from voicepipe.warmup import warm_up
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

RATE_HZ = 16_000
PACKET_S = 0.02
LOUD = 0.2
"""Of full scale: -14 dBFS at the peaks."""
TAIL_S = 1.0
"""Of silence that is sent behind a question."""
LEAD_S = 0.1
NEAR_S = 0.3
"""A turn belongs to a question if its speech ends so near to the question's end."""
_SIZE = round(PACKET_S * RATE_HZ)
_SOUND = (np.random.default_rng(1).uniform(-LOUD, LOUD, _SIZE) * 32767).astype("<i2").tobytes()
_SILENCE = bytes(2 * _SIZE)


def sound(*, loud: bool) -> bytes:
    """A packet of it, or of silence."""
    return _SOUND if loud else _SILENCE


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question."""

    call: int
    question: Question
    refused: str = ""
    """Why its session was refused; "" where it was not."""
    record: TurnRecord | None = None
    """Of its turn; None where there was none, as when it ran into the turn before it."""
    met_by: float = inf
    """Felt gap from the intended end of the question. Seconds; infinite without content."""

    @property
    def kept(self) -> bool:
        return self.record is not None and self.record.verdict in (Verdict.MET, Verdict.DEGRADED)

    @property
    def counts(self) -> bool:
        """Of a session that was admitted, and not given up by its caller."""
        excused = (Verdict.EMPTY, Verdict.INTERRUPTED)
        return not self.refused and (self.record is None or self.record.verdict not in excused)


@dataclass(slots=True)
class Played:
    """What became of a crowd."""

    asked: list[Asked] = field(default_factory=list)
    admitted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    most: int = 0
    """Sessions at a time."""
    demand: DemandSnapshot | None = None
    """At the end."""


def play(config: Config, calls: Sequence[Call], begin: float, end: float) -> Played:
    """Calls that arrive, and questions that end, in [begin, end) are counted."""
    return virtual.run(_play(config, calls, begin, end), limit_s=end + 3600.0)


@dataclass(slots=True)
class _Floor:
    """A server without its door."""

    services: Services
    demand: Demand
    admission: SessionAdmission
    records: dict[str, list[TurnRecord]] = field(default_factory=dict)


@asynccontextmanager
async def _floor(config: Config) -> AsyncIterator[_Floor]:
    where = plan(config.engines, config.limits.max_sessions)
    placement = {WorkKind(kind): lane for kind, lane in where.placement.items()}
    clock = asyncio.get_running_loop().time
    demand = Demand(shared_kinds(placement, where.lanes))
    admission = make_admission(config, make_policy(config, demand))

    def refuse(shed: bool) -> None:
        admission.on_shed(shed, clock())  # nobody waits in a room here: no command follows

    pressure = Pressure(Overload(overload_settings(config.overload)), refuse)
    forecaster = Forecaster(placement)
    records: dict[str, list[TurnRecord]] = {}
    lag = LagProbe(pressure.on_lag)

    def observe_chunk(work: Work, timing: Timing, lane: str) -> None:
        demand.on_chunk(work, timing)
        pressure.on_chunk(work, timing)

    def learn(work: Work, service_s: float, whole: bool) -> None:
        forecaster.on_chunk(work, service_s, whole=whole)

    def on_record(session: str, record: TurnRecord) -> None:
        demand.on_turn(session, record)
        admission.on_turn(observe(record), clock())
        records.setdefault(session, []).append(record)

    async def here(call: Callable[[], Any]) -> Any:
        return call()

    engines = load(config.engines, None, sessions=config.limits.max_sessions, api_key=None)
    warm = await warm_up(engines, clock, here)
    forecaster.seed(warm.chunks, warm.ways)
    demand.seed(Expected(warm.total_s, warm.final_s))
    async with Device(placement, where.lanes, observe=observe_chunk, learn=learn) as device:
        metrics = Metrics(CollectorRegistry())
        services = Services(
            engines,
            device,
            config,
            metrics,
            forecaster=forecaster,
            pressure=lambda: pressure.level,
            on_record=on_record,
        )
        pressure.begin(lambda: sum(lane.queued for lane in device.snapshot().lanes.values()))
        lag.start(asyncio.get_running_loop())
        try:
            yield _Floor(services, demand, admission, records)
        finally:
            lag.stop()


async def _play(config: Config, calls: Sequence[Call], begin: float, end: float) -> Played:
    played = Played()
    async with _floor(config) as floor:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_call(floor, number, call, began, begin <= call.at < end, played))
                for number, call in enumerate(calls)
            ]
            await asyncio.sleep(began + end + 4.0 - asyncio.get_running_loop().time())
            for task in tasks:
                task.cancel()
        played.demand = floor.demand.snapshot()
        played.asked = [asked for asked in played.asked if begin <= asked.question.end < end]
    return played


async def _call(floor: _Floor, number: int, call: Call, began: float, counts: bool, played: Played) -> None:
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(began + call.at - clock())
    admission = floor.admission
    decision = admission.on_connect(SessionRequest(), clock())
    if isinstance(decision, Refuse):
        if counts:
            played.refused[decision.reason] = played.refused.get(decision.reason, 0) + 1
        played.asked += [Asked(number, question, decision.reason) for question in call.questions]
        return
    played.admitted += counts
    played.most = max(played.most, admission.snapshot().active)
    ident = f"s{decision.lease_id}"
    floor.demand.on_joined(ident)
    server_side, client_side = MemoryConnection.pair(capacity=100_000)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_served(server_side, floor, ident))
            group.create_task(_hear(client_side))
            with suppress(ConnectionClosed):
                await _talk(client_side, call, began)
    finally:
        floor.demand.on_left(ident)
        admission.on_end(decision.lease_id, clock())
        records = floor.records.pop(ident, [])
        played.asked += [_asked(number, question, records, began) for question in call.questions]


async def _served(connection: MemoryConnection, floor: _Floor, ident: str) -> None:
    try:
        await serve_session(connection, floor.services, ident)
    finally:
        await connection.close()


async def _hear(connection: MemoryConnection) -> None:
    with suppress(ConnectionClosed):
        while True:
            await connection.recv()


async def _talk(connection: MemoryConnection, call: Call, began: float) -> None:
    clock = asyncio.get_running_loop().time
    start = wire.SessionStart(audio=wire.AudioFormat(rate=RATE_HZ, channels=1), protocol="voicepipe.v1")
    await connection.send(encode_client(start))
    position = 0
    for index, question in enumerate(call.questions):
        begin = began + question.begin - LEAD_S
        following = call.questions[index + 1].begin if index + 1 < len(call.questions) else inf
        until = began + min(question.end + TAIL_S, following - LEAD_S)
        await asyncio.sleep(begin - clock())
        packets = round((until - begin) / PACKET_S)
        for packet in range(packets):
            at = begin + packet * PACKET_S
            loud = began + question.begin <= at + 1e-6 and at + 1e-6 < began + question.end
            await connection.send(encode_client(wire.AudioFrame(0, position, sound(loud=loud))))
            position += _SIZE
            await asyncio.sleep(at + PACKET_S - clock())
    await asyncio.sleep(began + call.end - clock())
    await connection.send(encode_client(wire.SessionEnd()))


def _asked(number: int, question: Question, records: list[TurnRecord], began: float) -> Asked:
    for record in records:
        end = record.instants.speech_end
        if end is not None and abs(end - began - question.end) < NEAR_S:
            sent = record.instants.sent
            felt_s = inf if sent is None else sent + DOWNLINK_S - began - question.end
            return Asked(number, question, "", record, felt_s)
    return Asked(number, question)
