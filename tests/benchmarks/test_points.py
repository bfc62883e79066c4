"""What is made of turns: points, and what they show."""

from __future__ import annotations

from typing import Any

import pytest
from arrivals import Question
from caller import Asked, Played
from points import percentile, point, shown

from .test_caller import answered

QUESTION = Question(0.0, 2.0)


def asked(*gaps_s: float | None) -> list[Asked]:
    """Answered after so long; None: never."""
    return [
        Asked(
            n, QUESTION, "", None if gap is None else answered(2.0, 2.0 + gap), float("inf") if gap is None else gap
        )
        for n, gap in enumerate(gaps_s)
    ]


def test_met_rate_and_goodput_are_over_all_turns_of_admitted_sessions() -> None:
    """A question without a turn is one that was not kept; a refused session only stands in `refused`."""
    played = Played([*asked(0.1, 0.15, 0.5, None), Asked(9, QUESTION, "burst")], 3, {"burst": 1}, 3)
    told = point("deadline", 2.0, [10.0], [played])
    assert (told["met_rate"], told["goodput"], told["turns"]) == (0.5, 0.2, 4)
    assert (told["admitted"], told["refused"], told["refused_rate"]) == (3, 1, 0.25)
    assert told["felt_p99_ms"] is None, "one of them is infinitely late"
    assert told["false_admits"] == 0.5


def test_seeds_stand_beside_their_mean() -> None:
    two = [Played(asked(0.1, 0.1), 1), Played(asked(0.1, 0.5), 1)]
    told = point("none", 1.0, [10.0, 10.0], two)
    assert (told["met_rate"], told["met_rate_seeds"]) == (0.75, [0.5, 1.0])
    assert (told["goodput"], told["goodput_seeds"]) == (0.15, [0.1, 0.2])


@pytest.mark.parametrize(("q", "value"), [(0.5, 2.0), (0.99, 4.0), (0.75, 3.0)])
def test_a_percentile_is_one_of_the_values(q: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], q) == value


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile([], 0.5) is None


def made(policy: str, offered: float, met_rate: float, goodput: float, refused_rate: float = 0.0) -> dict[str, Any]:
    return {
        "policy": policy,
        "offered": offered,
        "met_rate": met_rate,
        "goodput": goodput,
        "refused_rate": refused_rate,
        "refusal_p99_ms": 5.0 if refused_rate else None,
    }


def test_what_is_to_be_shown_is_held_against_its_bound() -> None:
    points = [
        made("none", 0.5, 1.0, 1.0),
        made("none", 2.0, 0.8, 4.0),
        made("deadline", 0.5, 1.0, 1.0, 0.005),
        made("deadline", 2.0, 0.985, 2.0, 0.5),
    ]
    told = {name: (value, held) for name, (value, _, held) in shown(points).items()}
    assert told["met_rate, the least"] == (0.985, False)
    assert told["peak goodput over the best (none at 2.0x)"] == (0.5, False)
    assert told["peak goodput over the best of points that keep 99 %"] == (2.0, True)
    assert told["goodput at 2x over its peak"] == (1.0, True)
    assert told["refused at 0.5x"] == (0.005, True)
    assert told["refusals p99, ms"] == (5.0, True)
