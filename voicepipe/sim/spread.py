"""Distributions of lengths and times, as data: a number alone, or a table with its `kind`.

    300                                                    always
    { kind = "uniform", low = 1, high = 5 }
    { kind = "exponential", mean = 10 }
    { kind = "lognormal", median = 300, sigma = 0.7, max = 4000 }
    { kind = "geometric", mean = 4 }                       1, 2, 3, ...

`max` cuts off: what is more counts as so much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, erf, exp, inf, log, sqrt
from random import Random

from voicepipe.sim.tables import Table

PARTS = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "exponential": ("mean",),
    "lognormal": ("median", "sigma"),
    "geometric": ("mean",),
}
MAX_SIGMA = 5.0


@dataclass(frozen=True, slots=True)
class Spread:
    kind: str
    first: float
    second: float = 0.0
    """The parts of its kind in their order in `PARTS`."""
    most: float = inf

    def sample(self, rng: Random) -> float:
        return min(self._sample(rng), self.most)

    def whole(self, rng: Random, least: int = 0) -> int:
        """To the nearest, and no less than `least`. Draws nothing where it is constant."""
        return max(least, round(self.sample(rng)))

    def _sample(self, rng: Random) -> float:
        if self.kind == "uniform":
            return rng.uniform(self.first, self.second)
        if self.kind == "exponential":
            return -self.first * log(1 - rng.random())
        if self.kind == "lognormal":
            return rng.lognormvariate(log(self.first), self.second)
        if self.kind == "geometric":
            return 1 if self.first == 1 else max(1, ceil(log(1 - rng.random()) / log(1 - 1 / self.first)))
        return self.first

    @property
    def mean(self) -> float:
        """Exact, with what `most` cuts off."""
        return _MEANS[self.kind](self.first, self.second, self.most)


def _uniform_mean(low: float, high: float, most: float) -> float:
    if most <= low:
        return most
    if most >= high:
        return (low + high) / 2
    return ((most**2 - low**2) / 2 + most * (high - most)) / (high - low)


def _lognormal_mean(median: float, sigma: float, most: float) -> float:
    """E[min(X, m)] = E[X] F(z - sigma) + m (1 - F(z)), z = log(m / median) / sigma, F of the standard normal."""
    if sigma == 0:
        return min(median, most)
    if most == inf:
        return median * exp(sigma**2 / 2)
    z = log(most / median) / sigma
    return median * exp(sigma**2 / 2) * _normal(z - sigma) + most * (1 - _normal(z))


def _normal(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2


def _geometric_mean(mean: float, _: float, most: float) -> float:
    """The sum of P(X >= k) for k up to the most."""
    return mean if most == inf else mean * (1 - (1 - 1 / mean) ** int(most))


_MEANS: dict[str, Callable[[float, float, float], float]] = {
    "constant": lambda value, _, most: min(value, most),
    "uniform": _uniform_mean,
    "exponential": lambda mean, _, most: mean * (1 - exp(-most / mean)),
    "lognormal": _lognormal_mean,
    "geometric": _geometric_mean,
}


def parse_spread(table: Table, key: str, high: float, default: float | None = None, low: float = 0.0) -> Spread:
    """Every part is from `low` to `high`. Raises ConfigError with the dotted name of the part."""
    found = default if default is not None and key not in table else table.value(key)
    if isinstance(found, int | float):
        return Spread("constant", table.number(key, low, high, default))
    inner = Table(found, table.field(key), ("kind", *dict.fromkeys(sum(PARTS.values(), ())), "max"))
    kind = inner.word("kind", tuple(PARTS))
    parts = PARTS[kind]
    for other in ("value", "low", "high", "mean", "median", "sigma"):
        if other in inner and other not in parts:
            raise inner.wrong(other, f"only {', '.join((*parts, 'max'))} for {kind}")
    least = {"mean": max(low, 1.0 if kind == "geometric" else 1e-6), "median": max(low, 1e-6)}
    values = [
        inner.number(part, least.get(part, 0.0 if part == "sigma" else low), MAX_SIGMA if part == "sigma" else high)
        for part in parts
    ]
    if kind == "uniform" and values[0] > values[1]:
        raise inner.wrong("high", f"no less than low, which is {values[0]:g}")
    most = inner.number("max", max(low, 1e-6), high, high)
    return Spread(kind, values[0], values[1] if len(values) > 1 else 0.0, most)
