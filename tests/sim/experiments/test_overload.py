"""`overload`: a point of it, twice, and its charts."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.sim.experiments import overload
from voicepipe.sim.experiments.overload import EXPERIMENT

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overload, "SECONDS", 60.0)


def test_shares_add_up_and_too_many_are_refused() -> None:
    """Or late, where everybody is let in."""
    points = [{"arm": arm, "offered": load} for arm in overload.ARMS for load in (0.5, 3.0)]
    found = [EXPERIMENT.run(point, 1, QUICK) for point in points]
    for each in found:
        assert sum(value or 0.0 for name, value in each.items() if name != "goodput_hz") == pytest.approx(1.0)
    by_arm = {str(point["arm"]): each for point, each in zip(points, found, strict=True)}
    assert by_arm["D0"]["refused"] == 0.0 and (by_arm["D3"]["refused"] or 0.0) > 0.2
    assert (by_arm["D0"]["missed"] or 0.0) > (by_arm["D3"]["missed"] or 0.0)
    check_twice(EXPERIMENT, points[1])
    check_charts(EXPERIMENT, [{**point, **each, "seeds": 1} for point, each in zip(points, found, strict=True)])
