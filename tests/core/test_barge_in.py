"""Speech over a reply: more of the turn, a barge-in, or nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import SETTINGS, Talk, kinds, replied, spoken
from voicepipe.core.barge_in import BargeIn, Finding
from voicepipe.core.events import (
    Committed,
    Line,
    Reopened,
    ReplyInterrupted,
    Retire,
    SpeechStarted,
    TurnEnded,
    Verdict,
    WorkKind,
)
from voicepipe.core.numbering import Numbering
from voicepipe.core.turn_state import Phase, Turn

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_speech_within_the_grace_time_reopens_the_turn() -> None:
    """96 ms of it: the commit was a false start. One turn, the user's line comes out of the history again."""
    talk = Talk().until_committed()
    assert talk.resume(1.2) == []
    assert talk.voiced(0.09, 1.3, at=1.4) == []
    commands = talk.voiced(0.096, 1.3, at=1.4)
    assert commands == [Reopened(1, 2), Retire(3, 1)]
    assert talk.phase is Phase.HEARING
    assert talk.history == []
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start) == (1, 0)


def test_a_reopened_turn_is_answered_as_one() -> None:
    """Both halves are one text, one commit counts, one verdict is told."""
    talk = Talk().until_committed()
    talk.resume(1.2)
    talk.voiced(0.096, 1.3, at=1.4)
    talk.soft_end(2.0)
    talk.hear("Hello there, my friend.", 2.02)
    assert talk.thoughts[-1].lines[1:] == (Line("user", "Hello there, my friend."),)
    assert Committed(1, 3) in talk.silence(0.16, 2.16)
    talk.do(talk.turns.on_cancel(2.2))
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert (ended.record.turn, ended.record.reopened) == (1, 1)


def test_a_reopening_takes_out_the_users_line_and_no_other() -> None:
    """What the client has added since stays."""
    talk = Talk().until_committed()
    talk.turns.on_line(Line("system", "It is raining."))
    talk.resume(1.2)
    talk.voiced(0.096, 1.3, at=1.4)
    assert talk.history == [("system", "It is raining.")]


def test_grace_lasts_until_a_while_after_the_first_sound() -> None:
    """800 ms after it was sent, the same speech is no false start any more."""
    talk = Talk().until_replying()
    talk.resume(1.95)
    assert "Reopened" in kinds(talk.voiced(0.1, 1.99))
    talk = Talk().until_replying()
    talk.resume(1.95)
    assert talk.voiced(0.1, 2.01) == []
    assert talk.phase is Phase.COMMITTED


def test_grace_waits_for_the_first_sound_however_long_that_takes() -> None:
    """As long as nothing was heard, speech goes on with the turn."""
    talk = Talk().until_committed()
    talk.resume(8.0)
    assert "Reopened" in kinds(talk.voiced(0.1, 8.1))


def test_speech_after_the_grace_time_interrupts() -> None:
    """256 ms of it: the heard words stay, marked as cut; the next turn begins where the speech began."""
    talk = Talk().until_replying()
    talk.wait(2.5)
    talk.resume(2.2, start=40_000)
    assert talk.voiced(0.25, 2.45) == []
    commands = talk.voiced(0.256, 2.5)
    assert kinds(commands) == ["ReplyInterrupted", "Retire", "TurnEnded", "SpeechStarted", "WARM"]
    assert commands[0] == ReplyInterrupted(1, 1, 1300)
    assert commands[1] == Retire(2, 0)
    assert commands[3] == SpeechStarted(2)
    assert talk.history[-1] == ("assistant", "One two. …")
    assert (talk.turns.epoch, talk.phase) == (2, Phase.HEARING)
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start) == (2, 40_000)


def test_a_cough_interrupts_nothing() -> None:
    """It ends before it counts, and the next one starts from nothing."""
    talk = Talk().until_replying()
    talk.resume(2.2)
    assert talk.voiced(0.2, 2.4) == []
    assert talk.soft_end(2.4) == []
    assert talk.voiced(0.3, 2.7) == []
    assert talk.phase is Phase.COMMITTED


def test_a_cough_before_the_first_sound_leaves_the_turn_to_be_answered() -> None:
    """Too short even for a reopening."""
    talk = Talk().until_committed()
    talk.resume(1.2)
    assert talk.voiced(0.08, 1.3) == []
    assert talk.soft_end(1.3) == []
    talk.think("One.", 1.4, last=True)
    assert "ReplyAudio" in kinds(talk.say(0.2, 1.5))


def test_speech_over_a_reply_that_may_not_be_interrupted_is_ignored() -> None:
    """And the next turn comes as ever."""
    talk = Talk(interruptible=False).until_replying()
    talk.resume(1.5)
    assert talk.voiced(1.0, 2.5) == []
    assert talk.soft_end(2.5) == []
    talk.wait(8.0)
    assert talk.phase is Phase.ENDED
    assert talk.resume(9.0, start=99)[0] == SpeechStarted(2)


def test_speech_that_began_over_the_end_of_a_reply_opens_the_next_turn() -> None:
    """Not long enough to interrupt when the reply ended by itself; nothing of it is lost."""
    talk = Talk().until_replying(2.0)
    talk.wait(3.15)
    talk.resume(3.1, start=50_000)
    talk.voiced(0.1, 3.15)
    assert kinds(talk.wait(3.3)) == ["TurnEnded", "SpeechStarted", "WARM"]
    span = talk.turns.span()
    assert span is not None and span.start == 50_000
    assert talk.history[-1] == ("assistant", "One two. Three four.")


def test_nothing_of_an_interrupted_reply_is_answered_any_more() -> None:
    """Late results of the old epoch are dropped in the middle of the next turn."""
    talk = Talk().until_committed()
    talk.think("One. ", 1.15)
    speak, think = talk.asked[WorkKind.SPEAK], talk.asked[WorkKind.THINK]
    talk.do(talk.turns.on_cancel(1.2))
    assert talk.say(2.0, 1.3, work=speak) == []
    talk.speak(1.4)
    assert talk.say(2.0, 1.5, work=speak) == []
    assert talk.think("Two. ", 1.5, work=think) == []


def test_a_cancel_while_speech_may_be_a_barge_in_opens_the_next_turn() -> None:
    """The user is speaking: the speech belongs to the turn after."""
    talk = Talk().until_replying()
    talk.resume(2.2, start=7)
    talk.voiced(0.1, 2.3)
    assert SpeechStarted(2) in talk.do(talk.turns.on_cancel(2.35))


def test_speech_does_not_go_on_with_a_typed_turn() -> None:
    """It interrupts it, by the threshold of a barge-in."""
    talk = Talk()
    talk.do(talk.turns.on_text("Hi.", 5.0))
    talk.speak(5.1)
    assert talk.voiced(0.2, 5.3) == []
    assert "ReplyInterrupted" in kinds(talk.voiced(0.256, 5.4))


def test_speech_does_not_go_on_with_a_turn_that_nobody_spoke() -> None:
    """A reply that was asked for is interrupted by speech, not opened again."""
    talk = Talk()
    talk.do(talk.turns.on_create(1.0))
    talk.speak(1.1)
    assert talk.voiced(0.2, 1.3) == []
    assert "ReplyInterrupted" in kinds(talk.voiced(0.256, 1.4))


def test_speech_after_a_demanded_commit_is_the_next_turn() -> None:
    """The commit was no guess, so it is not taken back: such speech interrupts."""
    talk = Talk(manual=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.do(talk.turns.on_commit_asked(1.0))
    talk.soft_end(1.1)
    talk.resume(1.2, start=20_000)
    talk.hear("Hello.", 1.25)
    assert talk.voiced(0.1, 1.3) == []
    assert SpeechStarted(2) in talk.voiced(0.256, 1.5)
    assert talk.verdict() is Verdict.INTERRUPTED


# --- by itself -------------------------------------------------------------------------------------------------


def replying(grace_until: float | None = None) -> Turn:
    turn = replied(spoken(Numbering("s", count(1))), until=1.1)
    turn.grace_until = grace_until
    return turn


@pytest.mark.parametrize(
    ("grace_until", "speech_s", "finding"),
    [
        (None, 0.095, None),
        (None, 0.096, Finding.FALSE_START),
        (1.5, 0.096, Finding.FALSE_START),
        (1.4, 0.096, None),  # it was until then
        (1.4, 0.255, None),
        (1.4, 0.256, Finding.BARGE_IN),
    ],
)
def test_it_depends_on_the_grace_time_how_much_speech_means_something(
    grace_until: float | None, speech_s: float, finding: Finding | None
) -> None:
    """Before the first sound of the reply grace has no end."""
    speech = BargeIn(SETTINGS)
    speech.on_speech(20_000)
    assert speech.weigh(replying(grace_until), speech_s, 1.4) is finding


@pytest.mark.parametrize("how", ["typed", "asked"])
def test_a_commit_that_was_demanded_is_no_false_start(how: str) -> None:
    turn = replying()
    turn.typed, turn.utterance.commit_asked = how == "typed", how == "asked"
    speech = BargeIn(SETTINGS)
    speech.on_speech(20_000)
    assert speech.weigh(turn, 0.2, 1.4) is None
    assert speech.weigh(turn, 0.3, 1.4) is Finding.BARGE_IN


def test_speech_that_did_not_begin_over_the_reply_means_nothing() -> None:
    """Nor does any, where replies may not be interrupted."""
    assert BargeIn(SETTINGS).weigh(replying(), 9.0, 1.4) is None
    deaf = BargeIn(replace(SETTINGS, interruptible=False))
    deaf.on_speech(20_000)
    assert deaf.weigh(replying(), 9.0, 1.4) is None and not deaf.user_sounds


def test_where_it_began_is_told_once() -> None:
    """For the turn that it opens; nobody's once it was too short."""
    speech = BargeIn(SETTINGS)
    speech.on_speech(20_000)
    assert speech.user_sounds
    assert (speech.take(), speech.take(), speech.user_sounds) == (20_000, None, False)
    speech.on_speech(30_000)
    speech.forget()
    assert speech.take() is None


def test_speech_that_may_not_interrupt_is_the_next_turn_if_it_goes_on() -> None:
    """And nobody's, if it was over before."""
    speech = BargeIn(replace(SETTINGS, interruptible=False))
    speech.on_speech(20_000)
    assert speech.weigh(replying(), 9.0, 1.4) is None
    assert speech.take() == 20_000
    speech.on_speech(30_000)
    speech.on_pause()
    assert speech.take() is None


def test_where_turns_begin_on_demand_what_was_said_is_kept_for_it() -> None:
    """All of it, from its first sound, and how much it was."""
    speech = BargeIn(replace(SETTINGS, interruptible=False, manual=True))
    speech.on_speech(20_000)
    assert speech.weigh(replying(), 0.6, 1.4) is None
    speech.on_pause()
    speech.on_speech(40_000)
    assert (speech.speech_s, speech.take()) == (0.6, 20_000)


def test_other_settings_hold_at_once() -> None:
    speech = BargeIn(SETTINGS)
    speech.on_speech(20_000)
    assert speech.weigh(replying(1.4), 0.3, 1.4) is Finding.BARGE_IN
    speech.on_settings(replace(SETTINGS, interruptible=False))
    assert speech.weigh(replying(1.4), 0.3, 1.4) is None
