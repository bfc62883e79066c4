"""`isolation`: a point of it, twice, and its charts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.sim import one_turn
from voicepipe.sim.arms import called
from voicepipe.sim.experiments import isolation
from voicepipe.sim.experiments.isolation import EXPERIMENT

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "SECONDS", 300.0)


def test_a_long_text_breaks_a_shared_engine_and_not_ours() -> None:
    """At the same texts: the budget is missed by M0's slowest turns, and kept by D3."""
    points = [{"arm": "M0", "texts_hz": 0.1}, {"arm": "D3", "texts_hz": 0.1}]
    shared, ours = (EXPERIMENT.run(point, 1, QUICK) for point in points)
    assert check_twice(EXPERIMENT, points[0]) == shared
    assert ours["felt_max_ms"] is not None and ours["felt_max_ms"] < 210.0
    assert shared["felt_max_ms"] is not None and shared["felt_max_ms"] > 300.0
    rows = [{**point, **found, "seeds": 1} for point, found in zip(points, (shared, ours), strict=True)]
    marks = check_charts(EXPERIMENT, rows)
    assert (200.0,) in marks.values()
    idle = EXPERIMENT.run({"arm": "M0", "texts_hz": 0.05}, 1, QUICK)
    assert 0.0 < (idle["average_load"] or 0.0) < 0.3 and (idle["felt_max_ms"] or 0.0) > 300.0
    names = [series.name for series in EXPERIMENT.charts(rows)[0].series]
    assert names == [called(name) for name in ("M0", "D3")]


def test_a_turn_is_shown_in_both_layouts() -> None:
    """What the device works at from the top down, with the budget as a line, and its title says how late it was."""
    shared, ours = EXPERIMENT.shown(1, QUICK)
    for chart in (shared, ours):
        assert chart.sideways and len(chart.categories) == len(chart.series) == 4
        assert [mark.value for mark in chart.marks][:2] == [0.0, 200.0]
        for place, series in enumerate(chart.series):
            assert series.kind == "spans" and set(series.ys) == {float(place)}
            assert all(low < high for low, high in zip(series.lows, series.highs, strict=True))
    answered = [mark.value for chart in (shared, ours) for mark in chart.marks if "begins to be heard" in mark.name]
    assert answered[0] > 300.0 and answered[1] <= 200.0
    assert f"answered {answered[0]:.0f} ms after the question: M0" in shared.title and "voicepipe" in ours.title


def test_an_answer_that_comes_long_after_is_told_and_stretches_nothing() -> None:
    """Nor does one that never comes."""
    trace = one_turn.trace_of("M0", 1, QUICK)
    for felt_ms, told in ((5000.0, "answered 5000 ms after"), (None, "answered never")):
        chart = isolation.chart_of("M0", replace(trace, felt_ms=felt_ms))
        assert told in chart.title and max(mark.value for mark in chart.marks) == 200.0
