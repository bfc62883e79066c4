"""The line is found through noise, and none falls. What a whole cost model makes of it is tested in `test_cost`."""

from __future__ import annotations

import json
import random

import pytest

from voicepipe.core.line import LEAST_SHARE, Line


def points(per_unit: float, per_context: float, *, base: float = 0.03) -> list[tuple[float, float, float]]:
    rng = random.Random(15)
    sizes = [(float(rng.randint(1, 16)), float(rng.randint(0, 2000))) for _ in range(400)]
    return [(units, context, base + per_unit * units + per_context * context) for units, context in sizes]


@pytest.mark.parametrize(("per_unit", "per_context"), [(1e-3, 1e-5), (1e-3, -1e-6), (-1e-4, 1e-5), (-1e-4, -1e-6)])
def test_slopes_are_found_and_those_below_zero_are_zero(per_unit: float, per_context: float) -> None:
    """Each as if the other were not there."""
    _, unit, token = Line.fitted(points(per_unit, per_context)).coefficients()
    assert unit == pytest.approx(max(0.0, per_unit), rel=0.05)
    assert token == pytest.approx(max(0.0, per_context), rel=0.05)


def test_a_base_may_be_below_zero() -> None:
    """A line leads there, and is not believed below a share of the average chunk."""
    line = Line.fitted([(float(n), 0.0, 0.002 * n - 0.008) for n in range(5, 17)])
    assert line.coefficients()[0] == pytest.approx(-0.008, rel=0.05)
    assert line.at(1.0, 0.0) == pytest.approx(LEAST_SHARE * 0.013, rel=0.3)


def test_a_line_that_is_flat_by_constraint_rises_where_chunks_do() -> None:
    """What was cut off at 0 leaves no debt behind."""
    line = Line.fitted(points(-1e-4, 1e-5))
    for units, context, service_s in points(1e-3, 1e-5) * 3:
        line.fit(units, context, service_s)
    assert line.coefficients()[1] == pytest.approx(1e-3, rel=0.05)


def test_a_line_goes_on_in_another_process() -> None:
    line = Line.fitted(points(1e-3, -1e-6))
    other = Line.load(json.loads(json.dumps(line.dump())))
    for units, context, service_s in points(2e-3, 1e-6)[:50]:
        assert other.at(units, context) == line.at(units, context)
        for each in (line, other):
            each.fit(units, context, service_s)
