"""What would have been, from what is late with a call and without it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from voicepipe.sim.counterfactual import Question, beside, fits


@dataclass(frozen=True)
class Timed:
    at: float
    end: float


CALLS = [Timed(0.0, 10.0), Timed(5.0, 20.0), Timed(11.0, 30.0), Timed(19.0, 40.0), Timed(31.0, 50.0)]


def test_those_that_are_under_way_with_it() -> None:
    """Of those that were kept, and not itself; who has left shortly before counts too."""
    assert beside(CALLS, range(5), 2, lead_s=0.0) == {1, 3}
    assert beside(CALLS, range(5), 2, lead_s=1.5) == {0, 1, 3}
    assert beside(CALLS, (0, 2, 3), 1, lead_s=0.0) == {0, 2, 3}
    assert beside(CALLS, (), 1) == frozenset()


class World:
    """Where a question of call 1 is late beside call 0, one of call 2 always, and one of call 3 when three talk."""

    def __init__(self) -> None:
        self.played: list[frozenset[int]] = []

    def __call__(self, numbers: Collection[int]) -> Collection[Question]:
        self.played.append(frozenset(numbers))
        late = set()
        if {0, 1} <= set(numbers):
            late.add((1, 4.0))
        if 2 in numbers:
            late.add((2, 1.0))
        if 3 in numbers and len(numbers) >= 3:
            late.add((3, 0.0))
        return late


def test_its_own_turns_and_those_of_others_count() -> None:
    """Whichever of the two comes second is the one that does not fit."""
    assert not fits(World(), {0}, 1) and not fits(World(), {1}, 0)
    assert not fits(World(), {0, 4}, 3) and not fits(World(), {3, 4}, 0)


def test_what_is_late_anyway_says_nothing_against_it() -> None:
    """Without it, or alone."""
    assert fits(World(), {2}, 4), "call 2 is late without it"
    assert fits(World(), {4}, 2), "it is late even alone"


def test_nothing_is_played_that_does_not_matter() -> None:
    """With nobody late there is no question; and it is played alone only where it may be its own fault."""
    world = World()
    assert fits(world, {4}, 5) and world.played == [{4, 5}]
    world = World()
    assert fits(world, {2}, 4) and world.played == [{2, 4}, {2}]
