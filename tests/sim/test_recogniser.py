"""What is heard of an utterance, and when."""

from __future__ import annotations

from dataclasses import replace

from voicepipe.sim.caller import WRONG, Utterance
from voicepipe.sim.recogniser import Heard, Scripted, WordByWord
from voicepipe.sim.replies import REPLIES

NO = (False,) * 5
SAID = Utterance(
    10.0, 12.0, ("What", "is", "heard", "of", "this"), (10.4, 10.8, 11.2, 11.6, 12.0), "?", NO, NO, False, (), 0.05,
    REPLIES[0],
)  # fmt: skip
MISTAKEN = replace(SAID, misheard=(False, True, False, False, True), marked=(False, False, True, False, True))


def hear(upto: float, said: Utterance = SAID, *, full: bool = False) -> Heard:
    return WordByWord().hear([said], said.begin - 0.4, upto, full=full)


def test_words_are_heard_when_they_have_been_said_but_for_their_ends() -> None:
    assert hear(10.3) == Heard("", "")
    assert hear(10.35) == Heard("", "What")
    assert hear(11.2) == Heard("What", "is heard")
    assert hear(12.0) == Heard("What is heard", "of this?")
    assert hear(11.2, full=True) == Heard("What is heard", "")


def test_the_last_word_may_be_another_one_until_the_next_is_heard() -> None:
    """And nothing is misheard of the whole."""
    assert hear(10.8, MISTAKEN) == Heard("", f"What {WRONG}")
    assert hear(11.2, MISTAKEN) == Heard("What", "is heard.")
    assert hear(12.0, MISTAKEN) == Heard("What is heard", "of this?")


def test_a_decode_of_all_may_think_again() -> None:
    rethought = replace(SAID, rethought=True)
    assert hear(12.0, rethought) == Heard("What is heard", "of this?")
    assert hear(12.0, rethought, full=True) == Heard(f"What is heard of {WRONG}?", "")
    assert hear(11.6, rethought, full=True) == Heard("What is heard of", "")


def test_what_goes_on_is_heard_as_one() -> None:
    later = replace(SAID, begin=13.0, end=13.8, words=("And", "that"), ends=(13.4, 13.8))
    heard = WordByWord().hear([SAID, later], 9.6, 13.4, full=False)
    assert heard == Heard("What is heard of", "this? And")


def test_a_cough_has_no_words() -> None:
    cough = replace(SAID, words=(), ends=())
    assert hear(12.0, cough) == hear(12.0, cough, full=True) == Heard("", "")
    assert Scripted().hear([cough], 9.6, 12.0, full=True) == Heard("", "")


def test_scripted_engines_hear_a_word_for_each_third_of_a_second_and_all_at_a_pause() -> None:
    heard = Scripted()
    assert heard.hear([SAID], 9.6, 10.6, full=False) == Heard("What is", "heard")
    assert heard.hear([SAID], 9.6, 10.6, full=True) == Heard("What is heard of this?", "")
    assert heard.hear([SAID], 9.6, 9.8, full=False) == Heard("", "")
