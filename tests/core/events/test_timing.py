"""The times of a chunk, in seconds."""

from __future__ import annotations

import pytest

from voicepipe.core.events import LaneTiming, Timing, Waits


def test_a_timing_splits_into_wait_and_service() -> None:
    """Together all the time from the queue to the end."""
    timing = Timing(queued=1.0, started=1.5, finished=3.5)
    assert (timing.wait_s, timing.service_s) == (0.5, 2.0)


def test_where_nothing_more_is_known_all_waiting_was_for_others() -> None:
    assert Timing(1.0, 1.5, 3.5).waits == Waits(others_s=0.5)


def test_the_parts_of_a_wait_add_up_to_it() -> None:
    """Queued at 1.0, granted at 1.5, begun at 1.75; for 0.25 s of that a lower class ran, half of it background."""
    timing = LaneTiming(1.0, 1.75, 2.0, granted=1.5, blocked_s=0.25, background_s=0.125)
    assert timing.waits == Waits(lower_s=0.25, others_s=0.25, hand_off_s=0.25, background_s=0.125)
    waits = timing.waits
    assert waits.lower_s + waits.others_s + waits.hand_off_s == timing.wait_s


def test_nobody_is_blocked_for_longer_than_he_waited() -> None:
    """The loop learns of an end a little after it."""
    waits = LaneTiming(1.0, 1.5, 2.0, granted=1.25, blocked_s=0.3, background_s=0.3).waits
    assert (waits.lower_s, waits.others_s, waits.background_s) == (0.25, pytest.approx(0.0), 0.25)
