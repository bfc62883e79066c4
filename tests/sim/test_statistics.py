"""Intervals that hold as often as they say, percentiles by rank."""

from __future__ import annotations

from math import exp, inf
from random import Random

import pytest

from voicepipe.sim.statistics import (
    Interval,
    finite,
    interval,
    percentile,
    poisson,
    poisson_tail,
    t_975,
)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (4, 2.776), (30, 2.042), (31, 2.0395), (60, 2.0003), (10_000, 1.9602)]
)
def test_quantiles_of_students_t(degrees: int, quantile: float) -> None:
    """As printed in tables, in and past ours."""
    assert t_975(degrees) == pytest.approx(quantile, abs=1e-3)


def test_an_interval_by_hand() -> None:
    """1, 2, 3: mean 2, deviation 1, 4.303 / sqrt(3) to both sides."""
    about = interval([1.0, 2.0, 3.0])
    assert about.mean == 2.0 and about.half == pytest.approx(4.303 / 3**0.5)
    assert about.low == pytest.approx(2.0 - about.half)


@pytest.mark.parametrize("values", [[0.1], [0.1, 0.1, 0.1]])
def test_what_does_not_vary_has_no_width(values: list[float]) -> None:
    """And its mean is that value to the last bit."""
    assert interval(values) == Interval(0.1, 0.1, 0.1)


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 2,000 samples of five normal values 95 % have an interval with the true mean in it, within three standard
    errors (0.5 % each)."""
    chance = Random(7)
    held = 0
    for _ in range(2000):
        about = interval([chance.gauss(3.0, 1.0) for _ in range(5)])
        held += about.low <= 3.0 <= about.high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_percentiles_by_rank() -> None:
    """The smallest that enough do not exceed; what never came counts as the largest."""
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.99, 0.999, 1.0)] == [1.0, 50.0, 99.0, 100.0, 100.0]
    assert percentile([], 0.5) is None
    assert percentile([1.0, inf], 0.99) == inf and finite(inf) is None and finite(2.0) == 2.0


def test_poisson_weights_and_tails() -> None:
    """Against the closed forms, and the tail against what it leaves."""
    assert poisson(2.0, 3) == pytest.approx([exp(-2.0), 2 * exp(-2.0), 2 * exp(-2.0), 4 / 3 * exp(-2.0)])
    assert sum(poisson(7.0, 40)) == pytest.approx(1.0)
    assert poisson_tail(0.3, 1) == pytest.approx(1.0 - exp(-0.3))
    assert poisson_tail(5.0, 3) == pytest.approx(1.0 - sum(poisson(5.0, 2)))
    assert poisson_tail(5.0, 0) == 1.0 and poisson(0.0, 2) == [1.0, 0.0, 0.0]
