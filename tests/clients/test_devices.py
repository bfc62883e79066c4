"""Microphone and loudspeaker with a PortAudio that the test plays, and without one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from voicepipe.errors import MissingExtra, NoMicrophone
from voicepipe_client.source import OutFrame


class PortAudioError(Exception):
    pass


class Stream:
    """Keeps its arguments and callback."""

    latency = 0.03
    last: Stream

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.callback: Callable[..., None] = arguments["callback"]
        self.log: list[str] = []
        Stream.last = self

    def start(self) -> None:
        self.log.append("start")

    def close(self) -> None:
        self.log.append("close")


class NoStream:
    def __init__(self, **arguments: Any) -> None:
        raise PortAudioError("Error querying device -1")


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with a PortAudio whose streams are `Stream`s."""
    fake = SimpleNamespace(RawInputStream=Stream, RawOutputStream=Stream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    return fresh(monkeypatch)


def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`voicepipe_client.devices` as imported now."""
    name = "voicepipe_client.devices"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace())  # so that what was there comes back
    del sys.modules[name]
    return importlib.import_module(name)


async def test_the_microphone_gives_frames_of_20_ms(devices: Any) -> None:
    async with devices.Microphone(16_000) as microphone:
        assert Stream.last.arguments["samplerate"] == 16_000
        assert Stream.last.arguments["blocksize"] == 320
        Stream.last.callback(b"ab", 1, None, None)
        assert await microphone.frame() == OutFrame(b"ab", voiced=False, clip=None)
    assert Stream.last.log == ["start", "close"]


async def test_a_late_loop_loses_the_oldest_frames(devices: Any) -> None:
    async with devices.Microphone(16_000) as microphone:
        for number in range(53):
            Stream.last.callback(bytes([number]), 1, None, None)
        Stream.last.callback(b"\xff", 1, None, None)
        frames = [await microphone.frame() for _ in range(50)]
    assert microphone.dropped_frames == 4
    assert frames[0].pcm == b"\x04"
    assert frames[-1].pcm == b"\xff"


def test_the_loudspeaker_plays_silence_when_it_has_nothing(devices: Any) -> None:
    with devices.Loudspeaker(22_050) as speaker:
        assert speaker.latency_s == 0.03
        speaker.play(b"abcdef")
        out = bytearray(4)
        Stream.last.callback(out, 2, None, None)
        assert out == b"abcd"
        Stream.last.callback(out, 2, None, None)
        assert out == b"ef\0\0"
        speaker.play(b"gh")
        speaker.flush()
        Stream.last.callback(out, 2, None, None)
        assert out == b"\0\0\0\0"
    assert Stream.last.log == ["start", "close"]


async def test_no_device(devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.sounddevice, "RawInputStream", NoStream)
    monkeypatch.setattr(devices.sounddevice, "RawOutputStream", NoStream)
    with pytest.raises(NoMicrophone, match="--wav"):
        await devices.Microphone(16_000).__aenter__()
    with pytest.raises(NoMicrophone, match="--wav"):
        devices.Loudspeaker(16_000).__enter__()


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    devices = fresh(monkeypatch)
    with pytest.raises(
        MissingExtra,
        match=r"pip install 'voicepipe-realtime\[mic\]' \(from a checkout: pip install -e '\.\[mic\]'\).*--wav",
    ):
        await devices.Microphone(16_000).__aenter__()


async def test_without_portaudio(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """`sounddevice` is installed; the library that it loads is not."""
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    devices = fresh(monkeypatch)
    with pytest.raises(NoMicrophone, match=r"PortAudio library not found.*--wav"):
        await devices.Microphone(16_000).__aenter__()
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
