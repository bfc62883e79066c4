"""Quality saturates, cost does not, and the knee is where one more device second is not worth it."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.sim.experiments.reasoning_budget import (
    ASKED_AGAIN,
    CAPS,
    EXPERIMENT,
    ROUTES,
    WORTH_S,
    cost_s,
    expected,
    knee_tokens,
    marginal,
)


@pytest.mark.parametrize("name", ROUTES)
def test_at_the_knee_a_device_second_buys_what_it_is_worth(name: str) -> None:
    route, knee = ROUTES[name], knee_tokens(ROUTES[name])
    assert marginal(route, knee - 300) > 1 / WORTH_S > marginal(route, knee + 300)


def test_harder_questions_have_their_knee_later_and_none_at_thirty_thousand() -> None:
    easy, medium, hard = (knee_tokens(route) for route in ROUTES.values())
    assert easy < 2_000 < medium < 4_500 < hard < 12_000


def test_rework_is_paid_for() -> None:
    """Each attempt costs the same, and there is one more for each wrong answer after which one is made."""
    right, cost = expected(ROUTES["hard"], 0)
    wrong = 0.9 * ASKED_AGAIN
    assert right == pytest.approx(0.1 * (1 + wrong + wrong**2))
    assert cost == pytest.approx(cost_s(0) * (1 + wrong + wrong**2))


def test_what_is_simulated_is_what_the_formula_expects() -> None:
    """Where the cap is below what the model would think: 400 questions."""
    for name in ROUTES:
        measured = EXPERIMENT.run({"route": name, "cap_tokens": 500}, 1, QUICK)
        right, cost = expected(ROUTES[name], 500)
        assert measured["right"] == pytest.approx(right, abs=0.07)
        assert measured["device_s"] == pytest.approx(cost, rel=0.12)


def test_four_thousand_and_thirty_thousand() -> None:
    """The second costs a lot more and is waited for much longer; on medium questions it is hardly right more
    often."""
    four, thirty = (EXPERIMENT.run({"route": "medium", "cap_tokens": cap}, 1, QUICK) for cap in (4_000, 30_000))
    assert thirty["right"] - four["right"] < 0.05  # type: ignore[operator]
    assert thirty["device_s"] > 2 * four["device_s"]  # type: ignore[operator]
    assert thirty["first_answer_p95_s"] > 4 * four["first_answer_p95_s"]  # type: ignore[operator]


def test_rows_charts_and_seeds() -> None:
    points = EXPERIMENT.points(QUICK)
    assert len(points) == len(ROUTES) * len(CAPS)
    check_twice(EXPERIMENT, points[3])
    marks = check_charts(EXPERIMENT, rows_of(EXPERIMENT, points))
    knees = tuple(float(knee_tokens(route)) for route in ROUTES.values())
    assert sum(knees == found[-3:] for found in marks.values()) == 3


def test_what_thought_buys_ends_before_it_is_rounding() -> None:
    """No point of the curve is below a hundredth of the price, and each curve goes down to near it or to its end;
    a knee has its route's colour."""
    chart = next(
        chart for chart in EXPERIMENT.charts(rows_of(EXPERIMENT, EXPERIMENT.points(QUICK)[:1])) if chart.log_y
    )
    assert [series.name for series in chart.series] == list(ROUTES)
    for series in chart.series:
        assert min(series.ys) >= 0.01 / WORTH_S and (series.ys[-1] < 0.02 / WORTH_S or series.xs[-1] > 29_000)
    assert [mark.of for mark in chart.marks if mark.axis == "x"] == list(ROUTES)
