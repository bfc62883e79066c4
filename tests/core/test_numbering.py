"""Epochs and revisions, and the work that carries them."""

from __future__ import annotations

from itertools import count

from voicepipe.core.events import Retire, Work, WorkClass, WorkKind
from voicepipe.core.numbering import Numbering


def test_turns_are_numbered_from_one() -> None:
    numbers = Numbering("s", count(1))
    assert numbers.turn == 0
    assert (numbers.begin_turn(), numbers.begin_turn()) == (1, 2)
    assert numbers.turn == 2


def test_work_belongs_to_what_the_next_commit_would_release() -> None:
    """One epoch further than the present one, under the present revision; ids are never given twice."""
    numbers = Numbering("s", count(7))
    numbers.begin_epoch()
    numbers.retire_ahead()
    assert numbers.work(3, WorkKind.FINAL, WorkClass.STARTED, 1.2) == Work(
        7, "s", 3, 2, 1, WorkKind.FINAL, WorkClass.STARTED, 1.2
    )
    assert numbers.work(3, WorkKind.WARM, WorkClass.SPECULATION) == Work(
        8, "s", 3, 2, 1, WorkKind.WARM, WorkClass.SPECULATION, None
    )


def test_what_was_made_ahead_is_retired_without_a_new_epoch() -> None:
    """All revisions of the coming epoch before this one."""
    numbers = Numbering("s", count(1))
    assert numbers.retire_ahead() == Retire(1, 1)
    assert numbers.retire_ahead() == Retire(1, 2)
    assert (numbers.epoch, numbers.revision) == (0, 2)


def test_what_was_committed_is_retired_by_a_new_epoch() -> None:
    """All epochs before it, whatever their revision."""
    numbers = Numbering("s", count(1))
    numbers.begin_epoch()
    assert numbers.retire() == Retire(2, 0)
    assert numbers.epoch == 2


def test_ids_may_be_drawn_by_others_too() -> None:
    serial = count(1)
    numbers = Numbering("s", serial)
    assert next(serial) == 1
    assert numbers.work(1, WorkKind.HEAR, WorkClass.ASR).id == 2


def test_another_session_goes_on_behind_the_last_one() -> None:
    """Its turns are counted on, and all that was numbered before is out of date."""
    numbers = Numbering("s2", count(1))
    numbers.restore(3, 7)
    assert numbers.epoch == 8 and numbers.begin_turn() == 4 and numbers.begin_epoch() == 9
