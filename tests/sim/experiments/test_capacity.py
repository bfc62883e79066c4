"""`capacity`: a point of it, twice, and its charts."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.sim.experiments import capacity
from voicepipe.sim.experiments.capacity import EXPERIMENT

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
    assert (200.0,) in check_charts(EXPERIMENT, rows).values()
    assert EXPERIMENT.points is capacity.points
