"""The rungs of the ladder as a caller meets them: whole sessions in virtual time, the engines scripted.

Each rung is taken when its turn is late, and not when it is in time, under `observe`, or where it is switched off.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.driving import (
    Caller,
    DictatedAsr,
    Fault,
    FaultyTts,
    Hang,
    ListeningLlm,
    call,
    engines,
    open_house,
    visit,
)
from tests.virtual import run
from voicepipe.config import AcknowledgeConfig, Config, ScriptedConfig
from voicepipe.engines.base import Engines, Prompt
from voicepipe.engines.scripted import ScriptedTts
from voicepipe.errors import EngineUnavailable
from voicepipe.wire import messages as wire
from voicepipe_client.player import Player
from voicepipe_client.turns import Turns

VOICE_HZ = 24_000
SOUNDS = tuple(np.full(round(seconds * VOICE_HZ), 0.1, np.float32) for seconds in (0.2, 0.3))
"""Told apart by their length."""
SLOW = ScriptedConfig(
    transcripts=("One two three four five six.",), reply="Yes. Indeed it is.", llm_prefill_ms=400.0
)
"""The first clause takes 405 ms: content comes some 250 ms after the deadline."""
QUICK = ScriptedConfig(transcripts=SLOW.transcripts, reply=SLOW.reply)
KNOWN: dict[str, Any] = {"acknowledgements": SOUNDS, "clause_s": 0.405, "first_audio_s": 0.02}
ON = Config(ladder=("acknowledge",), acknowledge=AcknowledgeConfig(one_in=1))


def ask(turns: int = 1, **start: Any) -> Any:
    """So many questions, each after the reply to the one before."""

    async def script(caller: Caller) -> None:
        await caller.start(**start)
        for number in range(turns):
            await caller.speak(1.0)
            await caller.pause_until_verdict(number + 1)
        await caller.end()

    return script


def rungs(caller: Caller) -> list[tuple[str, ...]]:
    return [record.rungs for record in caller.records]


# --- short from the start


@pytest.mark.parametrize(
    ("work_s", "config", "first"),
    [
        (0.11, Config(), "Ask me anything"),
        (0.09, Config(), "Ask me anything you like."),
        (0.11, Config(ladder=()), "Ask me anything you like."),
    ],
)
def test_where_work_takes_half_of_the_budget_first_clauses_are_short(
    work_s: float, config: Config, first: str
) -> None:
    """Also those of turns that are in time: only clauses that end at the same place can be shared by replies."""
    script = ScriptedConfig(transcripts=SLOW.transcripts, reply="Ask me anything you like.")

    async def main() -> Caller:
        async with open_house(engines(script), config) as house:
            house.services = replace(house.services, work_s=work_s)
            return await visit(house, ask())

    caller = run(main())
    assert caller.of(wire.ReplyText)[0].text == first
    assert caller.verdicts == ["degraded" if first.endswith("anything") else "met"]


# --- an acknowledgement at the deadline


def test_a_late_turn_is_acknowledged_before_its_content() -> None:
    """At the deadline and not before the commit; `masked`, and the gap is the content's. The content follows at an
    offset behind the sound."""
    caller = call(ask(), engines(SLOW), ON, known=KNOWN)
    (record,) = caller.records
    (told,) = caller.of(wire.ReplyAcknowledged)
    assert (told.turn, told.epoch, told.samples) == (1, 1, 4800)
    assert rungs(caller) == [("acknowledge",)] and caller.verdicts == ["masked"]
    marks = record.instants
    assert marks.acknowledged is not None and marks.commit is not None and record.deadline is not None
    assert marks.commit <= marks.acknowledged <= record.deadline
    assert record.deadline - marks.acknowledged <= 0.011
    assert record.felt_estimate_s is not None and record.felt_estimate_s > 0.4
    kinds = [kind for kind in caller.kinds() if kind.startswith(("Reply", "TurnC", "Audio"))]
    assert kinds[:5] == ["TurnCommitted", "ReplyAcknowledged", "AudioFrame", "ReplyText", "AudioFrame"]
    assert caller.of(wire.ReplyDone)[0].samples == len(caller.audio(1)) // 2 > 4800
    assert caller.text(1) == SLOW.reply


SLOWER = ScriptedConfig(transcripts=SLOW.transcripts, reply=SLOW.reply, llm_prefill_ms=3000.0)
LATE: dict[str, Any] = {**KNOWN, "clause_s": 3.005}


def test_a_turn_that_is_committed_late_is_acknowledged_at_the_commit() -> None:
    """Where patience alone is longer than the budget. The rest of the wait is masked; nothing comes before it."""
    caller = call(ask(operating_point="safe"), engines(SLOWER), ON, known=LATE)
    (record,) = caller.records
    marks = record.instants
    assert marks.commit is not None and record.deadline is not None and marks.commit > record.deadline + 0.5
    assert marks.acknowledged == pytest.approx(marks.commit, abs=0.005)
    assert caller.verdicts == ["masked"] and rungs(caller) == [("acknowledge",)]
    assert record.felt_estimate_s is not None and record.felt_estimate_s > 3.0
    kinds = [kind for kind in caller.kinds() if kind.startswith(("Reply", "TurnC", "Audio"))]
    assert kinds[:5] == ["TurnCommitted", "ReplyAcknowledged", "AudioFrame", "ReplyText", "AudioFrame"]


@pytest.mark.parametrize(
    ("script", "enforcement", "verdict"),
    [
        pytest.param(SLOW, None, "missed", id="the reply is ready"),
        pytest.param(SLOWER, "enforce", "refused", id="enforced"),
        pytest.param(SLOWER, "observe", "missed", id="observed"),
    ],
)
def test_who_is_not_acknowledged_at_a_late_commit(script: ScriptedConfig, enforcement: Any, verdict: str) -> None:
    """Whose answer follows at once; and under `enforce` a commit after the deadline is a refusal."""
    caller = call(ask(operating_point="safe", enforcement=enforcement), engines(script), ON, known=LATE)
    assert caller.of(wire.ReplyAcknowledged) == [] and caller.verdicts == [verdict]
    assert [record.reason for record in caller.records] == ["late-commit" if verdict == "refused" else None]
    assert rungs(caller) == [()]


@pytest.mark.parametrize(
    ("script", "config", "enforcement", "verdict"),
    [
        pytest.param(QUICK, ON, None, "met", id="in time"),
        pytest.param(SLOW, ON, "observe", "missed", id="observed"),
        pytest.param(SLOW, Config(), None, "missed", id="off by default"),
        pytest.param(SLOW, Config(ladder=()), None, "missed", id="switched off"),
    ],
)
def test_a_turn_that_needs_or_wants_none_is_not_acknowledged(
    script: ScriptedConfig, config: Config, enforcement: Any, verdict: str
) -> None:
    """Nothing but its content is heard."""
    caller = call(ask(enforcement=enforcement), engines(script), config, known=KNOWN)
    assert caller.of(wire.ReplyAcknowledged) == [] and caller.verdicts == [verdict]
    assert rungs(caller) == [()]


def test_content_that_is_expected_in_a_moment_is_waited_for() -> None:
    """It comes 20 ms after the deadline: two sounds in a row would be worse than that."""
    script = ScriptedConfig(transcripts=SLOW.transcripts, reply=SLOW.reply, llm_prefill_ms=155.0)
    known = {**KNOWN, "clause_s": 0.16}
    caller = call(ask(), engines(script), ON, known=known)
    assert caller.of(wire.ReplyAcknowledged) == [] and caller.verdicts == ["missed"]
    assert caller.records[0].felt_estimate_s == pytest.approx(0.21, abs=0.015)


@pytest.mark.parametrize(("one_in", "acknowledged"), [(1, [1, 2, 3, 4, 5]), (2, [1, 3, 5]), (3, [1, 4])])
def test_at_most_one_turn_in_so_many_and_never_the_same_sound_twice_in_a_row(
    one_in: int, acknowledged: list[int]
) -> None:
    """The turns between them are late without a sound."""
    config = Config(ladder=("acknowledge",), acknowledge=AcknowledgeConfig(one_in=one_in))
    caller = call(ask(5), engines(SLOW), config, known=KNOWN)
    told = caller.of(wire.ReplyAcknowledged)
    assert [one.turn for one in told] == acknowledged
    assert all(one.samples != other.samples for one, other in itertools.pairwise(told))
    assert [number for number, verdict in enumerate(caller.verdicts, 1) if verdict == "masked"] == acknowledged


def test_content_that_becomes_ready_in_the_meantime_follows_without_a_gap() -> None:
    """A sound of a second; the reply is there before its end. What is heard is one stretch, and the content's gap
    ends where the sound does."""
    long = np.full(VOICE_HZ, 0.1, np.float32)
    caller = call(ask(), engines(SLOW), ON, known={**KNOWN, "acknowledgements": (long, *SOUNDS)})
    (record,) = caller.records
    player = Player(VOICE_HZ)
    for heard in caller.log:
        take = player.on_frame if isinstance(heard.message, wire.AudioFrame) else player.on_message
        take(heard.message, heard.at)  # type: ignore[arg-type]
    sound, content = player.first_sound(1), player.first_content(1)
    assert sound is not None and content is not None and player.snapshot(caller.now).underruns == 0
    assert (sound.offset_samples, content.offset_samples) == (0, VOICE_HZ)
    assert content.at - sound.at == pytest.approx(1.0)
    acknowledged, speech_end = record.instants.acknowledged, record.instants.speech_end
    assert acknowledged is not None and speech_end is not None and record.felt_estimate_s is not None
    assert record.felt_estimate_s == pytest.approx(acknowledged - speech_end + 1.0 + 0.002, abs=1e-3)
    assert record.verdict == "masked"


def test_who_is_cut_off_before_the_content_has_heard_no_word() -> None:
    """An interruption while only the sound has been heard: nothing of the reply enters the history, and the turn
    has no content."""
    llm = ListeningLlm(ScriptedConfig(reply=SLOW.reply, llm_prefill_ms=800.0), 2)
    llm.keeps_prefix = False  # reading ahead would keep the device from hearing the end

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.ReplyAcknowledged)
        await caller.pause(0.3)
        await caller.send(wire.ReplyCancel())
        await caller.pause_until_verdict(1)
        await caller.send(wire.InputText("And now?"))
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(SLOW, llm=llm), ON, known={**KNOWN, "clause_s": 0.8})
    assert caller.verdicts[0] == "interrupted" and caller.records[0].felt_estimate_s is None
    assert caller.of(wire.ReplyInterrupted)[0].heard_ms == 200
    assert [role for role, _ in llm.asked] == ["system", "user", "user"]


def test_who_goes_on_is_not_talked_over() -> None:
    """Speech within the grace time takes the commit back: the rest of a long sound is dropped with its epoch, and
    the turn, which has been cut off once, is not acknowledged again."""
    long = np.full(3 * VOICE_HZ, 0.1, np.float32)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.ReplyAcknowledged)
        await caller.speak(0.8)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SLOW), ON, known={**KNOWN, "acknowledgements": (long, *SOUNDS)})
    (reopened,) = caller.of(wire.TurnReopened)
    assert len(caller.of(wire.ReplyAcknowledged)) == 1
    after = [heard.at for heard in caller.log if isinstance(heard.message, wire.AudioFrame)]
    assert min(at for at in after if at > caller.at(wire.TurnReopened)) > caller.at(wire.TurnCommitted, 1)
    assert len(caller.audio(1)) // 2 < len(long) and reopened.epoch == 2
    assert caller.verdicts == ["missed"] and rungs(caller) == [()]


def test_a_typed_turn_is_not_acknowledged() -> None:
    """Nobody spoke who would want to know that they were heard."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello?"))
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(SLOW), ON, known=KNOWN)
    assert caller.of(wire.ReplyAcknowledged) == [] and caller.verdicts == ["missed"]


@pytest.mark.parametrize(("one_in", "verdicts"), [(1, ["masked", "masked"]), (2, ["masked", "refused"])])
def test_under_enforcement_an_acknowledged_turn_is_not_refused(one_in: int, verdicts: list[str]) -> None:
    """The ladder ends in the refusal: it comes where no sound does."""
    config = Config(ladder=("acknowledge",), acknowledge=AcknowledgeConfig(one_in=one_in))
    caller = call(ask(2, enforcement="enforce"), engines(SLOW), config, known=KNOWN)
    assert caller.verdicts == verdicts


def test_a_reply_that_fails_after_the_sound_is_told_as_failed() -> None:
    """One verdict, and no word in the history."""
    faults: list[Fault] = [EngineUnavailable("gone")]
    caller = call(ask(), engines(SLOW, tts=FaultyTts(SLOW, faults)), ON, known=KNOWN)
    assert caller.verdicts == ["failed"] and len(caller.of(wire.ReplyAcknowledged)) == 1
    assert caller.of(wire.ReplyDone) == [] and caller.text(1) == ""


def test_a_reply_without_a_sound_is_none_although_it_was_acknowledged() -> None:
    """An acknowledgement is no answer."""

    class Mute(ScriptedTts):
        def synthesize(self, text: str, ctx: Any, *, first: bool) -> Any:
            return super().synthesize("", ctx, first=first)

    caller = call(ask(), engines(SLOW, tts=Mute(SLOW)), ON, known=KNOWN)
    assert caller.verdicts == ["failed"] and caller.errors == ["empty_reply"]
    assert caller.of(wire.ReplyDone) == []


def test_the_client_library_counts_the_content() -> None:
    """Its felt gap is that of the first content, and it has none where only a sound was heard."""
    for tts, content in ((ScriptedTts(SLOW), True), (FaultyTts(SLOW, [EngineUnavailable("gone")]), False)):
        caller = call(ask(), engines(SLOW, tts=tts), ON, known=KNOWN)
        player = Player(VOICE_HZ)
        turns = Turns(player, labelled=False, now=0.0)
        for heard in caller.log:
            turns.on_event(heard.message, heard.at)
        assert player.first_sound(1) is not None
        first = player.first_content(1)
        assert (first is not None) is content
        if first is not None:
            assert first.at == pytest.approx(caller.at(wire.ReplyText), abs=1e-6)


# --- the filler


CALLING = ScriptedConfig(transcripts=SLOW.transcripts, reply="It is noon.", calls=("clock {}",))
FILLED = Config(ladder=("filler",))
CLOCK = wire.ToolSpec("clock", "", {"type": "object"})
TOO_LATE: dict[str, Any] = {"fillers": SOUNDS, "clause_s": 0.405, "first_audio_s": 0.02}


def ask_the_time(tool_s: float, turns: int = 1) -> Any:
    """Each question calls a tool, which takes so long, and is answered with what came of it."""

    async def script(caller: Caller) -> None:
        await caller.start(tools=(CLOCK,))
        for number in range(turns):
            await caller.speak(1.0)
            called = await caller.pause_until(wire.ToolCall)
            await caller.pause(tool_s)
            await caller.send(wire.ToolResult(called.call_id, "12:00"))
            await caller.send(wire.ReplyCreate())
            await caller.pause_until_verdict(2 * number + 2)
        await caller.end()

    return script


def test_while_a_tool_runs_a_phrase_is_heard() -> None:
    """In time, so that the turn is masked; it is no content, which comes with the next one. Phrases take turns."""
    caller = call(ask_the_time(1.0, 3), engines(CALLING), FILLED, known=TOO_LATE)
    told = caller.of(wire.ReplyAcknowledged)
    assert [one.turn for one in told] == [1, 3, 5]
    assert [one.samples for one in told] == [len(SOUNDS[n]) for n in (0, 1, 0)]
    assert caller.verdicts == ["masked", "met"] * 3
    assert all(record.felt_estimate_s is None for record in caller.records[::2])
    assert rungs(caller)[::2] == [("filler",)] * 3
    assert len(caller.audio(1)) // 2 == len(SOUNDS[0]) and caller.text(1) == "" and caller.text(2) == "It is noon."
    assert caller.of(wire.ReplyInterrupted) == []
    first_sound = next(h.at for h in caller.log if isinstance(h.message, wire.AudioFrame))
    assert first_sound >= caller.at(wire.TurnCommitted)


@pytest.mark.parametrize(
    ("config", "known"),
    [
        (Config(), TOO_LATE),  # it is not asked for
        (FILLED, {**TOO_LATE, "fillers": ()}),
        (FILLED, {"fillers": SOUNDS}),  # an answer may be in time, as far as is known
    ],
)
def test_without_a_phrase_a_turn_ends_with_its_call(config: Config, known: dict[str, Any]) -> None:
    caller = call(ask_the_time(1.0), engines(CALLING), config, known=known)
    assert caller.of(wire.ReplyAcknowledged) == [] and caller.verdicts == ["met", "met"]
    assert caller.at(wire.TurnEnded) == caller.at(wire.ToolCall)


def test_an_answer_that_comes_meanwhile_ends_the_phrase() -> None:
    """A phrase of three seconds, and a tool that takes 100 ms."""
    long = np.full(3 * VOICE_HZ, 0.1, np.float32)
    caller = call(ask_the_time(0.1), engines(CALLING), FILLED, known={**TOO_LATE, "fillers": (long,)})
    assert caller.verdicts == ["masked", "met"] and caller.of(wire.ReplyInterrupted) == []
    assert len(caller.audio(1)) // 2 < len(long) and caller.text(2) == "It is noon."


def test_who_speaks_over_a_phrase_begins_another_turn() -> None:
    """The call has been told, and stays; the phrase stops."""
    long = np.full(3 * VOICE_HZ, 0.1, np.float32)

    async def script(caller: Caller) -> None:
        await caller.start(tools=(CLOCK,))
        await caller.speak(1.0)
        called = await caller.pause_until(wire.ToolCall)
        await caller.pause(0.1)
        await caller.speak(1.0)
        await caller.send(wire.ToolResult(called.call_id, "12:00"))
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, engines(CALLING), FILLED, known={**TOO_LATE, "fillers": (long,)})
    assert caller.of(wire.TurnReopened) == [] and caller.verdicts[0] == "interrupted"
    assert len(caller.of(wire.ReplyInterrupted)) >= 1 and len(caller.audio(1)) // 2 < VOICE_HZ


def test_no_tool_is_called_before_the_commit() -> None:
    """The reply is made in each pause, its call with it; who goes on to speak has nothing called. Then it is called
    once, behind the commit."""
    asr = DictatedAsr(("What time is it?", "What time is it in Oslo?"))

    async def script(caller: Caller) -> None:
        await caller.start(tools=(CLOCK,), operating_point="safe")
        await caller.speak(1.0)
        await caller.pause(0.6)
        assert caller.of(wire.ToolCall) == [] and caller.of(wire.TurnCommitted) == []
        await caller.speak(1.0)
        await caller.pause_until(wire.ToolCall)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(CALLING, asr=asr), Config())
    (record,) = caller.records
    assert record.speculation.attempts >= 2 and record.speculation.hit, "a call was made ahead"
    assert len(caller.of(wire.ToolCall)) == 1
    assert caller.at(wire.ToolCall) >= caller.at(wire.TurnCommitted)


# --- the second pass


FIRST, SECOND = ("I want a bare.",), ("I want a pear.",)
TWICE = Config(ladder=("no-second-pass",))


def heard_twice(second: Any = None, script: ScriptedConfig = QUICK, **more: Any) -> Engines:
    return engines(script, asr=DictatedAsr(FIRST), asr_second=second or DictatedAsr(SECOND, asr_ms=300.0), **more)


def test_what_was_said_is_corrected_after_the_reply_has_been_made() -> None:
    """The client is told again, the history holds the better words, and the reply is as it was."""
    llm = ListeningLlm(QUICK, 2)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.pause(1.0)
        await caller.send(wire.InputText("Please."))
        await caller.pause_until_verdict(2)
        await caller.end()

    caller = call(script, heard_twice(llm=llm))
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == [FIRST[0], SECOND[0], "Please."]
    assert [final.turn for final in caller.of(wire.TranscriptFinal)] == [1, 1, 2]
    assert caller.verdicts == ["met", "missed"] or caller.verdicts == ["met", "met"]
    assert caller.text(1) == QUICK.reply
    assert llm.asked[1:] == (("user", SECOND[0]), ("assistant", QUICK.reply), ("user", "Please."))
    assert caller.house.observer.corrections == 1


def test_words_that_sound_alike_are_no_correction() -> None:
    """Only their normalised text counts."""
    caller = call(ask(), heard_twice(DictatedAsr(("i want a bare",))))
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == [FIRST[0]]
    assert caller.house.observer.corrections == 0


def test_a_second_pass_that_fails_costs_nobody_anything() -> None:
    """Neither does one that hears nothing."""
    for second in (DictatedAsr(("",)), _Broken(SECOND)):
        caller = call(ask(2), heard_twice(second))
        assert [final.text for final in caller.of(wire.TranscriptFinal)] == [FIRST[0]] * 2
        assert caller.verdicts == ["met"] * 2 and caller.errors == []


class _Broken(DictatedAsr):
    def open(self) -> Any:
        stream = super().open()

        async def decode(*args: Any, **more: Any) -> Any:
            raise EngineUnavailable("gone")

        stream.decode = decode  # type: ignore[method-assign]
        return stream


@pytest.mark.parametrize(
    ("script", "config", "enforcement", "taken"),
    [
        pytest.param(SLOW, TWICE, None, True, id="late"),
        pytest.param(QUICK, TWICE, None, False, id="in time"),
        pytest.param(SLOW, TWICE, "observe", False, id="observed"),
        pytest.param(SLOW, Config(), None, False, id="off by default"),
    ],
)
def test_a_late_turn_goes_without_its_second_pass(
    script: ScriptedConfig, config: Config, enforcement: Any, taken: bool
) -> None:
    """It is a rung, and noted as one, where there would have been a pass."""

    async def listening(caller: Caller) -> None:
        await caller.start(enforcement=enforcement)
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.pause(1.0)
        await caller.end()

    known = {"clause_s": (script.llm_prefill_ms + 5) / 1000, "first_audio_s": 0.02}
    caller = call(listening, heard_twice(script=script), config, known=known)
    assert rungs(caller) == [("no-second-pass",) if taken else ()]
    assert len(caller.of(wire.TranscriptFinal)) == (1 if taken else 2)


def test_without_a_larger_recogniser_there_is_nothing_to_skip() -> None:
    """A late turn has no rung then."""
    caller = call(ask(), engines(SLOW), TWICE, known={"clause_s": 0.4, "first_audio_s": 0.02})
    assert rungs(caller) == [()]


def test_a_turn_that_is_reopened_is_heard_again_as_a_whole() -> None:
    """The pass over its first half is dropped; one correction comes of it, for all that was said."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until(wire.TurnCommitted)
        await caller.speak(0.6)
        await caller.pause_until_verdict(1)
        await caller.pause(1.0)
        await caller.end()

    caller = call(script, heard_twice())
    assert len(caller.of(wire.TurnReopened)) == 1
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == [FIRST[0], FIRST[0], SECOND[0]]


def test_a_second_pass_begins_while_nobody_in_the_house_speaks_or_waits() -> None:
    """Two callers who talk all the time, one after the other: no chunk of a pass begins between the first word of a
    turn and its answer, although every turn gets its pass in the end."""

    async def main() -> tuple[Caller, Caller, list[tuple[float, str]]]:
        begun: list[tuple[float, str]] = []
        second = _Watched(SECOND, begun)
        async with open_house(heard_twice(second)) as house:

            async def talking(caller: Caller) -> None:
                await caller.start()
                for number in range(3):
                    await caller.speak(0.8)
                    await caller.pause_until_verdict(number + 1)
                await caller.pause(3.0)
                await caller.end()

            async def later(caller: Caller) -> None:
                await caller.wait(1.0)
                await talking(caller)

            async with asyncio.TaskGroup() as group:
                one = group.create_task(visit(house, talking, ident="s1"))
                two = group.create_task(visit(house, later, ident="s2"))
        return one.result(), two.result(), begun

    one, two, begun = run(main())
    assert len(begun) == 6
    for caller in (one, two):
        for record in caller.records:
            opened, sent = record.instants.speech_end, record.instants.sent
            assert opened is not None and sent is not None
            assert not [at for at, _ in begun if opened - 0.7 < at < sent]
        assert len(caller.of(wire.TranscriptFinal)) == 6


class _Watched(DictatedAsr):
    """Keeps when each of its decodes began."""

    def __init__(self, texts: tuple[str, ...], begun: list[tuple[float, str]]) -> None:
        super().__init__(texts, asr_ms=300.0)
        self._begun = begun

    def open(self) -> Any:
        stream = super().open()
        decode = stream.decode

        async def watched(window: Any, *, final: bool, ctx: Any) -> Any:
            self._begun.append((asyncio.get_running_loop().time(), ctx.session))
            return await decode(window, final=final, ctx=ctx)

        stream.decode = watched  # type: ignore[method-assign]
        return stream


# --- the smaller model


class TwoSizes(ListeningLlm):
    """A model with a smaller one beside it; keeps which of them was asked. Reads nothing ahead."""

    has_small = True
    keeps_prefix = False

    def __init__(self, config: ScriptedConfig, slots: int) -> None:
        super().__init__(config, slots)
        self.small: list[bool] = []

    def generation(self, prompt: Prompt) -> Any:
        self.small.append(prompt.small)
        return super().generation(prompt)


@pytest.mark.parametrize(
    ("clause_s", "config", "enforcement", "small"),
    [
        pytest.param(0.4, Config(), None, True, id="late"),
        pytest.param(0.04, Config(), None, False, id="in time"),
        pytest.param(0.4, Config(), "observe", False, id="observed"),
        pytest.param(0.4, Config(ladder=("short-clause",)), None, False, id="switched off"),
    ],
)
def test_a_reply_that_is_begun_too_late_is_left_to_the_smaller_model(
    clause_s: float, config: Config, enforcement: Any, small: bool
) -> None:
    """Predicted by what a reply takes here; the rung is noted."""
    llm = TwoSizes(QUICK, 2)
    known = {"clause_s": clause_s, "first_audio_s": 0.02}
    caller = call(ask(enforcement=enforcement), engines(QUICK, llm=llm), config, known=known)
    assert llm.small == [small]
    assert ("small-model" in rungs(caller)[0]) is small


def test_a_model_without_a_smaller_one_answers_itself() -> None:
    """There is no rung to take."""
    caller = call(ask(), engines(QUICK), known={"clause_s": 0.4, "first_audio_s": 0.02})
    assert "small-model" not in rungs(caller)[0]


# --- together


def test_rungs_are_noted_in_the_order_in_which_they_were_taken() -> None:
    """The model when the reply is begun, the pass at the commit, the sound at the deadline, then the clause."""
    llm = TwoSizes(ScriptedConfig(reply="One two three four five six seven.", llm_prefill_ms=400.0), 2)
    config = Config(
        ladder=("short-clause", "no-second-pass", "small-model", "acknowledge"),
        acknowledge=AcknowledgeConfig(one_in=1),
    )
    caller = call(ask(), heard_twice(llm=llm, tts=FaultyTts(QUICK, [Hang(0.1)])), config, known=KNOWN)
    assert rungs(caller) == [("small-model", "no-second-pass", "acknowledge", "short-clause")]
    assert caller.verdicts == ["masked"]
