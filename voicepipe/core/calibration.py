"""What becomes of turns, against what was predicted and what was promised. No time of its own.

`Calibration`: how far a predicted share of late turns is from what happens, learnt slowly, between two bounds.

    factor = (DOUBT PRIOR + late) / (PRIOR + predicted)

with `PRIOR` turns to begin with, and half as many again for those late: nothing is known yet. Both sums forget, by
1/e after `MEMORY` turns: at one late turn in a hundred those hold some thirty late ones, and by chance six more or
fewer. Whatever is seen, the factor stays within `LEAST` and `MOST`: a run of bad luck does not shut the door, and a
run of good luck does not take it off its hinges.

`Room`: how much of what a device has time for may be asked of it. Where turns are late although none of their
collisions was to be expected, what else runs there is in their way: each turn that is late takes away
1 / `ROOM_TURNS` of the room, and each one in time gives back as much as leaves it where it is when `promised` of
all turns are late. Between `LEAST_ROOM` and 1; up to `MOST_ROOM` where turns are in time although the device is
used to the full: rushes do less harm than expected then. A quiet hour says nothing about them. So slow a step
follows what a device is like; where more turns are late at a time than chance explains, it is used beyond what it
can do now, and each late turn more takes away more, for the next `ALARM_TURNS` or so. (SmolLM2, Whisper and Piper
on two cores, ten callers in half a minute on a fresh server: 13 of 100 turns late, of which the slow step makes a
room of 0.94.)

`LateBudget`: a promise about turns is kept on the average of them, as an error budget of a service is. Where fewer
turns than promised were to be expected to be late, because fewer sessions were there, more of the next `AHEAD`
may be:

    allowed = promised + (promised turns - expected late ones) / AHEAD

within half and twice what is promised: a rush is not paid for out of one quiet hour alone. The turns are those of
the last `SPENT_OVER`, older ones fading. Where sessions come without end, nothing is saved up, and what is allowed
is what is promised. What counts is what was expected, and not what happened: late turns are few, and chance would
open and shut the door (tried: 98.1 to 99.3 % in time, from seed to seed).
"""

from __future__ import annotations

MEMORY = 3000
PRIOR, DOUBT = 4.0, 1.5
LEAST, MOST = 0.5, 4.0
SPENT_OVER = 1000
AHEAD = 100
"""Turns that end while a session lasts: some twenty sessions of five turns."""
TIGHTEST, LOOSEST = 0.5, 2.0
ROOM_TURNS = 200
NEWEST = 50
"""Turns; older ones fade."""
BY_CHANCE = 2.0
"""Late ones of these, where one in a hundred may be: more are seen once in sixty such times."""
ALARM_STEP, ALARM_TURNS = 0.01, 500
LEAST_ROOM, MOST_ROOM = 0.5, 1.25


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
        return min(max((DOUBT * PRIOR + self._late) / (PRIOR + self._predicted), LEAST), MOST)


class Room:
    def __init__(self, promised: float) -> None:
        """`promised`: the share of turns that may be late, in (0, 1)."""
        self._promised = promised
        self._slow = 1.0
        self._late = 0.0
        """Of the newest turns."""
        self._alarm = 0.0

    def on_turn(self, *, late: bool, full: bool = False) -> None:
        """`full`: the device had hardly room for another session."""
        most = MOST_ROOM if full else max(1.0, self._slow)
        self._slow = min(most, max(LEAST_ROOM, self._slow + (self._promised - late) / ROOM_TURNS))
        self._late += late - self._late / NEWEST
        self._alarm -= self._alarm / ALARM_TURNS
        if late:
            self._alarm = min(1.0 - LEAST_ROOM, self._alarm + ALARM_STEP * max(0.0, self._late - BY_CHANCE))

    @property
    def share(self) -> float:
        return max(LEAST_ROOM, self._slow - self._alarm)


class LateBudget:
    def __init__(self, promised: float) -> None:
        """`promised`: the share of turns that may be late, in (0, 1)."""
        self._promised = promised
        self._left = 0.0
        """Turns that may be late at most by the promise, less those that were to be expected to be."""

    def on_turn(self, expected: float) -> None:
        """A turn has ended of which as much was to be expected to be late."""
        self._left += self._promised - expected - self._left / SPENT_OVER

    @property
    def allowed(self) -> float:
        """The share of the turns to come that may be late."""
        share = self._promised + self._left / AHEAD
        return min(max(share, TIGHTEST * self._promised), LOOSEST * self._promised)
