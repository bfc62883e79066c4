"""What counts as holding, and a hostile client and good ones for a moment."""

from __future__ import annotations

import argparse

import hostile
import pytest
from hostile import Side, interval, quantile, row


def side(*gaps_ms: float, unanswered: int = 0) -> Side:
    return Side(list(gaps_ms), len(gaps_ms) + unanswered, unanswered, [0.5])


def test_the_nearest_one_that_is_not_below_the_share() -> None:
    assert quantile([float(n) for n in range(100)], 0.99) == 99.0
    assert quantile([3.0], 0.5) == 3.0 and quantile([], 0.5) is None


@pytest.mark.parametrize(
    ("beside", "holds"),
    [
        (side(*[10.0] * 50), True),
        (side(*[11.9] * 50), True),
        (side(*[12.1] * 50), False),
        (side(*[10.0] * 49, 30.0), False),
        (side(*[10.0] * 50, unanswered=1), False),
        (side(), False),
    ],
)
def test_less_than_a_fifth_holds_and_a_turn_without_an_answer_does_not(beside: Side, holds: bool) -> None:
    assert row("pings", side(*[10.0] * 50), beside)["holds"] is holds


def test_less_than_a_millisecond_is_what_timers_are_good_for() -> None:
    assert row("pings", side(*[0.5] * 50), side(*[1.4] * 50))["holds"] is True
    assert row("pings", side(*[0.5] * 50), side(*[1.6] * 50))["holds"] is False


def test_the_interval_holds_what_moved() -> None:
    low, high = interval([1.0 + n / 100 for n in range(100)], [2.0 + n / 50 for n in range(100)])  # type: ignore[misc]
    assert low <= 1.0 <= high
    assert interval([], [1.0]) is None


async def test_good_clients_are_answered_beside_a_hostile_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it, so short that its figures mean nothing."""
    monkeypatch.setattr(hostile, "CYCLE_S", 1.5)
    monkeypatch.setattr(hostile, "GOOD", 2)
    args = argparse.Namespace(kinds=("garbage",), rounds=1, seconds=2.0)
    summary = await hostile.run(args)
    (found,) = summary["kinds"]
    assert found["n_alone"] > 0 and found["n_beside"] > 0 and found["cpu_beside"] is not None
    assert (summary["exit_status"], summary["leases_after"]) == (0, 0)
