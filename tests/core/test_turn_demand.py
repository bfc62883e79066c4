"""How long a turn may keep the device while others wait: by hand, and against trying it out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.events import Work, WorkClass, WorkKind
from voicepipe.core.turn_demand import spare_s
from voicepipe.core.waiting import to_go_s


def turn(number: int, deadline: float | None, left_s: float) -> Work:
    """Half of what is left is in the chunk that waits."""
    kind, klass = WorkKind.THINK, WorkClass.STARTED
    return Work(number, f"s{number}", 1, 1, 0, kind, klass, deadline, 0.0, left_s / 2, expected_s=left_s / 2)


def test_nobody_waits() -> None:
    assert spare_s([], 1.0) is None
    assert spare_s([turn(1, None, 0.05)], 1.0) is None


def test_who_waits_alone_can_spare_its_slack() -> None:
    assert spare_s([turn(1, 1.2, 0.08)], 1.0) == pytest.approx(0.12)


def test_turns_wait_for_those_that_are_due_before_them() -> None:
    """The second has 0.25 - 0.08 - 0.1, and the first 0.12."""
    assert spare_s([turn(2, 1.25, 0.1), turn(1, 1.2, 0.08)], 1.0) == pytest.approx(0.07)


def test_who_is_late_anyhow_holds_nobody_up_and_is_owed_nothing() -> None:
    assert spare_s([turn(1, 1.05, 0.08)], 1.0) is None
    assert spare_s([turn(1, 1.05, 0.08), turn(2, 1.2, 0.08)], 1.0) == pytest.approx(0.12)


TURNS = st.lists(st.tuples(st.floats(0.0, 0.3), st.floats(0.001, 0.1)), max_size=6)


def late_after(x: float, works: list[Work]) -> set[int]:
    """Whose turns are late if somebody keeps the device for `x` from now on: earliest deadline first, the late ones
    last."""
    at, late = x, set()
    for work in sorted(works, key=lambda work: (work.deadline, to_go_s(work))):
        assert work.deadline is not None
        if at + to_go_s(work) > work.deadline:
            late.add(work.id)
        else:
            at += to_go_s(work)
    return late


@given(TURNS)
def test_what_is_spared_makes_nobody_late_and_more_does(turns: list[tuple[float, float]]) -> None:
    works = [turn(number, deadline, left_s) for number, (deadline, left_s) in enumerate(turns)]
    late = late_after(0.0, works)
    spare = spare_s(works, 0.0)
    if spare is None:
        assert late == set(range(len(works)))
    else:
        assert spare < 1e-6 or late_after(spare - 1e-6, works) == late
        assert late_after(spare + 1e-6, works) - late
