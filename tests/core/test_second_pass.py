"""Second passes: one chunk out at a time, the newest few waiting, corrections of other words only."""

from __future__ import annotations

from itertools import count

import pytest

from voicepipe.core.events import Line, Rehear, Submit, TurnCommand, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.second_pass import MAX_WAITING, TAIL_S, Correction, SecondPasses
from voicepipe.core.utterance import RATE_HZ, Span

TAIL = round(TAIL_S * RATE_HZ)


def line(turn: int) -> Line:
    return Line("user", f"turn {turn}")


def begin(passes: SecondPasses, turn: int) -> list[TurnCommand]:
    return passes.begin(Span(turn, 1000 * turn, 400), 1000 * turn + 500, line(turn), turn)


def submitted(commands: list[TurnCommand]) -> Work:
    (command,) = commands
    assert isinstance(command, Submit)
    return command.work


def test_a_pass_is_background_over_the_turns_sound() -> None:
    """With a little behind it: a decode at a lull ends before the pause."""
    passes = SecondPasses("s", count(7))
    work = Work(7, "s", 1, 1, 0, WorkKind.SECOND_PASS, WorkClass.BACKGROUND)
    assert begin(passes, 1) == [Submit(work, Rehear(1, 1000, 1500 + TAIL, 400))]


@pytest.mark.parametrize("text", ["Turn 1!", "turn  1", ""])
def test_the_same_words_or_none_correct_nothing(text: str) -> None:
    """A recogniser that hears nothing does not take words away."""
    passes = SecondPasses("s", count(1))
    work = submitted(begin(passes, 1))
    assert passes.on_reheard(work, text, True) == ([], None)


def test_other_words_correct_the_line() -> None:
    """It keeps its role; the line itself is named, not its words."""
    passes = SecondPasses("s", count(1))
    said = line(1)
    work = submitted(passes.begin(Span(1, 0, 400), 500, said, 1))
    commands, correction = passes.on_reheard(work, "Turn one.", True)
    assert (commands, correction) == ([], Correction(1, said, Line("user", "Turn one.")))
    assert correction is not None and correction.wrong is said


def test_a_pass_goes_on_chunk_by_chunk() -> None:
    """Until its transcript is final; an unfinished one corrects nothing."""
    passes = SecondPasses("s", count(1))
    first = submitted(begin(passes, 1))
    commands, correction = passes.on_reheard(first, "Other", False)
    second = submitted(commands)
    assert correction is None and second.id == 2 and commands == [Submit(second)]
    assert passes.on_reheard(second, "Other words", True)[1] is not None


def test_the_next_pass_begins_when_the_one_before_has_ended() -> None:
    """Chunks of a session's stream do not overlap."""
    passes = SecondPasses("s", count(1))
    first = submitted(begin(passes, 1))
    assert begin(passes, 2) == []
    commands, _ = passes.on_reheard(first, "x", True)
    assert submitted(commands).turn == 2


@pytest.mark.parametrize("how", ["failed", "gone"])
def test_a_lost_pass_brings_nothing_and_lets_the_next_one_begin(how: str) -> None:
    """An answer of somebody else changes nothing."""
    passes = SecondPasses("s", count(1))
    first = submitted(begin(passes, 1))
    begin(passes, 2)
    assert passes.on_lost(Work(99, "s", 1, 1, 0, WorkKind.SECOND_PASS, WorkClass.BACKGROUND)) == []
    assert submitted(passes.on_lost(first)).turn == 2
    assert passes.on_reheard(first, "late words", True) == ([], None)


def test_the_oldest_of_too_many_is_dropped() -> None:
    """Under a steady stream of turns without slack."""
    passes = SecondPasses("s", count(1))
    work = submitted(begin(passes, 1))
    for turn in range(2, 3 + MAX_WAITING):
        begin(passes, turn)
    turns = []
    while True:
        commands, _ = passes.on_reheard(work, "x", True)
        if not commands:
            break
        work = submitted(commands)
        turns.append(work.turn)
    assert turns == list(range(3, 3 + MAX_WAITING))


def test_a_reopened_turn_loses_its_pass() -> None:
    """The chunk at the device is withdrawn; if it runs on, its words are not taken. The next begins after it."""
    passes = SecondPasses("s", count(1))
    work = submitted(begin(passes, 1))
    assert passes.drop(1) == [Withdraw(work)]
    assert begin(passes, 2) == []
    commands, correction = passes.on_reheard(work, "late words", False)
    assert submitted(commands).turn == 2 and correction is None


def test_a_reopened_turn_loses_a_pass_that_waits_here() -> None:
    """Of others nothing is dropped."""
    passes = SecondPasses("s", count(1))
    work = submitted(begin(passes, 1))
    begin(passes, 2)
    assert passes.drop(2) == [] and passes.drop(3) == []
    assert passes.on_reheard(work, "x", True)[0] == []
