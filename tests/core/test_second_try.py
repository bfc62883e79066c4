"""What is asked once more: in whole turns, with literal times."""

from __future__ import annotations

import pytest

from tests import driving
from tests.driving import Caller, FaultyAsr, FaultyLlm, FaultyTts, call, engines
from voicepipe.config import ScriptedConfig
from voicepipe.core.second_try import CODES
from voicepipe.errors import BadToolCall, EngineBusy, EngineError, EngineTimeout, EngineUnavailable, PromptRefused
from voicepipe.wire import messages as wire

SHORT = ScriptedConfig(reply="Yes. It is.", transcripts=("One.",))


async def asks(caller: Caller) -> None:
    """Says something that is not guessed at: the reply is begun at the commit."""
    await caller.start()
    await caller.send(wire.InputText("Hello."))
    await caller.pause_until_verdict(1)
    await caller.end()


@pytest.mark.parametrize("error", [ValueError("a bug"), MemoryError(), EngineError("x"), EngineUnavailable("gone")])
@pytest.mark.parametrize("stage", ["llm", "tts"])
def test_a_reply_that_fails_before_any_of_it_was_told_is_made_anew(stage: str, error: Exception) -> None:
    """A crash costs the turn some time, and not its answer."""
    faults = [None] * driving.WARM_STEPS + [error] if stage == "llm" else [error]
    one = (
        engines(SHORT, llm=FaultyLlm(SHORT, 2, faults))
        if stage == "llm"
        else engines(SHORT, tts=FaultyTts(SHORT, faults))
    )
    caller = call(asks, one)
    assert (caller.verdicts, caller.errors) == (["met"], [])
    assert caller.text(1) == SHORT.reply
    assert len(caller.of(wire.TurnCommitted)) == 1


def test_the_decode_that_counts_is_made_anew() -> None:
    """The user is not asked to say it again."""

    async def says(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.4)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(says, engines(SHORT, asr=FaultyAsr(SHORT, [MemoryError()])))
    assert (caller.verdicts, caller.errors) == (["met"], [])
    assert caller.of(wire.TranscriptFinal)[0].text == "One."


def test_it_is_asked_once_more_and_not_twice() -> None:
    """Then the turn has failed, and the next one is a new one."""

    async def asks_twice(caller: Caller) -> None:
        await caller.start()
        for number in (1, 2):
            await caller.send(wire.InputText("Hello."))
            await caller.pause_until_verdict(number)
        await caller.end()

    caller = call(asks_twice, engines(SHORT, tts=FaultyTts(SHORT, [MemoryError(), MemoryError()])))
    assert caller.verdicts == ["failed", "met"]
    assert caller.errors == ["engine_failed"]


def test_what_has_been_begun_to_be_said_is_not_said_anew() -> None:
    """The second clause fails: nobody hears the first one twice."""
    config = ScriptedConfig(reply="This is the first clause. This is the second one, and it is longer.", tts_ms=200)
    caller = call(asks, engines(config, tts=FaultyTts(config, [None] * 5 + [MemoryError()] * 9)))
    assert caller.verdicts[0] in ("met", "missed", "failed") and caller.errors == ["engine_failed"]
    assert caller.text(1).count("first") == 1


@pytest.mark.parametrize("error", [EngineTimeout, EngineBusy, PromptRefused, BadToolCall])
def test_what_would_not_be_better_the_second_time_is_not_asked_again(error: type[EngineError]) -> None:
    """What took too long, and what is wrong with the question."""
    assert error.code not in CODES
    faults = [None] * driving.WARM_STEPS + [error("x")]
    caller = call(asks, engines(SHORT, llm=FaultyLlm(SHORT, 2, faults)))
    assert (caller.verdicts, caller.errors) == (["failed"], [error.code])
