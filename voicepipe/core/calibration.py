"""How far a predicted share of late turns is from what happens: learnt, slowly, between two bounds.

    factor = (late + sqrt(late)) / predicted

with `PRIOR` turns on both sides to begin with. Both sums forget, by 1/e after `MEMORY` turns: at one late turn in a
hundred those hold some thirty late ones, and by chance six more or fewer. A promise is to be kept all the same, so
that one standard deviation more is taken for what happens. Whatever is seen, the factor stays within `LEAST` and
`MOST`: a run of bad luck does not shut the door, and a run of good luck does not take it off its hinges. No time of
its own.
"""

from __future__ import annotations

from math import sqrt

MEMORY = 3000
PRIOR = 4.0
LEAST, MOST = 0.5, 4.0


class Calibration:
    def __init__(self) -> None:
        self._late = self._predicted = 0.0

    def on_turn(self, predicted: float, *, late: bool) -> None:
        """A turn has ended; `predicted` was the probability, in [0, 1], that it would be late."""
        fade = 1.0 - 1.0 / MEMORY
        self._late = self._late * fade + late
        self._predicted = self._predicted * fade + predicted

    @property
    def factor(self) -> float:
        """What a prediction is to be multiplied by."""
        late = PRIOR + self._late
        return min(max((late + sqrt(late)) / (PRIOR + self._predicted), LEAST), MOST)
