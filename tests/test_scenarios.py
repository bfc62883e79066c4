"""Symptoms that users of realtime voice software have reported, as sessions in virtual time.

Each test is named by the id of its report. One verdict per turn, leases equal to live sessions and no sample of
an older epoch hold in every one of them: `tests.driving` checks that after each call.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from tests import virtual
from tests.driving import (
    Caller,
    DictatedAsr,
    FaultyAsr,
    FaultyTts,
    Hang,
    ListeningLlm,
    call,
    check_nothing_left,
    engines,
    limits,
    open_house,
    visit,
)
from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import Context, StepSize, Transcript, Window, whole_window
from voicepipe.engines.scripted import ScriptedVad
from voicepipe.errors import EngineUnavailable
from voicepipe.wire import messages as wire

LONG = ScriptedConfig(
    reply="This is a long reply. It has many sentences. Each of them takes its time. So it can be interrupted."
)
SHORT = ScriptedConfig(reply="Yes.", transcripts=("One.", "Two.", "Three."))


async def barge_in(caller: Caller, after_s: float, speech_s: float = 0.6) -> float:
    """Ask, wait for the reply's first sound, speak over it. When the speech began."""
    await caller.start()
    await caller.speak(1.0)
    await caller.pause_until(wire.AudioFrame)
    await caller.pause(after_s)
    began = caller.now
    await caller.speak(speech_s)
    return began


def test_s2_a_late_sentence_of_an_interrupted_reply_is_not_heard_in_the_next_turn() -> None:
    """The voice delivers it when the next turn is under way: dropped by its epoch."""
    tts = FaultyTts(LONG, [None] * 10 + [Hang(2.0)])

    async def script(caller: Caller) -> None:
        await barge_in(caller, 1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(LONG, tts=tts))
    assert len(caller.of(wire.ReplyInterrupted)) == 1
    assert caller.text(3) == LONG.reply
    assert caller.records[0].speculation.wasted_s == 0.0


def test_s4_a_barge_in_flushes_what_the_client_has_not_played() -> None:
    """`reply.interrupted` with the reply's epoch comes before anything else of the next turn."""

    async def script(caller: Caller) -> None:
        await barge_in(caller, 1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(LONG))
    kinds = caller.kinds()
    flush = kinds.index("ReplyInterrupted")
    assert kinds[flush + 1 : flush + 3] == ["TurnEnded", "SpeechStarted"]
    assert caller.of(wire.ReplyInterrupted)[0].epoch == 1
    sent_s = len(caller.audio(1)) / 2 / 24_000
    assert sent_s - caller.of(wire.ReplyInterrupted)[0].heard_ms / 1000 <= 0.4 + 0.02


@pytest.mark.parametrize("seed", range(25))
def test_s7_a_barge_in_stops_the_sound_within_a_bound(seed: int) -> None:
    """At a random instant after the grace: 256 ms to believe it is speech, two packets and two frames."""
    after_s = random.Random(seed).uniform(0.9, 3.0)

    async def script(caller: Caller) -> None:
        began = await barge_in(caller, after_s)
        await caller.pause_until_verdict(2)
        last = max(heard.at for heard in caller.log if getattr(heard.message, "epoch", None) == 1)
        assert last - began <= 0.256 + 2 * 0.02 + 2 * 0.032 + 1e-6
        await caller.end()

    call(script, engines(LONG))


def test_s8_the_reply_after_a_barge_in_starts_from_its_own_beginning() -> None:
    """Offsets count from the reply's first sample; there is no gap."""

    async def script(caller: Caller) -> None:
        await barge_in(caller, 1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(LONG))
    first = next(frame for frame in caller.of(wire.AudioFrame) if frame.epoch == 3)
    assert first.offset_samples == 0


def test_s11_an_interruption_before_the_first_sample_leaves_the_session_listening() -> None:
    """And a voice that then yields nothing ends as `failed`, not in silence."""
    tts = FaultyTts(SHORT, [Hang(1.0)])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(0.3)
        await caller.send(wire.ReplyCancel())
        await caller.wait(1.5)
        await caller.speak(1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SHORT, tts=tts))
    assert caller.verdicts == ["interrupted", "met"]
    assert not caller.audio(1)


def test_s13_a_cough_before_the_first_sample_leaves_the_turn_to_be_answered() -> None:
    """200 ms of it: it may take the commit back, but it adds no word, so the same turn is answered after it."""
    tts = FaultyTts(SHORT, [Hang(0.8)])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnCommitted)
        await caller.pause(0.2)
        await caller.speak(0.2)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, tts=tts))
    assert len(caller.of(wire.SpeechStarted)) == 1
    assert {final.text for final in caller.of(wire.TranscriptFinal)} == {"One."}
    assert caller.text(caller.of(wire.TurnCommitted)[-1].epoch) == "Yes."
    assert not caller.of(wire.ReplyInterrupted)


def test_s13_a_click_before_the_first_sample_does_not_even_take_the_commit_back() -> None:
    """One frame of it is no speech."""
    tts = FaultyTts(SHORT, [Hang(0.8)])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnCommitted)
        await caller.pause(0.2)
        await caller.speak(0.02)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, tts=tts))
    assert not caller.of(wire.TurnReopened)
    assert caller.text(1) == "Yes."


def test_s14_speech_that_goes_on_while_the_reply_is_thought_out_is_merged() -> None:
    """The cancelled work is replaced by that for the whole utterance; a reply comes."""
    config = ScriptedConfig(reply="Yes.", llm_prefill_ms=1000)
    asr = DictatedAsr(("Tell me.", "Tell me about cats."))
    llm = ListeningLlm(config, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.pause(1.0)
        await caller.speak(1.0)
        await caller.pause(0.4)
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(config, asr=asr, llm=llm))
    assert len(caller.of(wire.TurnReopened)) == 1
    assert caller.of(wire.TranscriptFinal)[-1].text == "Tell me about cats."
    assert llm.asked[1:] == (("user", "Tell me about cats."),)
    assert caller.text(3) == "Yes."


def test_s17_two_thresholds_are_each_obeyed() -> None:
    """Within the grace 96 ms take the commit back; after it 256 ms interrupt; 160 ms lie between."""
    for after_s, kind in ((0.1, wire.TurnReopened), (1.2, None)):

        async def script(caller: Caller, after_s: float = after_s) -> None:
            await barge_in(caller, after_s, 0.16)
            await caller.pause_until_verdict(1)
            await caller.end()

        caller = call(script, engines(LONG))
        assert not caller.of(wire.ReplyInterrupted)
        assert bool(caller.of(wire.TurnReopened)) == (kind is not None)


def test_s19_short_speech_over_a_reply_cuts_nothing() -> None:
    """Under the confirmation: the reply is heard to its end."""

    async def script(caller: Caller) -> None:
        await barge_in(caller, 1.2, 0.16)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(LONG))
    assert caller.text(1) == LONG.reply
    assert caller.verdicts == ["met"]


def test_s20_the_history_holds_the_words_that_were_heard() -> None:
    """Interrupted after 1.2 s: marked as cut, neither all nor nothing."""
    llm = ListeningLlm(LONG, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(1.3)
        await caller.send(wire.ReplyCancel())
        await caller.send(wire.InputText("What did you say?"))
        await caller.wait(0.1)
        await caller.end()

    call(script, engines(LONG, llm=llm))
    role, said = llm.asked[2]
    assert role == "assistant"
    assert said.endswith(" …")
    words = said.removesuffix(" …").split()
    assert words and len(words) < len(LONG.reply.split())
    assert LONG.reply.split()[: len(words)] == words


@pytest.mark.parametrize("reported", [None, 0])
def test_s22_without_a_playback_report_the_pacing_clock_says_what_was_heard(reported: int | None) -> None:
    """No empty line of the assistant, though sound was sent."""
    llm = ListeningLlm(LONG, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(2.0)
        if reported is not None:
            await caller.send(wire.Playback(1, reported))
        await caller.send(wire.ReplyCancel())
        await caller.send(wire.InputText("And?"))
        await caller.wait(0.1)
        await caller.end()

    caller = call(script, engines(LONG, llm=llm))
    assert 1500 < caller.of(wire.ReplyInterrupted)[0].heard_ms < 2000
    assert llm.asked[2] == ("assistant", "This is a long reply. It …")


def test_s23_nothing_of_a_reply_that_was_not_sent_enters_the_history() -> None:
    """Interrupted before any sound."""
    config = ScriptedConfig(reply="Yes.", tts_ms=2000)
    llm = ListeningLlm(config, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(1.0)
        await caller.send(wire.ReplyCancel())
        await caller.send(wire.InputText("And?"))
        await caller.wait(0.1)
        await caller.end()

    call(script, engines(config, llm=llm))
    assert llm.asked[1:] == (("user", "Hello."), ("user", "And?"))


def test_s25_speech_while_nothing_plays_truncates_nothing() -> None:
    """The last reply stays whole in the history."""
    llm = ListeningLlm(LONG, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until_verdict(1)
        await caller.pause(2.0)
        await caller.speak(1.0)
        await caller.pause_until(wire.AudioFrame)
        await caller.end()

    caller = call(script, engines(LONG, llm=llm))
    assert not caller.of(wire.ReplyInterrupted)
    assert llm.asked[2] == ("assistant", LONG.reply)


def test_s26_humming_is_an_empty_turn_within_a_second() -> None:
    """Speech to the Vad, no words to the recogniser: an end without a timeout, and no reply."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.6)
        hummed = caller.now
        await caller.pause_until_verdict(1)
        assert caller.at(wire.TurnEnded) - hummed < 1.0
        await caller.end()

    caller = call(script, engines(asr=DictatedAsr(("",))))
    assert caller.verdicts == ["empty"]
    assert not caller.of(wire.TurnCommitted) and not caller.of(wire.AudioFrame)


def test_s28_a_final_that_comes_after_the_silence_is_taken_on_arrival() -> None:
    """No second wait."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.4)
        spoken = caller.now
        await caller.pause_until_verdict(1)
        committed = caller.at(wire.TurnCommitted) - spoken
        assert 0.299 <= committed < 0.3 + 0.08
        await caller.end()

    assert call(script, engines(SHORT, asr=DictatedAsr(("Hello there.",), asr_ms=300.0))).verdicts == ["missed"]


def test_s31_speech_of_the_next_turn_is_not_cut_by_the_end_of_the_last() -> None:
    """It begins over the last moments of a reply and goes on: one turn, with all of its words."""
    asr = DictatedAsr(("One.",), ("Two, from its very beginning.",))

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.ReplyDone)
        await caller.pause(0.22)
        began = caller.now
        await caller.speak(1.5)
        await caller.pause_until_verdict(2)
        assert began < caller.at(wire.TurnEnded, 0) < began + 0.3
        await caller.end()

    config = ScriptedConfig(reply="This reply takes its time.")
    caller = call(script, engines(config, asr=asr))
    assert caller.verdicts == ["met", "met"]
    assert not caller.of(wire.ReplyInterrupted)
    assert len(caller.of(wire.SpeechStarted)) == 2
    assert caller.of(wire.TranscriptFinal)[1].text == "Two, from its very beginning."


def test_s32_an_utterance_with_pauses_is_committed_once() -> None:
    """Several finals, each too early to end the turn."""
    asr = DictatedAsr(
        (
            "so",
            "so I",
            "so I would",
            "so I would go.",
        )
    )

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(4):
            await caller.speak(0.5)
            await caller.pause(0.3)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, asr=asr))
    assert len(caller.of(wire.TurnCommitted)) == 1
    assert caller.of(wire.TranscriptFinal) == [wire.TranscriptFinal(1, "so I would go.")]


def test_s35_two_different_finals_of_one_turn_get_one_reply() -> None:
    """For the later text; the work on the earlier one is counted as waste."""
    asr = DictatedAsr(("Tell me and", "Tell me and show me."))

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause(0.2)
        await caller.speak(0.3)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, asr=asr))
    assert [done.epoch for done in caller.of(wire.ReplyDone)] == [1]
    assert caller.text(1) == "Yes."
    assert caller.records[0].speculation.attempts == 2


def test_s37_nothing_of_a_ready_reply_leaves_before_the_commit() -> None:
    """Ready some 100 ms into the silence, committed at 640: not a sample before."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        spoken = caller.now
        await caller.pause_until_verdict(1)
        assert caller.at(wire.AudioFrame) == caller.at(wire.TurnCommitted) >= spoken + 0.64
        await caller.end()

    caller = call(script, engines(SHORT, asr=DictatedAsr(("I would like tea and",))))
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.speculation.hit and ended.system_ms == 0


def test_s40_a_voice_slower_than_its_playback_is_heard_to_its_end() -> None:
    """With gaps, which are no gaps in the offsets; the turn ends when the last sample has been played."""
    config = ScriptedConfig(reply="One two three four five six.", tts_ms=450, tts_piece_ms=300)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until_verdict(1)
        audible_s = caller.at(wire.TurnEnded) - caller.at(wire.AudioFrame)
        assert audible_s == pytest.approx(5 * 0.45 + 0.3, abs=0.05)
        await caller.end()

    assert call(script, engines(config)).verdicts == ["missed"]


def test_s47_listening_does_not_wait_for_a_decode() -> None:
    """A recogniser that takes 800 ms a step: speech is noticed at once all the same."""

    async def main() -> list[Caller]:
        async with open_house(engines(ScriptedConfig(reply="Yes.", asr_ms=800), slots=6)) as house:

            def after(seconds: float) -> Any:
                async def script(caller: Caller) -> None:
                    await caller.start()
                    await caller.pause(seconds)
                    began = caller.now
                    await caller.speak(1.5)
                    assert caller.at(wire.SpeechStarted) - began < 0.1
                    await caller.pause_until_verdict(1)
                    await caller.end()

                return script

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(visit(house, after(0.3 * n), ident=f"s{n}")) for n in range(6)]
            return [task.result() for task in tasks]

    for caller in virtual.run(main()):
        assert len(caller.verdicts) == 1


@pytest.mark.parametrize("state", ["idle", "listening", "thinking", "speaking"])
def test_s49_a_clean_close_leaves_nothing_behind(state: str) -> None:
    """Fifty sessions in a row, each closed in that state by its client."""

    async def main() -> None:
        async with open_house(engines(LONG, slots=1)) as house:
            for number in range(50):

                async def script(caller: Caller) -> None:
                    await caller.start()
                    if state == "listening":
                        await caller.speak(0.5)
                    elif state != "idle":
                        await caller.send(wire.InputText("Hello."))
                        await caller.wait(0.02 if state == "thinking" else 0.5)
                    assert (await caller.end()).code == 1000

                await visit(house, script, ident=f"s{number}")
                await asyncio.sleep(0.1)
                assert house.leased == 0
        check_nothing_left()

    virtual.run(main())


@pytest.mark.parametrize("size", [161, 131, 87])
def test_s79_s119_samples_may_be_cut_at_any_byte(size: int) -> None:
    """An odd byte is carried over: the same turn as with whole frames, and no task dies."""

    async def script(caller: Caller) -> None:
        await caller.start()
        pcm = b"\x00\x10" * 8_000 + bytes(2 * 16_000)
        for position in range(0, len(pcm), size):
            # The frame in which the message begins, on the client's clock.
            await caller.send(wire.AudioFrame(0, position // 2, pcm[position : position + size]))
            await caller.wait(size / 2 / 16_000)
        await caller.wait(2.0)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert (caller.verdicts, caller.errors) == (["met"], [])
    assert caller.at(wire.TurnCommitted) == pytest.approx(0.5 + 0.096, abs=0.07)


def test_s85_a_vad_that_never_falls_is_cut_by_the_longest_turn() -> None:
    """The text so far is kept and answered; the session hears again with the first pause after it."""

    class Stuck(ScriptedVad):
        """Calls everything speech for its first 10 s."""

        def open(self) -> Any:
            stream = super().open()
            frames, honest = itertools.count(), stream.probability

            def probability(frame: Any) -> float:
                return 1.0 if next(frames) * 0.032 < 10.0 else honest(frame)

            stream.probability = probability  # type: ignore[method-assign]
            return stream

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.pause(11.0)
        await caller.speak(1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SHORT, vad=Stuck()), limits(turn_s=5.0))
    assert caller.of(wire.TranscriptFinal)[0].text == "One."
    assert caller.at(wire.TurnCommitted) == pytest.approx(5.0, abs=0.1)
    assert caller.verdicts == ["met", "met"]


def test_s89_a_final_of_the_last_turn_never_answers_the_present_one() -> None:
    """The recogniser hangs over the end of turn 1 and delivers in turn 2: replies do not run one turn behind."""
    asr = FaultyAsr(SHORT, [Hang(3.0)])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.4)
        await caller.pause_until_verdict(1)
        await caller.speak(1.5)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SHORT, asr=asr), limits(engine_timeout_s=2.0))
    assert caller.verdicts[0] == "failed"
    assert [(final.turn, final.text) for final in caller.of(wire.TranscriptFinal)] == [(2, "Two.")]


def test_s91_a_score_that_flickers_gives_one_commit_and_one_reply() -> None:
    """Pauses between clauses, each nearly long enough."""
    asr = DictatedAsr(("Well,", "Well, I think.", "Well, I think so and", "Well, I think so and you."))

    async def script(caller: Caller) -> None:
        await caller.start()
        for pause_s in (0.3, 0.06, 0.4):
            await caller.speak(0.5)
            await caller.pause(pause_s)
        await caller.speak(0.5)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, asr=asr))
    assert len(caller.of(wire.TurnCommitted)) == 1
    assert len(caller.of(wire.ReplyDone)) == 1


@pytest.mark.parametrize("point", ["fast", "balanced", "safe"])
@pytest.mark.parametrize("asr_ms", [20.0, 900.0])
@pytest.mark.parametrize("frames", ["sent", "missing"])
def test_s95_delays_are_never_negative_and_never_minutes(point: str, asr_ms: float, frames: str) -> None:
    """At each operating point, with a late final or with sound that stops: all counted from one instant."""

    async def script(caller: Caller) -> None:
        await caller.start(operating_point=point)
        await caller.speak(1.0)
        if frames == "missing":
            await caller.wait(8.0)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SHORT, asr=DictatedAsr(("Hello there.",), asr_ms=asr_ms)))
    (ended,) = caller.of(wire.TurnEnded)
    assert ended.felt_estimate_ms is not None and 0 < ended.felt_estimate_ms < 4000
    for stage in ("endpoint", "asr", "llm", "tts", "send"):
        times = getattr(ended.stages, stage)
        assert times.wait_ms >= 0 and times.service_ms >= 0


def test_s101_a_hanging_engine_fails_one_session_only() -> None:
    """The one whose chunk hangs; who comes after it on the same lane is answered."""

    async def main() -> tuple[Caller, Caller]:
        asr = FaultyAsr(SHORT, [Hang(3.0)])
        async with open_house(engines(SHORT, asr=asr), limits(engine_timeout_s=2.0)) as house:

            async def hangs(caller: Caller) -> None:
                await caller.start()
                await caller.speak(0.4)
                await caller.pause_until_verdict(1)
                await caller.end()

            async def comes_later(caller: Caller) -> None:
                await caller.start()
                await caller.pause(4.0)
                await caller.speak(0.4)
                await caller.pause_until_verdict(1)
                await caller.end()

            async with asyncio.TaskGroup() as group:
                first = group.create_task(visit(house, hangs, ident="a"))
                second = group.create_task(visit(house, comes_later, ident="b"))
        return first.result(), second.result()

    first, second = virtual.run(main())
    assert (first.verdicts, second.verdicts) == (["failed"], ["met"])


def test_s103_a_silent_socket_is_closed_with_a_reason() -> None:
    """By a limit inside the session's own group: no traceback, a code."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.gone(within_s=400.0)

    caller = call(script)
    assert caller.closed is not None
    assert (caller.closed.code, caller.closed.reason) == (4409, "session_limit")


def test_s112_a_cancel_before_the_work_has_begun_is_valid() -> None:
    """In the same instant as the turn: the slot comes back, and the session goes on."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(5):
            await caller.send(wire.InputText("Hello."))
            await caller.send(wire.ReplyCancel())
        await caller.wait(1.0)
        await caller.send(wire.InputText("And now?"))
        await caller.wait(3.0)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["interrupted"] * 5 + ["met"]


def test_s115_an_interruption_before_the_reply_has_begun_is_keyed_on_its_epoch() -> None:
    """Nothing says yet that anybody is speaking; the reply that was coming does not come."""
    tts = FaultyTts(SHORT, [Hang(0.5)])

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(0.1)
        await caller.send(wire.ReplyCancel())
        await caller.wait(2.0)
        await caller.end()

    caller = call(script, engines(SHORT, tts=tts))
    assert caller.of(wire.ReplyInterrupted)[0] == wire.ReplyInterrupted(1, 1, 0)
    assert not caller.of(wire.AudioFrame)


def test_s118_a_cancel_while_the_voice_pauses_leaves_nothing() -> None:
    """Enough lies ahead, so no step is at the device when the cancel comes."""
    config = ScriptedConfig(reply=LONG.reply, tts_piece_ms=4000)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(0.5)
        lanes = caller.house.services.device.snapshot().lanes
        assert (lanes["main"].running, lanes["main"].queued) == (0, 0)
        await caller.send(wire.ReplyCancel())
        await caller.wait(1.0)
        assert caller.log[-1].at < 0.6
        await caller.end()

    assert call(script, engines(config)).verdicts == ["met"]


def test_s122_speech_over_a_reply_that_may_not_be_interrupted_does_not_block_the_next_turn() -> None:
    """Also if it goes on beyond the reply's end."""

    async def script(caller: Caller) -> None:
        await caller.start(interruptible=False)
        await caller.send(wire.InputText("Hello."))
        await caller.pause(0.1)
        await caller.speak(1.5)
        await caller.pause(1.0)
        await caller.speak(1.0)
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SHORT))
    assert caller.verdicts == ["met", "met"]
    assert not caller.of(wire.ReplyInterrupted)


def test_s131_typed_turns_replace_each_other_and_do_not_queue() -> None:
    """Fifty in a second while a reply is given: the last one is answered, the others have their verdict."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(50):
            await caller.send(wire.InputText(f"Number {number}."))
            await caller.wait(0.02)
        await caller.wait(3.0)
        await caller.end()

    caller = call(script, engines(ScriptedConfig(reply="Yes.", llm_prefill_ms=60)))
    assert caller.verdicts == ["interrupted"] * 49 + ["met"]
    assert [done.turn for done in caller.of(wire.ReplyDone)] == [50]


def test_s134_a_client_that_never_commits_is_closed_by_the_watchdog() -> None:
    """Manual turn-taking, then silence on the socket: everything is freed, the turn has its verdict."""

    async def script(caller: Caller) -> None:
        await caller.start(turn_taking="manual")
        await caller.speak(1.0)
        await caller.gone(within_s=31.0)

    caller = call(script, config=limits(idle_s=30.0))
    assert caller.closed is not None and caller.closed.code == 4409
    assert [record.verdict.value for record in caller.records] == ["interrupted"]


def test_s137_a_long_conversation_keeps_a_bounded_history() -> None:
    """150 turns: the prompt stops growing."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(150):
            await caller.send(wire.InputText(f"Number {number}."))
            await caller.wait(1.0)
        await caller.end()

    call(script, engines(SHORT, llm=llm))
    assert max(len(prompt) for prompt in llm.prompts) <= 1 + 200 + 1
    assert llm.asked[-1] == ("user", "Number 149.")


@pytest.mark.parametrize("stage", ["asr", "tts"])
def test_s139_an_engine_that_neither_ends_nor_yields_gets_a_verdict(stage: str) -> None:
    """Within its bound, as `failed`."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.4)
        spoken = caller.now
        await caller.pause_until_verdict(1)
        assert caller.now - spoken < 10.0 + 1.0
        await caller.end()

    never = [Hang(20.0)] * 3
    these = (
        engines(SHORT, asr=FaultyAsr(SHORT, never))
        if stage == "asr"
        else engines(SHORT, tts=FaultyTts(SHORT, never))
    )
    caller = call(script, these)
    assert (caller.verdicts, caller.errors) == (["failed"], ["engine_timeout"])


def test_s140_a_close_with_a_full_queue_is_bounded() -> None:
    """The client neither reads nor closes: it is let go within the send limit, twice at most."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.wait(0.5)
        caller.reading = False
        for number in range(12):
            await caller.send(wire.InputText(f"Number {number}."))
            await caller.wait(0.01)
        began = caller.now
        await caller.wait(2.2)
        assert caller.house.leased == 0
        caller.reading = True
        await caller.gone(within_s=1.0)
        assert caller.now - began < 2.2 + 1.0

    caller = call(script, engines(SHORT), limits(send_timeout_s=1.0), capacity=16)
    assert caller.closed is not None and caller.closed.code in (4409, 1006)


def test_s146_many_barge_ins_free_what_they_cancel() -> None:
    """Every few seconds for minutes: nothing piles up at the device or in the session."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(60):
            await caller.speak(0.8)
            await caller.pause(1.4)
            if number % 10 == 9:
                assert len(caller.house.services.device._jobs) <= 4
                assert len(asyncio.all_tasks()) < 14
        await caller.end()

    caller = call(script, engines(LONG))
    assert len(caller.of(wire.ReplyInterrupted)) >= 50


ENDS = ["end", "hang_up", "bad_json", "idle", "engine", "cancelled"]


@pytest.mark.parametrize("how", ENDS)
def test_s148_a_slot_comes_back_however_its_holder_ends(how: str) -> None:
    """And can be taken by the next one."""
    tts = FaultyTts(SHORT, [EngineUnavailable("gone")] * 2 if how == "engine" else [])

    async def main() -> None:
        these = engines(SHORT, slots=1, tts=tts)
        async with open_house(these, limits(idle_s=20.0)) as house:

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.send(wire.InputText("Hello."))
                await caller.wait(0.05)
                assert house.leased == 1
                match how:
                    case "hang_up":
                        await caller.hang_up()
                    case "bad_json":
                        await caller.send_raw("{")
                        await caller.gone()
                    case "idle":
                        await caller.gone()
                    case _:
                        await caller.end()

            if how == "cancelled":
                task = asyncio.create_task(visit(house, script))
                await asyncio.sleep(0.04)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            else:
                await visit(house, script)
            await asyncio.sleep(1.0)
            assert house.leased == 0
            how_next = await visit(house, _speaks_once, ident="next")
            assert how_next.verdicts == ["met"]

    virtual.run(main())


async def _speaks_once(caller: Caller) -> None:
    await caller.start()
    await caller.speak(0.5)
    await caller.pause_until_verdict(1)
    await caller.end()


@pytest.mark.parametrize("epoch", [0, 1, 7, 2**32 - 1])
def test_s151_a_report_with_a_stale_or_unknown_epoch_is_ignored(epoch: int) -> None:
    """The socket stays, the reply that is being given is not touched."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.pause_until_verdict(1)
        await caller.send(wire.InputText("And?"))
        await caller.wait(0.3)
        await caller.send(wire.Playback(epoch, 2**32 - 1))
        await caller.send(wire.HistoryTruncate(epoch, 5.0))
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script)
    assert (caller.verdicts, caller.errors) == (["met", "met"], [])
    assert caller.audio(2) == caller.audio(1)


class LoopingAsr:
    """Repeats itself without end while it listens, and comes to its senses in the final."""

    placement = "loop"
    name = "looping"
    window_start = 0

    def open(self) -> LoopingAsr:
        return self

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        return whole_window(window)

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        await asyncio.sleep(0.02)
        if final:
            return Transcript("Hello there.", "", True)
        return Transcript("", "hello " * (len(window.samples) // 100), False)

    def close(self) -> None:
        """Nothing is held."""


def test_s70_a_loop_in_the_partials_never_becomes_the_prompt() -> None:
    """What is tentative is shown and nothing else."""
    llm = ListeningLlm(SHORT, 1)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(2.0)
        await caller.pause_until_verdict(1)
        await caller.end()

    call(script, engines(SHORT, asr=LoopingAsr(), llm=llm))
    said = {text for prompt in llm.prompts for role, text in prompt if role == "user"}
    assert said == {"", "Hello there."}
