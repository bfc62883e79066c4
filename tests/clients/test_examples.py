"""The programs of docs/client.md: each as a process of its own, against a real server; and the page shows them."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import shutil
import signal
import sys
import wave
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from faster_whisper import WhisperModel

from tests.realtime_server import TOKEN, server
from voicepipe.app import Serving, serving
from voicepipe.audio import read_wav, resample, write_wav
from voicepipe.config import Config, LimitsConfig
from voicepipe.endings import BUG
from voicepipe.engines.table import Models, load
from voicepipe.errors import ClientError
from voicepipe.warmup import speak
from voicepipe.wire.messages import ServerMessage

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "clients/python/examples"
NODE = ROOT / "clients/javascript/ask.mjs"
QUESTION = "What is the capital of France?"
REPLY = "It is Paris."
ENDS_S = 60.0


def alike(one: str, other: str) -> float:
    """Of two wordings, by their letters: 1 for the same."""
    letters = [re.sub(r"[^a-z]", "", text.lower()) for text in (one, other)]
    return difflib.SequenceMatcher(None, *letters).ratio()


def url(served: Serving) -> str:
    return f"ws://127.0.0.1:{served.server.port}"


async def begun(*command: str | Path, **env: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *map(str, command),
        env={**os.environ, "VOICEPIPE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> str:
    """What it printed. It ends well."""
    try:
        async with asyncio.timeout(ENDS_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0 and not err, err.decode()
    return out.decode()


async def test_a_question_from_a_recording(tone: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.wav"
    async with server(transcripts=(QUESTION,), reply=REPLY) as served:
        out = await ended(await begun(sys.executable, PYTHON / "ask.py", tone, answer, url(served)))
    assert re.fullmatch(rf"you: {re.escape(QUESTION)}\nvoicepipe: {REPLY}\n\(\w+, \d+ ms\)\n", out), out
    with wave.open(str(answer)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        seconds = file.getnframes() / file.getframerate()
        assert 0.85 <= seconds <= 1.5 and np.abs(np.frombuffer(file.readframes(-1), "<i2")).max() > 3000


async def test_openais_own_client(tone: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.wav"
    async with server(transcripts=(QUESTION,), reply=REPLY) as served:
        url = f"http://127.0.0.1:{served.server.port}/v1"
        out = await ended(await begun(sys.executable, PYTHON / "openai_sdk.py", tone, answer, url))
    assert out == f"you: {QUESTION}\nvoicepipe: {REPLY}\n(completed)\n"
    with wave.open(str(answer)) as file:
        assert file.getframerate() == 24_000 and 0.85 <= file.getnframes() / 24_000 <= 0.95


@pytest.mark.models
async def test_openais_own_client_hears_a_sensible_answer(
    whisper_dir: Path, smollm2_path: Path, piper_voice_path: Path, tmp_path: Path
) -> None:
    """The real models, on a question in the voice's own sound; what comes back is understood by a recogniser."""
    question, answer = tmp_path / "question.wav", tmp_path / "answer.wav"
    config = Config(port=0, operating_point="fast", limits=LimitsConfig(max_sessions=1, grace_s=1.0))
    models = Models(whisper_dir, smollm2_path, piper_voice_path)
    async with serving(config, lambda: load(config.engines, models, sessions=1, api_key=None)) as served:
        tts = served.engines.tts
        write_wav(question, await speak(tts, QUESTION, served.on_thread), tts.sample_rate_hz)
        url = f"http://127.0.0.1:{served.server.port}/v1"
        out = await ended(await begun(sys.executable, PYTHON / "openai_sdk.py", question, answer, url))
    said, answered, status = out.splitlines()
    assert said == f"you: {QUESTION}" and status == "(completed)"
    sound, rate_hz = read_wav(answer, max_seconds=60.0)
    words = WhisperModel(str(whisper_dir), compute_type="int8").transcribe(resample(sound, rate_hz, 16_000))[0]
    heard = " ".join(segment.text for segment in words)
    # the smallest recogniser on a synthetic voice: it may take "of France is" for "of Francis"
    assert "France" in answered and alike(answered.removeprefix("voicepipe: "), heard) >= 0.7, (answered, heard)


async def test_a_microphone_until_ctrl_c(tmp_path: Path) -> None:
    """What is heard comes out of the loudspeaker, and Ctrl-C is no error."""
    played = tmp_path / "played.pcm"
    path = str(ROOT / "tests/clients/portaudio")
    async with server(transcripts=(QUESTION,), reply=REPLY) as served:
        process = await begun(
            sys.executable, PYTHON / "microphone.py", url(served), PYTHONPATH=path, PLAYED=str(played)
        )
        assert process.stdout is not None
        async with asyncio.timeout(ENDS_S):
            said = (await process.stdout.readline()).decode()
            answered = (await process.stdout.readline()).decode()
        process.send_signal(signal.SIGINT)
        await ended(process)
    assert said == f"you: {QUESTION}\n"
    assert re.fullmatch(rf"{REPLY} \(\w+\)\n", answered), answered
    sound = np.frombuffer(played.read_bytes(), "<i2")
    assert 0.8 <= np.count_nonzero(np.abs(sound) > 300) / 24_000 <= 1.2


async def test_callers_who_come_by_chance(tone: Path) -> None:
    """Some are answered, the others refused, and none is forgotten."""
    async with server(sessions=2, transcripts=(QUESTION,), reply=REPLY) as served:
        out = await ended(await begun(sys.executable, PYTHON / "load.py", tone, "6", "600", url(served)))
    report: dict[str, Any] = json.loads(out)
    assert report["callers"] == 6 and set(report["lost"]) == {"capacity"}
    assert report["answered"] >= 1 and report["turns"] + report["lost"]["capacity"] == 6
    assert report["answered_felt_ms"]["p50"] > 0


async def test_a_typed_question_from_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    version = await ended(await begun(node, "--version"))
    major = int(version.lstrip("v").partition(".")[0])
    if major < 20:
        pytest.skip(f"node {version.strip()} has no WebSocket")
    flags = [] if major >= 22 else ["--experimental-websocket", "--no-warnings"]
    async with server(reply=REPLY) as served:
        out = await ended(await begun(node, *flags, NODE, QUESTION, f"{url(served)}/v1/voice"))
    assert out.startswith(REPLY) and "type: 'turn.ended'" in out


PAGE = ROOT / "docs/client.md"


def test_the_page_names_every_message_error_and_close_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kinds = {kind.__name__ for kind in get_args(ServerMessage)} | {"AudioFrame"}
    assert not {kind for kind in kinds if f"`{kind}`" not in page}
    faults = ClientError.__subclasses__()
    for fault in faults:
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{fault.code}`" in line)
        assert (f"| {fault.close_code} |" in row) is fault.fatal, fault.code
    listed = {int(code) for code in re.findall(r"^\| (\d{4}) \|", page, re.MULTILINE)}
    assert listed == {1000, 1008, BUG.code, 1012, 1013, 4410}


def test_the_page_shows_the_programs_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = {block.strip() for block in re.findall(r"```(?:python|js)\n(.*?)```", page, re.DOTALL)}
    for path in (PYTHON / "ask.py", PYTHON / "microphone.py", PYTHON / "load.py", NODE):
        assert path.read_text(encoding="utf-8").strip() in shown, path.name
    page = (ROOT / "docs/openai-realtime.md").read_text(encoding="utf-8")
    assert f"```python\n{(PYTHON / 'openai_sdk.py').read_text(encoding='utf-8')}```" in page
