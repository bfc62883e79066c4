"""When a turn model is asked: once at a time, not too often, and never about a pause that is over."""

from __future__ import annotations

from itertools import count

import pytest

from voicepipe.core.events import Submit, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.judging import EVERY_S, LEAST_SPEECH_S, Judging


def judging() -> Judging:
    serial = count(1)
    one = Judging(lambda kind, klass: Work(next(serial), "s", 1, 1, 0, kind, klass))
    one.on_pause()
    return one


def question(ident: int) -> Work:
    return Work(ident, "s", 1, 1, 0, WorkKind.JUDGE, WorkClass.ASR)


def test_a_question_goes_to_the_device_like_a_decode() -> None:
    """Of its own kind, in the class of recognition."""
    one = judging()
    assert one.is_due(0.032, 1.0)
    assert one.ask(0.032) == [Submit(question(1))]


@pytest.mark.parametrize("speech_s", [0.0, 0.064, LEAST_SPEECH_S - 0.001])
def test_without_confirmed_speech_nothing_is_asked(speech_s: float) -> None:
    """Of a click, turn models say "complete"."""
    assert not judging().is_due(2.0, speech_s)


def test_one_question_is_in_flight() -> None:
    """However long it takes."""
    one = judging()
    one.ask(0.032)
    assert not one.is_due(2.0, 1.0)


def test_the_next_question_waits_for_more_silence() -> None:
    """Counted from the question, not from the answer."""
    one = judging()
    one.ask(0.032)
    assert one.on_score(question(1), 0.3)
    assert one.score == 0.3
    assert not one.is_due(0.031 + EVERY_S, 1.0)
    assert one.is_due(0.032 + EVERY_S, 1.0)
    one.ask(0.032 + EVERY_S)
    one.on_score(question(2), 0.9)
    assert one.score == 0.9, "the newest counts"


def test_a_new_pause_is_judged_anew() -> None:
    """Without the score of the one before, and at once."""
    one = judging()
    one.ask(0.5)
    one.on_score(question(1), 0.01)
    one.stop()
    one.on_pause()
    assert one.score is None
    assert one.is_due(0.032, 1.2)


def test_the_answer_about_an_older_pause_is_dropped() -> None:
    """It ran when speech went on; until it is back, nothing else is asked."""
    one = judging()
    one.ask(0.032)
    assert one.stop() == [Withdraw(question(1))]
    one.on_pause()
    assert not one.is_due(0.032, 1.2)
    assert not one.on_score(question(1), 0.01)
    assert one.score is None
    assert one.is_due(0.064, 1.2)


def test_stopping_takes_back_what_is_asked_and_only_once() -> None:
    """Nothing to take back is no error."""
    one = judging()
    assert one.stop() == []
    one.ask(0.032)
    assert one.stop() == [Withdraw(question(1))]
    assert one.stop() == []


def test_a_question_that_fails_costs_its_score_and_no_more() -> None:
    """The next one is asked after as much silence as after an answer."""
    one = judging()
    one.ask(0.032)
    one.on_lost(question(1))
    assert one.score is None
    assert not one.is_due(0.1, 1.0)
    assert one.is_due(0.032 + EVERY_S, 1.0)


def test_the_loss_of_an_older_question_is_not_the_loss_of_this_one() -> None:
    """Told late, it changes nothing."""
    one = judging()
    one.ask(0.032)
    one.on_lost(question(1))
    one.ask(0.5)
    one.on_lost(question(1))
    assert not one.is_due(1.0, 1.0)
    assert one.on_score(question(2), 0.5)
