"""What a session tells the device about its next chunk, and what it keeps to itself."""

from __future__ import annotations

from voicepipe.core.claiming import Claiming, Reserve, Unreserve
from voicepipe.core.scheduler import LAPSE_S


def test_it_is_taken_moved_and_given_back() -> None:
    """And nothing is told twice."""
    claiming = Claiming()
    assert claiming.on_latest_start(None, 1.0) is None and claiming.next_deadline() is None
    assert claiming.on_latest_start(5.0, 1.0) == Reserve(5.0)
    assert claiming.on_latest_start(5.0, 1.1) is None
    assert claiming.on_latest_start(4.0, 1.2) == Reserve(4.0)
    assert claiming.next_deadline() == 4.0 + LAPSE_S / 2
    assert claiming.on_latest_start(None, 1.3) == Unreserve()
    assert claiming.on_latest_start(None, 1.4) is None and claiming.next_deadline() is None


def test_what_is_overdue_is_renewed_before_it_lapses() -> None:
    """And not with every look."""
    claiming = Claiming()
    assert claiming.on_latest_start(0.5, 2.0) == Reserve(2.0)
    assert claiming.on_latest_start(0.5, 2.0 + 0.4 * LAPSE_S) is None
    assert claiming.on_latest_start(0.5, 2.0 + LAPSE_S / 2) == Reserve(2.0 + LAPSE_S / 2)


def test_a_start_that_is_to_come_replaces_an_overdue_one() -> None:
    claiming = Claiming()
    assert claiming.on_latest_start(0.5, 2.0) == Reserve(2.0)
    assert claiming.on_latest_start(2.3, 2.1) == Reserve(2.3)
