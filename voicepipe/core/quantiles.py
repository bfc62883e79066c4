"""Tails and quantiles of how many of several independent things happen at once. Exact sums, no approximation."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, lgamma, log, log1p


def binomial_tail(trials: int, p: float, least: int) -> float:
    """P(X >= `least`) for X of Binomial(`trials`, `p`)."""
    return _tail(_binomial(trials, p), least)


def binomial_quantile(trials: int, p: float, level: float) -> int:
    """The smallest k with P(X <= k) >= `level`; `level` in [0, 1)."""
    return _quantile(_binomial(trials, p), level)


def poisson_tail(mean: float, least: int) -> float:
    """P(X >= `least`) for X of Poisson(`mean`)."""
    return _tail(_poisson(mean), least)


def poisson_quantile(mean: float, level: float) -> int:
    """The smallest k with P(X <= k) >= `level`; `level` in [0, 1)."""
    return _quantile(_poisson(mean), level)


def _binomial(trials: int, p: float) -> Iterator[float]:
    """P(X = 0), P(X = 1), ... By logarithms: the first of many trials may be too small for a float."""
    assert trials >= 0 and 0.0 <= p <= 1.0, (trials, p)
    if p in (0.0, 1.0):
        yield from (float(k == p * trials) for k in range(trials + 1))
        return
    log_p, odds = trials * log1p(-p), log(p) - log1p(-p)
    for k in range(trials + 1):
        yield exp(log_p)
        if k < trials:
            log_p += odds + log((trials - k) / (k + 1))


def _poisson(mean: float) -> Iterator[float]:
    assert mean >= 0.0, mean
    k = 0
    while True:
        yield float(k == 0) if mean == 0.0 else exp(k * log(mean) - mean - lgamma(k + 1))
        k += 1


def _tail(probabilities: Iterator[float], least: int) -> float:
    """What is left beside the first `least` of them."""
    below = sum(p for _, p in zip(range(least), probabilities, strict=False))
    return max(0.0, 1.0 - below)


def _quantile(probabilities: Iterator[float], level: float) -> int:
    """Rounding may keep the sum of all a little below 1: the last one is reached then."""
    assert 0.0 <= level < 1.0, level
    total, k = 0.0, -1
    for k, p in enumerate(probabilities):  # noqa: B007 - the last one is wanted
        total += p
        if total >= level:
            break
    return k
