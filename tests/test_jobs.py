"""What a session's works mean at its engines: windows, generations, clauses, and handles given back once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import virtual
from tests.driving import FaultyTurnModel, ListeningLlm, engines
from voicepipe.chunk import Chunk
from voicepipe.clause import Spoken
from voicepipe.config import ScriptedConfig
from voicepipe.core.events import (
    Line,
    Load,
    Rehear,
    Speak,
    Submit,
    Think,
    Tool,
    Tools,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.utterance import Span
from voicepipe.engines.base import (
    ChatMessage,
    Context,
    LlmStep,
    Prompt,
    StepSize,
    ToolOffer,
    ToolUse,
    Transcript,
    TtsStep,
    Window,
    whole_window,
)
from voicepipe.errors import EngineBusy, EngineUnavailable
from voicepipe.ingest import AudioRing
from voicepipe.jobs import MAX_OPENINGS, Decoded, Jobs, is_whole

CONFIG = ScriptedConfig(reply="Yes. No.")
S = 16_000
"""Samples of a second."""
THINK = Think((Line("system", "Be brief."), Line("user", "Hello.")), 7)


def work(kind: WorkKind, deadline: float | None = None) -> Work:
    return Work(1, "s", 3, 4, 5, kind, WorkClass.STARTED, deadline)


class RecordingAsr:
    """Keeps what it was given to decode; its stream forgets audio before `window_start`."""

    placement = "loop"
    name = "recording"

    def __init__(self, rejected: str | None = None) -> None:
        self.window_start = 0
        self._rejected = rejected
        self.decoded: list[tuple[Window, bool, Context]] = []
        self.closed = 0

    def open(self) -> RecordingAsr:
        return self

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        return whole_window(window)

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        self.decoded.append((window, final, ctx))
        return Transcript("heard", "", final, self._rejected)

    def close(self) -> None:
        self.closed += 1


class CancelledTts:
    """Counts the clauses that were begun and let go of."""

    placement = "thread"
    name = "counting"
    sample_rate_hz = 16_000

    def __init__(self) -> None:
        self.texts: list[tuple[str, bool]] = []
        self.cancelled = 0

    def synthesize(self, text: str, ctx: Context, *, first: bool) -> CancelledTts:
        self.texts.append((text, first))
        return self

    def next_size(self) -> StepSize:
        return StepSize("first", 4)

    def step(self) -> TtsStep:
        return TtsStep(np.full(160, 0.5, np.float32), True)

    def cancel(self) -> None:
        self.cancelled += 1


def ring(samples: int, seconds: float = 60.0) -> AudioRing:
    one = AudioRing(seconds)
    one.append(np.arange(samples, dtype=np.float32) / 1e6)
    return one


def run(jobs: Jobs, kind: WorkKind, task: Think | Speak | None = None, span: Span | None = None) -> Any:
    """Do the work as the device would, in virtual time."""
    chunk = jobs.call(Submit(work(kind), task), span, now=10.0)
    chunk.before()
    return answer(chunk)


def answer(chunk: Chunk) -> Any:
    async def main() -> Any:
        value = chunk.call()
        return value if chunk.blocks else await value

    return virtual.run(main())


def test_a_decode_hears_the_utterance_from_its_start_to_now() -> None:
    """With its number, its speech, and what is known of the turn."""
    asr = RecordingAsr()
    jobs = Jobs("s", engines(asr=asr), ring(5_000), None)
    assert run(jobs, WorkKind.PARTIAL, span=Span(3, 1_000, 800)) == Decoded(Transcript("heard", "", False), 5_000)
    ((window, final, ctx),) = asr.decoded
    assert (window.utterance, window.start, len(window.samples), window.speech_samples) == (
        3,
        1_000,
        4_000,
        800,
    )
    assert window.samples[0] == pytest.approx(0.001)
    assert not final
    assert ctx == Context("s", 3, 4, 5, None)


def test_a_decode_hears_what_was_said_while_it_waited() -> None:
    """And says how far it heard."""
    asr, heard = RecordingAsr(), ring(5_000)
    jobs = Jobs("s", engines(asr=asr), heard, None)
    chunk = jobs.call(Submit(work(WorkKind.PARTIAL)), Span(3, 1_000, 800), now=10.0)
    heard.append(np.zeros(600, np.float32))
    chunk.before()
    heard.append(np.zeros(100, np.float32))
    assert answer(chunk).upto == 5_600
    assert len(asr.decoded[0][0].samples) == 4_600


def test_a_decode_that_was_not_believed_says_nothing_about_how_far_it_heard() -> None:
    asr = RecordingAsr(rejected="repetition")
    jobs = Jobs("s", engines(asr=asr), ring(5_000), None)
    assert run(jobs, WorkKind.PARTIAL, span=Span(3, 1_000, 800)).upto == 0


def test_a_final_is_asked_for_as_such() -> None:
    """The recogniser decodes what is left of the utterance."""
    asr = RecordingAsr()
    run(Jobs("s", engines(asr=asr), ring(100), None), WorkKind.FINAL, span=Span(1, 0, 0))
    assert asr.decoded[0][1]


def test_a_decode_skips_what_the_recogniser_needs_no_more() -> None:
    """Its own window may have moved on; a new utterance begins at its own start all the same."""
    asr = RecordingAsr()
    jobs = Jobs("s", engines(asr=asr), ring(5_000), None)
    run(jobs, WorkKind.PARTIAL, span=Span(1, 1_000, 0))
    asr.window_start = 3_000
    run(jobs, WorkKind.PARTIAL, span=Span(1, 1_000, 0))
    run(jobs, WorkKind.PARTIAL, span=Span(2, 2_000, 0))
    assert [window.start for window, _, _ in asr.decoded] == [1_000, 3_000, 2_000]


def test_a_decode_begins_at_what_the_ring_still_holds() -> None:
    """A turn longer than the ring loses its beginning, not its recognition."""
    asr = RecordingAsr()
    jobs = Jobs("s", engines(asr=asr), ring(48_000, seconds=1.0), None)
    run(jobs, WorkKind.FINAL, span=Span(1, 0, 0))
    assert asr.decoded[0][0].start == 32_000


def test_the_context_tells_how_much_time_is_left() -> None:
    """Remaining milliseconds, so that it may cross a process."""
    asr = RecordingAsr()
    jobs = Jobs("s", engines(asr=asr), ring(100), None)

    async def main() -> None:
        call, *_ = jobs.call(Submit(work(WorkKind.FINAL, deadline=10.19)), Span(3, 0, 0), now=10.0)
        await call()

    virtual.run(main())
    assert asr.decoded[0][2].remaining_ms == pytest.approx(190)


@pytest.mark.parametrize(
    ("held_s", "start", "shown"),
    [
        (5, S, (S, 5 * S)),  # the turn from its start on
        (20, S, (12 * S, 20 * S)),  # the last eight seconds of it
        (20, 15 * S, (15 * S, 20 * S)),  # and nothing of the turn before
    ],
)
def test_a_turn_model_is_shown_the_end_of_the_turn(held_s: int, start: int, shown: tuple[int, int]) -> None:
    """Up to the newest sample."""
    heard: list[tuple[np.ndarray[Any, Any], Context]] = []

    class Model:
        placement = "loop"
        name = "recording"

        async def completeness(self, audio: np.ndarray[Any, Any], ctx: Context) -> float:
            heard.append((audio, ctx))
            return 0.25

    sound = ring(held_s * S)
    jobs = Jobs("s", engines(turn_model=Model()), sound, None)
    assert run(jobs, WorkKind.JUDGE, span=Span(3, start, 0)) == 0.25
    ((audio, ctx),) = heard
    assert np.array_equal(audio, sound.read(*shown))
    assert ctx == Context("s", 3, 4, 5, None)


def test_a_turn_model_that_lost_the_turns_beginning_is_shown_the_rest() -> None:
    """The ring holds less than eight seconds."""
    model = FaultyTurnModel(CONFIG)
    jobs = Jobs("s", engines(turn_model=model), ring(5 * S, seconds=2.0), None)
    run(jobs, WorkKind.JUDGE, span=Span(3, 0, 0))
    assert model.shown_s == [2.0]


def test_thinking_begins_with_a_task_and_goes_on_without() -> None:
    """The first step reads the prompt, the next ones are its continuation."""
    llm = ListeningLlm(CONFIG, 1)
    jobs = Jobs("s", engines(llm=llm), ring(0), None)
    assert run(jobs, WorkKind.THINK, THINK) == LlmStep("", 0, prefilled=1)
    assert run(jobs, WorkKind.THINK) == LlmStep("Yes. ", 1)
    assert run(jobs, WorkKind.THINK) == LlmStep("No.", 1, finish="stop")
    assert llm.prompts == [(("system", "Be brief."), ("user", "Hello."))]


def test_the_smaller_model_is_asked_by_the_prompt() -> None:
    """An engine that has none does not look at it."""
    asked: list[bool] = []

    class Sized(ListeningLlm):
        def generation(self, prompt: Prompt) -> Any:
            asked.append(prompt.small)
            return super().generation(prompt)

    jobs = Jobs("s", engines(llm=Sized(CONFIG, 1)), ring(0), None)
    run(jobs, WorkKind.THINK, THINK)
    run(jobs, WorkKind.THINK, replace(THINK, small=True))
    assert asked == [False, True]


def test_a_second_pass_is_the_larger_recognisers() -> None:
    """On a stream of its own, which is given back with the others."""
    first, second = RecordingAsr(), RecordingAsr()
    jobs = Jobs("s", engines(asr=first, asr_second=second), ring(5_000), None)
    assert run(jobs, WorkKind.SECOND_PASS, Rehear(3, 1_000, 4_000, 800)).text == "heard"
    ((window, final, ctx),) = second.decoded
    assert (window.start, len(window.samples), window.speech_samples, final) == (1_000, 3_000, 800, True)
    assert (ctx.turn, first.decoded) == (3, [])
    jobs.close()
    assert (first.closed, second.closed) == (1, 1)


def test_reading_ahead_is_a_generation_like_any_other() -> None:
    """It is replaced by the reply's own."""
    llm = ListeningLlm(CONFIG, 1)
    jobs = Jobs("s", engines(llm=llm), ring(0), None)
    run(jobs, WorkKind.WARM, THINK)
    run(jobs, WorkKind.WARM)
    assert run(jobs, WorkKind.THINK, THINK).prefilled == 1
    assert len(llm.prompts) == 2


def test_a_new_reply_lets_go_of_the_old_one() -> None:
    """Its clause too, unless it was the first."""
    tts = CancelledTts()
    jobs = Jobs("s", engines(CONFIG, tts=tts), ring(0), None)
    run(jobs, WorkKind.THINK, THINK)
    run(jobs, WorkKind.SPEAK, Speak("One.", True))
    run(jobs, WorkKind.SPEAK, Speak("Two.", False))
    run(jobs, WorkKind.THINK, THINK)
    assert tts.cancelled == 1


def say(jobs: Jobs, text: str, turn: int) -> Any:
    speak = Submit(replace(work(WorkKind.SPEAK), turn=turn), Speak(text, True))
    return jobs.call(speak, None, 0.0)[0]()


def test_replies_that_begin_alike_share_what_was_made() -> None:
    """Those to later turns too."""
    tts = CancelledTts()
    jobs = Jobs("s", engines(CONFIG, tts=tts), ring(0), None)
    first = say(jobs, "One.", turn=3)
    jobs.abandon_reply()
    say(jobs, "Two.", turn=3)
    jobs.abandon_reply()
    assert say(jobs, "One.", turn=3) is first
    assert say(jobs, "One.", turn=4) is first
    assert [text for text, _ in tts.texts] == ["One.", "Two."]
    jobs.close()
    assert tts.cancelled == 2


def test_few_first_clauses_are_kept() -> None:
    """The one that was not used for the longest time goes."""
    tts = CancelledTts()
    jobs = Jobs("s", engines(CONFIG, tts=tts), ring(0), None)
    for number in range(MAX_OPENINGS + 1):
        say(jobs, f"{number}.", turn=3)
        say(jobs, "0.", turn=3)
    assert tts.cancelled == 1
    assert len(tts.texts) == MAX_OPENINGS + 1
    say(jobs, "1.", turn=3)
    assert len(tts.texts) == MAX_OPENINGS + 2


def test_a_reply_that_was_left_in_the_middle_takes_nothing_from_the_next() -> None:
    """Its last step may still be waiting for its thread."""
    jobs = Jobs("s", engines(ScriptedConfig(occupy="spin", tts_ms=0)), ring(0), None)
    speak = Submit(work(WorkKind.SPEAK), Speak("One two three four.", True))
    old, *_ = jobs.call(speak, None, 0.0)
    jobs.abandon_reply()
    new, *_ = jobs.call(speak, None, 0.0)
    assert old().pcm is new().pcm


def test_what_is_still_awaited_is_not_shared() -> None:
    """Two would wait for one piece."""
    jobs = Jobs("s", engines(CONFIG), ring(0), None)
    speak = Submit(work(WorkKind.SPEAK), Speak("One.", True))

    async def main() -> list[Spoken]:
        old = asyncio.ensure_future(jobs.call(speak, None, 0.0)[0]())
        await asyncio.sleep(0)
        jobs.abandon_reply()
        new = asyncio.ensure_future(jobs.call(speak, None, 0.0)[0]())
        return [await old, await new]

    first, second = virtual.run(main())
    assert first == second and first is not second


def test_speaking_gives_pcm_at_the_sessions_rate() -> None:
    """The engine's own where the client asked for none."""
    tts = CancelledTts()
    jobs = Jobs("s", engines(CONFIG, tts=tts), ring(0), None)
    assert jobs.output_rate == 16_000
    spoken = run(jobs, WorkKind.SPEAK, Speak("One.", True))
    assert spoken == Spoken(b"\x00\x40" * 160, True)
    assert tts.texts == [("One.", True)]


@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
def test_a_clause_is_resampled_without_losing_its_end(rate: int) -> None:
    """What the resampler holds back comes with the last piece."""
    jobs = Jobs("s", engines(CONFIG), ring(0), rate)
    assert jobs.output_rate == rate
    pcm = b""
    spoken = run(jobs, WorkKind.SPEAK, Speak("One two three four.", True))
    pcm += spoken.pcm
    while not spoken.last:
        spoken = run(jobs, WorkKind.SPEAK)
        pcm += spoken.pcm
    assert len(pcm) / 2 / rate == pytest.approx(4 * 0.3, abs=0.002)


def test_a_reply_that_was_abandoned_has_nothing_to_go_on_with() -> None:
    """A step without a task is then a bug of ours."""
    jobs = Jobs("s", engines(CONFIG), ring(0), None)
    run(jobs, WorkKind.THINK, THINK)
    jobs.abandon_reply()
    jobs.abandon_reply()
    for kind in (WorkKind.THINK, WorkKind.SPEAK):
        with pytest.raises(AssertionError):
            jobs.call(Submit(work(kind)), None, 0.0)


def test_hearing_frames_is_no_work_of_a_turn() -> None:
    """The ears do that themselves."""
    with pytest.raises(AssertionError, match="no work of a turn"):
        Jobs("s", engines(CONFIG), ring(0), None).call(Submit(work(WorkKind.HEAR)), None, 0.0)


def test_a_session_without_a_free_slot_is_told_at_birth() -> None:
    """And the slot of one that closes is free again, once."""
    shared = engines(CONFIG, slots=1)
    first = Jobs("a", shared, ring(0), None)
    with pytest.raises(EngineBusy):
        Jobs("b", shared, ring(0), None)
    first.close()
    first.close()
    assert shared.llm.leased == 0  # type: ignore[attr-defined]
    second = Jobs("b", shared, ring(0), None)
    second.close()


def test_closing_closes_the_recogniser_and_lets_go_of_the_reply() -> None:
    """Whatever was going on."""
    asr, tts = RecordingAsr(), CancelledTts()
    jobs = Jobs("s", engines(CONFIG, asr=asr, tts=tts), ring(0), None)
    run(jobs, WorkKind.SPEAK, Speak("One.", True))
    jobs.close()
    assert (asr.closed, tts.cancelled) == (1, 1)


def test_blocking_engines_block_and_awaited_ones_are_awaited() -> None:
    """As each engine's placement says."""
    jobs = Jobs("s", engines(ScriptedConfig(occupy="spin", tts_ms=0), asr=RecordingAsr()), ring(10), None)
    placements = [
        jobs.call(Submit(work(WorkKind.FINAL)), Span(1, 0, 0), 0.0)[1],
        jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0)[1],
        jobs.call(Submit(work(WorkKind.SPEAK), Speak("A.", True)), None, 0.0)[1],
    ]
    assert placements == [False, True, True]


def test_a_blocking_step_of_the_voice_is_resampled_where_it_runs() -> None:
    """Its call returns the finished piece."""
    jobs = Jobs("s", engines(ScriptedConfig(occupy="spin", tts_ms=0)), ring(0), 8_000)
    call, *_ = jobs.call(Submit(work(WorkKind.SPEAK), Speak("A.", True)), None, 0.0)
    spoken = call()
    assert isinstance(spoken, Spoken) and not asyncio.iscoroutine(spoken)


def test_a_chunk_says_what_it_has_to_do() -> None:
    """Seconds of sound, the model's own words about its next step, characters of a clause, samples after them."""
    asr = RecordingAsr()
    jobs = Jobs("s", engines(ScriptedConfig(tts_piece_ms=100), asr=asr), ring(8_000), None)
    assert jobs.call(Submit(work(WorkKind.FINAL)), Span(1, 0, 0), 0.0).load == Load("recording", 0.5)
    assert jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0).load == Load("scripted", 1, 0, "prefill")
    run(jobs, WorkKind.THINK)
    assert jobs.call(Submit(work(WorkKind.THINK)), None, 0.0).load == Load("scripted", 1, 1, "decode", batch=8)
    spoken = jobs.call(Submit(work(WorkKind.SPEAK), Speak("One two.", True)), None, 0.0)
    assert spoken.load == Load("scripted", len("One two."), variant="first")

    async def first() -> None:
        await spoken.call()

    virtual.run(first())
    assert jobs.call(Submit(work(WorkKind.SPEAK)), None, 0.0).load == Load("scripted", 2_400, variant="later")


def test_what_has_been_made_before_costs_nothing_and_says_so() -> None:
    """Also where it was made between the asking and the running: then its time is no measure of what was asked."""
    jobs = Jobs("s", engines(CONFIG, tts=CancelledTts()), ring(0), None)
    asked = [jobs.call(Submit(work(WorkKind.SPEAK), Speak("One.", True)), None, 0.0) for _ in range(2)]
    assert [chunk.load.variant for chunk in asked] == ["first", "first"]
    assert [is_whole(chunk.call()) for chunk in asked] == [True, False]
    known = jobs.call(Submit(work(WorkKind.SPEAK), Speak("One.", True)), None, 0.0)
    assert known.load == Load("counting", 0, variant="made")
    assert is_whole(known.call())


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        (LlmStep("", 0, finish="stop", cut=True), False),
        (LlmStep("", 0), True),
        (Spoken(b"", True, cut=True), False),
        (Transcript("", "", True), True),
    ],
)
def test_what_was_cut_off_is_not_whole(result: object, whole: bool) -> None:
    """Its engine says so."""
    assert is_whole(result) is whole


TOLD = (Line("call", "{}", "c1", "clock"), Line("tool", "noon", "c1"))


def test_tools_and_what_came_of_them_are_in_the_prompt() -> None:
    prompts: list[Prompt] = []

    class Asked(ListeningLlm):
        def generation(self, prompt: Prompt) -> Any:
            prompts.append(prompt)
            return super().generation(prompt)

    llm = Asked(CONFIG, 1)
    jobs = Jobs("s", engines(llm=llm), ring(0), None)
    tools = Tools((Tool("clock", "Tells the time.", "{}"),), "none")
    run(jobs, WorkKind.THINK, Think(TOLD, 7, tools=tools))
    assert prompts[-1].tools == (ToolOffer("clock", "Tells the time.", "{}"),) and prompts[-1].tool_choice == "none"
    assert prompts[-1].messages == (
        ChatMessage("assistant", "", (ToolUse("c1", "clock", "{}"),)),
        ChatMessage("tool", "noon", call_id="c1"),
    )
    assert jobs.tools == tools and jobs.prompt_tokens > 10
    llm.calls_tools = False
    run(jobs, WorkKind.THINK, Think(TOLD, 7))
    assert prompts[-1].messages == (ChatMessage("assistant", "[clock {}]"), ChatMessage("user", "[noon]"))


# --- calls that do not end ---------------------------------------------------------------------------------


def lost(chunk: Chunk) -> asyncio.Future[None]:
    """Its call does not end; done when it does."""
    still: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    chunk.on_lost(still)
    return still


async def ends(still: asyncio.Future[None]) -> None:
    still.set_result(None)
    await asyncio.sleep(0)


async def test_a_slot_that_is_lost_is_replaced_and_given_back_when_its_call_ends() -> None:
    """Also after the session has closed. Only what the call uses waits for it: a seed found one more that did."""
    llm, counted = ListeningLlm(CONFIG, 2), list[int]()
    jobs = Jobs("s", engines(llm=llm), ring(0), None, counted.append)
    still = lost(jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0))
    assert await answer_of(jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0)) == LlmStep("", 0, prefilled=1)
    assert llm.leased == 2
    jobs.close()
    assert llm.leased == 1 and counted == [1, 1, -1]
    await ends(still)
    assert llm.leased == 0 and counted == [1, 1, -1, -1]


async def test_without_another_slot_the_next_reply_fails_and_says_why() -> None:
    """And the one after the call has ended does not."""
    llm = ListeningLlm(CONFIG, 1)
    jobs = Jobs("s", engines(llm=llm), ring(0), None)
    still = lost(jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0))
    with pytest.raises(EngineUnavailable, match="lost"):
        await answer_of(jobs.call(Submit(work(WorkKind.THINK)), None, 0.0))
    with pytest.raises(EngineBusy):
        await answer_of(jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0))
    await ends(still)
    assert await answer_of(jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0)) == LlmStep("", 0, prefilled=1)
    jobs.close()
    assert llm.leased == 0


async def test_a_step_that_waited_while_its_slot_was_lost_does_not_touch_it() -> None:
    """Two calls in one slot would be one too many."""
    jobs = Jobs("s", engines(CONFIG), ring(0), None)
    waits = jobs.call(Submit(work(WorkKind.THINK), THINK), None, 0.0)
    lost(jobs.call(Submit(work(WorkKind.THINK)), None, 0.0))
    with pytest.raises(EngineUnavailable):
        await answer_of(waits)


async def test_a_recogniser_that_is_lost_is_replaced_and_hears_from_the_start() -> None:
    """The old one is closed when its call ends."""

    class Fresh(RecordingAsr):
        def open(self) -> RecordingAsr:
            streams.append(RecordingAsr())
            return streams[-1]

    streams: list[RecordingAsr] = []
    jobs = Jobs("s", engines(CONFIG, asr=Fresh()), ring(2 * S), None)
    first = jobs.call(Submit(work(WorkKind.PARTIAL)), Span(3, 100, 0), 0.0)
    first.before()
    still = lost(first)
    streams[0].window_start = S
    await answer_of(jobs.call(Submit(work(WorkKind.PARTIAL)), Span(3, 100, 0), 0.0))
    (window, *_) = streams[1].decoded[0]
    assert window.start == 100 and not streams[0].decoded
    jobs.close()
    assert [stream.closed for stream in streams] == [0, 1]
    await ends(still)
    assert [stream.closed for stream in streams] == [1, 1]


async def test_a_second_pass_that_is_lost_leaves_the_next_one_its_own_recogniser() -> None:
    """As with the first."""
    second = RecordingAsr()
    jobs = Jobs("s", engines(CONFIG, asr_second=second), ring(2 * S), None)
    task = Rehear(3, 0, S, S)
    still = lost(jobs.call(Submit(work(WorkKind.SECOND_PASS), task), None, 0.0))
    await answer_of(jobs.call(Submit(work(WorkKind.SECOND_PASS), task), None, 0.0))
    assert len(second.decoded) == 1 and second.closed == 0
    await ends(still)
    assert second.closed == 1


async def test_a_clause_that_is_lost_is_not_said_again_out_of_what_was_made() -> None:
    """A reply that begins alike has its own."""
    tts = CancelledTts()
    jobs = Jobs("s", engines(CONFIG, tts=tts), ring(0), None)
    lost(jobs.call(Submit(work(WorkKind.SPEAK), Speak("One.", True)), None, 0.0))
    jobs.call(Submit(work(WorkKind.SPEAK), Speak("One.", True)), None, 0.0)
    assert tts.texts == [("One.", True)] * 2


async def answer_of(chunk: Chunk) -> Any:
    """What its call brings, with what goes before it."""
    chunk.before()
    value = chunk.call()
    return await value if asyncio.iscoroutine(value) else value
