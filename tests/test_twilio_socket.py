"""A phone call on a real socket: a WAV as the caller's voice, a barge-in, the signature, and a refusal."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import websockets
from faster_whisper import WhisperModel
from websockets.asyncio.client import ClientConnection, connect

from tests.twilio import PACKET_S, SIZE, Phone
from tests.wire.twilio.calling import media
from voicepipe import g711
from voicepipe.app import Serving, serving
from voicepipe.audio import from_pcm16, read_wav, resample, to_pcm16, write_wav
from voicepipe.config import (
    AdmissionConfig,
    Config,
    EnginesConfig,
    LimitsConfig,
    ScriptedConfig,
    TwilioConfig,
)
from voicepipe.connection import ConnectionClosed
from voicepipe.engines.table import Models, load
from voicepipe.warmup import speak
from voicepipe.wire.twilio.signature import signature

AUTH_TOKEN = "s3cret"
SIGNED = {"X-Twilio-Signature": signature(AUTH_TOKEN, "wss://voice.example/v1/twilio").decode()}
REPLY = "It is raining there, and it will go on to rain until tomorrow."


class WebSocket:
    def __init__(self, ws: ClientConnection) -> None:
        self._ws = ws

    async def send(self, data: str | bytes) -> None:
        try:
            await self._ws.send(data)
        except websockets.ConnectionClosed as exc:
            raise ConnectionClosed(exc.rcvd.code if exc.rcvd else 1006) from None

    async def recv(self) -> str | bytes:
        try:
            return await self._ws.recv()
        except websockets.ConnectionClosed as exc:
            raise ConnectionClosed(exc.rcvd.code if exc.rcvd else 1006) from None

    async def close(self, code: int = 1000) -> None:
        await self._ws.close(code)


@asynccontextmanager
async def server(*, sessions: int = 1, auth_token: str = AUTH_TOKEN) -> AsyncIterator[Serving]:
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(reply=REPLY)),
        limits=LimitsConfig(max_sessions=sessions, grace_s=0.5),
        admission=AdmissionConfig(policy="count"),
        twilio=TwilioConfig(public_url="wss://voice.example"),
    )
    make = partial(load, config.engines, None, sessions=sessions, api_key=None)
    async with serving(config, make, twilio_token=auth_token) as served:
        yield served


def dial(served: Serving, headers: dict[str, str]) -> connect:
    url = f"ws://127.0.0.1:{served.server.port}/v1/twilio"
    return connect(url, additional_headers=headers, compression=None, proxy=None)


@pytest.mark.models
async def test_a_call_with_the_real_models(
    whisper_dir: Path, smollm2_path: Path, piper_voice_path: Path, tmp_path: Path
) -> None:
    """Two spoken questions, the second one into the answer to the first: that stops, and what the phone plays after
    it is understood by a recogniser as the answer to the second."""
    limits = LimitsConfig(max_sessions=1, grace_s=0.5)
    twilio = TwilioConfig(public_url="wss://voice.example")
    config = Config(port=0, operating_point="fast", limits=limits, twilio=twilio)
    models = Models(whisper_dir, smollm2_path, piper_voice_path)
    make = partial(load, config.engines, models, sessions=1, api_key=None)
    async with serving(config, make, twilio_token=AUTH_TOKEN) as served:
        tts, asked = served.engines.tts, []
        for number, text in enumerate(("Please tell me about the moon.", "What is the capital of France?")):
            sound = resample(await speak(tts, text, served.on_thread), tts.sample_rate_hz, g711.RATE_HZ)
            asked.append(tmp_path / f"{number}.wav")
            write_wav(asked[-1], sound, g711.RATE_HZ)
        async with dial(served, SIGNED) as ws, asyncio.TaskGroup() as group:
            phone = Phone(WebSocket(ws))
            group.create_task(phone.listen())
            await phone.dial()
            await phone.pause(0.5)
            await say(phone, asked[0])
            await phone.pause_until("media")
            await phone.pause(0.4)
            await say(phone, asked[1])
            cleared = phone.at("clear")
            await phone.quiet(3.0)
            await phone.hang_up()
    assert phone.closed is not None and phone.closed.code == 1000
    assert len(phone.of("clear")) == 1 and phone.ahead_at_clear[0] < 0.7
    played = b"".join(
        base64.b64decode(event["media"]["payload"]) for event in phone.since(cleared) if event["event"] == "media"
    )
    heard = resample(from_pcm16(g711.decode(played, "ulaw")), g711.RATE_HZ, 16_000)
    words = WhisperModel(str(whisper_dir), compute_type="int8").transcribe(heard)[0]
    assert "Paris" in " ".join(segment.text for segment in words)


async def say(phone: Phone, wav: Path) -> None:
    """In real time, as Twilio sends it."""
    samples, rate_hz = read_wav(wav, max_seconds=10)
    assert rate_hz == g711.RATE_HZ
    ulaw = g711.encode(to_pcm16(samples), "ulaw")
    for at in range(0, len(ulaw), SIZE):
        await phone.send(media(ulaw[at : at + SIZE], phone.sid, at_ms=phone.at_ms))
        phone.at_ms += 20
        await phone._return_marks()
        await asyncio.sleep(PACKET_S)


@pytest.fixture
def question(tmp_path: Path) -> Path:
    time_s = np.arange(round(0.8 * g711.RATE_HZ)) / g711.RATE_HZ
    write_wav(tmp_path / "q.wav", (0.2 * np.sin(2 * np.pi * 220 * time_s)).astype(np.float32), g711.RATE_HZ)
    return tmp_path / "q.wav"


async def test_a_call_with_a_barge_in(question: Path) -> None:
    """Question, reply, barge-in, second reply, and `stop`."""
    async with server() as served, dial(served, SIGNED) as ws, asyncio.TaskGroup() as group:
        phone = Phone(WebSocket(ws))
        group.create_task(phone.listen())
        await phone.dial()
        await phone.pause(0.3)
        await say(phone, question)
        await phone.pause_until("media")
        await phone.pause(1.2)
        before = len(phone.of("mark"))
        await say(phone, question)
        assert len(phone.of("clear")) == 1
        cleared = phone.at("clear")
        assert phone.ahead_at_clear[0] < 0.7
        phone._taken["media"] = len([1 for at, e in phone.log if e["event"] == "media" and at <= cleared])
        await phone.pause_until("media")
        await phone.pause(0.5)
        await phone.hang_up()
    assert before >= 5 and phone.closed is not None and phone.closed.code == 1000
    assert all("streamSid" in event and event["streamSid"] == phone.sid for _, event in phone.log)
    epochs = [event["mark"]["name"].partition(":")[0] for event in phone.of("mark")]
    assert len(set(epochs)) == 2 and epochs == sorted(epochs), "nothing of the old reply after the new one's began"


@pytest.mark.parametrize("headers", [{}, {"X-Twilio-Signature": "AAAA"}])
async def test_who_is_not_twilio_gets_no_upgrade(headers: dict[str, str]) -> None:
    async with server() as served:
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with dial(served, headers):
                pass
    assert caught.value.response.status_code == 401
    assert b"X-Twilio-Signature" in caught.value.response.body


async def test_where_there_is_no_room_the_upgrade_is_refused_in_http() -> None:
    """Twilio reads nothing else; and the slot comes back when a call is hung up."""
    async with server() as served:
        async with dial(served, SIGNED) as ws:
            with pytest.raises(websockets.InvalidStatus) as caught:
                async with dial(served, {**SIGNED, "Sec-WebSocket-Protocol": "audio.twilio.com"}):
                    pass
            assert caught.value.response.status_code == 503
            await ws.close()
        for _ in range(100):
            with suppress(websockets.InvalidStatus):
                async with dial(served, SIGNED):
                    return
            await asyncio.sleep(0.05)
        raise AssertionError("the slot did not come back")


async def test_a_frame_that_is_never_read_whole_closes_without_a_word() -> None:
    async with server() as served, dial(served, SIGNED) as ws:
        await ws.send("x" * 1_000_000)
        with pytest.raises(websockets.ConnectionClosed) as caught:
            await ws.recv()
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1009
