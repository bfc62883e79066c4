"""The warm-up: a turn through every engine, and the second round's times."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests import virtual
from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import Engines
from voicepipe.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedTurnModel, ScriptedVad
from voicepipe.errors import EngineBusy
from voicepipe.warmup import speak, warm_up


def engines(config: ScriptedConfig, slots: int = 1) -> Engines:
    return Engines(ScriptedVad(), ScriptedAsr(config), ScriptedLlm(config, slots), ScriptedTts(config))


def test_the_stated_service_times_are_what_is_measured() -> None:
    """Decode, prefill and the clause's words, the first piece of audio: in virtual time to the millisecond."""
    config = ScriptedConfig(asr_ms=70, llm_prefill_ms=30, llm_token_ms=10, tts_ms=50, reply="Yes it is. Good.")

    async def story() -> Any:
        return await warm_up(engines(config), asyncio.get_running_loop().time, asyncio.to_thread)

    warm = virtual.run(story())
    assert warm.final_s == pytest.approx(0.070)
    assert warm.audio_s == pytest.approx(0.050)
    words = (warm.clause_s - 0.030) / 0.010
    assert words == pytest.approx(round(words)) and 1 <= round(words) <= 4
    assert warm.total_s == pytest.approx(warm.final_s + warm.clause_s + warm.audio_s)


def test_a_second_recogniser_is_warmed_and_not_measured() -> None:
    """One decode of the question; nobody waits for it in a turn."""
    config = ScriptedConfig(asr_ms=70)
    slow = ScriptedAsr(ScriptedConfig(asr_ms=900))
    these = replace(engines(config), asr_second=slow)

    async def story() -> tuple[float, float]:
        clock = asyncio.get_running_loop().time
        begun = clock()
        warm = await warm_up(these, clock, asyncio.to_thread)
        return warm.final_s, clock() - begun

    final_s, whole_s = virtual.run(story())
    assert final_s == pytest.approx(0.070) and whole_s > 0.9


@pytest.mark.parametrize(("asked", "judge_s"), [(True, 0.04), (False, 0.0)])
def test_the_turn_model_is_warmed_where_there_is_one(asked: bool, judge_s: float) -> None:
    """What a question takes is no part of every turn."""
    config = ScriptedConfig(turn_model_ms=40)
    model = ScriptedTurnModel(config) if asked else None

    async def story() -> Any:
        these = replace(engines(config), turn_model=model)
        return await warm_up(these, asyncio.get_running_loop().time, asyncio.to_thread)

    warm = virtual.run(story())
    assert warm.judge_s == pytest.approx(judge_s)
    assert warm.total_s == pytest.approx(warm.final_s + warm.clause_s + warm.audio_s)


def test_the_slot_comes_back() -> None:
    """Also when an engine fails: the next one may have it."""
    config = ScriptedConfig()
    these = engines(config)

    async def story() -> int:
        await warm_up(these, asyncio.get_running_loop().time, asyncio.to_thread)
        return these.llm.leased  # type: ignore[attr-defined,no-any-return]

    assert virtual.run(story()) == 0


def test_no_slot_no_warm_up() -> None:
    """A configuration without room is an error at the start, not at the first caller."""

    async def story() -> None:
        await warm_up(engines(ScriptedConfig(), slots=0), asyncio.get_running_loop().time, asyncio.to_thread)

    with pytest.raises(EngineBusy):
        virtual.run(story())


def test_a_text_is_spoken_whole() -> None:
    """All pieces joined: 0.3 s to a word in the scripted voice."""

    async def story() -> int:
        return len(await speak(ScriptedTts(ScriptedConfig()), "one two three", asyncio.to_thread))

    assert virtual.run(story()) == round(0.9 * ScriptedTts.sample_rate_hz)
