"""The four tests of the policy `deadline`, one by one, and the burst test against a queue played out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.deadline import (
    DeadlineSettings,
    LagGate,
    Learnt,
    Test,
    late_risk,
    loads,
    simultaneous,
    tightest,
)
from voicepipe.core.demand import DemandSnapshot, TurnCost

SETTINGS = DeadlineSettings(budget_s=0.2, overhead_s=0.02)


def demand(turn_s: float = 0.075, **changes: float | TurnCost) -> DemandSnapshot:
    """Every turn misses speculation and costs the same; one turn each eight seconds of a session."""
    cost = TurnCost(turn_s, 0.0, turn_s)
    plain = DemandSnapshot(
        turns_hz=1 / 8,
        share=0.02,
        listening_share=0.0,
        ears_share=0.0,
        hit_rate=0.0,
        hit=cost,
        miss=cost,
        blocking_s=0.0,
        turns=100,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def used(
    n: int, measured: DemandSnapshot, settings: DeadlineSettings = SETTINGS, lag_s: float = 0.0
) -> dict[Test, float]:
    gate = LagGate(settings.lag_s, settings.lag_again_s)
    gate.on_lag(lag_s)
    return dict(loads(n, measured, settings, settings.budget_s, gate))


# --- utilisation


def test_utilisation_is_the_sum_of_what_sessions_need() -> None:
    """Where a turn's work is spread over all the time to the next, nothing comes in rushes."""
    assert used(10, demand(share=0.09, spread_s=8.0))[Test.UTILISATION] == pytest.approx(1.0)
    assert used(11, demand(share=0.09, spread_s=8.0))[Test.UTILISATION] > 1.0


def test_a_rush_of_turns_has_to_fit_into_the_time_that_replies_are_ahead() -> None:
    """Of forty sessions 15 turns come in 3 s in the mean, and 23 in one such time of a hundred; each is 0.1 s."""
    measured = demand(share=0.1 / 8)
    assert used(40, measured, replace(SETTINGS, late=0.01))[Test.UTILISATION] == pytest.approx(22 * 0.1 / 3.0)
    calmer = used(40, replace(measured, spread_s=6.0), replace(SETTINGS, late=0.01))[Test.UTILISATION]
    assert 40 * 0.1 / 8 / SETTINGS.utilisation < calmer < 22 * 0.1 / 3.0
    assert used(1, measured)[Test.UTILISATION] < 0.1


def test_turns_that_share_chunks_are_less_in_each_others_way() -> None:
    """The first of those before it counts in full, for it may be too far on."""
    alone = demand(0.075)
    cost = replace(alone.miss, saved_s=0.05)
    shared = replace(alone, hit=cost, miss=cost)
    assert shared.joined_share == pytest.approx(1 / 3)
    assert late_risk(2, shared, SETTINGS, 0.2) == late_risk(2, alone, SETTINGS, 0.2)
    assert late_risk(20, shared, SETTINGS, 0.2) < 0.5 * late_risk(20, alone, SETTINGS, 0.2)


def test_ears_that_have_no_time_left_refuse_too() -> None:
    """A hundred sessions at 9 ms a second each, whatever little the device has to do."""
    assert used(100, demand(share=0.001, ears_share=0.009))[Test.UTILISATION] == pytest.approx(1.0)
    assert used(10, demand(share=0.09, ears_share=0.02, spread_s=8.0))[Test.UTILISATION] == pytest.approx(1.0)


def test_what_is_learnt_of_turns_moves_the_limits() -> None:
    """Twice the risk that was predicted, half as much of it allowed, four fifths of the room."""
    gate, measured = LagGate(SETTINGS.lag_s, SETTINGS.lag_again_s), demand(0.095, share=0.045)
    plain = loads(10, measured, SETTINGS, 0.2, gate)
    learnt = loads(10, measured, SETTINGS, 0.2, gate, Learnt(2.0, SETTINGS.late / 2, 0.8))
    assert learnt[Test.BURST] == pytest.approx(4.0 * plain[Test.BURST])
    assert learnt[Test.UTILISATION] == pytest.approx(plain[Test.UTILISATION] / 0.8)


# --- burst


def test_alone_a_turn_is_late_only_if_it_takes_too_long_itself() -> None:
    assert late_risk(1, demand(0.180), SETTINGS, 0.2) == 0.0
    assert late_risk(1, demand(0.181), SETTINGS, 0.2) == 1.0


def test_two_turns_that_fit_into_the_budget_together_never_make_each_other_late() -> None:
    assert late_risk(2, demand(0.090), SETTINGS, 0.2) == 0.0


def test_two_that_do_not_are_late_if_they_end_close_enough_to_each_other() -> None:
    """Of 2 * 95 ms, 10 are too many: the other one must have ended in the 10 ms before."""
    assert late_risk(2, demand(0.095), SETTINGS, 0.2) == pytest.approx(0.010 / 8)


def test_the_others_turns_cost_what_speculation_leaves_of_them() -> None:
    """Where four of five turns are ready when their speech ends, far more of them fit."""
    ready = demand(0.095, hit_rate=0.8, hit=TurnCost(0.02, 0.0, 0.02))
    assert late_risk(8, ready, SETTINGS, 0.2) < late_risk(8, demand(0.095), SETTINGS, 0.2) / 10


def test_a_share_of_turns_that_is_late_by_itself_is_late_with_others_too() -> None:
    mixed = demand(0.300, hit_rate=0.9, hit=TurnCost(0.02, 0.0, 0.02))
    assert late_risk(1, mixed, SETTINGS, 0.2) == pytest.approx(0.1)
    assert late_risk(2, mixed, SETTINGS, 0.2) > 0.0999


@pytest.mark.parametrize(
    "worse",
    [
        {"blocking_s": 0.03},
        {"turns_hz": 0.5},
        {"miss": TurnCost(0.09, 0.0, 0.09)},
        {"miss": TurnCost(0.075, 0.02, 0.075)},
    ],
)
def test_whatever_takes_time_makes_lateness_likelier(worse: dict[str, float]) -> None:
    assert late_risk(12, demand(**worse), SETTINGS, 0.2) > late_risk(12, demand(), SETTINGS, 0.2)


@given(st.integers(1, 60), st.floats(0.001, 0.3), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_more_sessions_never_make_it_better(n: int, turn_s: float, turns_hz: float, hit_rate: float) -> None:
    measured = demand(turn_s, turns_hz=turns_hz, hit_rate=hit_rate, listening_share=0.01, blocking_s=0.02)
    fewer, more = (late_risk(k, measured, SETTINGS, 0.2) for k in (n, n + 1))
    assert 0.0 <= fewer <= more + 1e-6 <= 1.0 + 1e-6


def played(n: int, turn_s: float, turns_hz: float, room_s: float, *, turns: int, seed: int) -> float:
    """Share of late turns of n independent sessions, each of which talks on and on, at one server that takes turns
    in the order in which they end."""
    rng = random.Random(seed)
    ends: list[float] = []
    for _ in range(n):
        at = rng.uniform(0.0, 1.0 / turns_hz)
        for _ in range(turns // n):
            ends.append(at)
            at += rng.uniform(0.5, 1.5) / turns_hz
    free = late = 0.0
    for at in sorted(ends):
        free = max(free, at) + turn_s
        late += free - at > room_s
    return late / len(ends)


@pytest.mark.parametrize(("n", "turn_s"), [(4, 0.095), (8, 0.075), (16, 0.065), (20, 0.05), (30, 0.06)])
def test_the_risk_bounds_what_happens_and_is_not_far_above_it(n: int, turn_s: float) -> None:
    happened = played(n, turn_s, 1 / 8, 0.18, turns=60_000, seed=n)
    risk = late_risk(n, demand(turn_s), SETTINGS, 0.2)
    assert 0.8 * happened <= risk <= 2.0 * happened + 0.002


def test_many_sessions_are_judged_quickly() -> None:
    """No factorials, no loops over all of them: a decision of 2,000 sessions is a few thousand additions."""
    assert late_risk(2_000, demand(0.001, turns_hz=0.1), SETTINGS, 0.2) < 1e-6
    assert late_risk(2_000, demand(0.075), SETTINGS, 0.2) == 1.0


def test_how_many_turns_coincide() -> None:
    assert simultaneous(8, demand(), SETTINGS) == 2
    assert simultaneous(1, demand(), SETTINGS) == 1


# --- memory


def test_each_session_has_a_slot() -> None:
    settings = replace(SETTINGS, slots=4)
    assert used(4, demand(), settings)[Test.MEMORY] == 1.0
    assert used(5, demand(), settings)[Test.MEMORY] > 1.0


def test_sessions_that_share_a_pool_take_nine_tenths_of_it() -> None:
    """16,000 tokens, sessions of 1,400 + 200 + 200."""
    settings = replace(SETTINGS, pool_tokens=16_000, session_tokens=1_800)
    assert used(8, demand(), settings)[Test.MEMORY] == 1.0
    assert used(9, demand(), settings)[Test.MEMORY] > 1.0


# --- the loop's lag


def test_lag_shuts_at_one_threshold_and_opens_at_another() -> None:
    gate = LagGate(0.010, 0.005)
    shut = []
    for lag_s in (0.0, 0.009, 0.010, 0.009, 0.006, 0.005, 0.009, 0.010):
        gate.on_lag(lag_s)
        shut.append(gate.is_shut)
    assert shut == [False, False, True, True, True, False, False, True]


def test_a_lag_that_shuts_is_above_its_limit_and_one_that_does_not_is_not() -> None:
    assert used(2, demand(), lag_s=0.010)[Test.LOOP_LAG] > 1.0
    assert used(2, demand(), lag_s=0.0099)[Test.LOOP_LAG] == pytest.approx(0.99)


# --- budgets


def test_the_tightest_promise_counts() -> None:
    measured = demand(0.075)
    assert tightest(SETTINGS, measured, None, []) == 0.2
    assert tightest(SETTINGS, measured, 0.5, [0.4]) == 0.2
    assert tightest(SETTINGS, measured, 0.15, []) == 0.15
    assert tightest(SETTINGS, measured, None, [0.12]) == 0.12


def test_a_promise_that_cannot_be_kept_binds_nobody_else() -> None:
    """Whoever asks for 1 ms is served all the same, and does not shut the door for the others."""
    assert tightest(SETTINGS, demand(0.075), None, [0.001]) == 0.2


@pytest.mark.parametrize(
    "values",
    [{"budget_s": 0.0}, {"overhead_s": -1.0}, {"late": 0.0}, {"utilisation": 1.1}, {"lag_again_s": 0.02}],
)
def test_impossible_settings_are_refused_at_birth(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"budget|shares|lag_again_s"):
        replace(SETTINGS, **values)  # type: ignore[arg-type]
