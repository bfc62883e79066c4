"""Intervals that hold as often as they say, percentiles by rank, the end of a warm-up."""

from __future__ import annotations

from math import inf
from random import Random
from statistics import fmean

import pytest

from voicepipe.sim.statistics import (
    Interval,
    bootstrap,
    bootstrap_groups,
    finite,
    interval,
    percentile,
    t_975,
    warm_up,
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


def test_resampling_covers_the_mean() -> None:
    """As wide as theory has it, 2 * 1.96 / sqrt(n); the same seed gives the same interval."""
    chance = Random(3)
    values = [chance.gauss(0.0, 1.0) for _ in range(400)]
    about = bootstrap(values, fmean, Random(1))
    assert about == bootstrap(values, fmean, Random(1))
    assert about.low < fmean(values) < about.high
    assert 2.0 * about.half == pytest.approx(2 * 1.96 / 20, rel=0.15)


def test_values_that_belong_together_are_drawn_together() -> None:
    """Ten turns alike in each of twenty sessions say no more than twenty turns."""
    chance = Random(5)
    sessions = [[value] * 10 for value in (chance.gauss(0.0, 1.0) for _ in range(20))]
    flat = [value for session in sessions for value in session]
    together, apart = bootstrap_groups(sessions, fmean, Random(1)), bootstrap(flat, fmean, Random(1))
    assert together.half > 2.5 * apart.half


def test_a_warm_up_is_cut_where_it_ends() -> None:
    """Forty values of a system that fills up, then steady ones; and nothing of what is steady from the start."""
    chance = Random(11)
    steady = [10.0 + chance.gauss(0.0, 1.0) for _ in range(400)]
    filling = [0.25 * n + chance.gauss(0.0, 1.0) for n in range(40)]
    assert 25 <= warm_up(filling + steady) <= 60
    assert warm_up(steady) <= 40
    assert warm_up([1.0, 2.0]) == 0
