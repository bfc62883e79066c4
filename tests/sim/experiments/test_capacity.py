"""`capacity`: a point of it, twice, and its charts."""

from __future__ import annotations

from math import exp

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.core.demand import DemandSnapshot, TurnCost
from voicepipe.sim.experiment import Row
from voicepipe.sim.experiments import capacity
from voicepipe.sim.experiments.capacity import EXPERIMENT, late_by_count, late_by_test

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "SECONDS", 60.0)


def test_more_sessions_more_late() -> None:
    """And a busier device."""
    points = [{"sessions": 1.0}, {"sessions": 12.0}]
    few, many = (EXPERIMENT.run(point, 1, QUICK) for point in points)
    assert (few["load"] or 0.0) < (many["load"] or 0.0) and (few["felt_p99_ms"] or 0.0) < (
        many["felt_p99_ms"] or 0.0
    )
    check_twice(EXPERIMENT, points[0])
    rows = [{**point, **each, "seeds": 1} for point, each in zip(points, (few, many), strict=True)]
    marks = check_charts(EXPERIMENT, rows).values()
    assert any(200.0 in each for each in marks) and (0.001,) in marks
    assert [series.name.partition(",")[0] for series in EXPERIMENT.charts(rows)[1].series].count("late turns") == 3
    assert EXPERIMENT.points is capacity.points


def of_turns(cost_s: float, path_s: float, turns_hz: float = 0.1, blocking_s: float = 0.0) -> DemandSnapshot:
    cost = TurnCost(path_s, 0.0, cost_s)
    return DemandSnapshot(
        turns_hz=turns_hz,
        share=0.1,
        listening_share=0.0,
        ears_share=0.0,
        hit_rate=1.0,
        hit=cost,
        miss=cost,
        blocking_s=blocking_s,
        turns=100,
    )


def test_the_plain_formula_counts_who_comes_within_a_budget() -> None:
    """198 ms: with 80 ms each two fit, so that a turn is late beside two others or more; with 120 ms beside one."""
    mean = 4.0 * 0.1 * 0.2
    assert late_by_count(4.0, of_turns(0.08, 0.08)) == pytest.approx(1.0 - exp(-mean) * (1.0 + mean))
    assert late_by_count(4.0, of_turns(0.12, 0.12)) == pytest.approx(1.0 - exp(-mean))
    assert late_by_count(4.0, of_turns(0.08, 0.08, blocking_s=0.08)) == pytest.approx(1.0 - exp(-mean))
    assert late_by_count(4.0, of_turns(0.08, 0.21)) == 1.0, "late when it is alone"


def test_the_admission_test_asks_when_the_others_came() -> None:
    """Two that fit beside each other however they come are never late of each other; and it is no more than the
    plain formula says."""
    assert late_by_test(2.0, of_turns(0.04, 0.04)) < 1e-4 < late_by_test(12.0, of_turns(0.1, 0.1))
    for sessions in (1.0, 4.0, 12.0):
        demand = of_turns(0.08, 0.08)
        assert late_by_test(sessions, demand) < late_by_count(sessions, demand) * 1.5
    assert late_by_test(0.0, of_turns(0.08, 0.08)) == pytest.approx(0.0)


def test_how_many_are_carried_is_marked_where_the_points_reach() -> None:
    """Measured, and by formula."""
    none = dict.fromkeys(("felt_p50_ms", "felt_p99_ms", "load", "late", "late_by_count"), 1.0)
    rows: list[Row] = [
        {"sessions": 2.0, **none, "felt_p999_ms": 180.0, "late_by_test": 0.0},
        {"sessions": 4.0, **none, "felt_p999_ms": 220.0, "late_by_test": 0.002},
    ]
    names = [mark.name for mark in EXPERIMENT.charts(rows)[0].marks]
    assert names[1:] == [f"99.9 % in time up to 3.0 sessions, {how}" for how in ("measured", "by formula")]
    assert len(EXPERIMENT.charts(rows[:1])[0].marks) == 1
