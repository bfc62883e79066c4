"""What is learnt of the predicted share of late turns, and how little of it at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.calibration import (
    LEAST,
    LEAST_ROOM,
    LOOSEST,
    MOST,
    MOST_ROOM,
    ROOM_TURNS,
    TIGHTEST,
    Calibration,
    LateBudget,
    Room,
)


def after(turns: int, predicted: float, *, late_every: int | None) -> float:
    calibration = Calibration()
    for turn in range(1, turns + 1):
        calibration.on_turn(predicted, late=late_every is not None and turn % late_every == 0)
    return calibration.factor


def test_at_first_half_as_much_again_is_expected() -> None:
    assert Calibration().factor == pytest.approx(1.5)


def test_what_happens_as_predicted_takes_the_doubt_away() -> None:
    assert after(20_000, 0.01, late_every=100) == pytest.approx(1.06, abs=0.03)


def test_three_times_as_many_late_turns_are_learnt() -> None:
    assert 2.7 < after(20_000, 0.01, late_every=33) < 3.1


def test_one_late_turn_out_of_nowhere_is_no_trend() -> None:
    assert after(1, 0.0, late_every=1) == pytest.approx(7.0 / 4.0)


def test_it_forgets() -> None:
    calibration = Calibration()
    for _ in range(100):
        calibration.on_turn(0.01, late=True)
    assert calibration.factor == MOST
    for _ in range(20_000):
        calibration.on_turn(0.01, late=False)
    assert calibration.factor == LEAST


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=300))
def test_it_never_runs_away(turns: list[tuple[float, bool]]) -> None:
    calibration, budget, room = Calibration(), LateBudget(0.01), Room(0.01)
    for predicted, late in turns:
        calibration.on_turn(predicted, late=late)
        budget.on_turn(predicted)
        room.on_turn(late=late, full=True)
        assert LEAST <= calibration.factor <= MOST
        assert TIGHTEST * 0.01 <= budget.allowed <= LOOSEST * 0.01
        assert LEAST_ROOM <= room.share <= MOST_ROOM


# --- the budget of late turns


def test_at_first_what_is_promised_is_allowed() -> None:
    assert LateBudget(0.01).allowed == pytest.approx(0.01)


def test_quiet_turns_save_up_for_a_rush() -> None:
    """Fifty turns with no risk: half a late one more may be among the next hundred."""
    budget = LateBudget(0.01)
    for _ in range(50):
        budget.on_turn(0.0)
    assert budget.allowed == pytest.approx(0.015, rel=0.03)


def test_a_rush_that_lasts_is_allowed_what_is_promised() -> None:
    """Whatever was saved: who uses all that is allowed ends where it is promised."""
    budget = LateBudget(0.01)
    for _ in range(2_000):
        budget.on_turn(0.0)
    assert budget.allowed == pytest.approx(LOOSEST * 0.01)
    used = []
    for _ in range(3_000):
        used.append(budget.allowed)
        budget.on_turn(used[-1])
    assert used[-1] == pytest.approx(0.01, rel=0.02)


def test_what_was_overdrawn_is_paid_back() -> None:
    budget = LateBudget(0.01)
    for _ in range(100):
        budget.on_turn(0.02)
    assert budget.allowed == pytest.approx(TIGHTEST * 0.01)


# --- the room


def test_turns_that_are_late_take_room_away_and_what_is_promised_of_them_leaves_it() -> None:
    room = Room(0.01)
    for turn in range(1000):
        room.on_turn(late=turn % 50 == 0)
    assert room.share == pytest.approx(1.0 - 1000 * (0.02 - 0.01) / ROOM_TURNS, abs=0.01)
    before = room.share
    for turn in range(1000):
        room.on_turn(late=turn % 100 == 0)
    assert room.share == pytest.approx(before, abs=0.01)


def test_many_late_turns_at_a_time_take_away_more_than_as_many_that_come_singly() -> None:
    """A dozen of a hundred: a device that is used beyond what it can do. For a while only."""
    rush, single = Room(0.01), Room(0.01)
    for turn in range(1200):
        single.on_turn(late=turn % 100 == 0)
        rush.on_turn(late=turn < 96 and turn % 8 == 0)
        if turn == 96:
            assert rush.share < 0.75 and single.share > 0.98
    assert single.share > 0.98 and rush.share > 0.9
    for late in (True, True, False):
        single.on_turn(late=late)
    assert single.share > 0.97, "two in a row may be chance"


def test_room_comes_back_when_turns_are_in_time() -> None:
    room = Room(0.01)
    for _ in range(200):
        room.on_turn(late=True)
    assert room.share == LEAST_ROOM
    for _ in range(20_000):
        room.on_turn(late=False)
    assert room.share == 1.0, "however long: nobody was there who could have been late"
    for _ in range(20_000):
        room.on_turn(late=False, full=True)
    assert room.share == MOST_ROOM
    room.on_turn(late=True)
    assert 1.0 < room.share < MOST_ROOM
