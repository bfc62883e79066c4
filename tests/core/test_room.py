"""The waiting room: order, chairs, and news."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.room import Room, RoomSettings


def test_who_came_first_is_next_and_the_others_move_up() -> None:
    room: Room[str] = Room(RoomSettings(3, 30.0))
    assert [room.enter(n, guest, 0.0) for n, guest in ((1, "a"), (2, "b"), (3, "c"))] == [1, 2, 3]
    assert not room.has_place and room.moved() == []
    assert room.first is not None and room.first.guest == "a"
    assert room.leave(2) == "b" and room.leave(2) is None
    assert room.moved() == [(3, 2)] and room.moved() == []
    assert room.leave(1) == "a"
    assert room.moved() == [(3, 1)] and len(room) == 1 and room.has_place


def test_nobody_waits_longer_than_promised() -> None:
    room: Room[str] = Room(RoomSettings(2, 10.0))
    room.enter(1, "a", 0.0)
    room.enter(2, "b", 4.0)
    assert room.next_deadline() == 10.0 and room.overdue(9.9) == []
    assert [waiting.ticket for waiting in room.overdue(10.0)] == [1]
    room.leave(1)
    assert room.next_deadline() == 14.0


def test_a_guest_may_have_less_patience_than_the_room() -> None:
    """Whoever came before it goes on waiting."""
    room: Room[str] = Room(RoomSettings(3, 10.0))
    room.enter(1, "a", 0.0)
    room.enter(2, "b", 1.0, 3.0)
    room.enter(3, "c", 1.0, 60.0)
    assert room.next_deadline() == 4.0
    assert [waiting.ticket for waiting in room.overdue(4.0)] == [2]
    room.leave(2)
    assert room.next_deadline() == 10.0


def test_without_chairs_nobody_waits() -> None:
    assert not Room[str](RoomSettings()).has_place and Room[str](RoomSettings()).next_deadline() is None


@pytest.mark.parametrize("settings", [(-1, 1.0), (1, 0.0)])
def test_impossible_rooms_are_refused_at_birth(settings: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="room"):
        RoomSettings(*settings)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=60))
def test_what_is_told_is_always_the_place_in_the_line(steps: list[tuple[bool, int]]) -> None:
    room: Room[int] = Room(RoomSettings(5, 10.0))
    line: list[int] = []
    told: dict[int, int] = {}
    for ticket, (enters, place) in enumerate(steps):
        if enters and room.has_place:
            told[ticket] = room.enter(ticket, ticket, 0.0)
            line.append(ticket)
        elif line:
            room.leave(line.pop(place % len(line)))
        told.update(room.moved())
        assert [told[waiting] for waiting in line] == [*range(1, len(line) + 1)]
