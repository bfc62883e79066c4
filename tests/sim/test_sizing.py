"""The fewest devices that do, found by simulation."""

from __future__ import annotations

from random import Random

import pytest

from voicepipe.sim import sizing
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.requests import Request
from voicepipe.sim.shapes import Objective, shipped_shapes
from voicepipe.sim.sizing import devices_needed, enough_in_time, in_time
from voicepipe.sim.traffic import traffic

SHAPE = shipped_shapes()["vision"]
OBJECTIVES = {"vision": SHAPE.objective}
TURNS = traffic(SHAPE, 120, Random(1))


def test_in_time_is_every_limit_of_the_objective() -> None:
    objective = Objective(first_token_s=1.0, token_s=0.1, clause_tokens=3, clause_s=1.5)

    def ended(first_s: float, clause_s: float, ended_s: float) -> Request:
        request = Request(10.0, 100, 11)
        request.first_s, request.clause_s, request.ended_s = 10 + first_s, 10 + clause_s, 10 + ended_s
        return request

    assert in_time(ended(0.9, 1.4, 1.8), objective)
    assert not in_time(ended(1.1, 1.4, 1.8), objective)
    assert not in_time(ended(0.9, 1.6, 1.8), objective)
    assert not in_time(ended(0.9, 1.4, 2.0), objective)
    assert not in_time(Request(10.0, 100, 11), objective)


def test_what_is_found_is_enough_and_one_less_is_not() -> None:
    found = devices_needed(TURNS, OBJECTIVES, SMALL, 1)
    assert found is not None and found > 2
    assert enough_in_time(TURNS, OBJECTIVES, SMALL, found)
    assert not enough_in_time(TURNS, OBJECTIVES, SMALL, found - 1)


def test_fewer_than_asked_for_are_not_looked_at() -> None:
    assert devices_needed(TURNS, OBJECTIVES, SMALL, 40) == 40


def test_where_no_number_is_enough_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture takes 0.7 s however many devices there are."""
    monkeypatch.setattr(sizing, "MOST_DEVICES", 8)
    assert devices_needed(TURNS, {"vision": Objective(0.1, 0.05)}, SMALL, 1) is None
