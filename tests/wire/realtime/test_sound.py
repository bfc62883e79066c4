"""Formats there and back, at any cut, and positions that stay true through a change of format."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from voicepipe import g711
from voicepipe.audio import dbfs, from_pcm16, to_pcm16
from voicepipe.errors import BadField
from voicepipe.wire.realtime.sound import RATE_HZ, Format, Inlet, Outlet


def tone(rate_hz: int, seconds: float) -> bytes:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return to_pcm16((0.3 * np.sin(2 * np.pi * 440 * time_s)).astype(np.float32))


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_pcm_passes_through_at_any_cut() -> None:
    """A sample may come in two pieces: the position is that of the one it belongs to."""
    inlet = Inlet()
    for piece, at in ((b"\1", 0), (b"\2\3", 0), (b"\4", 1), (b"\5\6", 2)):
        assert inlet.at_samples == at
        pcm = inlet.take(coded(piece), "audio/pcm")
        assert pcm == piece
        inlet.on_taken(pcm)


@pytest.mark.parametrize(("kind", "law"), [("audio/pcmu", "ulaw"), ("audio/pcma", "alaw")])
def test_a_phone_line_is_heard_at_the_sessions_rate(kind: Format, law: g711.Law) -> None:
    """A second of it is a second, less what the resampler holds back, and as loud."""
    inlet, pcm = Inlet(), b""
    data = g711.encode(tone(8000, 1.0), law)
    for begin in range(0, len(data), 160):
        pcm += inlet.take(coded(data[begin : begin + 160]), kind)
    assert RATE_HZ - 100 <= len(pcm) // 2 <= RATE_HZ
    assert dbfs(from_pcm16(pcm)) == pytest.approx(dbfs(from_pcm16(tone(8000, 1.0))), abs=0.5)


def test_a_change_of_format_loses_nothing() -> None:
    """What was held back comes first; half a sample of the old format is left behind."""
    inlet = Inlet()
    first = inlet.take(coded(bytes([0xFF]) * 800), "audio/pcmu")
    inlet.on_taken(first)
    then = inlet.take(coded(bytes(480)), "audio/pcm")
    inlet.on_taken(then)
    assert len(first + then) // 2 == 2400 + 240
    inlet.on_taken(inlet.take(coded(b"\0"), "audio/pcm"))
    inlet.take(coded(bytes([0xD5]) * 80), "audio/pcma")
    assert inlet.at_samples == 2400 + 240 + 1


@pytest.mark.parametrize("text", ["a", "!!!!", "AAA", "AAAA\n", "AA==AA==", "Ünicode"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(BadField, match="base64"):
        Inlet().take(text, "audio/pcm")


def test_pcm_goes_out_as_it_is() -> None:
    outlet = Outlet("audio/pcm")
    assert base64.b64decode(outlet.push(b"\1\2\3\4")) == b"\1\2\3\4"
    assert outlet.flush() == "" and outlet.ms == pytest.approx(2000 / RATE_HZ)


@pytest.mark.parametrize(("kind", "law"), [("audio/pcmu", "ulaw"), ("audio/pcma", "alaw")])
def test_a_reply_goes_out_to_a_phone_line(kind: Format, law: g711.Law) -> None:
    """All of it, a byte for each 125 µs."""
    outlet, sound = Outlet(kind), b""
    pcm = tone(RATE_HZ, 0.5)
    for begin in range(0, len(pcm), 960):
        sound += base64.b64decode(outlet.push(pcm[begin : begin + 960]))
    sound += base64.b64decode(outlet.flush())
    assert abs(len(sound) - 4000) <= 1 and outlet.ms == 500
    assert dbfs(from_pcm16(g711.decode(sound, law))) == pytest.approx(dbfs(from_pcm16(pcm)), abs=0.5)


def test_nothing_went_out_of_an_empty_reply() -> None:
    assert Outlet("audio/pcmu").flush() == ""


@pytest.mark.parametrize(("kind", "size"), [("audio/pcm", 960_001), ("audio/pcmu", 160_001)])
def test_too_much_sound_at_once_is_refused(kind: Format, size: int) -> None:
    with pytest.raises(BadField, match="20 s may come at once"):
        Inlet().take(coded(bytes(size)), kind)
