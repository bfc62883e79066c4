"""The scripted engines: a product of their own. Fixed words, a tone, and the service times that were stated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import numpy as np
import pytest

from tests import virtual
from voicepipe.audio import dbfs
from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import ChatMessage, Context, Prompt, Samples, ToolOffer, ToolUse, Window
from voicepipe.engines.scripted import (
    RATE_HZ,
    SECONDS_PER_WORD,
    TONE_HZ,
    ScriptedAsr,
    ScriptedLlm,
    ScriptedTts,
    ScriptedTurnModel,
    ScriptedVad,
)
from voicepipe.errors import EngineBusy

CTX = Context("s", 1, 1, 0)
FRAME = 512


def settled(value: Any) -> tuple[Any, float]:
    """The value of a chunk, and the virtual seconds that it took."""

    async def main() -> tuple[Any, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await value if isinstance(value, Awaitable) else value
        return result, round(loop.time() - began, 6)

    return virtual.run(main())


def heard(turn: int, seconds: float) -> Window:
    return Window(turn, 0, np.zeros(round(seconds * RATE_HZ), np.float32), 0)


def prompt(max_tokens: int = 100) -> Prompt:
    return Prompt((ChatMessage("user", "Hello."),), max_tokens)


@pytest.mark.parametrize(("dbfs_level", "probability"), [(-20, 1.0), (-39.5, 1.0), (-40.5, 0.0), (-90, 0.0)])
def test_speech_is_what_is_louder_than_minus_40_dbfs(dbfs_level: float, probability: float) -> None:
    """An energy threshold, frame by frame."""
    frame = np.full(FRAME, 10 ** (dbfs_level / 20), np.float32)
    stream = ScriptedVad().open()
    assert stream.frame_samples == FRAME
    assert stream.probability(frame) == probability


def test_digital_silence_is_no_speech() -> None:
    """Minus infinity is below every threshold."""
    assert ScriptedVad().open().probability(np.zeros(FRAME, np.float32)) == 0.0


def test_the_nth_utterance_is_heard_as_the_nth_text() -> None:
    """Round and round; more decodes of one utterance stay with its text."""
    stream = ScriptedAsr(ScriptedConfig(transcripts=("One.", "Two."))).open()
    texts = []
    for turn in (3, 3, 4, 7, 9):
        transcript, _ = settled(stream.decode(heard(turn, 2), final=True, ctx=CTX))
        texts.append(transcript.text)
    assert texts == ["One.", "One.", "Two.", "One.", "Two."]


def test_every_session_begins_with_the_first_text() -> None:
    """Streams share nothing."""
    asr = ScriptedAsr(ScriptedConfig(transcripts=("One.", "Two.")))
    for stream in (asr.open(), asr.open()):
        transcript, _ = settled(stream.decode(heard(1, 2), final=True, ctx=CTX))
        assert transcript.text == "One."


def test_partials_give_a_word_for_each_300_ms() -> None:
    """All but the last are stable; a final gives the whole text and nothing tentative."""
    stream = ScriptedAsr(ScriptedConfig(transcripts=("one two three four",))).open()
    seen = []
    for seconds in (0.2, 0.31, 0.7, 1.0, 9.0):
        transcript, _ = settled(stream.decode(heard(1, seconds), final=False, ctx=CTX))
        seen.append((transcript.stable, transcript.tentative, transcript.final))
    assert seen == [
        ("", "", False),
        ("", "one", False),
        ("one", "two", False),
        ("one two", "three", False),
        ("one two three", "four", False),
    ]
    transcript, _ = settled(stream.decode(heard(1, 0.5), final=True, ctx=CTX))
    assert (transcript.stable, transcript.tentative, transcript.final) == ("one two three four", "", True)
    assert transcript.encoded_s == 0.5


def test_without_texts_nothing_is_heard() -> None:
    """Which is how an empty turn is scripted."""
    stream = ScriptedAsr(ScriptedConfig(transcripts=())).open()
    transcript, _ = settled(stream.decode(heard(1, 2), final=True, ctx=CTX))
    assert transcript.text == ""


def test_a_decode_takes_its_stated_time() -> None:
    """Whatever the length of the window."""
    stream = ScriptedAsr(ScriptedConfig(asr_ms=35)).open()
    for seconds in (0.1, 20.0):
        assert settled(stream.decode(heard(1, seconds), final=True, ctx=CTX))[1] == 0.035


def test_the_reply_comes_a_word_at_a_time_after_the_prefill() -> None:
    """Each step takes its stated time; the last one says so, and the pieces join to the reply."""
    llm = ScriptedLlm(ScriptedConfig(reply="Yes, of  course.", llm_prefill_ms=40, llm_token_ms=8), 1)
    generation = llm.open("s").generate(prompt(), CTX)
    steps = [settled(generation.step()) for _ in range(4)]
    assert [step.text for step, _ in steps] == ["", "Yes, ", "of  ", "course."]
    assert [seconds for _, seconds in steps] == [0.04, 0.008, 0.008, 0.008]
    assert [step.finish for step, _ in steps] == [None, None, None, "stop"]
    assert [(step.prefilled, step.tokens) for step, _ in steps] == [(1, 0), (0, 1), (0, 1), (0, 1)]


def test_a_reply_is_cut_at_its_most_tokens() -> None:
    """And says that it was."""
    llm = ScriptedLlm(ScriptedConfig(reply="one two three"), 1)
    generation = llm.open("s").generate(prompt(max_tokens=2), CTX)
    steps = [settled(generation.step())[0] for _ in range(3)]
    assert [(step.text, step.finish) for step in steps[1:]] == [("one ", None), ("two ", "length")]


def test_a_reply_that_just_fits_is_not_cut() -> None:
    """The last word is the end, not the limit."""
    llm = ScriptedLlm(ScriptedConfig(reply="one two"), 1)
    generation = llm.open("s").generate(prompt(max_tokens=2), CTX)
    assert [settled(generation.step())[0].finish for _ in range(3)] == [None, None, "stop"]


def test_an_empty_reply_ends_with_its_prefill() -> None:
    """There is nothing to be said."""
    llm = ScriptedLlm(ScriptedConfig(reply=""), 1)
    step, _ = settled(llm.open("s").generate(prompt(), CTX).step())
    assert (step.text, step.finish) == ("", "stop")


def test_slots_are_leased_and_given_back_once() -> None:
    """No more than there are; closing twice gives back one."""
    llm = ScriptedLlm(ScriptedConfig(), 2)
    first, second = llm.open("a"), llm.open("b")
    with pytest.raises(EngineBusy, match="all 2 reply slots"):
        llm.open("c")
    first.close()
    first.close()
    assert llm.leased == 1
    llm.open("c")
    second.close()
    assert llm.leased == 1


def test_a_closed_slot_generates_no_more() -> None:
    """Its owner has given it back: a bug of ours."""
    slot = ScriptedLlm(ScriptedConfig(), 1).open("a")
    slot.close()
    with pytest.raises(AssertionError):
        slot.generate(prompt(), CTX)


def test_the_voice_is_a_tone_of_300_ms_to_a_word() -> None:
    """In pieces of the stated length, each after its stated time, joined without a seam."""
    tts = ScriptedTts(ScriptedConfig(tts_ms=25, tts_piece_ms=400))
    synthesis = tts.synthesize("One two three.", CTX, first=True)
    pieces: list[Samples] = []
    while True:
        step, seconds = settled(synthesis.step())
        assert seconds == 0.025
        pieces.append(step.samples)
        if step.last:
            break
    assert [len(piece) for piece in pieces] == [9_600, 9_600, 2_400]
    whole = np.concatenate(pieces)
    assert len(whole) == round(3 * SECONDS_PER_WORD * tts.sample_rate_hz)
    assert -18 < dbfs(whole) < -16
    spectrum = np.abs(np.fft.rfft(whole))
    assert np.argmax(spectrum) * tts.sample_rate_hz / len(whole) == pytest.approx(TONE_HZ, abs=1.2)


def test_a_clause_without_a_word_is_one_empty_last_piece() -> None:
    """No sound, and an end."""
    step, _ = settled(ScriptedTts(ScriptedConfig()).synthesize("", CTX, first=False).step())
    assert (len(step.samples), step.last) == (0, True)


def test_cancelling_and_closing_are_harmless() -> None:
    """Before, between and after steps."""
    config = ScriptedConfig()
    generation = ScriptedLlm(config, 1).open("s").generate(prompt(), CTX)
    synthesis = ScriptedTts(config).synthesize("One.", CTX, first=True)
    stream = ScriptedAsr(config).open()
    for _ in range(2):
        generation.cancel()
        synthesis.cancel()
        stream.close()
    settled(ScriptedLlm(config, 1).aclose())


@pytest.mark.parametrize(("occupy", "placement"), [("sleep", "loop"), ("spin", "thread")])
def test_how_the_device_is_occupied_decides_where_chunks_run(occupy: Any, placement: str) -> None:
    """Waiting is awaited on the loop, burning takes a thread. The Vad always blocks: it is too short to await."""
    config = ScriptedConfig(occupy=occupy)
    for engine in (ScriptedAsr(config), ScriptedLlm(config, 1), ScriptedTts(config)):
        assert engine.placement == placement
    assert ScriptedVad().placement == "thread"


def test_spinning_burns_the_stated_time() -> None:
    """At least: the one thing here that takes real time, 2 ms of it."""
    stream = ScriptedAsr(ScriptedConfig(occupy="spin", asr_ms=2)).open()
    began = time.perf_counter()
    transcript = stream.decode(heard(1, 1), final=True, ctx=CTX)
    assert time.perf_counter() - began >= 0.002
    assert transcript.final  # type: ignore[union-attr]


def test_the_turn_model_gives_a_score_per_turn_round_and_round() -> None:
    """Whatever the sound, after the stated time."""
    model = ScriptedTurnModel(ScriptedConfig(completeness=(0.1, 0.9), turn_model_ms=50))
    audio = np.zeros(RATE_HZ, np.float32)
    answers = [settled(model.completeness(audio, Context("s", turn, 1, 0))) for turn in (1, 2, 3, 3)]
    assert answers == [(0.1, 0.05), (0.9, 0.05), (0.1, 0.05), (0.1, 0.05)]


def test_a_spinning_turn_model_answers_at_once() -> None:
    """It blocks, like a model in a thread."""
    model = ScriptedTurnModel(ScriptedConfig(occupy="spin", turn_model_ms=0.1))
    assert model.placement == "thread"
    assert model.completeness(np.zeros(1, np.float32), CTX) == 0.9


def test_a_tool_that_is_scripted_and_offered_is_called_instead_of_the_reply() -> None:
    """Once: whoever knows what came of it says the reply. Calls have names of their own."""
    offer = (ToolOffer("clock", "", "{}"), ToolOffer("weather", "", "{}"))
    llm = ScriptedLlm(ScriptedConfig(reply="Noon.", calls=('weather {"a": 1}', "clock {}")), 1)
    slot = llm.open("s")

    def told(*messages: ChatMessage, tools: tuple[ToolOffer, ...] = offer, choice: str = "auto") -> Any:
        generation = slot.generate(Prompt(messages or (ChatMessage("user", "Hi."),), 9, False, tools, choice), CTX)
        return [settled(generation.step())[0] for _ in range(2)][-1]

    assert told().calls == (ToolUse("call_1", "weather", '{"a": 1}'),)
    assert told(choice="clock").calls == (ToolUse("call_2", "clock", "{}"),)
    assert told(tools=offer[:1]).calls[0].name == "clock"
    for step in (told(tools=()), told(choice="none"), told(ChatMessage("tool", "12:00", call_id="call_1"))):
        assert (step.text, step.calls) == ("Noon.", ())
