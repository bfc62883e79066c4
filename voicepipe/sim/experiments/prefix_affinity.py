"""`prefix-affinity`: a session's context is in the memory of one replica only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Setting, series_of
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.replicas import Replicas, Routing, play
from voicepipe.sim.requests import Request, request_of
from voicepipe.sim.shapes import shipped_shapes
from voicepipe.sim.summary import hit_rate, mean, quantile, warm
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import Turn, traffic

REPLICAS = 4
DEVICE = replace(SMALL, kv_gb=14.0)
"""Memory for some seven of the sessions, of which there are more while their tools run."""
PIN_S = 10.0
LOADS = (1.0, 1.5, 2.0, 2.5, 3.0)
QUICK_LOADS = (1.0, 1.5, 2.0, 2.5, 3.0)
HERE = 0.9
"""Of what a turn has in common with the one before it: with less it counts as evicted."""


@dataclass(frozen=True, slots=True)
class _Arm:
    routing: Routing
    pin_s: float = 0.0
    """How long a context stays for certain while a tool runs."""


ARMS = {
    "round-robin": _Arm("round-robin"),
    "affinity": _Arm("affinity"),
    "affinity, pinned": _Arm("affinity", PIN_S),
    "kv-aware": _Arm("kv-aware"),
    "kv-aware, pinned": _Arm("kv-aware", PIN_S),
}


def points(setting: Setting) -> Sequence[Point]:
    loads = LOADS if setting.full else QUICK_LOADS
    return [{"arm": arm, "requests_s": load} for arm in ARMS for load in loads]


def _after_tool(requests: Sequence[Request]) -> list[Request]:
    """Those that a tool's result began."""
    called: set[tuple[str, int]] = set()
    turns = [(request, _turn(request)) for request in requests]
    called.update((turn.session, turn.number) for _, turn in turns if turn.tool)
    return [request for request, turn in turns if (turn.session, turn.number - 1) in called]


def _turn(request: Request) -> Turn:
    assert request.turn is not None
    return request.turn


def _evicted(request: Request) -> bool:
    turn = _turn(request)
    return request.cached_tokens < HERE * (turn.prefix_tokens + turn.history_tokens)


def run(point: Point, seed: int, setting: Setting) -> Measured:
    arm, seconds = ARMS[str(point["arm"])], 900.0 if setting.full else 240.0
    turns = traffic(shipped_shapes()["agent"], seconds, Random(seed), float(point["requests_s"]))
    timeline = Timeline()
    replicas = Replicas(timeline, DEVICE, REPLICAS, arm.routing)
    coming = [request_of(turn, keep_s=arm.pin_s if turn.tool else 0.0) for turn in turns]
    play(timeline, replicas, coming)
    timeline.run()
    counted = warm(coming, seconds / 4)
    first_s = [request.first_token_s for request in counted]
    engines = replicas.engines
    return {
        "hit_rate": hit_rate(counted),
        "first_token_p50_s": quantile(first_s, 0.5),
        "first_token_p95_s": quantile(first_s, 0.95),
        "evicted_while_tool_ran": mean(float(_evicted(request)) for request in _after_tool(counted)),
        "prefill_share": sum(engine.totals.prefill_s for engine in engines) / (timeline.now * REPLICAS),
        "preempted": sum(request.preempted for request in counted) / len(counted),
        "refused": mean(float(request.refused is not None) for request in counted),
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    limit_s = shipped_shapes()["agent"].objective.first_token_s
    objective = Mark("y", limit_s, f"objective: {limit_s:g} s")
    return [
        Chart(
            title="Where a turn meets its own context, it begins at once; where not, the whole prompt is computed",
            x="prompt tokens found in memory (share)",
            y="time to first token, p95 (s)",
            series=series_of(rows, "arm", "hit_rate", "first_token_p95_s", "points"),
            marks=(objective,),
            log_y=True,
        ),
        Chart(
            title="Time to first token of agents on four replicas, by who chooses the replica",
            x="offered load (turns/s)",
            y="time to first token, p95 (s)",
            series=series_of(rows, "arm", "requests_s", "first_token_p95_s"),
            marks=(objective,),
            log_y=True,
        ),
        Chart(
            title="Contexts that were not there any more when a tool had run",
            x="offered load (turns/s)",
            y="turns after a tool whose context was not in memory (share)",
            series=series_of(rows, "arm", "requests_s", "evicted_while_tool_ran"),
        ),
    ]


EXPERIMENT = Experiment(
    name="prefix-affinity",
    question="Several replicas, one of which knows the session: who should get its next turn?",
    explanation=(
        f"Agents with up to sixteen turns on a growing context are served by {REPLICAS} replicas, each of which "
        f"has memory for {DEVICE.kv_tokens:,} tokens; nine turns in ten end in the call of a tool, and the "
        "session is idle while it runs. Turns go round robin, or to the replica of the session's first turn "
        "(affinity), or to where the least is to be waited for, what is in memory there and what waits there "
        f"considered (kv-aware), or so with contexts pinned for {PIN_S:g} s while a tool runs. The same turns "
        "come in all arms. The first picture sets the share of prompt tokens that were found in memory against "
        "the time to first token; the second shows how much load each arm carries within the objective; the "
        "third, which contexts were not there when their tool had run. A context that is not in memory was "
        "evicted, or its turn was sent elsewhere because a queue was longer than computing it again. A pin "
        "spares the contexts of running tools, and others wait for their memory instead: fewer are lost, and "
        "the slowest turns are no faster for it."
    ),
    points=points,
    run=run,
    charts=charts,
)
