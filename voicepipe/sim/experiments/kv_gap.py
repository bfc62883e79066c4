"""`kv-gap`: what to do with a session's context while nobody needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import exp, inf, log
from random import Random

from voicepipe.sim.batching import Engine
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting, series_of
from voicepipe.sim.golden import offload_s
from voicepipe.sim.gpu import A100
from voicepipe.sim.kv import blocks_of
from voicepipe.sim.requests import Request
from voicepipe.sim.summary import mean, quantile
from voicepipe.sim.timeline import Timeline

POLICIES = ("hold", "evict", "offload")
GAPS_S = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0, 3000.0)
QUICK_GAPS_S = (0.1, 0.3, 0.5, 2.0, 10.0, 30.0, 100.0, 1000.0, 3000.0)
FIRST_TOKENS, NEW_TOKENS, ANSWER_TOKENS = 15_500, 100, 100
CONTEXT_TOKENS = 16_000
"""Of a session, in the mean of its turns."""
TURNS = 6
OPEN_SESSIONS = 4.0
"""In the mean, so that memory is not what they wait for."""
MOST_SESSIONS_S = 0.03
HOST_PRICE = 0.02
"""What a GB of the host's memory costs, by a GB of the device's."""


def device_s(gb_s: float) -> float:
    """The currency: memory is paid for with the share of a device that it keeps from others."""
    return gb_s / A100.kv_gb


def cost_s(policy: str, gap_s: float, tokens: float = CONTEXT_TOKENS) -> float:
    """Device seconds of one gap, by formula."""
    kv_gb = A100.kv_gb_of(tokens)
    if policy == "evict":
        return A100.prefill_s(tokens)
    if policy == "offload" and gap_s > A100.copy_s(kv_gb):  # else it has not gone yet, and stays
        return device_s(kv_gb * (offload_s(A100, kv_gb) + HOST_PRICE * gap_s))
    return device_s(kv_gb * gap_s)


def crossover_s(one: str, other: str) -> float:
    """The gap at which both cost the same, by formula."""
    kv_gb = A100.kv_gb_of(CONTEXT_TOKENS)
    copy_s, again_s = offload_s(A100, kv_gb), A100.prefill_s(CONTEXT_TOKENS) / device_s(kv_gb)
    return {
        ("hold", "offload"): copy_s / (1 - HOST_PRICE),
        ("hold", "evict"): again_s,
        ("offload", "evict"): (again_s - copy_s) / HOST_PRICE,
    }[one, other]


@dataclass(slots=True)
class _Link:
    """One way between device and host; one copy after the other."""

    timeline: Timeline
    free_s: float = 0.0

    def copy(self, gb: float, done: Callable[[], None]) -> None:
        self.free_s = max(self.free_s, self.timeline.now) + A100.copy_s(gb)
        self.timeline.at(self.free_s, done)


@dataclass(slots=True, eq=False)
class _Session:
    name: str
    turn: int = 0
    tokens: int = 0
    """In memory after its last turn."""
    since_s: float = 0.0
    """From when on its context is idle on the device."""
    where: str = "device"
    idle_gb_s: float = 0.0
    host_gb_s: float = 0.0


class _House:
    """One device, its two links, and sessions that come back after a gap."""

    def __init__(self, policy: str, gap_s: float) -> None:
        self._policy, self._gap_s = policy, gap_s
        self._timeline = Timeline()
        self._engine = Engine(self._timeline, A100, self._ended)
        self._out, self._back = _Link(self._timeline), _Link(self._timeline)
        self._sessions: dict[Request, _Session] = {}
        self.returns: list[Request] = []
        """Later turns, each of which ends a gap."""
        self.all: list[_Session] = []

    def run(self, starts_s: Sequence[float]) -> None:
        for serial, start_s in enumerate(starts_s):
            session = _Session(f"session-{serial}")
            self.all.append(session)
            self._timeline.at(start_s, partial(self._submit, session, start_s))
        self._timeline.run()

    def _submit(self, session: _Session, arrived_s: float) -> None:
        prompt = FIRST_TOKENS if session.turn == 0 else session.tokens + 1 + NEW_TOKENS
        session.turn += 1
        staying = None if session.turn == TURNS or self._policy == "evict" else inf
        request = Request(arrived_s, prompt, ANSWER_TOKENS, session=session.name, keep_s=staying)
        self._sessions[request] = session
        if session.turn > 1:
            self.returns.append(request)
        self._engine.submit(request)

    def _ended(self, request: Request) -> None:
        session, now = self._sessions.pop(request), self._timeline.now
        if session.turn > 1 and self._policy != "evict":
            assert request.started_s is not None
            session.idle_gb_s += self._gb(session) * (request.started_s - session.since_s)
        if session.turn == TURNS:
            return
        session.tokens, session.since_s, session.where = request.reusable_tokens, now, "device"
        if self._policy == "offload":
            self._out.copy(self._gb(session), partial(self._copied_out, session, session.turn))
        self._timeline.after(self._gap_s, partial(self._returns, session))

    @staticmethod
    def _gb(session: _Session) -> float:
        return A100.kv_gb_of(session.tokens)

    def _copied_out(self, session: _Session, turn: int) -> None:
        """Too late, if the next turn has come already: it has stayed."""
        if session.turn == turn and session.where == "device":
            now = self._timeline.now
            session.idle_gb_s += self._gb(session) * (now - session.since_s)
            session.since_s, session.where = now, "host"
            self._engine.pool.drop(session.name)
            self._engine.look_again()

    def _returns(self, session: _Session) -> None:
        now, pool = self._timeline.now, self._engine.pool
        blocks = blocks_of(session.tokens)
        if session.where != "host":
            session.where = "returned"
            self._submit(session, now)
            return
        session.host_gb_s += self._gb(session) * (now - session.since_s)
        session.since_s = now
        if pool.available(now) < blocks:  # no room to copy it to; it is computed again
            self._submit(session, now)
            return
        pool.take(blocks, now)
        self._back.copy(self._gb(session), partial(self._copied_back, session, blocks, now))

    def _copied_back(self, session: _Session, blocks: int, arrived_s: float) -> None:
        self._engine.pool.keep(session.name, session.tokens, blocks, self._timeline.now, inf)
        self._submit(session, arrived_s)


def _starts(gap_s: float, sessions: int, rng: Random) -> list[float]:
    rate = min(MOST_SESSIONS_S, OPEN_SESSIONS / (TURNS * (gap_s + 3.0)))
    now, starts = 0.0, list[float]()
    for _ in range(sessions):
        now += rng.expovariate(rate)
        starts.append(now)
    return starts


def points(setting: Setting) -> Sequence[Point]:
    gaps = GAPS_S if setting.full else QUICK_GAPS_S
    return [{"policy": policy, "gap_s": gap} for policy in POLICIES for gap in gaps]


def run(point: Point, seed: int, setting: Setting) -> Measured:
    gap_s = float(point["gap_s"])
    house = _House(str(point["policy"]), gap_s)
    house.run(_starts(gap_s, 120 if setting.full else 30, Random(seed)))
    gaps = len(house.returns)
    again_s = sum(A100.prefill_s(one.prefilled_tokens - NEW_TOKENS - 1) for one in house.returns) / gaps
    idle_gb_s = sum(session.idle_gb_s for session in house.all) / gaps
    host_gb_s = sum(session.host_gb_s for session in house.all) / gaps
    first_s = [one.first_token_s for one in house.returns]
    return {
        "cost_device_s": device_s(idle_gb_s + HOST_PRICE * host_gb_s) + again_s,
        "idle_gb_s": idle_gb_s,
        "recomputed_s": again_s,
        "in_memory": mean(float(one.cached_tokens > 0) for one in house.returns),
        "first_token_p50_s": quantile(first_s, 0.5),
        "first_token_p95_s": quantile(first_s, 0.95),
    }


def crossing_s(rows: Sequence[Row], one: str, other: str) -> float | None:
    """The gap at which the simulated costs of two policies meet, between the points on a logarithmic scale."""
    costs = {
        name: {_number(row["gap_s"]): _number(row["cost_device_s"]) for row in rows if row["policy"] == name}
        for name in (one, other)
    }
    gaps = sorted(costs[one].keys() & costs[other].keys())
    ratio = {gap: log(costs[one][gap] / costs[other][gap]) for gap in gaps}
    for low, high in pairwise(gaps):
        if ratio[low] < 0 <= ratio[high]:
            part = -ratio[low] / (ratio[high] - ratio[low])
            return exp(log(low) + part * (log(high) - log(low)))
    return None


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 100.0 else f"{value:.3g} s"


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    gaps = sorted({_number(row["gap_s"]) for row in rows})
    formulas = tuple(
        Series(f"{policy}, by formula", tuple(gaps), tuple(cost_s(policy, gap) for gap in gaps))
        for policy in POLICIES
    )
    marks = []
    for one, other in (("hold", "offload"), ("hold", "evict"), ("offload", "evict")):
        computed, simulated = crossover_s(one, other), crossing_s(rows, one, other)
        found = f", simulated {_seconds(simulated)}" if simulated is not None else ""
        marks.append(Mark("x", computed, f"{one} = {other}: {_seconds(computed)}{found}"))
    return [
        Chart(
            title="What a gap costs: hold short ones, offload longer ones, compute again after very long ones",
            x="gap between two turns of a session (s)",
            y="cost of one gap (device s)",
            series=formulas + series_of(rows, "policy", "gap_s", "cost_device_s", "points"),
            marks=tuple(marks),
            log_x=True,
            log_y=True,
        ),
        Chart(
            title="What the caller sees: who was evicted waits for the prompt to be computed again",
            x="gap between two turns of a session (s)",
            y="time to first token after the gap, p95 (s)",
            series=series_of(rows, "policy", "gap_s", "first_token_p95_s"),
            log_x=True,
            log_y=True,
        ),
    ]


EXPERIMENT = Experiment(
    name="kv-gap",
    question="While a session is idle: hold its context, evict it and compute it again, or offload it?",
    explanation=(
        f"Sessions of {TURNS} turns and about {CONTEXT_TOKENS:,} tokens ({A100.kv_gb_of(CONTEXT_TOKENS):.2f} "
        "GB) are idle for a gap between two turns. Held, the context keeps memory from others; evicted, its "
        "prompt is computed again; offloaded, it is copied to the host and back. The currency is device "
        f"seconds: a GB held for a second costs the share of the device that it takes, 1/{A100.kv_gb:g}, and a "
        f"GB of the host's memory {HOST_PRICE:.0%} of that. Sessions arrive at random, about {OPEN_SESSIONS:g} "
        "at once, and the gap begins when a reply has ended. Lines are the formulas, points what one simulated "
        "device measured; the marks say where the policies cost the same: holding is cheapest up to "
        f"{crossover_s('hold', 'offload'):.2f} s, the time of the two copies, and without a host's memory to "
        f"copy to, up to {crossover_s('hold', 'evict'):.0f} s. Beyond {crossover_s('offload', 'evict'):.0f} s "
        "even the host's memory is dearer than computing again. The second picture is the wait after the gap."
    ),
    points=points,
    run=run,
    charts=charts,
)
