"""`goodput`: a point of it, twice, and its charts."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.sim.experiments import goodput
from voicepipe.sim.experiments.goodput import EXPERIMENT

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goodput, "SECONDS", 60.0)


def test_arms_and_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every arm has its point; O refuses nobody of those that it was given."""
    monkeypatch.setattr(goodput, "LEARN_S", 30.0)
    points = EXPERIMENT.points(QUICK)
    assert [point["arm"] for point in points][-1] == "O" and len(points) == len(goodput.ARMS) + 1
    chosen = [point for point in points if point["arm"] in ("M4", "D1", "O")]
    found = [EXPERIMENT.run(point, 1, QUICK) for point in chosen]
    assert found[-1]["refused_sessions"] == 0.0
    check_twice(EXPERIMENT, chosen[0])
    check_charts(EXPERIMENT, [{**point, **each, "seeds": 1} for point, each in zip(chosen, found, strict=True)])
