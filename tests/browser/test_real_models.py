"""The page and the real models: a question goes in, and what comes out of the loudspeaker is transcribed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.browser.house import site, url_of
from tests.browser.tab import Heard, open_tab
from voicepipe.app import serving
from voicepipe.audio import resample, write_wav
from voicepipe.config import Config
from voicepipe.engines.base import Context, Engines, Samples, Window
from voicepipe.engines.hypothesis import normalise_all, split_words
from voicepipe.engines.table import Models, load
from voicepipe.warmup import speak

pytestmark = pytest.mark.models
T = TypeVar("T")
RATE_HZ = 16_000
WINDOW_S = 12.0
"""Of the answer, so much is heard again: what Whisper takes in one go."""


@pytest.fixture
def models(whisper_dir: Path, smollm2_path: Path, piper_voice_path: Path) -> Models:
    return Models(whisper_dir, smollm2_path, piper_voice_path)


def words(text: str) -> list[str]:
    return normalise_all(split_words(text))


async def heard_again(engines: Engines, heard: Heard, on_thread: Callable[[Callable[[], T]], Any]) -> list[str]:
    loud = np.flatnonzero(np.abs(heard.pcm) > 0.003)
    sound: Samples = resample(heard.pcm[loud[0] : loud[-1]], heard.rate_hz, RATE_HZ)[: round(WINDOW_S * RATE_HZ)]
    window = Window(1, 0, sound, len(sound))
    context = Context(session="again", turn=1, epoch=1, revision=0)
    stream = engines.asr.open()
    try:
        transcript = await on_thread(lambda: stream.decode(window, final=True, ctx=context))
    finally:
        stream.close()
    return words(transcript.text)


async def test_what_the_page_answers_is_what_is_heard(browser: Any, microphone: Path, models: Models) -> None:
    config = Config(port=0, max_reply_tokens=24)
    loader = lambda: load(config.engines, models, sessions=1, api_key=None)  # noqa: E731
    async with serving(config, loader, web_files=site()) as served, open_tab(browser, tap=True) as tab:
        tts = served.engines.tts
        question = await speak(tts, "What is the capital of France?", served.on_thread)
        lead = np.zeros(tts.sample_rate_hz // 2, np.float32)
        write_wav(microphone, np.concatenate([lead, question, lead]), tts.sample_rate_hz)
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_ended(1)
        await tab.until("!window.voicepipe.talk.replying")
        assert words(await tab.text(".stable")) == words("What is the capital of France?")
        said = words(await tab.text(".reply"))
        assert "paris" in said
        assert (await tab.text("[data-part=headline]")).endswith("of 200 ms")
        assert await tab.page.locator(".waterfall .lane span").count() >= 2
        again = await heard_again(served.engines, await tab.heard(), served.on_thread)
        common = set(said) & set(again)
        assert "paris" in again and len(common) >= 0.7 * len(set(said[: len(again)])), (said, again)
