"""A server, put together: it listens at once, is ready when its engines are warm, and lets go in order."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry

from voicepipe import __version__
from voicepipe.accepting import surviving_scarcity
from voicepipe.acknowledgements import render
from voicepipe.background import TextService
from voicepipe.config import Config
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.core.background import NO_LIMIT_S, TextSettings
from voicepipe.core.blame import shares_of
from voicepipe.core.demand import Demand, Expected, shared_kinds
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Rung, Stage, Timing, TurnRecord, Work, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.lull import LullSettings
from voicepipe.core.outcomes import observe as observe_turn
from voicepipe.core.overload import Level, Overload
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.policies import DeadlinePolicy
from voicepipe.core.scheduler import Pool, Scheduler
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import DOWNLINK_S
from voicepipe.device import Device
from voicepipe.engines.base import Engines, TextPool
from voicepipe.engines.table import plan
from voicepipe.entrance import (
    health_settings,
    make_admission,
    make_policy,
    overload_settings,
    parking_settings,
)
from voicepipe.gate import AccessRules, Gate
from voicepipe.meter import OnThread
from voicepipe.metrics import Metrics
from voicepipe.metrics.states import Phase
from voicepipe.pages import Readiness
from voicepipe.pressure import Pressure
from voicepipe.proxies import Proxies
from voicepipe.reception import serve_session
from voicepipe.recorders import Recorders
from voicepipe.resumption import Resumption
from voicepipe.server import ServerSettings, VoiceServer
from voicepipe.services import Services
from voicepipe.warmup import WarmUp, warm_up
from voicepipe.wire.twilio.signature import Signing

T = TypeVar("T")

JITTER = (0.75, 1.25)
"""By what factor the time to come back is spread."""


@dataclass(frozen=True, slots=True)
class Serving:
    server: VoiceServer
    engines: Engines
    warm: WarmUp
    warmed_s: float
    """How long warming up and measuring took."""
    forecaster: Forecaster
    achievable_ms: float
    """What a turn takes from speech end on this machine, unloaded, its reply begun when speech ends."""
    on_thread: OnThread
    """Runs a blocking engine call on the device's thread, outside any session."""
    demand: Demand
    """What sessions ask of the device, as admission sees it."""
    texts: TextService | None = None
    """Makes texts that nobody waits to hear; None where the model has no slots for them."""

    async def stop(self, grace_s: float) -> None:
        """Drain sessions and texts; a second call may cut that short (see `VoiceServer.stop`)."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.server.stop(grace_s))
            if self.texts is not None:
                group.create_task(self.texts.drain(grace_s))


class Api(Protocol):
    """A second door, to texts."""

    def serving(self, service: TextService, gate: Gate) -> AbstractAsyncContextManager[None]: ...


def achievable_ms(warm: WarmUp, config: Config, vad_lag_s: float) -> float:
    """Speech end to sound: the work begins with the lull, and the silence of the operating point counts from there
    or from the VAD's first silent frame; they run side by side, and the longer one counts."""
    patience = OPERATING_POINTS[config.operating_point]
    silence_s = vad_lag_s + patience.silence_s(1.0)
    if patience.quiet_s is not None:
        silence_s = min(silence_s, patience.quiet_s)
    return 1000 * max(silence_s, LullSettings().hold_s + warm.total_s)


def expected_shares(warm: WarmUp, vad_lag_s: float, frame_s: float) -> dict[Stage, float]:
    """What each stage is planned to take of the budget: in proportion to what it takes on this machine."""
    return shares_of(
        {
            Stage.ENDPOINT: vad_lag_s + frame_s,
            Stage.ASR: warm.final_s,
            Stage.LLM: warm.clause_s,
            Stage.TTS: warm.audio_s,
            Stage.SEND: DOWNLINK_S,
        }
    )


@asynccontextmanager
async def serving(
    config: Config,
    load: Callable[[], Engines],
    *,
    tokens: frozenset[str] | Mapping[str, str] = frozenset(),
    metrics_token: str = "",
    twilio_token: str = "",
    web_files: Path | None = None,
    pictures: Path | None = None,
    tls: ssl.SSLContext | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    recorders: Recorders | None = None,
    api: Api | None = None,
) -> AsyncIterator[Serving]:
    """Listen, load, warm up, and serve while the block runs. Leaving it drains. `tokens` may be a mapping to the
    names under which quotas know them; `metrics_token` is what /metrics asks for, and with `twilio_token` Twilio
    signs its calls; "" is nothing. `web_files` is the folder of the page, `pictures` that of what is shown at
    /experiments. With `tls` the door speaks nothing else. `recorders` are told of every chunk and every turn, and
    of what core decides on; they may be closed after it. `api` is open as long as there are engines with slots for
    texts.

    Raises PortInUse before anything is loaded, then whatever `load` raises.
    """
    metrics = Metrics(CollectorRegistry(), version=__version__)
    metrics.promised(config.budget_ms / 1000)
    services: list[Services] = []
    recorders = recorders or Recorders()
    tape = recorders.tape

    async def handler(connection: Connection, grant: Grant) -> None:
        ident = f"s{grant.lease_id}"
        demand.on_joined(ident)
        try:
            await serve_session(connection, services[0], ident)
        finally:
            demand.on_left(ident)

    def ready() -> Readiness:
        if not services:
            return Readiness(False, "warming_up")
        stuck = services[0].device.health().stuck
        return Readiness(False, "engine_stuck") if stuck else Readiness(True)

    def observe(work: Work, timing: Timing, lane: str) -> None:
        metrics.chunk_waited(work.klass.name.lower(), timing.wait_s, is_input=work.kind is WorkKind.HEAR)
        demand.on_chunk(work, timing)
        pressure.on_chunk(work, timing)
        for recorder in recorders.observers:
            recorder.on_chunk(work, timing, lane)

    def learn(work: Work, service_s: float, whole: bool) -> None:
        stage = work.kind.stage.value
        metrics.chunk_done(placement[work.kind], stage, work.klass.name.lower(), service_s)
        if service_s > work.bound_s > 0:
            metrics.chunk_overran(stage)
        forecaster.on_chunk(work, service_s, whole=whole)

    def on_record(session: str, record: TurnRecord) -> None:
        demand.on_turn(session, record)
        server.lobby.on_turn(observe_turn(record))
        metrics.turn_recorded(record)
        for recorder in recorders.observers:
            recorder.on_record(session, record)

    def on_lag(lag_s: float) -> None:
        pressure.on_lag(lag_s)
        if isinstance(policy, DeadlinePolicy):
            policy.on_lag(server.lag.p99_s)

    where = plan(config.engines, config.limits.max_sessions)
    placement = {WorkKind(kind): lane for kind, lane in where.placement.items()}
    forecaster = Forecaster(placement)
    demand = Demand(shared_kinds(placement, where.lanes))
    policy = make_policy(config, demand)
    admission = make_admission(config, policy)
    chance = random.Random()
    access = _access(config, tokens, metrics_token, twilio_token)
    server = VoiceServer(
        replace(_server_settings(config, access, web_files, tls), pictures=pictures),
        handler,
        admission=admission,
        metrics=metrics,
        ready=ready,
        jitter=lambda: chance.uniform(*JITTER),
        on_lag=on_lag,
    )
    pressure = Pressure(Overload(overload_settings(config.overload)), server.lobby.on_shed)
    metrics.follow_overload(pressure.snapshot)
    metrics.follow_phase(lambda: Phase(server.readiness().ready, server.draining.is_set()))
    metrics.follow_files(recorders.lost)
    metrics.decides(policy.name)
    resumption = Resumption(parking_settings(config.resume))
    metrics.follow_parking(resumption.snapshot)
    used_lanes = {lane: where.lanes[lane] for lane in dict.fromkeys(placement.values())}
    for lane in used_lanes:
        stages = frozenset(kind.stage.value for kind, home in placement.items() if home == lane)
        metrics.lane_known(lane, stages)
    async with AsyncExitStack() as outer:
        outer.enter_context(surviving_scarcity(asyncio.get_running_loop(), metrics.accept_failed))
        await outer.enter_async_context(server)
        on_listening(server.port)
        clock = asyncio.get_running_loop().time
        make_scheduler = partial(Scheduler if tape is None else tape.scheduler, pool=Pool(config.engines.llm_pool))
        async with Device(
            placement,
            where.lanes,
            observe=observe,
            learn=learn,
            make_scheduler=make_scheduler,
            health=health_settings(config, where.alone, where.remote),
        ) as device:

            async def on_thread(call: Callable[[], T]) -> T:
                return await device.prepare(WorkKind.FINAL, call)

            async def on_ears(call: Callable[[], T]) -> T:
                return await device.prepare(WorkKind.HEAR, call)

            engines = await on_thread(load)
            try:
                began = clock()
                warm = await warm_up(engines, clock, on_thread, on_ears)
                forecaster.seed(warm.chunks, warm.ways)
                demand.seed(Expected(warm.total_s, warm.final_s))
                metrics.follow_lanes(device.snapshot, used_lanes)
                metrics.follow_engines(device.health)
                metrics.follow_costs(lambda: forecaster.snapshot().costs)
                metrics.follow_admission(lambda: admission.snapshot(clock()))
                texts = config.acknowledge.texts if Rung.ACKNOWLEDGE in config.ladder else ()
                sounds = await render(engines.tts, texts, on_thread)
                phrases = config.filler.texts if Rung.FILLER in config.ladder else ()
                fillers = await render(engines.tts, phrases, on_thread)
                warmed_s = clock() - began
                vad_frame_s = engines.vad.open().frame_samples / RATE_HZ
                expected_ms = achievable_ms(warm, config, engines.vad.lag_s)
                metrics.measured(expected_ms / 1000)
                gc.freeze()  # what is loaded stays: the collector need not walk it again
                server.lag.forget()
                pressure.begin(lambda: max(lane.backlog_s for lane in device.snapshot().lanes.values()))
                services.append(
                    Services(
                        engines,
                        device,
                        config,
                        metrics,
                        expected_ms,
                        warm.total_s,
                        forecaster=forecaster,
                        acknowledgements=sounds,
                        fillers=fillers,
                        shares=expected_shares(warm, engines.vad.lag_s, vad_frame_s),
                        draining=server.draining,
                        drain_deadline=lambda: server.drain_deadline,
                        ending=server.ending,
                        resumption=resumption,
                        pressure=lambda: pressure.level,
                        on_record=on_record,
                        make_turns=Turns if tape is None else tape.turns,
                    )
                )
                async with AsyncExitStack() as stack:
                    writer = None
                    if engines.texts is not None:
                        settings = text_settings(config, engines.texts)
                        service = TextService(
                            engines.texts,
                            device,
                            forecaster,
                            metrics,
                            settings,
                            is_pressed=lambda: pressure.level >= Level.SHED_BACKGROUND,
                        )
                        writer = await stack.enter_async_context(service)
                        if api is not None:
                            gate = Gate(access)
                            await stack.enter_async_context(api.serving(service, gate))
                    served = Serving(
                        server, engines, warm, warmed_s, forecaster, expected_ms, on_thread, demand, writer
                    )
                    try:
                        yield served
                    finally:
                        await served.stop(config.limits.grace_s)
            finally:
                resumption.close()
                await engines.llm.aclose()


def text_settings(config: Config, pool: TextPool) -> TextSettings:
    """Where background does not wait for slack, its chunks are as large as the engine takes them."""
    in_slack = Pool(config.engines.llm_pool) is Pool.DEDICATED
    settings = TextSettings(pool.name, pool.slots, config.limits.max_waiting_texts)
    return settings if in_slack else replace(settings, longest_s=NO_LIMIT_S)


def _server_settings(
    config: Config, access: AccessRules, web_files: Path | None, tls: ssl.SSLContext | None
) -> ServerSettings:
    limits = config.limits
    return ServerSettings(
        host=config.host,
        port=config.port,
        access=access,
        web_files=web_files,
        tls=tls,
        handshake_s=limits.handshake_s,
        send_timeout_s=limits.send_timeout_s,
        grace_s=limits.grace_s,
    )


def _access(
    config: Config, tokens: frozenset[str] | Mapping[str, str], metrics_token: str, twilio_token: str
) -> AccessRules:
    """The same at both doors."""
    limits = config.limits
    return AccessRules(
        origins=frozenset(config.origins),
        tokens=frozenset(tokens),
        token_names=tokens if isinstance(tokens, Mapping) else {},
        twilio=Signing(twilio_token, config.twilio.public_url) if twilio_token else None,
        insecure=config.insecure,
        proxies=Proxies(config.trusted_proxies),
        metrics_public=config.metrics_public,
        metrics_token=metrics_token,
        max_connections=limits.max_connections,
        max_connections_per_address=limits.max_connections_per_address,
    )
