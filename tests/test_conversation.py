"""The terminal's side of a conversation, against a real server with scripted engines."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import numpy as np
import pytest

from voicepipe.app import serving
from voicepipe.audio import read_wav, write_wav
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.conversation import Call, converse, load_clips, spoken_question
from voicepipe.engines.scripted import ScriptedTts
from voicepipe.engines.table import load
from voicepipe.errors import AudioFileError, ServerUnreachable
from voicepipe.show import JsonLines

CONFIG = Config(
    port=0,
    engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(reply="One two three.")),
    limits=LimitsConfig(max_sessions=1, grace_s=0.5),
)


def voice() -> ScriptedTts:
    return ScriptedTts(CONFIG.engines.scripted)


async def test_the_question_is_made_once(tmp_path: Path) -> None:
    """The second call reads what the first one wrote."""
    first = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    (path,) = tmp_path.glob("question-*.wav")  # noqa: ASYNC240 - nobody waits for this loop
    write_wav(path, np.full(16_000, 0.25, np.float32), 16_000)
    second = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    assert len(first.samples) != len(second.samples)
    assert np.allclose(second.samples, 0.25, atol=1e-3)


async def test_replies_are_written_where_they_should_be(tmp_path: Path) -> None:
    """As they were played: the tone of three words, into a folder that is made."""
    out, said = tmp_path / "deep" / "reply.wav", io.StringIO()
    async with serving(CONFIG, lambda: load(CONFIG.engines, None, sessions=1, api_key=None)) as served:
        clip = await spoken_question(served.engines.tts, tmp_path, served.on_thread)
        await converse(Call(f"ws://127.0.0.1:{served.server.port}", out=out), [clip], JsonLines(said))
    reply, rate_hz = read_wav(out, max_seconds=60)
    assert rate_hz == ScriptedTts.sample_rate_hz
    loud = np.abs(reply) > 0.01
    assert np.count_nonzero(loud) / rate_hz == pytest.approx(0.9, abs=0.1)
    assert str(out) in said.getvalue()


async def test_nobody_there_leaves_no_file(tmp_path: Path) -> None:
    """The error of the client library comes through."""
    out = tmp_path / "reply.wav"
    with pytest.raises(ServerUnreachable):
        await converse(Call("ws://127.0.0.1:9", out=out), [], JsonLines(io.StringIO()))
    assert not out.exists()


def test_clips_are_read_before_anything_else(tmp_path: Path) -> None:
    """A bad one among good ones stops the command."""
    good = tmp_path / "good.wav"
    write_wav(good, np.full(8_000, 0.1, np.float32), 8_000)
    (clip,) = load_clips([good])
    assert len(clip.samples) == 16_000
    with pytest.raises(AudioFileError):
        load_clips([good, tmp_path / "none.wav"])
