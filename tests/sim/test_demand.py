"""What turns need by formula, against arithmetic on constant ones and against the engine."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from voicepipe.sim.demand import CONSTRAINTS, demand
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.replicas import Replicas, play
from voicepipe.sim.requests import request_of
from voicepipe.sim.shapes import Objective, shipped_shapes
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import READ_TOKEN_S, Turn, traffic


def turn(at_s: float, number: int = 1, history: int = 0) -> Turn:
    return Turn(at_s, "chat", "chat-1", number, 600, history, 100, 0, 300)


def test_arithmetic_of_two_turns() -> None:
    """Of one session, in ten seconds."""
    turns = [turn(0.0), turn(10.0, 2, 400)]
    needs = demand(turns, 10.0, SMALL)
    assert needs.requests == 0.2
    assert needs.prefill_s == pytest.approx(2 * 100 / 8000 / 10)
    assert needs.saved_s == pytest.approx((600 + 600 + 400) / 8000 / 10)
    context = ((700 + 150) + (1100 + 150)) / 2
    token_s = 0.004 / 128 + 0.00025 * context / 8192
    assert needs.decode_s == pytest.approx(600 * token_s / 10)
    assert needs.kv_gb_s == pytest.approx(SMALL.kv_gb_of(context) * 600 * token_s * 128 / 10)
    assert needs.idle_gb_s == pytest.approx(SMALL.kv_gb_of(1000) * (10 - 300 * READ_TOKEN_S) / 10)
    assert needs.devices == needs.busy_devices == pytest.approx(needs.decode_s + needs.prefill_s)


def test_without_memory_for_all_slots_memory_is_what_binds() -> None:
    """Then as many are there as fit, and memory is full as long as they decode."""
    small = replace(SMALL, kv_gb=2.0)
    needs = demand([turn(0.0)], 1.0, small)
    assert needs.bound_by == "memory"
    assert needs.memory_devices == pytest.approx(needs.decode_s, rel=0.01)


def test_a_short_clause_forbids_large_batches() -> None:
    """Half a step, seven and a half steps in all, in 45 ms less the prompt."""
    objective = Objective(1.0, 0.05, 7, 0.045)
    needs = demand([turn(0.0)], 1.0, SMALL, objective)
    step_s = (0.045 - 100 / 8000) / 7.5
    assert needs.bound_by == "latency"
    allowed = (step_s - 0.004) / (0.00025 * 850 / 8192)
    assert needs.latency_devices == pytest.approx(300 * step_s / allowed + 100 / 8000)
    assert demand([turn(0.0)], 1.0, SMALL, Objective(1.0, 0.05)).latency_devices == 0


def test_nothing_needs_nothing() -> None:
    assert demand([], 10.0, SMALL).devices == 0


@pytest.mark.parametrize(
    ("name", "bound_by"),
    [
        ("chat", "decode"),
        ("reasoning", "memory"),
        ("agent", "prefill"),
        ("vision", "prefill"),
        ("voice", "latency"),
    ],
)
def test_each_shape_is_bound_by_something_else(name: str, bound_by: str) -> None:
    shape = shipped_shapes()[name]
    needs = demand(traffic(shape, 600, Random(1)), 600, SMALL, shape.objective)
    assert needs.bound_by == bound_by and bound_by in CONSTRAINTS


def test_the_engine_computes_what_is_new_and_saves_the_rest() -> None:
    """With memory for all: what the cache is said to save is found in it, but for first turns and for what a
    session had before the beginning."""
    shape = replace(shipped_shapes()["agent"], tool_share=0.0)
    turns = traffic(shape, 600, Random(1), 0.5)
    begun = {one.session for one in turns if one.number == 1}
    turns = [one for one in turns if one.session in begun]
    timeline = Timeline()
    replicas = Replicas(timeline, replace(SMALL, kv_gb=1e4), 1)
    play(timeline, replicas, map(request_of, turns))
    timeline.run()
    needs = demand(turns, 600, SMALL)
    first_prefix_s = SMALL.prefill_s(shape.shared_prefix_tokens)
    # and of each answer, the last token has not been read
    unread_s = SMALL.prefill_s(len(turns))
    computed_s = SMALL.prefill_s(replicas.engines[0].totals.prefill_tokens)
    assert computed_s == pytest.approx(needs.prefill_s * 600 + first_prefix_s, abs=unread_s)
