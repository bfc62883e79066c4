"""How many devices a workload needs, by simulation: the fewest with which enough requests of every shape meet their
objective. Who is refused, or has not ended, has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from voicepipe.sim.batching import Rules
from voicepipe.sim.gpu import Gpu
from voicepipe.sim.replicas import Replicas, Routing, play
from voicepipe.sim.requests import Request, request_of
from voicepipe.sim.shapes import Objective
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import Turn

ENOUGH = 0.95
MOST_DEVICES = 512
WARM_UP = 0.25
"""Of the time, from the beginning, whose requests do not count."""
SLICES = 40


def in_time(request: Request, objective: Objective) -> bool:
    first_s, token_s = request.first_token_s, request.token_s
    if first_s is None or token_s is None or request.clause_s is None:
        return False
    if objective.clause_s is not None and request.clause_s - request.arrived_s > objective.clause_s:
        return False
    return first_s <= objective.first_token_s and token_s <= objective.token_s


def enough_in_time(
    turns: Sequence[Turn], objectives: Mapping[str, Objective], gpu: Gpu, count: int, routing: Routing = "kv-aware"
) -> bool:
    """Whether so many devices do, with what their sessions share in memory from the beginning; a run that cannot
    any more is not run to its end."""
    timeline, late = Timeline(), Counter[str]()
    until_s = turns[-1].at_s
    counted = Counter(turn.shape for turn in turns if turn.at_s >= WARM_UP * until_s)

    def ended(request: Request) -> None:
        turn = request.turn
        assert turn is not None
        if turn.at_s >= WARM_UP * until_s and not in_time(request, objectives[turn.shape]):
            late[turn.shape] += 1

    replicas = Replicas(timeline, gpu, count, routing, Rules(), ended)
    replicas.preload({turn.shape: turn.prefix_tokens for turn in turns if turn.prefix_tokens})
    play(
        timeline,
        replicas,
        (request_of(turn, clause_tokens=objectives[turn.shape].clause_tokens) for turn in turns),
    )
    for part in range(1, SLICES + 1):
        timeline.run(until_s * part / SLICES)
        if any(late[shape] > (1 - ENOUGH) * counted[shape] for shape in counted):
            return False
    timeline.run()
    return all(late[shape] <= (1 - ENOUGH) * counted[shape] for shape in counted)


def devices_needed(
    turns: Sequence[Turn], objectives: Mapping[str, Objective], gpu: Gpu, least: int, routing: Routing = "kv-aware"
) -> int | None:
    """From `least` on, which is not looked below; None where `MOST_DEVICES` are not enough. Doubles the step until
    it is enough, then halves what is between."""
    below, count, step = least - 1, least, 1
    while not enough_in_time(turns, objectives, gpu, count, routing):
        if count == MOST_DEVICES:
            return None
        below, count, step = count, min(count + step, MOST_DEVICES), step * 2
    while count - below > 1:
        middle = (below + count) // 2
        if enough_in_time(turns, objectives, gpu, middle, routing):
            count = middle
        else:
            below = middle
    return count
