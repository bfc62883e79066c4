"""Marks: when one is due, and what it proves."""

from __future__ import annotations

import pytest

from voicepipe.errors import BadField
from voicepipe.wire.messages import Playback
from voicepipe.wire.twilio.marks import MAX_IN_FLIGHT, Marks


def test_one_is_due_after_100_ms_and_at_the_end() -> None:
    marks = Marks()
    assert [marks.after(1, samples) for samples in (160, 799, 800, 1440, 1600)] == [
        None,
        None,
        "1:800",
        None,
        "1:1600",
    ]
    assert (marks.after_all(1, 1700), marks.after_all(1, 1700)) == ("1:1700", None)
    assert marks.after(2, 800) == "2:800", "a new reply is counted anew"


def test_one_that_returns_stands_for_those_before_it() -> None:
    marks = Marks()
    for samples in (800, 1600, 2400):
        marks.after(1, samples)
    assert marks.returned("1:1600") == Playback(1, 1600)
    with pytest.raises(BadField):
        marks.returned("1:800")
    assert marks.returned("1:2400") == Playback(1, 2400)


def test_what_was_in_flight_at_a_clear_proves_nothing() -> None:
    """At every clear, and also where the next reply's marks are out by then."""
    marks = Marks()
    marks.after(1, 800)
    marks.clear()
    marks.after(2, 800)
    marks.clear()
    marks.after(3, 800)
    assert [marks.returned(name) for name in ("1:800", "2:800", "3:800")] == [None, None, Playback(3, 800)]


def test_a_peer_that_returns_none_costs_a_bounded_number() -> None:
    marks = Marks()
    for n in range(1, 3 * MAX_IN_FLIGHT):
        marks.after(1, 800 * n)
        if n == 2 * MAX_IN_FLIGHT:
            marks.clear()
    assert len(marks._in_flight) <= MAX_IN_FLIGHT and len(marks._cleared) <= MAX_IN_FLIGHT
