"""What samples say, and how sure that is: means over seeds, percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, sqrt
from statistics import NormalDist, fmean, stdev

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
    stands for what never came; a share of 0 is the least value."""
    assert 0.0 <= share <= 1.0
    if not values:
        return None
    return sorted(values)[max(1, ceil(share * len(values) - 1e-9)) - 1]


def finite(value: float | None) -> float | None:
    """None in place of what never came, which JSON cannot write."""
    return None if value is None or value in (inf, -inf) else value


def poisson(mean: float, most: int) -> list[float]:
    """P(X = 0), ... P(X = most)."""
    found = [exp(-mean)]
    for number in range(1, most + 1):
        found.append(found[-1] * mean / number)
    return found


def poisson_tail(mean: float, least: int) -> float:
    """P(X >= least)."""
    return max(0.0, 1.0 - sum(poisson(mean, least - 1))) if least > 0 else 1.0
