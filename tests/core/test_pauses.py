"""When a pause is the end of the turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import SETTINGS, S, Talk, kinds, spoken
from voicepipe.core.events import (
    Committed,
    Quiet,
    Stage,
    Submit,
    Swell,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.numbering import Numbering
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.pauses import Pauses
from voicepipe.core.turn_state import Phase, Turn

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_after_a_false_start_more_silence_is_asked_for() -> None:
    """In the same turn already; three frames were too few."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("One is it.", 1.05)
    assert "Committed" in kinds(talk.silence(0.096, 1.1))
    talk.resume(1.2, start=1_920)  # after 120 ms
    assert "Reopened" in kinds(talk.voiced(0.1, 1.3))
    talk.soft_end(2.0)
    talk.hear("One is it. Two is it.", 2.05)
    assert "Committed" not in kinds(talk.silence(0.128, 2.13))
    assert "Committed" in kinds(talk.silence(0.16, 2.16))


def test_quiet_from_the_end_of_sound_commits_too() -> None:
    """The detector has only told of 64 ms by then. Quiet that was broken counts from its new beginning."""
    talk = Talk().until_final()
    assert talk.silence(0.064, 1.07) == []
    assert talk.told(Quiet(1_280), 1.08) == []
    assert talk.told(Swell(16_640), 1.085) == []
    assert talk.told(Quiet(320), 1.09) == []
    assert Committed(1, 1) in talk.told(Quiet(1_600), 1.1)


def test_quiet_alone_ends_nothing() -> None:
    """While the detector hears speech, a lull is no pause, however long."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert talk.told(Quiet(8_000), 1.5) == []
    assert talk.phase is Phase.HEARING


def test_the_wait_depends_on_the_words() -> None:
    """Who stops after "and" has not finished; the hard cap ends every wait."""
    talk = Talk().until_final("I would like tea and")
    assert talk.silence(1.376, 2.376) == []
    assert "Committed" in kinds(talk.silence(1.4, 2.4))


def test_a_final_after_the_silence_commits_on_arrival() -> None:
    """No second wait: the silence has been long enough already."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    assert talk.silence(0.5, 1.5) == []
    assert kinds(talk.hear("Hello there.", 1.51)) == [
        "Withdraw",
        "THINK",
        "FinalTranscript",
        "Committed",
        "Promote",
    ]


def asked(**changes: object) -> Talk:
    """At `balanced`, in the first frame of a pause behind a whole request."""
    talk = Talk(turn_model=True, **{"patience": OPERATING_POINTS["balanced"], **changes})
    talk.until_final("Tell me more.")
    talk.silence(0.032, 1.03)
    return talk


def scored(talk: Talk, score: float, now: float, work: Work | None = None) -> list[str]:
    return kinds(talk.do(talk.turns.on_score(work or talk.asked[WorkKind.JUDGE], score, now)))


def test_a_turn_model_is_asked_once_the_words_of_a_pause_are_known() -> None:
    """In the class of recognition, for the turn that the commit will open, beside the reply."""
    talk = asked()
    work = talk.asked[WorkKind.JUDGE]
    assert (work.klass, work.epoch, work.kind.stage) == (WorkClass.ASR, 1, Stage.ENDPOINT)
    assert WorkKind.THINK in talk.asked
    assert talk.silence(0.064, 1.07) == [], "one question at a time"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"turn_model": False}, "Tell me more."),
        ({"manual": True}, "Tell me more."),
        ({"patience": OPERATING_POINTS["fast"]}, "Tell me more."),
        ({"patience": OPERATING_POINTS["safe"]}, "Tell me more."),
        ({}, "Tell me more and"),
        ({}, ""),
    ],
)
def test_it_is_asked_only_where_its_answer_can_matter(changes: dict[str, object], text: str) -> None:
    """There is one, silence ends turns, and it waits neither too little nor as long as can be."""
    settings = {"turn_model": True, "patience": OPERATING_POINTS["balanced"], **changes}
    talk = Talk(**settings)
    talk.until_final(text)
    talk.silence(0.032, 1.03)
    assert WorkKind.JUDGE not in talk.asked


def test_undecided_words_leave_time_for_a_question_at_the_fast_point_too() -> None:
    talk = asked(patience=OPERATING_POINTS["fast"])
    talk.resume(1.1)
    talk.voiced(0.5, 1.6, at=1.6)
    talk.soft_end(1.6)
    talk.hear("tell me more", 1.65)
    assert WorkKind.JUDGE in talk.asked


def test_a_sound_without_an_end_makes_the_turn_wait() -> None:
    """Until the silence that an open end gets, or until it sounds finished after all."""
    talk = asked()
    assert scored(talk, 0.01, 1.1) == []
    assert "JUDGE" in kinds(talk.silence(0.256, 1.26)), "not committed: asked again"
    assert "Committed" in scored(talk, 0.6, 1.3)


def test_without_another_word_from_it_the_wait_ends_all_the_same() -> None:
    talk = asked()
    scored(talk, 0.01, 1.1)
    talk.silence(1.376, 2.38)
    assert talk.phase is Phase.HEARING
    assert "Committed" in kinds(talk.silence(1.408, 2.41))


def test_an_answer_that_comes_after_the_commit_is_nobodys() -> None:
    """Its question was withdrawn; it ran already."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert Withdraw(question) in talk.silence(0.256, 1.26)
    assert scored(talk, 0.0, 1.3, question) == []
    assert talk.phase is Phase.COMMITTED


def test_speech_takes_its_question_back() -> None:
    """The answer to it says nothing about the next pause."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert talk.resume(1.1) == [Withdraw(question)]
    talk.voiced(0.5, 1.6, at=1.6)
    talk.soft_end(1.6)
    assert scored(talk, 0.0, 1.62, question) == []
    talk.hear("Tell me more. Now.", 1.65)
    assert talk.asked[WorkKind.JUDGE] != question
    assert "Committed" in kinds(talk.silence(0.256, 1.86))


def test_a_turn_that_fails_takes_its_question_along() -> None:
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert Withdraw(question) in talk.do(talk.turns.on_deaf("engine_failed", 1.1))
    assert scored(talk, 0.0, 1.2, question) == []


@pytest.mark.parametrize("how", ["fails", "discarded"])
def test_a_question_that_comes_to_nothing_leaves_the_words_alone(how: str) -> None:
    """No turn fails of it, and the next question is asked."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    if how == "fails":
        assert talk.do(talk.turns.on_engine_failed(question, "engine_failed", 1.1)) == []
    else:
        talk.turns.on_discarded(question)
    assert kinds(talk.silence(0.224, 1.23)) == []
    assert "Committed" in kinds(talk.silence(0.256, 1.26))


# --- by itself -------------------------------------------------------------------------------------------------


def paused(silence_s: float, text: str = "Tell me more.") -> Turn:
    """A turn whose words are known, after so much silence."""
    turn = spoken(Numbering("s", count(1)))
    turn.utterance.text = text
    turn.utterance.on_silence(silence_s, None)
    return turn


def test_silence_alone_ends_a_turn_only_where_the_client_does_not() -> None:
    """With manual turn taking it has to be asked for."""
    pauses, manual = Pauses(SETTINGS), Pauses(replace(SETTINGS, manual=True))
    turn = paused(0.1)
    assert pauses.is_over(turn.utterance) and not manual.is_over(turn.utterance)
    assert not pauses.is_over(paused(0.09).utterance)
    turn.utterance.commit_asked = True
    assert manual.is_over(turn.utterance)


def test_a_false_start_asks_this_speaker_for_more_silence_and_clean_turns_for_less_again() -> None:
    """Speech went on 130 ms after the pause's first silent frame: a fifth more than that, 156 ms. A tenth of it is
    taken back by each turn without one."""
    pauses = Pauses(SETTINGS)
    turn = paused(0.1)
    pauses.on_false_start(turn.utterance, S + round(0.13 * S))
    assert not pauses.is_over(paused(0.155).utterance) and pauses.is_over(paused(0.157).utterance)
    pauses.on_ended(paused(0.1))
    assert pauses.is_over(paused(0.141).utterance)


def test_turns_that_say_nothing_about_pauses_leave_it_as_it_is() -> None:
    """One that was typed, and one that had a false start itself; and speech that nobody knows the beginning of."""
    pauses = Pauses(SETTINGS)
    turn = paused(0.1)
    pauses.on_false_start(turn.utterance, None)
    assert pauses.is_over(turn.utterance)
    pauses.on_false_start(turn.utterance, S + round(0.13 * S))
    for typed, reopened in ((True, False), (False, True)):
        turn.typed, turn.reopened = typed, reopened
        pauses.on_ended(turn)
    assert not pauses.is_over(paused(0.155).utterance)


def test_a_turn_model_is_asked_if_there_is_one_and_silence_ends_turns() -> None:
    """At the balanced point a statement is waited for long enough to ask."""
    settings = replace(SETTINGS, turn_model=True, patience=OPERATING_POINTS["balanced"])
    (asked_for,) = Pauses(settings).judge(paused(0.032).utterance)
    assert isinstance(asked_for, Submit) and asked_for.work.kind is WorkKind.JUDGE
    for other in (replace(settings, turn_model=False), replace(settings, manual=True)):
        assert Pauses(other).judge(paused(0.032).utterance) == []


def test_other_settings_hold_from_then_on() -> None:
    """What was learnt about the speaker stays, unless it was about another operating point."""
    pauses = Pauses(SETTINGS)
    pauses._speaker._become(1.5)
    pauses.on_settings(replace(SETTINGS, manual=True))
    assert pauses._speaker._stretch == 1.5
    pauses.on_settings(replace(SETTINGS, patience=OPERATING_POINTS["safe"]))
    assert pauses._speaker._stretch == 1.0
