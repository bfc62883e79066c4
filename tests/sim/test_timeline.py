"""Events happen in order of time, and of one instant in the order in which they were set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.sim.timeline import Timeline


@given(st.lists(st.integers(0, 20)))
def test_events_happen_in_order_of_time_and_of_their_setting(times: list[int]) -> None:
    timeline, happened = Timeline(), list[tuple[int, int]]()
    for serial, when in enumerate(times):
        timeline.at(when, lambda when=when, serial=serial: happened.append((when, serial)))  # type: ignore[misc]
    timeline.run()
    assert happened == sorted((when, serial) for serial, when in enumerate(times))


def test_what_is_late_happens_now_and_time_never_goes_back() -> None:
    timeline, happened = Timeline(), list[tuple[str, float]]()

    def first() -> None:
        timeline.at(1.0, lambda: happened.append(("late", timeline.now)))
        timeline.after(0.5, lambda: happened.append(("after", timeline.now)))

    timeline.at(2.0, first)
    timeline.at(2.0, lambda: happened.append(("second", timeline.now)))
    timeline.run()
    assert happened == [("second", 2.0), ("late", 2.0), ("after", 2.5)]


def test_what_is_cancelled_does_not_happen() -> None:
    timeline, happened = Timeline(), list[int]()
    event = timeline.at(1.0, lambda: happened.append(1))
    kept = timeline.at(1.0, lambda: happened.append(2))
    event.cancel()
    timeline.run()
    kept.cancel()  # to no effect
    assert happened == [2]


def test_a_run_ends_at_its_instant_and_goes_on_from_there() -> None:
    timeline, happened = Timeline(), list[float]()
    for when in (1.0, 2.0, 3.0):
        timeline.at(when, lambda: happened.append(timeline.now))
    timeline.run(2.0)
    assert happened == [1.0, 2.0] and timeline.now == 2.0
    timeline.run(2.5)
    assert timeline.now == 2.5
    timeline.run()
    assert happened == [1.0, 2.0, 3.0]


def test_what_an_event_raises_ends_the_run() -> None:
    timeline = Timeline()

    def fail() -> None:
        raise ValueError("broken")

    timeline.at(1.0, fail)
    with pytest.raises(ValueError, match="broken"):
        timeline.run()
