"""A line through samples that is not bent by some that lie elsewhere."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

BLOCKS = 12
RESAMPLED = 200
MOST = 300


class Slope(NamedTuple):
    """Per second; `low` to `high` hold nine of ten that resampled samples come to."""

    middle: float
    low: float
    high: float


def slope(samples: Sequence[tuple[float, float]], seed: int = 1) -> Slope | None:
    """Theil and Sen's: the median of the slopes between all pairs. What is near in time is alike, so that blocks of
    samples are drawn for the interval. None for fewer than 8."""
    if len(samples) < 8:
        return None
    thinned = list(samples[:: max(1, len(samples) // MOST)])
    draw, found = random.Random(seed), []
    size = max(2, len(thinned) // BLOCKS)
    for _ in range(RESAMPLED):
        drawn: list[tuple[float, float]] = []
        while len(drawn) < min(len(thinned), 60):
            begin = draw.randrange(len(thinned) - size + 1)
            drawn += thinned[begin : begin + size]
        found.append(_median_slope(drawn))
    found.sort()
    return Slope(_median_slope(thinned), found[RESAMPLED // 20], found[-RESAMPLED // 20])


def _median_slope(samples: Sequence[tuple[float, float]]) -> float:
    return median(
        [
            (after - before) / (later - sooner)
            for index, (sooner, before) in enumerate(samples)
            for later, after in samples[index + 1 :]
            if later != sooner
        ]
        or [0.0]
    )
