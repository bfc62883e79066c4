"""Demand: what is measured of chunks and turns, and how it fades."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from voicepipe.core.demand import MEMORY_S, PRIOR_TURNS, Demand, Expected, TurnCost, shared_kinds
from voicepipe.core.events import Instants, Speculation, Timing, TurnRecord, Verdict, Work, WorkClass, WorkKind

SHARED = frozenset(WorkKind) - {WorkKind.HEAR}
ids = count(1)


def open_demand(shared: frozenset[WorkKind] = SHARED, expected: Expected | None = None) -> Demand:
    demand = Demand(shared, expected)
    demand.on_joined("s")
    return demand


def chunk(
    demand: Demand,
    kind: WorkKind,
    started: float,
    finished: float,
    klass: WorkClass = WorkClass.STARTED,
    *,
    turn: int = 1,
    session: str = "s",
) -> None:
    work = Work(next(ids), session, turn, 1, 0, kind, klass)
    demand.on_chunk(work, Timing(started, started, finished))


def ended(
    turn: int = 1,
    *,
    speech_end: float | None = 10.0,
    sent: float | None = 10.2,
    hit: bool = False,
    wasted_s: float = 0.0,
) -> TurnRecord:
    return TurnRecord(
        turn,
        Verdict.MET,
        0.2,
        0.1,
        {},
        Speculation(hit, 1, 0.0, wasted_s),
        None,
        instants=Instants(speech_end=speech_end, sent=sent),
    )


def test_what_is_expected_before_anybody_has_spoken() -> None:
    snapshot = Demand(SHARED, Expected(turn_s=0.08, decode_s=0.02, turn_every_s=8.0, decodes=6.0)).snapshot()
    assert snapshot.turns_hz == pytest.approx(1 / 8)
    assert snapshot.share == pytest.approx((2 * 0.08 + 6 * 0.02) / 8)
    assert snapshot.listening_share == pytest.approx(6 * 0.02 / 8)
    assert snapshot.hit_rate == 0.0 and snapshot.shared_s == 0.08 and snapshot.blocking_s == 0.02


def test_a_turn_costs_what_ran_between_its_speech_end_and_its_first_content() -> None:
    demand = open_demand(SHARED)
    chunk(demand, WorkKind.PARTIAL, 9.0, 9.1, WorkClass.ASR)  # while the user spoke
    chunk(demand, WorkKind.FINAL, 9.98, 10.03, WorkClass.ASR)  # 30 of 50 ms after the end
    chunk(demand, WorkKind.THINK, 10.03, 10.07)
    chunk(demand, WorkKind.SPEAK, 10.07, 10.09)
    chunk(demand, WorkKind.SPEAK, 10.25, 10.35)  # more of the answer
    chunk(demand, WorkKind.THINK, 10.03, 10.07, session="other")
    demand.on_turn("s", ended())
    snapshot = demand.snapshot()
    assert snapshot.miss.path_s == pytest.approx(0.09) and snapshot.shared_s == pytest.approx(0.09)
    assert snapshot.turns == 1


def test_a_turn_is_known_by_what_its_chunks_share() -> None:
    """Three others in the same chunk leave a quarter of it; alone, a step is known to add a fifth of itself; and
    its last chunk ends 0.35 s after the speech."""
    demand = open_demand(SHARED)
    step = Work(1, "s", 1, 1, 0, WorkKind.THINK, WorkClass.STARTED, expected_s=0.04, more_s=0.008)
    demand.on_chunk(step, Timing(10.03, 10.03, 10.07, batch=4))
    demand.on_chunk(replace(step, id=2), Timing(10.07, 10.07, 10.11))
    chunk(demand, WorkKind.SPEAK, 10.25, 10.35)
    demand.on_turn("s", ended(sent=10.2))
    miss = demand.snapshot().miss
    assert (miss.path_s, miss.shared_s) == (pytest.approx(0.11), pytest.approx(0.05))
    assert miss.saved_s == pytest.approx(0.8 * 0.05)
    assert demand.snapshot().joined_share == pytest.approx(0.2)
    assert demand.snapshot().spread_s == pytest.approx(0.35 / (1 + PRIOR_TURNS)), "learnt slowly"


def test_hits_and_misses_are_averaged_apart_and_weighted() -> None:
    demand = open_demand(SHARED, Expected(0.08, 0.02))
    for turn in range(1, 101):
        cost_s = 0.1 if turn % 2 else 0.02
        chunk(demand, WorkKind.FINAL, 10.0, 10.0 + cost_s, turn=turn)
        demand.on_turn("s", ended(turn, hit=turn % 2 == 0))
    snapshot = demand.snapshot()
    assert snapshot.hit.path_s == pytest.approx(0.02) and snapshot.miss.path_s == pytest.approx(0.1)
    assert snapshot.hit_rate == pytest.approx(0.5, abs=0.05)
    assert snapshot.shared_s == pytest.approx(0.06, abs=0.005)


def test_those_that_others_wait_behind_are_the_long_ones() -> None:
    """Half of the turns take 20 ms and half 80: of the time in which one runs, 80 ms of 100 are of a long one."""
    short, long = TurnCost(0.02, 0.0, 0.02), TurnCost(0.08, 0.0, 0.08)
    mixed = replace(open_demand().snapshot(), hit_rate=0.5, hit=short, miss=long)
    assert mixed.shared_s == pytest.approx(0.05)
    assert mixed.burst_s == pytest.approx(0.068)
    varying = replace(mixed, hit_rate=1.0, hit=TurnCost(0.05, 0.03, 0.05))
    assert varying.burst_s == pytest.approx(0.068)
    assert replace(mixed, hit_rate=1.0, hit=TurnCost()).burst_s == 0.0


@pytest.mark.parametrize(("queued", "path_s"), [(9.9, 0.07), (10.03, 0.1)])
def test_a_turn_waits_for_its_first_chunk_to_be_asked_for(queued: float, path_s: float) -> None:
    """Others do not wait for that, and it is not what comes after the content."""
    demand = open_demand(SHARED)
    decode = Work(next(ids), "s", 1, 1, 0, WorkKind.FINAL, WorkClass.ASR)
    demand.on_chunk(decode, Timing(queued, 10.1, 10.12))
    chunk(demand, WorkKind.THINK, 10.12, 10.17)
    chunk(demand, WorkKind.SPEAK, 10.2, 10.3)
    demand.on_turn("s", ended())
    snapshot = demand.snapshot()
    assert (snapshot.miss.path_s, snapshot.shared_s) == (pytest.approx(path_s), pytest.approx(0.07))


def test_a_remote_model_costs_its_turn_and_nobody_else() -> None:
    demand = open_demand(SHARED - {WorkKind.THINK})
    chunk(demand, WorkKind.THINK, 10.0, 10.1)
    chunk(demand, WorkKind.SPEAK, 10.1, 10.12)
    demand.on_turn("s", ended())
    assert demand.snapshot().miss == TurnCost(pytest.approx(0.12), 0.0, pytest.approx(0.02))


def test_costs_that_vary_have_a_deviation() -> None:
    demand = open_demand(SHARED)
    for turn in range(1, 201):
        chunk(demand, WorkKind.FINAL, 10.0, 10.04 if turn % 2 else 10.08, turn=turn)
        demand.on_turn("s", ended(turn))
    assert demand.snapshot().miss.path_deviation_s == pytest.approx(0.02, abs=0.004)


@pytest.mark.parametrize("record", [ended(sent=None), ended(speech_end=None)])
def test_a_turn_without_content_teaches_no_cost(record: TurnRecord) -> None:
    demand = open_demand(SHARED, Expected(0.08, 0.02))
    chunk(demand, WorkKind.FINAL, 10.0, 10.1)
    demand.on_turn("s", record)
    snapshot = demand.snapshot()
    assert snapshot.shared_s == 0.08 and snapshot.turns == 1


def test_what_speculation_did_in_vain_is_not_needed() -> None:
    demand = open_demand(SHARED)
    before = demand.snapshot().share
    chunk(demand, WorkKind.THINK, 9.0, 9.5, WorkClass.SPECULATION)
    assert demand.snapshot().share > before
    demand.on_turn("s", ended(wasted_s=0.5))
    assert demand.snapshot().share == pytest.approx(before)


def test_rates_are_per_second_of_a_session_and_the_prior_fades() -> None:
    demand = open_demand(SHARED, Expected(0.08, 0.02))
    for turn in range(1, int(5 * MEMORY_S / 4.0)):  # one each 4 s, of 100 ms listening and 100 ms answering
        chunk(demand, WorkKind.PARTIAL, 1.0, 1.1, WorkClass.ASR, turn=turn)
        chunk(demand, WorkKind.SPEAK, 10.0, 10.1, turn=turn)
        demand.on_turn("s", ended(turn))
        demand.on_session_time(4.0)
    snapshot = demand.snapshot()
    assert snapshot.turns_hz == pytest.approx(0.25, rel=0.02)
    assert snapshot.share == pytest.approx(0.05, rel=0.02)
    assert snapshot.listening_share == pytest.approx(0.025, rel=0.02)


def test_background_is_left_out_and_ears_have_a_measure_of_their_own() -> None:
    demand = open_demand(frozenset(WorkKind))
    before = demand.snapshot()
    chunk(demand, WorkKind.SECOND_PASS, 10.0, 11.0, WorkClass.BACKGROUND)
    assert demand.snapshot() == before
    for _ in range(100):
        chunk(demand, WorkKind.HEAR, 10.0, 10.3)
        demand.on_session_time(30.0)
    assert demand.snapshot().ears_share == pytest.approx(0.01, rel=0.1)
    assert demand.snapshot().shared_s == before.shared_s


def test_what_may_block_is_the_longest_of_the_lower_classes_of_late() -> None:
    demand = open_demand(SHARED)
    chunk(demand, WorkKind.SPEAK, 0.0, 0.3, WorkClass.AHEAD)
    chunk(demand, WorkKind.FINAL, 0.0, 0.9, WorkClass.ASR)
    assert demand.snapshot().blocking_s == pytest.approx(0.3)
    for _ in range(256):
        chunk(demand, WorkKind.SPEAK, 0.0, 0.05, WorkClass.AHEAD)
    assert demand.snapshot().blocking_s == pytest.approx(0.05)


def test_chunks_are_forgotten_with_their_turn_or_session() -> None:
    demand = open_demand(SHARED)
    chunk(demand, WorkKind.FINAL, 10.0, 10.1)
    demand.on_left("s")
    chunk(demand, WorkKind.FINAL, 10.0, 10.1)  # that still ran
    demand.on_turn("s", ended())
    assert demand.snapshot().shared_s == 0.0 and not demand._chunks
    demand.on_joined("s")
    for number in range(10_000):
        chunk(demand, WorkKind.FINAL, 10.0, 10.0, turn=number)
    assert sum(map(len, demand._chunks.values())) == 256


def test_the_shared_lane_is_the_one_that_speaks() -> None:
    placement = dict.fromkeys(WorkKind, "cpu") | {WorkKind.HEAR: "ears", WorkKind.THINK: "remote"}
    lanes = {"cpu": 1, "ears": 1, "remote": 4}
    assert shared_kinds(placement, lanes) == frozenset(WorkKind) - {WorkKind.HEAR, WorkKind.THINK}
    assert shared_kinds(placement, {**lanes, "cpu": 2}) == frozenset()
