"""What is learnt of the predicted share of late turns, and how little of it at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.calibration import LEAST, MOST, Calibration


def after(turns: int, predicted: float, *, late_every: int | None) -> float:
    calibration = Calibration()
    for turn in range(1, turns + 1):
        calibration.on_turn(predicted, late=late_every is not None and turn % late_every == 0)
    return calibration.factor


def test_at_first_half_as_much_again_is_expected() -> None:
    assert Calibration().factor == pytest.approx(1.5)


def test_what_happens_as_predicted_leaves_the_doubt_alone() -> None:
    """40 late turns may have been 46."""
    assert after(20_000, 0.01, late_every=100) == pytest.approx(1.16, abs=0.03)


def test_three_times_as_many_late_turns_are_learnt() -> None:
    """With the doubt on top."""
    assert 3.0 < after(20_000, 0.01, late_every=33) < 3.5


def test_one_late_turn_out_of_nowhere_is_no_trend() -> None:
    assert after(1, 0.0, late_every=1) == pytest.approx((5.0 + 5.0**0.5) / 4.0)


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
    calibration = Calibration()
    for predicted, late in turns:
        calibration.on_turn(predicted, late=late)
        assert LEAST <= calibration.factor <= MOST
