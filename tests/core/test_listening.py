"""What is said in a turn: the decodes that are asked for, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import SETTINGS, S, Talk, kinds
from voicepipe.core.answering import Answering
from voicepipe.core.events import (
    PartialTranscript,
    SoftEnd,
    Submit,
    Timing,
    Voiced,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.history import History
from voicepipe.core.ladder import Ladder
from voicepipe.core.listening import Listening
from voicepipe.core.numbering import Numbering
from voicepipe.core.turn_state import Turn, open_turn
from voicepipe.core.utterance import Ahead, Final

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_partials_are_asked_for_and_told_while_the_user_speaks() -> None:
    """Under the epoch that the commit will open."""
    talk = Talk()
    talk.speak(0.0)
    assert talk.voiced(0.6, 0.6) == [Submit(Work(2, "s", 1, 1, 0, WorkKind.PARTIAL, WorkClass.ASR))]
    timing = Timing(0.6, 0.6, 0.7)
    assert talk.turns.on_transcript(talk.asked[WorkKind.PARTIAL], "what", "is", 0, timing, 0.7) == [
        PartialTranscript(1, "what", "is")
    ]


def test_slow_partials_are_asked_for_less_often() -> None:
    """The hop follows a smoothed mean of what the steps took."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    slow = Timing(0.6, 0.6, 2.6)
    talk.turns.on_transcript(talk.asked[WorkKind.PARTIAL], "what", "", 0, slow, 2.6)
    # 30 % of the 2 s that went by are 0.6, and 1.5 times that is the hop.
    assert talk.voiced(1.4, 2.7) == []
    assert kinds(talk.voiced(1.5, 2.8)) == ["PARTIAL"]


def test_a_pause_asks_for_the_final_with_the_turns_deadline() -> None:
    """The deadline runs from the end of speech."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.4, 0.4)
    (command,) = talk.do(talk.turns.on_endpoint(SoftEnd(0), 0.45, 0.5))
    assert isinstance(command, Submit)
    assert (command.work.kind, command.work.klass) == (WorkKind.FINAL, WorkClass.STARTED)
    assert command.work.deadline == pytest.approx(0.65)


def test_a_failing_partial_costs_nothing() -> None:
    """The next one, or the final, will do."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    assert talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.PARTIAL], "engine_failed", 0.7)) == []
    assert kinds(talk.voiced(1.2, 1.2)) == ["PARTIAL"]


def test_a_discarded_partial_makes_room_for_the_next() -> None:
    """It waited at the device and will not run."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    talk.turns.on_discarded(talk.asked[WorkKind.PARTIAL])
    assert kinds(talk.voiced(1.2, 1.2)) == ["PARTIAL"]


# --- by itself -------------------------------------------------------------------------------------------------


def listening(**changes: object) -> tuple[Listening, Turn]:
    """And a turn whose speech goes on."""
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    numbers = Numbering("s", count(1))
    answering = Answering(numbers, settings, History(9), Ladder("s", settings, numbers.serial))
    return Listening(numbers, answering), open_turn(numbers, settings, 0, Outlook(), 0.0)


def test_the_hop_between_partials_follows_what_decodes_take() -> None:
    """Three tenths of a step of 2 s, half as long again: 900 ms. Of none at all: the least hop."""
    for steps, hop_s in ((0, 0.128), (1, 0.9)):
        hearing, turn = listening()
        for _ in range(steps):
            hearing.on_step(Timing(0.0, 0.5, 2.0))
        (asked,) = turn.utterance.on_voiced(S, S, 0.0)
        assert isinstance(asked, Submit)
        turn.utterance.on_transcript(asked.work, "", "", 0)
        near, due = S + round(hop_s * S) - 16, S + round(hop_s * S) + 16
        assert hearing.on_voiced(turn, Voiced(near, near), 1.9) == []
        assert kinds(hearing.on_voiced(turn, Voiced(due, due), 2.0)) == ["PARTIAL"]
        assert turn.voiced == 2.0


def test_nothing_is_told_of_what_was_told_before() -> None:
    """What a lull has brought may be what the last partial brought."""
    hearing, turn = listening(auto_reply=False)
    turn.utterance.show("", "What is")
    assert hearing.on_heard(turn, Ahead("What is"), 1.0) == []
    assert hearing.on_heard(turn, Ahead("What is it"), 1.1) == [PartialTranscript(1, "", "What is it")]
    assert hearing.on_heard(turn, None, 1.2) == []


def test_decodes_that_would_bring_the_same_are_taken_back() -> None:
    """Before anything else is asked for."""
    hearing, turn = listening()
    turn.utterance.on_pause(16_000)
    work = Work(40, "s", 1, 1, 0, WorkKind.FINAL, WorkClass.ASR)
    assert kinds(hearing.on_heard(turn, Final("Tell me more.", (work,)), 1.0)) == ["Withdraw", "THINK"]
    assert turn.ledger.record().instants.asr_final == 1.0


def test_a_pause_is_noted_and_asks_for_its_words() -> None:
    """The turn's engines have their time from then on."""
    hearing, turn = listening()
    assert kinds(hearing.on_pause(turn, S, 1.0, 1.03)) == ["FINAL"]
    instants = turn.ledger.record().instants
    assert (instants.speech_end, instants.soft_end, turn.progress) == (1.0, 1.03, 1.03)
