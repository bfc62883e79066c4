"""The rungs around a reply: what is expected, and who is left out."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import NO_TIME, Talk, kinds, pcm
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.budget import Ledger
from voicepipe.core.events import (
    Acknowledged,
    Corrected,
    Line,
    Reopened,
    ReplyAudio,
    Retire,
    Submit,
    TurnEnded,
    Verdict,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.ladder import HAND_OVER_S, Ladder, content_in_s, is_late
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import Reply, ReplyId, ReplySettings
from voicepipe.core.turn_state import Phase, Turn, TurnSettings
from voicepipe.core.utterance import DecodeSettings, Utterance

RATE = 1000
SOUND = b"\x01\x00" * 50
SETTINGS = TurnSettings(
    reply=ReplySettings(PlayoutSettings(RATE, frame_s=0.1)),
    patience=OPERATING_POINTS["fast"],
    instructions="Be brief.",
    downlink_s=0.0,
    acknowledge=AcknowledgeSettings(sounds=(SOUND,)),
    second_pass=True,
    may_shrink=True,
)
OUTLOOK = Outlook(reading_s=0.1, audio_s=0.05, audio_base_s=0.05)
SPEECH_END = 10.0
"""The deadline is 10.2."""


def ladder(**changes: object) -> Ladder:
    return Ladder("s", replace(SETTINGS, **changes), count(100))  # type: ignore[arg-type]


def heard(number: int = 1) -> Turn:
    """Speech has ended; no reply has been begun."""
    utterance = Utterance(0, _work, DecodeSettings())
    utterance.on_voiced(8_000, 16_000, 0.0)
    ledger = Ledger(number, SETTINGS.budget_s, SETTINGS.downlink_s)
    turn = Turn(number, utterance, ledger, opened=9.0, progress=9.0, voiced=9.0, outlook=OUTLOOK)
    utterance.on_pause(16_000)
    ledger.on_soft_end(SPEECH_END, SPEECH_END)
    return turn


def _work(kind: WorkKind, klass: WorkClass) -> Work:
    return Work(1, "s", 1, 1, 0, kind, klass)


def committed(at: float = 10.1, *, begun: float = 10.04, number: int = 1) -> Turn:
    turn = heard(number)
    turn.reply = Reply(ReplyId("s", number, 1, 0), SETTINGS.reply, turn.ledger, count(1), OUTLOOK)
    turn.reply.begin((Line("user", "Hello."),), begun)
    turn.phase, turn.said = Phase.COMMITTED, Line("user", "Hello.")
    turn.ledger.on_commit(at)
    turn.reply.on_release(at)
    return turn


def rungs(turn: Turn) -> tuple[str, ...]:
    return turn.ledger.record().rungs


def test_what_is_expected_of_a_turn_without_a_reply_is_all_of_one() -> None:
    """Clause and audio, from now on; its deadline tells whether that is late."""
    turn = heard()
    assert content_in_s(turn, 10.0) == pytest.approx(0.15)
    assert not is_late(turn, 10.04)
    assert is_late(turn, 10.06)


def test_before_the_speech_has_ended_nothing_is_late() -> None:
    """There is no deadline."""
    turn = Turn(
        1,
        Utterance(0, _work, DecodeSettings()),
        Ledger(1, 0.2, 0.0),
        opened=9.0,
        progress=9.0,
        voiced=9.0,
        outlook=OUTLOOK,
    )
    assert not is_late(turn, 1e9)


def test_the_smaller_model_takes_replies_that_would_be_late() -> None:
    """Where it is wanted; and not while the user speaks on after a pause, whose deadline has passed."""
    turn = heard()
    assert not ladder().wants_small_model(turn, 10.04)
    assert ladder().wants_small_model(turn, 10.06)
    assert not ladder(may_shrink=False).wants_small_model(turn, 10.06)
    turn.utterance.on_resumed()
    assert not ladder().wants_small_model(turn, 11.0)


def test_a_second_pass_is_asked_for_at_the_commit() -> None:
    """Over all that was said, up to the pause."""
    (command,) = ladder().hear_again(committed(), 1, 10.1)
    assert isinstance(command, Submit) and command.task is not None
    assert (command.work.kind, command.work.klass) == (WorkKind.SECOND_PASS, WorkClass.BACKGROUND)


def test_a_late_turn_goes_without_a_second_pass_and_says_so() -> None:
    """Unless the rung is off."""
    late = committed(10.19, begun=10.18)
    assert ladder().hear_again(late, 1, 10.19) == []
    assert rungs(late) == ("no-second-pass",)
    other = committed(10.19, begun=10.18)
    assert len(ladder(may_skip_pass=False).hear_again(other, 1, 10.19)) == 1
    assert rungs(other) == ()


def test_there_is_no_second_pass_of_what_was_not_spoken() -> None:
    """Nor without a larger recogniser: then there is no rung either."""
    typed = committed()
    typed.typed = True
    assert ladder().hear_again(typed, 1, 10.1) == []
    late = committed(10.19, begun=10.18)
    assert ladder(second_pass=False).hear_again(late, 1, 10.19) == [] and rungs(late) == ()


def test_an_acknowledgement_is_due_just_before_the_deadline() -> None:
    """Not before; and the rung is noted when it is given out."""
    turn, these = committed(begun=10.15), ladder()
    assert these.acknowledge_at(turn, 1) == pytest.approx(10.19)
    assert these.acknowledge(turn, 1, 10.18, user_sounds=False) == []
    told, audio = these.acknowledge(turn, 1, 10.19, user_sounds=False)
    assert told == Acknowledged(1, 1, 50) and audio == ReplyAudio(1, 0, SOUND)
    assert rungs(turn) == ("acknowledge",)
    assert these.acknowledge_at(turn, 1) is None


@pytest.mark.parametrize("commit", [10.195, 10.2, 11.5])
def test_where_the_commit_is_late_it_is_due_at_the_commit(commit: float) -> None:
    """At once, and not any later: the loop that stood still meanwhile gives none."""
    turn, these = committed(commit, begun=commit - 0.01), ladder()
    assert these.acknowledge_at(turn, 1) == pytest.approx(commit)
    assert len(these.acknowledge(turn, 1, commit + 0.002, user_sounds=False)) == 2
    other, those = committed(commit, begun=commit - 0.01), ladder()
    assert those.acknowledge(other, 1, commit + 0.02, user_sounds=False) == []
    assert those.acknowledge_at(other, 1) is None and rungs(other) == ()


def test_a_user_who_may_have_gone_on_is_not_talked_over() -> None:
    """It is not made up for later."""
    turn, these = committed(begun=10.15), ladder()
    assert these.acknowledge(turn, 1, 10.19, user_sounds=True) == []
    assert these.acknowledge_at(turn, 1) is None and rungs(turn) == ()


def test_content_that_is_about_to_come_is_waited_for() -> None:
    """Its clause was there at 10.15, and the audio takes 50 ms."""
    turn = committed()
    assert turn.reply is not None
    turn.reply.on_thought("Yes, it is. ", True, 10.15)
    assert ladder().acknowledge(turn, 1, 10.19, user_sounds=False) == []
    assert rungs(turn) == ()


@pytest.mark.parametrize("why", ["hearing", "no reply", "typed", "reopened", "content", "made"])
def test_who_is_never_acknowledged(why: str) -> None:
    """Nobody before the commit, nobody who did not speak, nobody who was cut off, nobody who has been answered."""
    turn = committed()
    reply = turn.reply
    assert reply is not None
    match why:
        case "hearing":
            turn.phase = Phase.HEARING
        case "no reply":
            turn.reply = None
        case "typed":
            turn.typed = True
        case "reopened":
            turn.reopened = True
        case "content":
            reply.on_thought("Yes, it is. ", False, 10.12)
            reply.on_spoken(SOUND, False, 10.13)
        case "made":
            reply.on_thought("", True, 10.12)
    assert ladder().acknowledge_at(turn, 1) is None


# --- in a talk

MASKS = AcknowledgeSettings(sounds=(pcm(0.1),), one_in=1)
SLOW_REPLY = Outlook(reading_s=9.0)


def test_an_enforced_turn_without_content_is_refused_at_its_deadline() -> None:
    """200 ms after speech end, less the way to the socket; nothing of it is said, the words stay in the history."""
    talk = Talk(enforce=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("Hello there.", 1.05)
    talk.silence(0.1, 1.1)
    assert talk.turns.next_deadline() == pytest.approx(1.2 - HAND_OVER_S)
    assert talk.do(talk.turns.on_timer(1.198)) == []
    retire, ended = talk.do(talk.turns.on_timer(1.1991))
    assert retire == Retire(2, 0)
    assert isinstance(ended, TurnEnded) and ended.record.verdict is Verdict.REFUSED
    assert talk.turns.snapshot().history == (Line("user", "Hello there."),)
    assert talk.turns.on_timer(1.3) == [] and talk.turns.next_deadline() is None


def test_an_enforced_turn_that_is_committed_after_its_deadline_is_refused() -> None:
    """Though its reply is ready: nothing of it is said."""
    talk = Talk(enforce=True)
    talk.until_final("and")
    talk.think("One two. Three.", 1.03, last=True)
    talk.say(0.1, 1.05)
    assert kinds(talk.silence(1.4, 2.4)) == ["FinalTranscript", "Committed", "Promote", "Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.REFUSED
    assert talk.history == [("user", "and")]


def test_an_enforced_turn_with_content_in_time_is_not_refused() -> None:
    talk = Talk(enforce=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("Hello there.", 1.05)
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "Yes.", True, NO_TIME, 1.07))
    talk.do(talk.turns.on_spoken(talk.asked[WorkKind.SPEAK], pcm(0.5), True, NO_TIME, 1.09))
    assert "ReplyAudio" in kinds(talk.silence(0.1, 1.1))
    assert not any(isinstance(command, TurnEnded) for command in talk.turns.on_timer(1.2))


def masked(**changes: object) -> Talk:
    """Speech has ended at 1.0, the turn is committed at 1.1, and the model thinks. The deadline is 1.2."""
    talk = Talk(acknowledge=MASKS, **changes)
    talk.turns.on_outlook(SLOW_REPLY)
    talk.until_final()
    talk.silence(0.1, 1.1)
    assert talk.turns.snapshot().phase is Phase.COMMITTED
    return talk


def test_nothing_is_acknowledged_before_the_commit() -> None:
    """The deadline may pass: who has not finished is not told "mm-hm"."""
    talk = Talk(acknowledge=MASKS, manual=True)
    talk.turns.on_outlook(SLOW_REPLY)
    talk.until_final()
    assert [c for c in talk.wait(1.5) if isinstance(c, Acknowledged | ReplyAudio)] == []


def test_an_acknowledged_turn_is_masked_and_its_grace_runs_from_the_content() -> None:
    """The sound is no answer: the user may still go on, long after it."""
    talk = masked()
    assert [type(c).__name__ for c in talk.wait(1.195)] == ["Acknowledged", "ReplyAudio"]
    talk.turns.on_acknowledged(1, 1.191)
    talk.speak(2.5, start=40_000)
    assert isinstance(talk.voiced(0.1, 2.6, at=2.6)[0], Reopened)


def test_a_clause_that_is_being_spoken_at_the_deadline_is_told_with_its_own_sound() -> None:
    """Not with the acknowledgement in front of it, nor is it remembered as heard by then."""
    talk = Talk(acknowledge=MASKS)
    talk.turns.on_outlook(Outlook(audio_s=1.0, audio_base_s=1.0))
    talk.until_final()
    talk.think("One two three. ", 1.05, last=True)
    talk.silence(0.1, 1.1)
    assert [type(command).__name__ for command in talk.wait(1.195)] == ["Acknowledged", "ReplyAudio"]
    assert "heard_ms=50" in str(talk.do(talk.turns.on_cancel(1.24))[0])
    assert talk.history == [("user", "Hello there.")]


def test_an_acknowledgement_of_another_epoch_marks_nothing() -> None:
    """It had been given out when its turn was reopened."""
    talk = masked()
    talk.wait(1.195)
    talk.turns.on_acknowledged(7, 1.195)
    talk.think("Yes. ", 1.4, last=True)
    talk.say(0.1, 1.5)
    talk.turns.on_sent(1, 1.5)
    (ended,) = [c for c in talk.wait(3.0) if isinstance(c, TurnEnded)]
    assert ended.record.verdict is Verdict.MISSED and ended.record.instants.acknowledged is None


def test_who_may_have_gone_on_is_not_talked_over() -> None:
    """Speech too short to take the commit back, at the deadline."""
    talk = masked()
    talk.speak(1.17, start=18_720)
    talk.voiced(0.032, 1.18, at=1.18)
    assert [c for c in talk.wait(1.3) if isinstance(c, Acknowledged)] == []


def test_what_was_said_is_corrected_wherever_the_turn_stands() -> None:
    """In the history and for the client; a reply that is being made stays as it is."""
    talk = Talk(second_pass=True).until_final("I want a bare.")
    commands = talk.silence(0.1, 1.1)
    assert "SECOND_PASS" in kinds(commands)
    work = talk.asked[WorkKind.SECOND_PASS]
    assert talk.turns.on_reheard(work, "I want a pear.", True) == [Corrected(1, "I want a pear.")]
    assert talk.turns.snapshot().history == (Line("user", "I want a pear."),)
    assert talk.thoughts[-1].lines[-1] == Line("user", "I want a bare.")


def test_a_corrected_turn_can_still_be_reopened() -> None:
    """Its corrected line leaves the history, as the first one would have."""
    talk = Talk(second_pass=True).until_final("I want a bare.")
    talk.silence(0.1, 1.1)
    talk.turns.on_reheard(talk.asked[WorkKind.SECOND_PASS], "I want a pear.", True)
    talk.speak(1.3, start=20_800)
    assert "Reopened" in kinds(talk.voiced(0.1, 1.4, at=1.4))
    assert talk.turns.snapshot().history == ()


def test_a_line_that_has_left_the_history_is_not_corrected() -> None:
    """Nobody reads it any more, and the client is not told either."""
    talk = Talk(second_pass=True, max_lines=1).until_final("I want a bare.")
    talk.silence(0.1, 1.1)
    talk.turns.on_line(Line("user", "Something else."))
    assert talk.turns.on_reheard(talk.asked[WorkKind.SECOND_PASS], "I want a pear.", True) == []
    assert talk.turns.snapshot().history == (Line("user", "Something else."),)


def test_a_second_pass_that_fails_does_not_fail_the_turn() -> None:
    """Nor does one that is dropped."""
    talk = Talk(second_pass=True).until_final()
    talk.silence(0.1, 1.1)
    work = talk.asked[WorkKind.SECOND_PASS]
    assert talk.turns.on_engine_failed(work, "engine_failed", 1.2) == []
    assert talk.turns.on_discarded(work) == []
    assert talk.turns.snapshot().phase is Phase.COMMITTED
