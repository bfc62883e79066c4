"""`isolation`: a point of it, twice, and its charts."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
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
