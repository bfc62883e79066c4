"""What samples say, and how sure that is: means over seeds, percentiles, resampling, the end of a warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from random import Random
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95

_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 0.975 quantile of Student's t with 1, 2, ... 30 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return 0.5 * (self.high - self.low)


def t_975(degrees: int) -> float:
    """The 0.975 quantile of Student's t; past the table by its expansion (Abramowitz and Stegun, 26.7.5), which is
    within 0.001 there."""
    assert degrees >= 1
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def interval(values: Sequence[float]) -> Interval:
    """The mean, and where the mean of all seeds is expected with 95 % confidence: Student's t, the values being
    independent. One value, or equal ones, have no width. At least one value."""
    if min(values) == max(values):
        return Interval(values[0], values[0], values[0])
    mean = fmean(values)
    half = t_975(len(values) - 1) * stdev(values) / sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of them does not exceed (nearest rank); None of none. `inf`
    stands for what never came."""
    assert 0.0 < share <= 1.0
    if not values:
        return None
    return sorted(values)[max(1, ceil(share * len(values) - 1e-9)) - 1]


def finite(value: float | None) -> float | None:
    """None in place of what never came, which JSON cannot write."""
    return None if value is None or value in (inf, -inf) else value


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    chance: Random,
    *,
    resamples: int = 1000,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The statistic of `values`, and the percentile interval over resamples of them (Efron, 1979). Values that
    belong together, as turns of a session do, are to be drawn together: see `bootstrap_groups`."""
    return bootstrap_groups([[value] for value in values], statistic, chance, resamples, confidence)


def bootstrap_groups(
    groups: Sequence[Sequence[float]],
    statistic: Callable[[Sequence[float]], float],
    chance: Random,
    resamples: int = 1000,
    confidence: float = CONFIDENCE,
) -> Interval:
    """As `bootstrap`, with whole groups drawn with replacement."""

    def flat(drawn: Sequence[Sequence[float]]) -> list[float]:
        return [value for group in drawn for value in group]

    found = sorted(statistic(flat(chance.choices(groups, k=len(groups)))) for _ in range(resamples))
    tail = 0.5 * (1.0 - confidence)
    low, high = percentile(found, max(tail, 1e-9)), percentile(found, 1.0 - tail)
    assert low is not None and high is not None
    return Interval(statistic(flat(groups)), low, high)


def warm_up(values: Sequence[float], batch: int = 5) -> int:
    """How many values to cut at the beginning: MSER-5 (White, 1997). Means of batches of five; the cut d that makes
    the standard error of what is left the smallest, sum (x - mean)^2 / (n - d)^2, and at most half of it."""
    means = [fmean(values[at : at + batch]) for at in range(0, len(values) - batch + 1, batch)]
    best, cut = inf, 0
    total = squares = 0.0
    errors = [inf] * len(means)
    for at in range(len(means) - 1, -1, -1):
        total += means[at]
        squares += means[at] ** 2
        left = len(means) - at
        errors[at] = max(0.0, squares - total**2 / left) / left**2
    for at in range(len(means) // 2 + 1):
        if at < len(errors) and errors[at] < best:
            best, cut = errors[at], at
    return cut * batch
