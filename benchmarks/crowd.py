"""A crowd of callers against one server in virtual time: whole sessions on scripted engines, minutes in seconds.

All that decides is the server's own: sessions, device, scheduler, cost model, admission, overload. What is not
there are sockets and the CPU's own time: chunks take exactly what the scripted engines state, and deciding takes
nothing. So a refusal costs nothing here; how long one takes is measured on a real server (`door.py`), and how far
this is from one by playing the same calls to it (`street.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from arrivals import Call
from caller import Played, became, noise, talk
from prometheus_client import CollectorRegistry
from replies import scripted_engines

from tests import virtual
from voicepipe.config import Config
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.core.admission import Refuse, SessionAdmission, SessionRequest
from voicepipe.core.demand import Demand, Expected, shared_kinds
from voicepipe.core.events import Timing, TurnRecord, Work, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.outcomes import observe
from voicepipe.core.overload import Overload
from voicepipe.core.policies import DeadlinePolicy, Policy
from voicepipe.device import Device
from voicepipe.engines.table import plan
from voicepipe.entrance import make_admission, make_policy, overload_settings
from voicepipe.lag import LagProbe
from voicepipe.metrics import Metrics
from voicepipe.pressure import Pressure
from voicepipe.reception import serve_session
from voicepipe.services import Services
from voicepipe.warmup import warm_up

END_S = 4.0
"""After the last instant that is counted: time for its turn to end."""


def play(config: Config, calls: Sequence[Call], begin: float, end: float) -> Played:
    """Calls that arrive, and questions that end, in [begin, end) are counted."""
    return virtual.run(_play(config, calls, begin, end), limit_s=end + 3600.0)


@dataclass(slots=True)
class _Floor:
    """A server without its door."""

    services: Services
    demand: Demand
    admission: SessionAdmission
    policy: Policy
    records: dict[str, list[TurnRecord]] = field(default_factory=dict)


@asynccontextmanager
async def _floor(config: Config) -> AsyncIterator[_Floor]:
    where = plan(config.engines, config.limits.max_sessions)
    placement = {WorkKind(kind): lane for kind, lane in where.placement.items()}
    clock = asyncio.get_running_loop().time
    demand = Demand(shared_kinds(placement, where.lanes))
    policy = make_policy(config, demand)
    admission = make_admission(config, policy)

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

    engines = scripted_engines(config)
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
        pressure.begin(lambda: max(lane.backlog_s for lane in device.snapshot().lanes.values()))
        lag.start(asyncio.get_running_loop())
        try:
            yield _Floor(services, demand, admission, policy, records)
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
            await asyncio.sleep(began + end + END_S - asyncio.get_running_loop().time())
            for task in tasks:
                task.cancel()
        if isinstance(floor.policy, DeadlinePolicy):
            played.correction = floor.policy.calibration.factor
        played.asked = [asked for asked in played.asked if begin <= asked.question.end < end]
    return played


async def _call(floor: _Floor, number: int, call: Call, began: float, counts: bool, played: Played) -> None:
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(began + call.at - clock())
    admission = floor.admission
    decision = admission.on_connect(SessionRequest(), clock())
    if isinstance(decision, Refuse):
        played.on_refused(number, call, decision.reason, counts)
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
                await talk(client_side.send, call, began, noise)
    finally:
        floor.demand.on_left(ident)
        admission.on_end(decision.lease_id, clock())
        played.asked += became(number, call, floor.records.pop(ident, []), began)


async def _served(connection: MemoryConnection, floor: _Floor, ident: str) -> None:
    try:
        await serve_session(connection, floor.services, ident)
    finally:
        await connection.close()


async def _hear(connection: MemoryConnection) -> None:
    with suppress(ConnectionClosed):
        while True:
            await connection.recv()
