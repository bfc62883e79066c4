"""Whole sessions in virtual time, over an in-memory connection, with scripted engines."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import virtual
from tests.driving import (
    LOUD,
    RATE_HZ,
    Caller,
    DictatedAsr,
    Fault,
    FaultyAsr,
    FaultyLlm,
    FaultyTts,
    FaultyTurnModel,
    FaultyVad,
    Hang,
    ListeningLlm,
    call,
    check_nothing_left,
    engines,
    limits,
    open_house,
    visit,
)
from voicepipe.audio import to_pcm16
from voicepipe.config import Config, ScriptedConfig
from voicepipe.connection import MemoryConnection
from voicepipe.core.events import Verdict
from voicepipe.core.overload import Level
from voicepipe.engines.base import Engines, Prompt
from voicepipe.engines.json_tools import JsonTools
from voicepipe.engines.scripted import ScriptedGeneration, ScriptedLlm
from voicepipe.errors import EngineUnavailable
from voicepipe.reception import serve_session
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

REPLY = "This is a scripted reply. It has two sentences."
SHORT = ScriptedConfig(reply="Yes.", transcripts=("One.", "Two.", "Three."))
"""A reply of 0.3 s, and a text for each of three turns."""


# --- turns -----------------------------------------------------------------------------------------------------


def test_a_spoken_turn_is_answered_within_its_budget() -> None:
    """From the first partial to the verdict, in order, and 200 ms from the end of speech to the first sound."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.pause(0.5)
        await caller.speak(2.0)
        speech_end = caller.now
        await caller.pause_until(wire.TurnEnded)
        assert caller.at(wire.AudioFrame) - speech_end < 0.2
        assert (await caller.end()).code == 1000

    caller = call(script)
    assert caller.verdicts == ["met"]
    assert [name for name in caller.kinds() if name != "TranscriptPartial"] == [
        "SessionReady",
        "SpeechStarted",
        "TranscriptFinal",
        "TurnCommitted",
        "ReplyText",
        "AudioFrame",
        "ReplyText",
        "AudioFrame",
        "ReplyDone",
        "TurnEnded",
    ]
    assert caller.of(wire.TranscriptFinal)[0].text == "What is the capital of France?"
    assert caller.text(1) == REPLY
    (done,) = caller.of(wire.ReplyDone)
    assert done.samples == len(caller.audio(1)) // 2 == round(9 * 0.3 * 24_000)
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.speculation.hit and ended.blame is None
    assert caller.house.observer.verdicts == ["met"]


def test_the_session_says_what_it_is_before_all_else() -> None:
    """Its name, the rate of its audio, the budget it will hold and what the machine is known to need."""

    async def main() -> Caller:
        async with open_house() as house:
            house.services = replace(house.services, achievable_ms=123.0)

            async def script(caller: Caller) -> None:
                await caller.start(output_rate=16_000)
                await caller.end()

            return await visit(house, script, query={"budget_ms": "350"})

    caller = virtual.run(main())
    assert caller.kinds()[0] == "SessionReady"
    (ready,) = caller.of(wire.SessionReady)
    assert ready.session == "s1"
    assert (ready.output_rate, ready.budget_ms, ready.achievable_ms) == (16_000, 350.0, 123.0)


def test_turns_follow_each_other() -> None:
    """Each its own words, its own epoch and its own verdict; the history grows by two lines a turn."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(3):
            await caller.speak(1.0)
            await caller.pause_until(wire.TurnEnded)
            await caller.pause(0.5)
        await caller.end()

    caller = call(script, engines(SHORT, llm=llm))
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == ["One.", "Two.", "Three."]
    assert [committed.epoch for committed in caller.of(wire.TurnCommitted)] == [1, 2, 3]
    assert caller.verdicts == ["met"] * 3
    assert llm.asked[1:] == (
        ("user", "One."),
        ("assistant", "Yes."),
        ("user", "Two."),
        ("assistant", "Yes."),
        ("user", "Three."),
    )


def test_the_reply_begins_on_a_prefix_that_has_been_read() -> None:
    """Instructions at the start, history after each turn and at each onset: what comes before the user's words."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start(instructions="Be brief.")
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    call(script, engines(SHORT, llm=llm))
    assert llm.prompts == [
        (("system", "Be brief."), ("user", "")),
        (("system", "Be brief."), ("user", "")),
        (("system", "Be brief."), ("user", "One.")),
        (("system", "Be brief."), ("user", "One."), ("assistant", "Yes."), ("user", "")),
    ]


def test_partials_show_the_words_while_they_are_spoken() -> None:
    """The stable part only grows."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(2.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    partials = call(script).of(wire.TranscriptPartial)
    assert len(partials) >= 3
    for before, after in itertools.pairwise(partials):
        assert after.stable.startswith(before.stable)


def test_a_typed_turn_needs_no_voice() -> None:
    """Text in, text and sound out."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(5.0)
        await caller.end()

    caller = call(script)
    assert caller.of(wire.TranscriptFinal)[0].text == "Hello."
    assert (caller.verdicts, caller.text(1)) == (["met"], REPLY)


def test_a_reply_can_be_asked_for() -> None:
    """After lines were put into the history, with no turn of the user."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start(instructions="Be brief.", auto_reply=False)
        await caller.send(wire.HistoryAdd("user", "Earlier."))
        await caller.send(wire.ReplyCreate())
        await caller.wait(3.0)
        await caller.end()

    caller = call(script, engines(SHORT, llm=llm))
    assert caller.verdicts == ["met"]
    assert llm.asked == (("system", "Be brief."), ("user", "Earlier."))
    assert not caller.of(wire.TranscriptFinal)


def test_a_cancelled_reply_stops_at_once() -> None:
    """No frame after the cancel has been taken; what was heard stays in the history."""
    llm = ListeningLlm(ScriptedConfig(), 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(1.6)
        await caller.send(wire.ReplyCancel())
        await caller.wait(1.0)
        assert caller.log[-1].at < 1.7
        await caller.send(wire.InputText("And?"))
        await caller.wait(0.1)
        await caller.end()

    caller = call(script, engines(llm=llm))
    (interrupted,) = caller.of(wire.ReplyInterrupted)
    assert 1400 < interrupted.heard_ms < 1600
    assert caller.verdicts == ["met"]
    assert llm.asked[2:] == (
        ("assistant", "This is a scripted reply. …"),
        ("user", "And?"),
    )


def test_a_cancel_with_nothing_to_cancel_is_no_error() -> None:
    """In any state."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.ReplyCancel())
        await caller.speak(0.5)
        await caller.send(wire.ReplyCancel())
        await caller.pause_until(wire.TurnEnded)
        await caller.send(wire.ReplyCancel())
        await caller.end()

    caller = call(script, engines(SHORT))
    assert (caller.errors, caller.verdicts) == ([], ["met"])


def test_with_manual_turn_taking_only_the_client_ends_a_turn() -> None:
    """However long the silence, however finished the words."""

    async def script(caller: Caller) -> None:
        await caller.start(turn_taking="manual")
        await caller.speak(1.0)
        await caller.pause(6.0)
        assert not caller.of(wire.TurnCommitted)
        await caller.speak(1.0)
        await caller.send(wire.InputCommit())
        asked = caller.now
        await caller.pause_until(wire.TurnEnded)
        assert caller.at(wire.TurnCommitted) - asked < 0.1
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["met"]
    assert len(caller.of(wire.SpeechStarted)) == 1


def test_a_demand_right_behind_a_burst_of_speech_ends_the_turn_that_the_burst_is() -> None:
    """A recording sent as fast as it goes, and the commit with it: the VAD has heard nothing of it yet."""

    async def script(caller: Caller) -> None:
        await caller.start(turn_taking="manual")
        loud = to_pcm16(np.full(RATE_HZ // 50, LOUD, np.float32))
        for number in range(50):
            await caller.send(wire.AudioFrame(epoch=0, offset_samples=number * RATE_HZ // 50, pcm=loud))
        await caller.send(wire.InputCommit())
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["met"]


def test_transcription_writes_down_and_does_not_answer() -> None:
    """One final and one verdict for each turn."""

    async def script(caller: Caller) -> None:
        await caller.start(mode="transcription")
        for _ in range(2):
            await caller.speak(1.0)
            await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == ["One.", "Two."]
    assert caller.verdicts == ["met", "met"]
    assert not caller.of(wire.AudioFrame) and not caller.of(wire.ReplyText)


def test_the_operating_point_decides_how_long_is_waited() -> None:
    """Three frames, a quarter of a second, nearly one and a half."""
    gaps: dict[str, float] = {}
    for point in ("fast", "balanced", "safe"):

        async def script(caller: Caller, point: str = point) -> None:
            await caller.start(operating_point=point)
            await caller.speak(1.0)
            end = caller.now
            await caller.pause_until(wire.TurnEnded)
            gaps[point] = caller.at(wire.TurnCommitted) - end
            await caller.end()

        call(script, engines(SHORT))
    assert gaps["fast"] < 0.15 < gaps["balanced"] < 0.35 < 1.3 < gaps["safe"] < 1.5


@pytest.mark.parametrize(
    ("enforcement", "verdict"), [("degrade", "missed"), ("observe", "missed"), ("enforce", "refused")]
)
def test_enforcement_decides_what_a_late_turn_gets(enforcement: Any, verdict: str) -> None:
    """An answer all the same, or none."""

    async def script(caller: Caller) -> None:
        await caller.start(enforcement=enforcement)
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(ScriptedConfig(llm_prefill_ms=1500)))
    assert caller.verdicts == [verdict]
    assert bool(caller.of(wire.AudioFrame)) == (verdict == "missed")
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.reason == ("late-commit" if verdict == "refused" else None)
    assert ended.blame is not None
    assert verdict == "missed" or (ended.blame.stage, ended.blame.kind) == ("asr", "blocking")


@pytest.mark.parametrize("rate", [8_000, 24_000, 44_100, 48_000])
def test_any_input_rate_is_heard(rate: int) -> None:
    """The endpoint works on the 16 kHz clock."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        end = caller.now
        await caller.pause_until(wire.TurnEnded)
        assert caller.at(wire.AudioFrame) - end < 0.2
        await caller.end()

    assert call(script, engines(SHORT), rate=rate).verdicts == ["met"]


def test_a_miss_is_told_with_its_blame() -> None:
    """A slow voice: the turn is answered all the same."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(ScriptedConfig(reply="Yes.", tts_ms=900)))
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.verdict == "missed"
    assert ended.blame is not None and (ended.blame.stage, ended.blame.kind) == ("tts", "service")
    assert caller.text(1) == "Yes."


def test_a_wider_budget_is_held_to() -> None:
    """The same lateness is no miss for who asked for more time."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    slow = engines(ScriptedConfig(reply="Yes.", tts_ms=900))
    assert call(script, slow, query={"budget_ms": "2000"}).verdicts == ["met"]


# --- speech over speech ----------------------------------------------------------------------------------------


def test_a_barge_in_stops_the_reply_and_is_the_next_turn() -> None:
    """Flushed first, then the verdict; the words of the next turn are its own."""
    llm = ListeningLlm(ScriptedConfig(), 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.AudioFrame)
        await caller.pause(1.4)
        onset = caller.now
        await caller.speak(0.8)
        assert caller.at(wire.ReplyInterrupted) - onset < 0.3
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(llm=llm))
    kinds = caller.kinds()
    begun = kinds.index("ReplyInterrupted")
    assert kinds[begun : begun + 3] == ["ReplyInterrupted", "TurnEnded", "SpeechStarted"]
    assert caller.verdicts == ["met", "met"]
    (interrupted,) = caller.of(wire.ReplyInterrupted)
    assert (interrupted.turn, interrupted.epoch) == (1, 1)
    history = llm.asked
    assert history[2] == ("assistant", "This is a scripted reply. …")
    assert history[3] == ("user", "How long should I boil an egg?")


def test_speech_shortly_after_the_commit_takes_it_back() -> None:
    """A false start is cheap: one turn, one verdict, both halves in one text."""
    asr = DictatedAsr(("Tell me.", "Tell me about cats."))
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.AudioFrame)
        await caller.pause(0.2)
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(ScriptedConfig(), asr=asr, llm=llm))
    (reopened,) = caller.of(wire.TurnReopened)
    assert (reopened.turn, reopened.epoch) == (1, 2)
    assert [(c.turn, c.epoch) for c in caller.of(wire.TurnCommitted)] == [(1, 1), (1, 3)]
    assert caller.verdicts == ["met"]
    assert len(caller.of(wire.SpeechStarted)) == 1
    assert llm.asked[1:] == (("user", "Tell me about cats."),)
    assert caller.records[0].reopened == 1


def test_a_reply_that_must_not_be_interrupted_is_heard_to_its_end() -> None:
    """Speech over it is ignored and does not block the next turn."""

    async def script(caller: Caller) -> None:
        await caller.start(interruptible=False)
        await caller.speak(1.0)
        await caller.pause_until(wire.AudioFrame)
        await caller.speak(1.5)
        await caller.pause_until(wire.TurnEnded)
        await caller.pause(1.0)
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script)
    assert not caller.of(wire.ReplyInterrupted)
    assert (caller.text(1), caller.text(2)) == (REPLY, REPLY)
    assert caller.verdicts == ["met", "met"]


def test_a_pause_that_was_none_does_not_send_the_reply_that_was_made_in_it() -> None:
    """The text has changed: it is made anew, and not a sample of the first version is sent."""
    asr = DictatedAsr(("I would like tea and", "I would like tea and cake."))

    class Telling(ListeningLlm):
        """Answers with the number of words it was asked, so that the two versions differ."""

        def generation(self, prompt: Any) -> Any:
            words = len(prompt.messages[-1].content.split())
            self._config = ScriptedConfig(reply=f"{words} words, " + "so it is. " * words)
            return super().generation(prompt)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause(0.3)
        await caller.speak(0.6)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(asr=asr, llm=Telling(ScriptedConfig(), 1)))
    assert caller.text(1).startswith("6 words, so it is.")
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.speculation.attempts == 2
    assert ended.speculation.wasted_ms > 0
    assert len(caller.of(wire.TurnCommitted)) == 1


def test_a_breath_keeps_the_reply_that_was_made_in_it() -> None:
    """The same words again: one attempt, and it is a hit."""
    asr = DictatedAsr(("I would like tea and", "I would like tea, and"))

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause(0.3)
        await caller.speak(0.2)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    (ended,) = call(script, engines(SHORT, asr=asr)).of(wire.TurnEnded)
    assert (ended.speculation.attempts, ended.speculation.hit, ended.speculation.wasted_ms) == (1, True, 0)


@pytest.mark.parametrize("level", Level)
def test_an_overloaded_server_makes_no_replies_while_somebody_speaks_and_answers_all_the_same(level: Level) -> None:
    """What has been heard after a second sounds finished."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.6)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    asr = DictatedAsr(("I would like tea.",))
    caller = call(script, engines(SHORT, asr=asr), known={"pressure": lambda: level})
    ((record,),) = caller.house.records.values()
    instants = record.instants
    assert record.verdict is Verdict.MET and instants.eager is not None and instants.soft_end is not None
    begun_while_speaking = instants.eager < instants.soft_end - 0.1
    assert begun_while_speaking is (level is Level.NONE)


# --- the turn model ----------------------------------------------------------------------------------------------


def judged(
    *faults: Fault, completeness: tuple[float, ...], pauses: Sequence[float] = ()
) -> tuple[Caller, Any, float]:
    """One utterance at `balanced`, with pauses inside; the caller, the model, and how long after the end of speech
    the turn was committed."""
    config = ScriptedConfig(completeness=completeness, transcripts=("Tell me all about cats.",))
    model = FaultyTurnModel(config, faults)
    ends: list[float] = []

    async def script(caller: Caller) -> None:
        await caller.start(operating_point="balanced")
        await caller.pause(0.5)
        await caller.speak(1.0)
        for seconds in pauses:
            await caller.pause(seconds)
            await caller.speak(0.5)
        ends.append(caller.now)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(config, turn_model=model))
    return caller, model, caller.at(wire.TurnCommitted) - ends[0]


def test_a_turn_model_that_hears_an_end_changes_nothing() -> None:
    """The words decide when; it was asked once, and its answer was there before they did."""
    caller, model, delay_s = judged(completeness=(0.9,))
    assert caller.verdicts == ["missed"], "a quarter of a second of silence does not fit into the budget"
    assert delay_s == pytest.approx(0.27, abs=0.05)
    assert len(model.shown_s) == 1
    assert model.shown_s[0] == pytest.approx(1.5, abs=0.15), (
        "the pre-roll, the speech, and the first of the silence"
    )


def test_a_turn_model_that_hears_no_end_is_waited_for() -> None:
    """As long as after an open end, and asked again on the way."""
    _, model, delay_s = judged(completeness=(0.0,))
    assert delay_s == pytest.approx(1.41, abs=0.05)
    assert 6 <= len(model.shown_s) <= 7
    steps = np.diff(model.shown_s)
    assert steps.min() > 0.16 and steps.max() < 0.26


def test_a_pause_in_which_no_end_is_heard_is_no_false_start() -> None:
    """Half a second after a whole sentence: with the words alone the turn is committed in it and taken back."""
    alone, _, _ = judged(completeness=(0.9,), pauses=[0.5])
    waited, _, _ = judged(completeness=(0.0,), pauses=[0.5])
    assert (len(alone.of(wire.TurnReopened)), len(waited.of(wire.TurnReopened))) == (1, 0)


def test_a_question_that_outlives_its_pause_holds_up_nothing_but_the_lane() -> None:
    """Its answer, that no end was heard, comes in the next pause and is about nothing any more; should that one be
    asked about, it fails, and the words decide as they would alone."""
    caller, model, delay_s = judged(Hang(0.7), *[EngineUnavailable("gone")] * 9, completeness=(0.0,), pauses=[0.1])
    assert model.faults.chunks >= 1
    assert len(caller.of(wire.TurnCommitted)) == 1
    assert delay_s < 0.6, "with its score it would be 1.4 s"


@pytest.mark.parametrize("error", [RuntimeError("bug"), EngineUnavailable("gone")], ids=["bug", "engine"])
def test_a_turn_model_that_fails_costs_its_score_and_no_more(error: Exception) -> None:
    """It would have said that more was to come. The failure is counted, and nobody else hears of it."""
    caller, _, delay_s = judged(*[error] * 20, completeness=(0.0,))
    assert caller.verdicts == ["missed"] and not caller.errors
    assert delay_s == pytest.approx(0.27, abs=0.05)
    failed = caller.house.observer.engines_failed
    assert failed and set(failed) == {"endpoint"}


def test_where_there_is_no_time_for_an_answer_the_turn_model_is_not_asked() -> None:
    """Three frames of silence at `fast`."""
    config = ScriptedConfig(reply="Yes.", completeness=(0.0,))
    model = FaultyTurnModel(config)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    assert call(script, engines(config, turn_model=model)).verdicts == ["met"]
    assert model.shown_s == []


def test_a_turn_model_is_shown_eight_seconds_at_most() -> None:
    """Of a turn that is longer."""
    config = ScriptedConfig(reply="Yes.", transcripts=("no end in sight",))
    model = FaultyTurnModel(config)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(9.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    call(script, engines(config, turn_model=model))
    assert model.shown_s and set(model.shown_s) == {8.0}


def test_a_client_that_reports_its_playback_is_believed() -> None:
    """It plays slower than the pacing clock: the turn ends when it says so, within the grace."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        done = await caller.pause_until(wire.ReplyDone)
        for played in (0.5, 0.75, 1.0):
            await caller.send(wire.Playback(1, round(done.samples * played)))
            await caller.pause(0.3)
            assert bool(caller.verdicts) == (played == 1.0)
        await caller.end()

    assert call(script).verdicts == ["missed"], "by its reports, playing began late"


def test_playback_reports_decide_what_was_heard() -> None:
    """The client had played 600 ms when it was interrupted, whatever the clock says."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(2.0)
        await caller.send(wire.Playback(1, round(0.6 * 24_000)))
        await caller.send(wire.ReplyCancel())
        await caller.wait(0.1)
        await caller.end()

    (interrupted,) = call(script).of(wire.ReplyInterrupted)
    assert interrupted.heard_ms == 600


def test_truncating_the_history_is_a_report() -> None:
    """Of the reply that is being given, only so much was heard."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(2.0)
        await caller.send(wire.HistoryTruncate(1, 900.0))
        await caller.send(wire.ReplyCancel())
        await caller.wait(0.1)
        await caller.end()

    (interrupted,) = call(script).of(wire.ReplyInterrupted)
    assert interrupted.heard_ms == 900


# --- engines that fail -----------------------------------------------------------------------------------------

ENGINE_S = 2.0
"""The bound on an engine without a sign of life, in these tests."""


def faulty(stage: str, faults: Sequence[Fault]) -> Engines:
    match stage:
        case "endpoint":
            return engines(SHORT, vad=FaultyVad(faults))
        case "asr":
            return engines(SHORT, asr=FaultyAsr(SHORT, faults))
        case "llm":
            return engines(SHORT, llm=FaultyLlm(SHORT, 2, faults))
    return engines(SHORT, tts=FaultyTts(SHORT, faults))


async def two_turns(caller: Caller) -> None:
    """The first one meets the faults."""
    await caller.start()
    await caller.pause(0.5)
    await caller.speak(0.4)
    await caller.pause_until_verdict(1)
    await caller.pause(5.0)
    await caller.speak(0.4)
    await caller.pause_until_verdict(2)
    await caller.end()


@pytest.mark.parametrize("error", [RuntimeError("bug"), EngineUnavailable("gone")], ids=["bug", "engine"])
@pytest.mark.parametrize(
    ("stage", "chunks"),
    [
        # so many chunks that work, then one that fails
        ("endpoint", 20),
        ("asr", 0),
        ("llm", 4),
        ("tts", 0),
    ],
)
def test_an_engine_that_raises_costs_its_turn_and_no_more(
    stage: str, chunks: int, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The client is told where. A decode ahead that fails is tried again at the pause, a reply made ahead once more
    at the commit; and what fails then is asked once more (`core.second_try`)."""
    tries = {"asr": 3, "llm": 4, "tts": 4}.get(stage, 1)
    caller = call(two_turns, faulty(stage, [None] * chunks + [error] * tries))
    assert caller.verdicts == ["failed", "met"]
    code = "engine_failed" if isinstance(error, RuntimeError) else "engine_unavailable"
    assert caller.errors == [code]
    assert f"the {stage} stage" in caller.of(wire.Error)[0].message
    assert caller.house.observer.engines_failed == [stage]
    assert ("chunk failed" in caplog.text) == isinstance(error, RuntimeError)


@pytest.mark.parametrize(("stage", "chunks"), [("endpoint", 20), ("asr", 0), ("llm", 4), ("tts", 0)])
def test_an_engine_that_hangs_fails_its_turn_within_the_bound(stage: str, chunks: int) -> None:
    """And the next turn works, once the engine does."""
    ended: list[float] = []

    async def script(caller: Caller) -> None:
        await two_turns(caller)
        ended.append(caller.at(wire.TurnEnded))

    these = faulty(stage, [None] * chunks + [Hang(2.2 * ENGINE_S)])
    caller = call(script, these, limits(engine_timeout_s=ENGINE_S))
    assert caller.verdicts == ["failed", "met"]
    assert [code for code in caller.errors if code != "input_overrun"] == ["engine_timeout"]
    assert ("input_overrun" in caller.errors) == (stage == "endpoint")
    assert caller.house.observer.engines_failed == [stage]
    assert ended[0] < 0.9 + 2 * ENGINE_S + 0.2


def test_an_engine_that_hangs_for_ever_ends_every_turn_all_the_same() -> None:
    """Its lane is lost; no turn is left without a verdict, and the client can go."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(3):
            await caller.speak(0.4)
            await caller.pause_until(wire.TurnEnded)
        await caller.end()

    async def main() -> Caller:
        async with open_house(faulty("asr", [Hang(1e6)]), limits(engine_timeout_s=ENGINE_S)) as house:
            return await visit(house, script)

    assert virtual.run(main()).verdicts == ["failed"] * 3


def test_a_reply_that_fails_half_way_leaves_what_was_heard() -> None:
    """It had begun to speak: cut off there, and told so."""
    config = ScriptedConfig()
    tts = FaultyTts(config, [None] * 5 + [RuntimeError("bug")])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(config, tts=tts))
    assert caller.verdicts == ["failed"]
    assert caller.of(wire.ReplyInterrupted)[0].epoch == 1
    assert caller.audio(1)


def test_a_reply_without_words_is_a_failure_and_no_silence() -> None:
    """The client is told; the next turn is heard."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(ScriptedConfig(reply="")))
    assert (caller.verdicts, caller.errors) == (["failed"], ["empty_reply"])


# --- clients that go, stall or misbehave -----------------------------------------------------------------------


@pytest.mark.parametrize("tenth", range(60))
def test_a_client_may_go_at_any_instant_of_a_turn(tenth: int) -> None:
    """Leases and lanes come back, no task is left, and the turn it was in has its one verdict."""

    async def script(caller: Caller) -> None:
        async def story() -> None:
            await caller.start()
            await caller.speak(1.5)
            await caller.pause(2.0)
            await caller.speak(1.5)
            await caller.pause(5.0)

        try:
            async with asyncio.timeout(tenth * 0.1 + 0.0137):
                await story()
        except TimeoutError:
            pass
        await caller.hang_up()

    caller = call(script, engines(ScriptedConfig(asr_ms=90, llm_token_ms=30, tts_ms=120)))
    assert caller.closed is not None and caller.closed.code == 1006


@pytest.mark.parametrize("step", range(12))
def test_a_client_may_go_while_the_session_is_made(step: int) -> None:
    """At any turn of the loop from the first message on."""

    async def main() -> None:
        async with open_house() as house:
            server, client = MemoryConnection.pair()
            serving = asyncio.create_task(serve_session(server, house.services, "s1"))
            start = wire.SessionStart(audio=wire.AudioFormat(rate=16_000), protocol="voicepipe.v1")
            await client.send(encode_client(start))
            await client.send(encode_client(wire.InputText("Hello.")))
            for _ in range(step):
                await asyncio.sleep(0)
            await client.close(1006)
            await serving
        check_nothing_left()

    virtual.run(main())


@pytest.mark.parametrize("step", range(0, 40, 3))
def test_a_session_may_be_cancelled_at_any_instant(step: int) -> None:
    """The server goes down: everything is given back."""

    async def main() -> None:
        async with open_house() as house:
            server, client = MemoryConnection.pair(capacity=1000)
            serving = asyncio.create_task(serve_session(server, house.services, "s1"))
            start = wire.SessionStart(audio=wire.AudioFormat(rate=16_000), protocol="voicepipe.v1")
            await client.send(encode_client(start))
            await client.send(encode_client(wire.InputText("Hello.")))
            await asyncio.sleep(step * 0.01)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
        check_nothing_left()

    virtual.run(main())


def test_a_client_that_stops_sending_in_mid_speech_has_stopped_speaking() -> None:
    """The missing sound is silence: the turn is committed, not left open."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.wait(5.0)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts[0] in ("met", "missed")
    assert caller.at(wire.TurnCommitted) < 2.0


def test_a_client_that_takes_nothing_is_let_go() -> None:
    """Within the limit, and the slot is free again; it is told nothing that it does not take."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.wait(0.5)
        caller.reading = False
        await caller.send(wire.InputText("Hello."))
        stopped = caller.now
        async with asyncio.timeout(30):
            while caller.house.leased:
                await caller.wait(0.1)
        assert caller.now - stopped < 2.0 + 0.5
        await caller.wait(2.5)
        caller.reading = True
        await caller.gone(within_s=0.1)

    caller = call(script, config=limits(send_timeout_s=2.0), capacity=8)
    assert caller.closed is not None and caller.closed.code == 4409
    assert "session_limit" in caller.house.observer.client_errors


def test_a_silent_client_runs_into_the_idle_limit() -> None:
    """Told why, and closed with a code of its own."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.wait(2.0)
        await caller.send(wire.ReplyCancel())
        await caller.gone()
        assert caller.now == pytest.approx(7.0)

    caller = call(script, config=limits(idle_s=5.0))
    assert caller.closed is not None
    assert (caller.closed.code, caller.closed.reason) == (4409, "session_limit")
    assert caller.of(wire.Error)[0].message == "the session was idle for 5 s"


def test_a_session_has_a_longest_length() -> None:
    """However busy it is."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.pause(20.0)

    caller = call(script, config=limits(session_s=5.0, idle_s=60.0))
    assert caller.closed is not None and caller.closed.code == 4409
    assert caller.of(wire.Error)[0].message == "the session has lasted 5 s, the longest one"


def test_a_client_that_never_starts_is_closed() -> None:
    """It holds no slot, but a connection."""

    async def script(caller: Caller) -> None:
        await caller.gone()
        assert caller.now == pytest.approx(10.0)

    caller = call(script)
    assert caller.closed is not None and caller.closed.code == 4409
    assert not caller.of(wire.SessionReady)


def test_a_session_is_not_over_before_its_slot_is_free() -> None:
    """Whoever is let in after it finds the slot free, though a chunk was running when it ended."""

    async def main() -> Caller:
        these = replace(engines(SHORT), llm=FaultyLlm(SHORT, 1, [None, Hang(0.5)]))
        async with open_house(these) as house:

            async def leaves(caller: Caller) -> None:
                await caller.start()
                await caller.wait(0.2)
                await caller.send(wire.InputText("Hello."))
                await caller.wait(0.1)
                await caller.end()

            async def comes(caller: Caller) -> None:
                await caller.start()
                await caller.end()

            await visit(house, leaves, ident="a")
            assert house.leased == 0
            return await visit(house, comes, ident="b")

    caller = virtual.run(main())
    assert caller.of(wire.SessionReady) and not caller.of(wire.Error)


def test_a_session_without_a_free_slot_is_told_to_come_back(caplog: pytest.LogCaptureFixture) -> None:
    """The lease that others hold is not taken from them. The log says so."""

    async def main() -> tuple[Caller, Caller]:
        async with open_house(engines(SHORT, slots=1)) as house:

            async def long(caller: Caller) -> None:
                await caller.start()
                await caller.wait(1.0)
                await caller.speak(1.0)
                await caller.pause_until(wire.TurnEnded)
                await caller.end()

            async def late(caller: Caller) -> None:
                await caller.wait(0.5)
                await caller.start()
                await caller.gone()

            async with asyncio.TaskGroup() as group:
                first = group.create_task(visit(house, long, ident="a"))
                second = group.create_task(visit(house, late, ident="b"))
        return first.result(), second.result()

    first, second = virtual.run(main())
    assert first.verdicts == ["met"]
    assert second.errors == ["engine_busy"]
    assert second.closed is not None and second.closed.code == 1013
    assert "refused, engine_busy: peer " in caplog.text


def test_a_draining_server_lets_the_present_turn_end() -> None:
    """Told at once, closed with 1012 after the verdict, and nothing of the reply is lost."""

    async def main() -> Caller:
        async with open_house() as house:
            draining = asyncio.Event()
            loop = asyncio.get_running_loop()
            until = loop.time() + 11.0
            house.services = replace(house.services, draining=draining, drain_deadline=lambda: until)

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.send(wire.InputText("Hello."))
                await caller.wait(1.0)
                draining.set()
                await caller.gone()

            return await visit(house, script)

    caller = virtual.run(main())
    assert caller.of(wire.Draining)[0].deadline_ms == 10_000
    assert caller.at(wire.Draining) == pytest.approx(1.0)
    assert caller.verdicts == ["met"]
    assert caller.closed is not None and caller.closed.code == 1012
    assert caller.text(1) == REPLY


def test_a_draining_server_closes_an_idle_session_at_once() -> None:
    """There is no turn to wait for."""

    async def main() -> Caller:
        async with open_house() as house:

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.wait(1.0)
                house.services.draining.set()
                await caller.gone()
                assert caller.now == pytest.approx(1.0)

            return await visit(house, script)

    caller = virtual.run(main())
    assert caller.of(wire.Draining)[0].deadline_ms == 0
    assert caller.closed is not None and caller.closed.code == 1012


# --- the protocol ----------------------------------------------------------------------------------------------


def protocol(*frames: str | bytes, started: bool = True, query: dict[str, str] | None = None) -> Caller:
    """Send the frames, wait a little, and end if the server has not."""

    async def script(caller: Caller) -> None:
        if started:
            await caller.start()
            await caller.wait(0.1)
        for frame in frames:
            await caller.send_raw(frame)
        await caller.wait(0.1)
        if caller.closed is None:
            await caller.end()

    return call(script, query=query)


@pytest.mark.parametrize(
    ("frame", "code", "field"),
    [
        ('{"type": "no.such.thing"}', "unknown_type", "type"),
        ('{"type": "playback", "epoch": 1}', "bad_field", "played_samples"),
        ('{"type": "playback", "epoch": -1, "played_samples": 0}', "bad_field", "epoch"),
        ('{"type": "input.text", "text": ""}', "bad_field", "text"),
        ('{"type": "history.add", "role": "user", "text": "Hi.", "after": "x"}', "bad_field", "after"),
        ('{"type": "tool.result", "call_id": "x", "output": "1", "after": "x"}', "bad_field", "after"),
        ('{"type": "reply.create", "tool_choice": "required"}', "bad_field", "tool_choice"),
        ('{"type": "session.update", "tool_choice": "clock"}', "bad_field", "tool_choice"),
        ('{"type": "session.update", "silence_ms": 5}', "bad_field", "silence_ms"),
    ],
)
def test_a_message_that_cannot_be_honoured_is_told_and_survived(frame: str, code: str, field: str | None) -> None:
    """Counted, answered with its field, and the session goes on."""
    caller = protocol(frame, encode_client(wire.InputText("Hello.")))
    assert [(error.code, error.field) for error in caller.of(wire.Error)] == [(code, field)]
    assert caller.house.observer.client_errors == [code]
    assert caller.closed is not None and caller.closed.code == 1000
    assert caller.of(wire.TurnCommitted)


@pytest.mark.parametrize(
    ("frame", "code", "close_code"),
    [
        ("not json", "bad_json", 4400),
        ("[]", "bad_json", 4400),
        ("{}", "bad_json", 4400),
        ('{"type": "input.text", "text": "x"', "bad_json", 4400),
        (b"\0\0\0", "bad_frame", 4400),
        (b"\0" * 70_000, "too_large", 1009),
        ('{"type": "input.text", "text": "' + "x" * 70_000 + '"}', "too_large", 1009),
    ],
    ids=["text", "array", "empty", "cut", "header", "large-binary", "large-text"],
)
def test_a_broken_frame_ends_the_session(frame: str | bytes, code: str, close_code: int) -> None:
    """Told first, then closed with the code of the fault."""
    caller = protocol(frame)
    assert caller.errors == [code]
    assert caller.closed is not None
    assert (caller.closed.code, caller.closed.reason) == (close_code, code)
    assert caller.house.observer.client_errors == [code]


def start_with(**changes: Any) -> str:
    message = {"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000, "channels": 1}}
    return json.dumps(message | changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"audio": {"rate": 7999}}, "audio.rate"),
        ({"audio": {"rate": 48001}}, "audio.rate"),
        ({"audio": {"rate": "16000"}}, "audio.rate"),
        ({"audio": {"rate": 16000, "channels": 3}}, "audio.channels"),
        ({"audio": {"rate": 16000, "channels": 0}}, "audio.channels"),
        ({"audio": {}}, "audio.rate"),
        ({"protocol": "voicepipe.v9"}, "protocol"),
        ({"output_rate": 100}, "output_rate"),
        ({"operating_point": "reckless"}, "operating_point"),
        ({"tools": [{"name": "clock", "parameters": {"type": "no"}}]}, "tools[0].parameters"),
        ({"tools": [{"name": "clock"}, {"name": "clock"}]}, "tools[1].name"),
    ],
    ids=str,
)
def test_a_start_that_cannot_be_honoured_makes_no_session(changes: dict[str, Any], field: str) -> None:
    """`bad_start` with the field, and 4400."""
    caller = protocol(start_with(**changes), started=False)
    assert [(error.code, error.field) for error in caller.of(wire.Error)] == [("bad_start", field)]
    assert caller.closed is not None and caller.closed.code == 4400
    assert not caller.of(wire.SessionReady)


@pytest.mark.parametrize("value", ["0", "-5", "60001", "nan", "inf", "soon", ""])
def test_a_budget_out_of_range_is_refused(value: str) -> None:
    """It comes with the request, before any message."""
    caller = protocol(start_with(), started=False, query={"budget_ms": value})
    assert [(error.code, error.field) for error in caller.of(wire.Error)] == [("bad_start", "budget_ms")]
    assert caller.closed is not None and caller.closed.code == 4400


@pytest.mark.parametrize("frame", [b"\0" * 648, '{"type": "input.commit"}'], ids=["sound", "message"])
def test_nothing_comes_before_the_start(frame: str | bytes) -> None:
    """Out of order, and closed."""
    caller = protocol(frame, started=False)
    assert caller.errors == ["out_of_order"]
    assert caller.closed is not None and caller.closed.code == 4400


def test_a_second_start_ends_the_session() -> None:
    """One session per connection."""
    caller = protocol(start_with())
    assert caller.errors == ["out_of_order"]
    assert caller.closed is not None and caller.closed.code == 4400


def test_sound_may_follow_the_start_without_waiting() -> None:
    """It is heard, though `session.ready` has not been read."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.6)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    assert call(script, engines(SHORT)).verdicts == ["met"]


def test_a_jump_of_the_clients_clock_is_told_and_followed() -> None:
    """One error, and what comes after is heard."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.pause(0.2)
        caller._position += 10_000_000
        await caller.pause(0.02)
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["met"]
    assert [(error.code, error.field) for error in caller.of(wire.Error)] == [("bad_field", "offset_samples")]


def test_two_channels_are_mixed_down() -> None:
    """Declared as such, interleaved."""

    async def script(caller: Caller) -> None:
        await caller.start(channels=2)
        position = 0
        for level in [8000] * 50 + [0] * 200:
            pcm = int.to_bytes(level, 2, "little") * 2 * 320
            await caller.send(wire.AudioFrame(0, position, pcm))
            position += 320
            await caller.wait(0.02)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["met"]
    assert caller.at(wire.TurnCommitted) == pytest.approx(1.1, abs=0.06)


# --- several sessions ------------------------------------------------------------------------------------------


def together(
    scripts: dict[str, Callable[[Caller], Any]], these: Engines, config: Config | None = None
) -> dict[str, Caller]:
    async def main() -> dict[str, Caller]:
        async with open_house(these, config) as house, asyncio.TaskGroup() as group:
            tasks = {
                ident: group.create_task(visit(house, script, ident=ident)) for ident, script in scripts.items()
            }
        check_nothing_left()
        return {ident: task.result() for ident, task in tasks.items()}

    return virtual.run(main())


def test_no_word_crosses_from_one_session_to_another() -> None:
    """Two callers at once on the same lanes: each hears the echo of its own words only."""

    class Echo(ListeningLlm):
        def generation(self, prompt: Any) -> Any:
            said = prompt.messages[-1].content
            self._config = ScriptedConfig(reply=f"You said {said}" if said else "x")
            return super().generation(prompt)

    class Own(DictatedAsr):
        """A stream's words carry its session's number."""

        def __init__(self) -> None:
            super().__init__()
            self.opened = 0

        def open(self) -> Any:
            self.opened += 1
            name = "alpha beta" if self.opened == 1 else "gamma delta"
            return DictatedAsr((f"{name} one.",), (f"{name} two.",)).open()

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(2):
            await caller.speak(1.0)
            await caller.pause_until(wire.TurnEnded)
        await caller.end()

    callers = together({"a": script, "b": script}, engines(asr=Own(), llm=Echo(ScriptedConfig(), 2)))
    for caller, own, other in ((callers["a"], "alpha", "gamma"), (callers["b"], "gamma", "alpha")):
        words = " ".join(final.text for final in caller.of(wire.TranscriptFinal))
        words += " ".join(caller.text(epoch) for epoch in (1, 2))
        assert words.count(own) == 4 and other not in words
        assert len(caller.verdicts) == 2


def test_sessions_share_a_lane_and_the_first_to_end_its_speech_goes_first() -> None:
    """Both are answered; the one that had to wait says what it waited for."""

    def after(seconds: float) -> Callable[[Caller], Any]:
        async def script(caller: Caller) -> None:
            await caller.start()
            await caller.pause(seconds)
            await caller.speak(1.0)
            await caller.pause_until(wire.TurnEnded)
            await caller.end()

        return script

    slow = engines(ScriptedConfig(reply="Yes.", asr_ms=60, llm_prefill_ms=60, tts_ms=60))
    callers = together({"a": after(0.0), "b": after(0.02)}, slow)
    felt = {name: caller.of(wire.TurnEnded)[0].felt_estimate_ms for name, caller in callers.items()}
    alone = call(after(0.0), slow).of(wire.TurnEnded)[0].felt_estimate_ms
    assert felt["a"] is not None and felt["b"] is not None and alone is not None
    assert felt["a"] < felt["b"]
    assert felt["b"] > alone
    waited = callers["b"].of(wire.TurnEnded)[0].stages
    assert sum(getattr(waited, stage).wait_ms for stage in ("asr", "llm", "tts")) > 50


def test_one_sessions_failure_is_not_anothers() -> None:
    """The engine raises for the one; the other is answered."""

    async def breaks(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until(wire.TurnEnded)
        await caller.send_raw("not json")
        await caller.gone()

    async def speaks(caller: Caller) -> None:
        await caller.start()
        await caller.speak(3.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    tts = FaultyTts(SHORT, [RuntimeError("bug")] * 2)
    callers = together({"a": breaks, "b": speaks}, engines(SHORT, tts=tts))
    assert callers["a"].verdicts == ["failed"]
    assert callers["b"].verdicts == ["met"]


def test_a_bug_of_ours_ends_its_session_and_no_other() -> None:
    """It is raised out of that session, for the server to report; the slot comes back."""

    class Broken(ListeningLlm):
        def generation(self, prompt: Any) -> Any:
            if prompt.messages[-1].content == "Break.":
                raise AssertionError("a bug")
            return super().generation(prompt)

    async def main() -> None:
        async with open_house(engines(SHORT, llm=Broken(SHORT, 2))) as house:
            server, client = MemoryConnection.pair(capacity=1000)

            async def broken() -> None:
                with pytest.raises(ExceptionGroup) as caught:
                    await serve_session(server, house.services, "broken")
                assert caught.group_contains(AssertionError, match="a bug")

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.speak(1.0)
                await caller.pause_until(wire.TurnEnded)
                await caller.end()

            async with asyncio.TaskGroup() as group:
                group.create_task(broken())
                other = group.create_task(visit(house, script))
                start = wire.SessionStart(audio=wire.AudioFormat(rate=16_000), protocol="voicepipe.v1")
                await client.send(encode_client(start))
                await client.send(encode_client(wire.InputText("Break.")))
            assert other.result().verdicts == ["met"]
            assert [record.turn for record in house.records["broken"]] == [1]

    virtual.run(main())


# --- what other dialects need, in native words


def test_a_session_can_be_set_to_something_else() -> None:
    """From then on; a reply in writing is sound no more."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start(instructions="Be brief.")
        await caller.send(wire.SessionUpdate(instructions="Shout.", reply_as="text"))
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnEnded)
        await caller.end()

    caller = call(script, engines(SHORT, llm=llm))
    assert llm.asked[0] == ("system", "Shout.") and caller.verdicts == ["met"]
    assert caller.text(1) == "Yes." and not caller.of(wire.AudioFrame)
    assert not caller.of(wire.ReplyText)[0].spoken and caller.of(wire.ReplyDone)[0].samples == 0


def test_a_tool_is_called_and_its_result_is_answered() -> None:
    config = ScriptedConfig(reply="Noon.", calls=('clock {"zone": "Oslo"}',))
    llm = ListeningLlm(config, 1)

    async def script(caller: Caller) -> None:
        await caller.start(tools=(wire.ToolSpec("clock", "", {"type": "object"}),))
        await caller.send(wire.InputText("What time is it?"))
        await caller.pause_until(wire.TurnEnded)
        (told,) = caller.of(wire.ToolCall)
        await caller.send(wire.ToolResult(told.call_id, "12:00"))
        await caller.send(wire.ReplyCreate())
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(config, llm=llm))
    (told,) = caller.of(wire.ToolCall)
    assert (told.name, told.arguments, told.epoch) == ("clock", '{"zone": "Oslo"}', 1)
    assert llm.asked[-1] == ("tool", "12:00") and caller.text(2) == "Noon."
    assert caller.verdicts == ["met", "met"] and not caller.errors


def test_the_answer_to_a_tool_extends_what_the_model_has_read() -> None:
    """So that its slot's prefix is used again: nothing of it is put in another way, or in another place."""
    config = ScriptedConfig(reply="Noon.", calls=("clock {}",))
    llm = ListeningLlm(config, 1)

    async def script(caller: Caller) -> None:
        await caller.start(tools=(wire.ToolSpec("clock", "", {"type": "object"}),))
        for number in (1, 3):
            await caller.speak(1.0)
            told = await caller.pause_until(wire.ToolCall)
            await caller.pause_until_verdict(number)
            await caller.send(wire.ToolResult(told.call_id, "12:00"))
            await caller.send(wire.ReplyCreate())
            await caller.pause_until_verdict(number + 1)
        await caller.end()

    call(script, engines(config, llm=llm))
    asked = [prompt for prompt in llm.prompts if prompt[-1] != ("user", "")]
    answers = [number for number, prompt in enumerate(asked) if prompt[-1][0] == "tool"]
    assert len(answers) == 2
    for number in answers:
        before, after = asked[number - 1], asked[number]
        assert after[: len(before)] == before and len(after) == len(before) + 2


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ('{"tool": "clock", "arguments": ', "bad_tool_call"),
        ('{"tool": "oven", "arguments": {}}', "bad_tool_call"),
        ('{"time": "now"}', "bad_tool_call"),
        ('{ "tool": ' + "a b c d e f " * 20, "empty_reply"),  # it goes on until it may not any more
        ("```json nothing at all", "bad_tool_call"),
    ],
)
def test_a_model_that_writes_nonsense_for_a_call_costs_its_turn(reply: str, code: str) -> None:
    """Nothing of it is heard, and the next turn is answered."""
    nonsense, sense = ScriptedConfig(reply=reply), ScriptedConfig(reply="Noon.")

    class Confused(ScriptedLlm):
        def generation(self, prompt: Prompt) -> Any:
            calm = any("Never mind" in message.content for message in prompt.messages)
            return ScriptedGeneration(sense if calm else nonsense, self._occupier, prompt.max_tokens)

    async def script(caller: Caller) -> None:
        await caller.start(tools=(wire.ToolSpec("clock", "", {"type": "object"}),), max_reply_tokens=40)
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.send(wire.InputText("Never mind."))
        await caller.pause_until_verdict(2)
        await caller.end()

    class Writing(JsonTools):
        @property
        def leased(self) -> int:
            return model.leased

    model = Confused(SHORT, 1)
    caller = call(script, engines(SHORT, llm=Writing(model)))
    assert caller.verdicts == ["failed", "met"] and caller.errors == [code]
    failed, answered = (told.epoch for told in caller.of(wire.TurnCommitted))
    assert caller.text(failed) == "" and not caller.audio(failed) and not caller.of(wire.ToolCall)
    assert caller.text(answered) == "Noon."


def test_the_history_can_be_written_and_read_by_name() -> None:
    """Lines of turns and lines of the client's own."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until(wire.TurnEnded)
        await caller.send(wire.HistoryAdd("system", "S.", "s", after=""))
        await caller.send(wire.HistoryAdd("user", "A.", "a", after="s"))
        await caller.send(wire.HistoryCall("c1", "clock", "{}", after="a"))
        await caller.send(wire.ToolResult("c1", "noon", after="c1"))
        for name in ("user-1", "never-there"):
            await caller.send(wire.HistoryDelete(name))
        await caller.send(wire.HistoryAdd("user", "twice", "a"))
        await caller.send(wire.ReplyCreate())
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SHORT, llm=llm))
    assert llm.asked[1:] == (
        ("system", "S."),
        ("user", "A."),
        ("assistant", ""),
        ("tool", "noon"),
        ("assistant", "Yes."),
    )
    assert caller.errors == ["bad_field"]


def test_a_commit_may_be_a_turn_though_nothing_was_heard() -> None:
    """And what was said can be taken back."""

    async def script(caller: Caller) -> None:
        await caller.start(turn_taking="manual")
        await caller.send(wire.InputCommit())
        await caller.send(wire.InputCommit(even_empty=True))
        await caller.speak(0.5)
        await caller.send(wire.InputClear())
        await caller.pause(0.3)
        await caller.end()

    assert call(script).verdicts == ["empty", "empty"]


def test_a_reply_is_cut_after_its_end() -> None:
    llm = ListeningLlm(ScriptedConfig(), 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(2.0)
        await caller.send(wire.ReplyCancel())
        await caller.wait(0.2)
        await caller.send(wire.HistoryTruncate(1, 650.0))
        await caller.send(wire.InputText("And?"))
        await caller.wait(0.2)
        await caller.end()

    call(script, engines(llm=llm))
    assert llm.asked[1:] == (("user", "Hello."), ("assistant", "This is …"), ("user", "And?"))


def test_a_client_that_ends_at_once_is_told_all_that_was_decided() -> None:
    """Typed twice and ended in one breath, with a line that is full: the first turn's verdict goes out before the
    close."""

    async def main() -> Caller:
        async with open_house(engines(SHORT)) as house:

            async def script(caller: Caller) -> None:
                await caller.start()
                caller.reading = False
                for text in ("One.", "Two."):
                    await caller.send(wire.InputText(text))
                await caller.send(wire.SessionEnd())
                await caller.wait(0.5)
                caller.reading = True
                await caller.gone()

            return await visit(house, script, capacity=4)

    caller = virtual.run(main())
    assert caller.closed is not None and caller.closed.code == 1000
    assert caller.verdicts == ["interrupted"]
    assert [committed.turn for committed in caller.of(wire.TurnCommitted)] == [1, 2]
