"""One seed, played: what is set up, who comes, what goes wrong, and what has to hold, always and at the end."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.driving import LANES, PLACEMENT, check_replies, check_verdicts
from tests.seeded.caller import SeededCaller
from tests.seeded.door import Counts, MemoryServer, Socket
from tests.seeded.engines import CALM, CHANGEABLE, STORMY, Weather, seeded_engines
from tests.seeded.loop import SeededLoop, Trace
from voicepipe import reception
from voicepipe.background import TextService
from voicepipe.config import AdmissionConfig, Config, LimitsConfig
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.core.background import TextSettings
from voicepipe.core.breaker import BreakerSettings
from voicepipe.core.demand import Demand, shared_kinds
from voicepipe.core.engine_health import HealthSettings
from voicepipe.core.events import TurnRecord, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.parking import Parked, ParkingSettings
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import Phase, TurnSettings
from voicepipe.device import Device
from voicepipe.ears import MAX_WAITING
from voicepipe.engines.base import ChatMessage, Engines, TextRequest
from voicepipe.entrance import make_admission, make_policy
from voicepipe.errors import EngineError, Refused
from voicepipe.gate import AccessRules
from voicepipe.outbox import FRAMES
from voicepipe.pages import Readiness
from voicepipe.reception import serve_session
from voicepipe.resumption import Resumption, Seat
from voicepipe.server import ServerSettings
from voicepipe.services import Services
from voicepipe.session import Session
from voicepipe.wire import messages as wire

OVER_S = 130.0
"""After the end: until every call has ended that ends at all."""
TURN_LONGEST_S = 60.0
"""No turn takes longer: `turn_s`, what engines are given, and a long reply."""
CODES = {1000, 1001, 1006, 1008, 1012, 1013, 4400, 4408, 4409, 4410, 4429}
"""With which a connection may be closed. 1011 is a bug of ours."""
CLOCK = "clock"
"""Name of the task by which a test lets time pass."""
PARKING = ParkingSettings(keep_s=30.0, most=2, most_bytes=4096)
"""Little, so that there is too much at times."""
JOBS_PER_SESSION = 24
"""Works of a session that wait or run at a time: far fewer, and yet not one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn once per seed."""

    weather: Weather
    callers: int
    sessions: int
    places: int
    texts: int
    abandoned: int
    drain_at: float | None
    jump_at: float | None

    @classmethod
    def draw(cls, draw: random.Random) -> Plan:
        return cls(
            weather=draw.choice((CALM, CHANGEABLE, CHANGEABLE, STORMY)),
            callers=draw.randrange(1, 5),
            sessions=draw.randrange(1, 4),
            places=draw.choice((0, 0, 2)),
            texts=draw.choice((0, 0, 1, 3)),
            abandoned=draw.choice((0, 0, 1, 2, 64)),
            drain_at=draw.uniform(0.0, 12.0) if draw.random() < 0.35 else None,
            jump_at=draw.uniform(0.0, 10.0) if draw.random() < 0.15 else None,
        )


def epoch_of(message: object) -> int | None:
    """None where it has none."""
    return getattr(message, "epoch", None)


class WatchedResumption(Resumption):
    """A conversation is gone on with once."""

    def __init__(self) -> None:
        serial = itertools.count(1)
        super().__init__(PARKING, lambda: f"token-{next(serial)}")
        self.turns: dict[str, int] = {}
        """Of sessions that go on with one: how many turns it had."""
        self.used = ""
        """A token that was good."""
        self._begun: set[bytes] = set()

    async def redeem(self, token: str, owner: str) -> Parked:
        parked = await super().redeem(token, owner)
        self.used = token
        return parked

    def begin(self, session: str, owner: str, parked: Parked | None = None) -> Seat:
        if parked is not None:
            assert parked.key not in self._begun, "a token was good twice"
            assert parked.expires > self._now(), "it had expired"
            self._begun.add(parked.key)
            self.turns[session] = parked.kept.turn
        return super().begin(session, owner, parked)


class World:
    longest_s = 900.0
    """Virtual time that no seed needs."""

    def __init__(self, seed: int, loop: SeededLoop, trace: Trace, plan: Plan | None = None) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = trace
        self.draw = random.Random(f"{seed}/world")
        self.plan = plan or Plan.draw(self.draw)
        self.counts = Counts()
        self._stale = ""
        self.tokens: set[str] = set()
        """That let somebody in; none are needed where there are none."""
        self.records: dict[str, list[TurnRecord]] = {}
        self.turns: dict[str, Turns] = {}
        self.sessions: dict[str, Session] = {}
        self.callers: list[SeededCaller] = []
        self._ident_of: dict[int, str] = {}
        """By the connection's id."""
        self._opened: dict[tuple[str, int], float] = {}
        self.config = Config(
            limits=LimitsConfig(
                max_sessions=self.plan.sessions,
                idle_s=20.0,
                session_s=60.0,
                turn_s=10.0,
                engine_timeout_s=4.0,
                send_timeout_s=2.0,
                max_waiting_texts=1,
            ),
            admission=AdmissionConfig(
                policy=self.draw.choice(("count", "none")), waiting_places=self.plan.places, waiting_s=5.0
            ),
        )
        self.health = HealthSettings(
            floor_s=2.0,
            bounds=5.0,
            unbounded_s=3.0,
            abandoned=self.plan.abandoned,
            engines={kind: "llm" for kind in (WorkKind.THINK, WorkKind.WARM) if self.draw.random() < 0.5},
            breakers={WorkKind.THINK: ("llm", BreakerSettings(2))} if self.draw.random() < 0.6 else {},
        )

    @property
    def digest(self) -> str:
        """Of all that has happened, and in which order."""
        return self.trace.digest()

    def seen(self) -> Counter[str]:
        """What has come up, and how often."""
        seen = self.counts.verdicts + self.counts.refusals + self.counts.calls
        seen["overdue"] = sum(self.device.health().overdue.values())
        seen["lost for ever"] = self._abandoned
        for breaker in self.device.health().breakers.values():
            seen["breaker opened"] += breaker.opened
        for records in self.records.values():
            seen["reopened"] += sum(record.reopened for record in records)
        seen += Counter({f"token {what}": count for what, count in self.resumption.snapshot().outcomes.items()})
        for caller in self.callers:
            seen["vanished"] += caller.vanished
            code, _ = caller.socket.near.closed_with or (0, "")
            seen[f"closed with {code}"] += 1
        return seen

    # the run

    async def play(self) -> None:
        """From the first guest until nothing is left."""
        self.loop.trace.note(self.loop.time(), f"{self.plan}")
        engines = self.engines = seeded_engines(self.seed, self.loop, self.plan.weather, self.plan.sessions)
        forecaster = Forecaster(PLACEMENT)
        lanes = LANES | {"main": self.draw.choice((1, 1, 2))}

        def learn(work: Any, service_s: float, whole: bool) -> None:
            self.trace.note(self.loop.time(), f"{work.session} {work.kind} took {service_s:.4f} s")
            forecaster.on_chunk(work, service_s, whole=whole)

        async with asyncio.timeout(self.longest_s):
            async with Device(PLACEMENT, lanes, learn=learn, health=self.health) as device:
                self.device = device
                async with self._serve(engines, forecaster) as texts, asyncio.TaskGroup() as group:
                    self._populate(group, texts)
                await asyncio.sleep(10.0)  # sessions that have left, and calls that were cancelled
                await asyncio.sleep(PARKING.keep_s)
                self.loop.check = lambda: None
            await asyncio.sleep(OVER_S)
        self._check_end(engines)

    def _populate(self, group: asyncio.TaskGroup, texts: TextService) -> None:
        """Who comes, and what happens to the server."""
        for number in range(self.plan.callers):
            group.create_task(self._call(number))
        for number in range(self.plan.texts):
            group.create_task(self._read(texts, number))
        if self.plan.drain_at is not None:
            group.create_task(self._stop(self.plan.drain_at))
        if self.plan.jump_at is not None:
            self.loop.call_later(self.plan.jump_at, self.loop.jump, self.draw.uniform(0.5, 30.0))

    @asynccontextmanager
    async def _serve(self, engines: Engines, forecaster: Forecaster) -> AsyncIterator[TextService]:
        config, device = self.config, self.device
        admission = make_admission(config, make_policy(config, Demand(shared_kinds(PLACEMENT, LANES))))
        jitter = random.Random(f"{self.seed}/jitter")

        async def handler(connection: Connection, grant: Grant) -> None:
            ident = f"s{grant.lease_id}"
            self._ident_of[id(connection)] = ident
            await serve_session(connection, self.services, ident)

        def ready() -> Readiness:
            return Readiness(False, "engine_stuck") if device.health().stuck else Readiness(True)

        access = AccessRules(tokens=frozenset(self.tokens))
        settings = ServerSettings(send_timeout_s=2.0, grace_s=3.0, access=access)
        self.server = MemoryServer(
            settings, handler, admission, self.counts, ready, lambda: jitter.uniform(0.75, 1.25)
        )
        self.admission = admission
        self.resumption = WatchedResumption()
        self.services = Services(
            engines,
            device,
            config,
            self.counts,
            forecaster=forecaster,
            draining=self.server.draining,
            drain_deadline=lambda: self.server.drain_deadline,
            on_record=self._keep,
            make_turns=self._make_turns,
            ending=self.server.ending,
            resumption=self.resumption,
        )
        assert engines.texts is not None
        texts = TextService(engines.texts, device, forecaster, self.counts, TextSettings("texts", 1, max_waiting=1))
        self.loop.check = self._check_always
        async with texts:
            with patch.object(reception, "Session", self._make_session):
                yield texts
        await self._stop(0.0)

    async def _call(self, number: int) -> None:
        draw = random.Random(f"{self.seed}/caller {number}")
        await asyncio.sleep(draw.choice((0.0, 0.0, draw.uniform(0.0, 8.0))))
        query = {} if draw.random() < 0.8 else {"refuse": "http", "budget_ms": draw.choice(("100", "x"))}
        comes_back = random.Random(f"{self.seed}/comes back {number}")
        resume: str | bool | None = comes_back.random() < 0.5 or None
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                socket = self.server.connect(query, draw.choice((4, 64, 4096)), self._on_send)
                caller = SeededCaller(socket, draw, self.trace, f"caller {number}", resume)
                self.callers.append(caller)
                running = group.create_task(caller.run())
                # Now and then it comes back while the server still takes the old connection for open.
                await asyncio.wait([running], timeout=comes_back.choice((None, None, comes_back.uniform(0.0, 6.0))))
                if caller.ready is not None:
                    resume = caller.ready.resume
                if resume is None or comes_back.random() < 0.3:
                    return
                if comes_back.random() < 0.1:
                    resume = comes_back.choice(("made up", self.resumption.used or "made up"))
                await asyncio.sleep(comes_back.choice((0.0, 0.01, 0.5, 3.0, 40.0)) * comes_back.random())

    async def _read(self, texts: TextService, number: int) -> None:
        draw = random.Random(f"{self.seed}/reader {number}")
        await asyncio.sleep(draw.uniform(0.0, 5.0))
        request = TextRequest((ChatMessage("user", "say something"),), draw.randrange(1, 30))
        try:
            with texts.open(request) as stream:
                async with asyncio.timeout(draw.choice((0.1, 20.0))):
                    async for piece in stream.pieces():
                        self.trace.note(self.loop.time(), f"reader {number} gets {piece!r}")
        except (EngineError, Refused, TimeoutError) as exc:
            self.trace.note(self.loop.time(), f"reader {number} ends: {type(exc).__name__}")

    async def _stop(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self.trace.note(self.loop.time(), "the server drains")
        await self.server.stop(3.0)

    # what is told

    def _make_turns(self, ident: str, settings: TurnSettings, serial: Iterator[int]) -> Turns:
        turns = self.turns[ident] = Turns(ident, settings, serial)
        return turns

    def _check_return(self, caller: SeededCaller) -> None:
        """Who comes back with a token hears nothing that is as old as what was heard before by whom it was given
        to."""
        if caller.ready is None or not caller.ready.resumed:
            return
        before = next(one for one in self.callers if one.ready is not None and one.ready.resume == caller.resume)
        epochs = [epoch_of(heard.message) for heard in before.log]
        newest = max((epoch for epoch in epochs if epoch is not None), default=0)
        mine = [epoch for heard in caller.log if (epoch := epoch_of(heard.message)) is not None]
        assert all(epoch > newest for epoch in mine), "something of before the resume is heard after it"

    def _make_session(self, connection: Connection, *rest: Any) -> Session:
        session = Session(connection, *rest)
        self.sessions[self._ident_of[id(connection)]] = session
        return session

    def _keep(self, session: str, record: TurnRecord) -> None:
        self.records.setdefault(session, []).append(record)

    def _on_send(self, socket: Socket, data: str | bytes) -> None:
        """Every frame, when it is handed over."""
        if isinstance(data, bytes):
            turns = self.turns[self._ident_of[id(socket.near)]]
            epoch = int.from_bytes(data[:4], "big")
            if epoch != turns.epoch:
                self._stale = f"sound of epoch {epoch} is handed over in epoch {turns.epoch}"

    # what has to hold

    def _check_always(self) -> None:
        """Cheap, after each step of the loop."""
        assert not self._stale, self._stale
        assert self.admission.snapshot().active == self.server.live == self.counts.leases["session"]
        assert self.server.live <= self.plan.sessions, "more were let in than there is room for"
        leaving, leased = len(self.device._leaving), self.counts.leases["llm"]
        assert leased == self.engines.llm.leased <= self.server.live + leaving + self._abandoned  # type: ignore[attr-defined]
        assert len(self.server.lobby._tickets) <= self.plan.places
        parked = self.resumption.snapshot()
        assert parked.parked <= PARKING.most and parked.n_bytes <= PARKING.most_bytes
        assert parked.live <= self.server.live, "a token of a session that is over counts as one that is live"
        if self.trace.steps % 64 == 0:
            self._check_bounds()

    def _check_bounds(self) -> None:
        jobs = len(self.device._jobs)
        assert jobs <= JOBS_PER_SESSION * (self.server.live + 1), f"{jobs} works at the device"
        now = self.loop.time()
        for ident, turns in self.turns.items():
            state = turns.snapshot()
            if state.turn and turns.phase is not Phase.ENDED:
                since = self._opened.setdefault((ident, state.turn), now)
                assert now - since < TURN_LONGEST_S, f"turn {state.turn} of {ident} does not end"
        for session in self.sessions.values():
            ears = session._ears
            assert session._outbox._queue.qsize() <= FRAMES
            assert len(ears._frames) <= ears._max_backlog and len(ears._waiting) <= MAX_WAITING

    @property
    def _abandoned(self) -> int:
        return sum(self.device.health().abandoned.values())

    def _check_end(self, engines: Engines) -> None:
        lost = self._abandoned  # calls that never end
        held = self.counts.leases
        assert held["session"] == self.server.live == 0, "a session's lease was not given back"
        assert held["llm"] == engines.llm.leased <= lost, "a reply slot was not given back"  # type: ignore[attr-defined]
        assert held["text"] <= lost, "a text's slot was not given back"
        assert self.counts.calls["session_failed"] == 0, "a session ended by a bug of ours"
        assert self.counts.calls["task_abandoned"] == 0, "a session ignored its cancellation"
        ours = asyncio.current_task()
        left = [task for task in asyncio.all_tasks() if task is not ours and task.get_name() != CLOCK]
        assert not left, f"tasks are left: {left}"
        assert not self.device._jobs, "a work was never answered"
        lanes = self.device.snapshot().lanes.values()
        assert sum(lane.queued for lane in lanes) == 0
        assert sum(lane.running for lane in lanes) <= lost
        for ident, turns in self.turns.items():
            state = turns.snapshot()
            reached = [record.turn for record in self.records.get(ident, [])]
            first = state.turn + 1 - len(reached)
            assert reached == list(range(first, state.turn + 1)), f"{ident}: {state.turn} turns, verdicts {reached}"
            assert first == 1 + self.resumption.turns.get(ident, 0), f"{ident} begins with turn {first}"
        parked = self.resumption.snapshot()
        assert parked.parked == parked.n_bytes == parked.live == 0, "something is kept for ever"
        assert self.resumption._timer is None
        for caller in self.callers:
            self._check_caller(caller)
            self._check_return(caller)

    def _check_caller(self, caller: SeededCaller) -> None:
        connection = caller.socket.near
        assert caller.closed is not None and connection.closed_with is not None
        assert connection.closed_with[0] in CODES, f"{caller.name} was closed with {connection.closed_with}"
        assert caller.vanished or caller.closed.code == 1000 or caller.closed.reason, "it was told no reason"
        if connection.closed_with[0] == 1013 and not caller.vanished:
            last = caller.log[-1].message
            comes_back = isinstance(last, wire.Refused) and last.retry_after_ms > 0
            assert comes_back or isinstance(last, wire.Error), "it was not told why, or when to come back"
        has_all = caller.closed.code == 1000 and not caller.vanished  # a drain does not wait for who reads nothing
        records = self.records.get(self._ident_of.get(id(connection), ""), [])
        first = 1 + self.resumption.turns.get(self._ident_of.get(id(connection), ""), 0)
        check_verdicts(records, caller.log, caller.closed if has_all else None, first)
        check_replies(caller.log)


def play(seed: int, show: Callable[[str], None] | None = None) -> World:
    """Its world, after the end; `show` is told what happens. Raises what did not hold."""
    trace = Trace(show)
    loop = SeededLoop(seed, trace)
    try:
        world = World(seed, loop, trace)
        loop.run_until_complete(world.play())
        return world
    finally:
        loop.check = lambda: None
        let_go(loop)


def let_go(loop: SeededLoop) -> None:
    """Also of what a failed seed has left."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=OVER_S))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
