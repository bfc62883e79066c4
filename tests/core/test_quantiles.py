"""Tails and quantiles against what can be counted by hand."""

from __future__ import annotations

from math import comb, exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.quantiles import binomial_quantile, binomial_tail, poisson_quantile, poisson_tail


def test_three_coins() -> None:
    assert [binomial_tail(3, 0.5, k) for k in range(5)] == pytest.approx([1.0, 7 / 8, 4 / 8, 1 / 8, 0.0])
    assert [binomial_quantile(3, 0.5, level) for level in (0.0, 0.1, 0.2, 0.6, 0.9)] == [0, 0, 1, 2, 3]


def test_what_is_certain() -> None:
    assert binomial_tail(5, 0.0, 1) == 0.0 and binomial_tail(5, 1.0, 5) == 1.0
    assert binomial_quantile(5, 0.0, 0.99) == 0 and binomial_quantile(5, 1.0, 0.5) == 5
    assert poisson_tail(0.0, 1) == 0.0 and poisson_quantile(0.0, 0.99) == 0
    assert binomial_tail(0, 0.3, 1) == 0.0


def test_rare_events() -> None:
    assert poisson_tail(0.2, 1) == pytest.approx(1 - exp(-0.2))
    assert poisson_tail(0.2, 2) == pytest.approx(1 - 1.2 * exp(-0.2))
    assert [poisson_quantile(0.2, level) for level in (0.81, 0.9, 0.99, 0.999)] == [0, 1, 2, 3]


def test_many_trials_neither_overflow_nor_vanish() -> None:
    """The first of 5,000 terms is 10^-1505."""
    assert binomial_tail(5_000, 0.5, 2_500) == pytest.approx(0.5, abs=0.01)
    assert binomial_quantile(5_000, 0.5, 0.5) == 2_500


@given(st.integers(0, 40), st.floats(0.0, 1.0), st.floats(0.0, 0.999))
def test_tail_and_quantile_agree_with_the_definition(trials: int, p: float, level: float) -> None:
    below = [sum(comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(k)) for k in range(trials + 2)]
    for k in range(trials + 2):
        assert binomial_tail(trials, p, k) == pytest.approx(1.0 - below[k], abs=1e-9)
    k = binomial_quantile(trials, p, level)
    assert below[k + 1] >= level - 1e-9
    assert k == 0 or below[k] <= level + 1e-9
