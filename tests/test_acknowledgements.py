"""The sounds of an acknowledgement: rendered without silence around them, brought to a session's rate."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import virtual
from voicepipe.acknowledgements import at_rate, render
from voicepipe.audio import from_pcm16
from voicepipe.config import AcknowledgeConfig, ScriptedConfig
from voicepipe.engines.base import StepSize, TtsStep
from voicepipe.engines.scripted import ScriptedTts
from voicepipe.errors import EngineError

RATE_HZ = 24_000


class Padded(ScriptedTts):
    """Silence before and after the words, as real voices have it; "..." is nothing else."""

    placement = "thread"

    def __init__(self) -> None:
        super().__init__(ScriptedConfig())

    def synthesize(self, text: str, ctx: Any, *, first: bool) -> Any:
        return _Padded(0 if text == "..." else len(text))


class _Padded:
    def __init__(self, words: int) -> None:
        self._sound = np.full(words * RATE_HZ // 100, 0.1, np.float32)

    def next_size(self) -> StepSize:
        return StepSize("first", len(self._sound))

    def step(self) -> TtsStep:
        quiet = np.zeros(RATE_HZ // 5, np.float32)
        return TtsStep(np.concatenate([quiet, self._sound, quiet]), True)


def rendered(*texts: str) -> Any:
    return virtual.run(render(Padded(), texts, asyncio.to_thread))


def test_each_text_is_a_sound_without_the_silence_around_it() -> None:
    """In order, at the voice's rate: content follows at once."""
    assert [len(sound) for sound in rendered("Mm-hm.", "Yes.")] == [6 * RATE_HZ // 100, 4 * RATE_HZ // 100]
    assert all((sound == np.float32(0.1)).all() for sound in rendered("Mm-hm."))
    assert rendered() == ()


def test_a_text_without_a_sound_is_an_error_at_the_start() -> None:
    """Not a silence at a deadline."""
    with pytest.raises(EngineError, match=r"\.\.\."):
        rendered("Mm-hm.", "...")


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 16_000, 24_000, 48_000])
def test_a_session_gets_whole_windows_at_its_own_rate(rate_hz: int) -> None:
    """Nothing of the sound is lost, and less than a window of silence is added."""
    sound = np.full(5_000, 0.1, np.float32)
    (pcm,) = at_rate([sound], RATE_HZ, rate_hz)
    samples, window = len(pcm) // 2, round(rate_hz * 0.01)
    assert samples % window == 0
    assert -2 <= samples - len(sound) * rate_hz / RATE_HZ < window
    assert np.abs(from_pcm16(pcm)[window : -2 * window] - 0.1).max() < 0.01


def test_the_default_texts_are_short() -> None:
    """In the scripted voice, 0.3 s to a word: none keeps content waiting for a second."""
    sounds = virtual.run(render(ScriptedTts(ScriptedConfig()), AcknowledgeConfig().texts, asyncio.to_thread))
    assert len(sounds) == 3 and all(0 < len(sound) < RATE_HZ for sound in sounds)


@pytest.mark.models
async def test_the_default_texts_are_short_in_the_default_voice(piper_voice_path: Path) -> None:
    """Each has a sound, and keeps content that comes at once from being heard for less than a second."""
    voice = pytest.importorskip("voicepipe.engines.piper").PiperTts(piper_voice_path, threads=2)
    sounds = await render(voice, AcknowledgeConfig().texts, asyncio.to_thread)
    lengths_s = [len(sound) / voice.sample_rate_hz for sound in sounds]
    assert len(lengths_s) == 3 and all(0.15 < length_s < 1.0 for length_s in lengths_s), lengths_s
