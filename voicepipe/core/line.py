"""The line that chunks of a key lie on: `a + b * units + c * context`, by recursive least squares on relative
errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

FORGETTING = 0.995
"""Weight of the chunk before the newest: the mean remembers some 200."""
ANCHOR = 0.1
"""Information about each coefficient that is never forgotten, as a share of one chunk's. Directions in which
nothing has been seen of late stay where they were, and no gain exceeds its start."""
OUTLIER = 3.0
"""A chunk counts as at most so many times its mean where the mean is fitted: a stall belongs to the tail."""
LEAST_SCALE = 0.1
"""No feature is scaled by less of its units than this: 100 ms of audio. Next to 0, it would blow up all others."""
LEAST_SHARE = 0.1
"""No mean is below this share of the average chunk: the line may lead below 0, and errors are relative to it."""

_LEAK = (1.0 - FORGETTING) * ANCHOR

Row = tuple[float, float, float]


class Line:
    """Recursive least squares over (1, units, context), each in multiples of the first value seen that is not 0, of
    service in multiples of its average in the beginning. Errors count relative to the prediction, because noise
    grows with the chunk.

    The information matrix is kept, not its inverse, and leaks towards `ANCHOR` times the unit matrix, around the
    latest coefficients: it can neither become singular nor wind up where a feature never varies.

    More to do makes no chunk shorter: of what falls with units or context the best that does not is taken. Noise
    over a narrow range of sizes may fall, and would price a long context at nothing.
    """

    def __init__(self, unit_s: float) -> None:
        self._unit_s = max(unit_s, 1e-9)
        self._scales = [1.0, 0.0, 0.0]
        """0 where nothing but 0 has been seen."""
        self._weights = [1.0, 0.0, 0.0]
        self._information = _anchor()
        self._average = 1.0

    @classmethod
    def fitted(cls, seen: Sequence[tuple[float, float, float]]) -> Line:
        """To (units, context, seconds), twice over: the second time each chunk is weighed by what the first has
        made of it."""
        line = cls(sum(service_s for *_, service_s in seen) / len(seen))
        for outlier in (float("inf"), OUTLIER):
            line._information = _anchor()
            for units, context, service_s in seen:
                line.fit(units, context, service_s, outlier=outlier)
        return line

    def at(self, units: float, context: float) -> float:
        """Seconds; positive."""
        a, b, c = self._weights
        _, unit, token = self._scales
        value = a + b * (units / unit if unit else 0.0) + c * (context / token if token else 0.0)
        return max(value, LEAST_SHARE * self._average) * self._unit_s

    def fit(
        self, units: float, context: float, service_s: float, *, outlier: float = OUTLIER, censored: bool = False
    ) -> None:
        """`censored`: it would have taken longer. The average, below a share of which no mean falls, then stays
        where it is if this chunk would lower it."""
        for index, value in ((1, units), (2, context)):
            if value and not self._scales[index]:
                self._scales[index] = max(value, LEAST_SCALE)
        one, unit, token = self._row(units, context)
        a, b, c = self._weights
        value = a * one + b * unit + c * token
        mean = max(value, LEAST_SHARE * self._average)
        service = min(service_s / self._unit_s, outlier * mean)
        if service > self._average or not censored:
            self._average = max(self._average + (1.0 - FORGETTING) * (service - self._average), 1e-6)
        error = (service - value) / mean
        x, y, z = scaled = one / mean, unit / mean, token / mean
        first, second, third = self._information
        # Of every chunk, so that nothing is looped over.
        first[0] = FORGETTING * first[0] + x * x + _LEAK
        first[1] = FORGETTING * first[1] + x * y
        first[2] = FORGETTING * first[2] + x * z
        second[0] = FORGETTING * second[0] + y * x
        second[1] = FORGETTING * second[1] + y * y + _LEAK
        second[2] = FORGETTING * second[2] + y * z
        third[0] = FORGETTING * third[0] + z * x
        third[1] = FORGETTING * third[1] + z * y
        third[2] = FORGETTING * third[2] + z * z + _LEAK
        p, q, r = _solve(self._information, scaled)
        weights = [a + p * error, b + q * error, c + r * error]
        falls = weights[1] < 0.0 or weights[2] < 0.0
        self._weights = _not_falling(self._information, weights) if falls else weights

    def coefficients(self) -> Row:
        """Seconds: of a chunk, per unit and per unit of context."""
        a, b, c = (w * self._unit_s / (s or 1.0) for w, s in zip(self._weights, self._scales, strict=True))
        return a, b, c

    def dump(self) -> dict[str, Any]:
        return {
            "unit_s": self._unit_s,
            "scales": list(self._scales),
            "weights": list(self._weights),
            "information": [list(line) for line in self._information],
            "average": self._average,
        }

    @classmethod
    def load(cls, dumped: Mapping[str, Any]) -> Line:
        line = cls(positive(dumped["unit_s"]))
        line._scales = numbers(dumped["scales"], 3)
        line._weights = numbers(dumped["weights"], 3)
        line._information = [numbers(each, 3) for each in dumped["information"]]
        line._average = positive(dumped["average"])
        if len(line._information) != 3:
            raise ValueError("the information matrix has 3 lines")
        return line

    def _row(self, units: float, context: float) -> Row:
        _, unit, token = self._scales
        return 1.0, units / unit if unit else 0.0, context / token if token else 0.0


def _anchor() -> list[list[float]]:
    return [[ANCHOR * (i == j) for j in range(3)] for i in range(3)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x of `matrix @ x = right`, for a symmetric matrix whose eigenvalues are at least `ANCHOR`: so then are the
    pivots, and what rounding has taken from one is put back."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    x, y, z = right
    a = max(a, ANCHOR)
    factor = d / a
    e, f, y = max(e - factor * b, ANCHOR), f - factor * c, y - factor * x
    factor = g / a
    h, i, z = h - factor * b, i - factor * c, z - factor * x
    factor = h / e
    i, z = max(i - factor * f, ANCHOR), z - factor * y
    z /= i
    y = (y - f * z) / e
    return [(x - (b * y + c * z)) / a, y, z]


def _not_falling(information: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """The weights that fit as well as may be, as the information matrix measures it, with none below 0 but the
    first: of the least squares with one of the others at 0, or both, the best that keeps to that."""
    known = [_dot(line, weights) for line in information]
    best, least = [weights[0], 0.0, 0.0], float("inf")
    for nothing in ((1,), (2,), (1, 2)):
        kept = [
            [line[j] if i not in nothing and j not in nothing else float(i == j) for j in range(3)]
            for i, line in enumerate(information)
        ]
        found = _solve(kept, [0.0 if i in nothing else known[i] for i in range(3)])
        away = [x - weight for x, weight in zip(found, weights, strict=True)]
        cost = _dot(away, [_dot(line, away) for line in information])
        if min(found[1:]) >= 0.0 and cost < least:
            best, least = found, cost
    return best


def numbers(values: Sequence[Any], length: int | None = None) -> list[float]:
    numbers = [float(value) for value in values]
    if not all(isfinite(number) for number in numbers) or length not in (None, len(numbers)):
        raise ValueError("a list of finite numbers is too short, too long, or none")
    return numbers


def positive(value: Any) -> float:
    (number,) = numbers([value])
    if number <= 0.0:
        raise ValueError(f"{number} is not positive")
    return number
