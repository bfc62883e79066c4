"""How much the works of a session have to do."""

from __future__ import annotations

from typing import Any

import pytest

from voicepipe.core.events import Line, Load, Rehear, Speak, Submit, Think, Work, WorkClass, WorkKind
from voicepipe.core.utterance import Span
from voicepipe.sim.draws import Draws
from voicepipe.sim.ears import Ears, Listener
from voicepipe.sim.recogniser import Heard, WordByWord
from voicepipe.sim.replies import REPLIES, reply_to
from voicepipe.sim.service import MADE, Manner
from voicepipe.sim.slot import Generation
from voicepipe.sim.steps import Decode, Steps
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.voice import Piece

from .test_recogniser import SAID


class Floor:
    """What of a house is needed."""

    def __init__(self, **manner: Any) -> None:
        self.manner = Manner(**manner)
        self.recogniser = WordByWord()
        self.timeline = Timeline()
        self.reply_to = reply_to
        self.draws = Draws("a seed")


def steps(now: float = 0.0, **manner: Any) -> Steps:
    floor = Floor(**manner)
    floor.timeline.now = now
    made = Steps(floor, Listener(Ears(), 0.0))  # type: ignore[arg-type]
    made.say(0, SAID)
    return made


def submit(kind: WorkKind, task: Think | Speak | Rehear | None = None, number: int = 1, turn: int = 1) -> Submit:
    return Submit(Work(number, "s1", turn, 1, 0, kind, WorkClass.ASR), task)


def test_a_decode_hears_what_has_come_when_it_runs() -> None:
    """Its price is for what had come when it was asked for."""
    one, command = steps(11.3), submit(WorkKind.PARTIAL)
    span = Span(1, round(9.6 * 16_000), 16_000)
    load = one.load(command, span, 11.0)
    assert load.units == pytest.approx(1.38, abs=0.021)
    one.begin(command.work)
    decode = one.end(command.work)
    assert isinstance(decode, Decode) and one.hear(decode, full=False) == Heard("What", "is heard")
    with pytest.raises(KeyError):
        one.end(command.work)


def test_a_recogniser_has_a_window() -> None:
    span = Span(1, 0, 16_000)
    assert steps(window_s=5.0).load(submit(WorkKind.FINAL), span, 60.0).units == 5.0


def test_a_decode_of_all_behind_another_one_has_its_own_price_where_the_engine_has_one() -> None:
    for rechecks in (False, True):
        one, span = steps(12.0, rechecks=rechecks), Span(1, round(9.6 * 16_000), 16_000)
        partial, final = submit(WorkKind.PARTIAL), submit(WorkKind.FINAL, number=2)
        assert one.load(final, span, 12.0).variant == ""
        one.load(partial, span, 12.0)
        one.begin(partial.work)
        assert one.load(final, span, 12.0).variant == ("recheck" if rechecks else "")
        assert one.load(submit(WorkKind.FINAL, number=3, turn=2), span, 12.0).variant == ""


def test_a_reply_goes_on_until_another_one_begins() -> None:
    one = steps()
    lines = (Line("system", "x"), Line("user", "What is heard of this?"))
    first = submit(WorkKind.THINK, Think(lines, 60))
    assert one.load(first, None, 0.0).variant == "prefill"
    generation = one.end(first.work)
    assert isinstance(generation, Generation)
    generation.step()
    second = submit(WorkKind.THINK, number=2)
    assert one.load(second, None, 0.0).variant == "decode" and one.end(second.work) is generation
    third = submit(WorkKind.THINK, Think(lines, 60), number=3)
    one.load(third, None, 0.0)
    assert one.end(third.work) is not generation


def test_the_whole_question_has_its_own_reply() -> None:
    def text_of(said: str) -> str:
        one, text, finished = steps(), "", False
        command = submit(WorkKind.THINK, Think((Line("system", "x"), Line("user", said)), 1000))
        one.load(command, None, 0.0)
        generation = one.end(command.work)
        assert isinstance(generation, Generation)
        while not finished:
            piece, finished = generation.step()
            text += piece
        return text

    assert text_of("What is heard of this?") == SAID.reply.text
    others = {text_of(f"What is heard {number}") for number in range(20)}
    assert SAID.reply.text in others and len(others) > 3 and others <= {reply.text for reply in REPLIES}


def test_pieces_of_a_clause_and_those_that_are_there_already() -> None:
    one = steps()
    first = submit(WorkKind.SPEAK, Speak("One two three", first=True))
    assert one.load(first, None, 0.0) == Load("voice", 13, variant="first")
    piece = one.end(first.work)
    assert isinstance(piece, Piece)
    piece.make()
    again = submit(WorkKind.SPEAK, Speak("One two three", first=True), number=2)
    assert one.load(again, None, 0.0).variant == MADE


def test_a_reply_that_is_begun_anew_has_the_luck_of_the_one_before_it() -> None:
    """Step by step; decodes of one turn differ, and another turn's first is another one."""
    one, span = steps(12.0), Span(1, round(9.6 * 16_000), 16_000)
    lines = (Line("system", "x"), Line("user", "What is heard of this?"))

    def luck(kind: WorkKind, task: Think | None = None, turn: int = 1) -> object:
        command = submit(kind, task, turn=turn)
        drawn = one.draw(command, one.load(command, span, 12.0))
        done = one.end(command.work)
        if isinstance(done, Generation):
            done.step()
        return drawn

    partials = [luck(WorkKind.PARTIAL) for _ in range(3)]
    assert len(set(partials)) == 3
    first = [luck(WorkKind.THINK, Think(lines, 60)), luck(WorkKind.THINK), luck(WorkKind.THINK)]
    assert len(set(first)) == 3
    again = [luck(WorkKind.THINK, Think(lines, 60)), luck(WorkKind.THINK)]
    assert again == first[:2]
    one.say(1, SAID)
    assert luck(WorkKind.PARTIAL, turn=2) not in partials


def test_a_second_pass_hears_a_turn_that_is_over() -> None:
    one = steps(20.0)
    command = submit(WorkKind.SECOND_PASS, Rehear(1, round(9.6 * 16_000), round(12.1 * 16_000), 16_000))
    assert one.load(command, None, 20.0).units == pytest.approx(2.5)
    decode = one.end(command.work)
    assert isinstance(decode, Decode) and one.hear(decode, full=True) == Heard("What is heard of this?", "")


def test_where_nobody_has_spoken_nothing_is_heard() -> None:
    one = steps(5.0)
    assert one.hear(Decode(0, 80_000), full=True) == Heard("", "")
