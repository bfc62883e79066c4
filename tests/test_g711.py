"""Both laws, against the codecs of FFmpeg, and there and back."""

from __future__ import annotations

import av
import numpy as np
import pytest

from voicepipe import g711

CODES = bytes(range(256))
EVERY_SAMPLE = np.arange(-32768, 32768).astype("<i2")
CODECS: dict[g711.Law, str] = {"ulaw": "pcm_mulaw", "alaw": "pcm_alaw"}


@pytest.mark.parametrize("law", CODECS)
def test_every_code_means_what_it_means_elsewhere(law: g711.Law) -> None:
    codec = av.CodecContext.create(CODECS[law], "r")
    codec.sample_rate = 8000  # type: ignore[attr-defined]
    codec.layout = "mono"  # type: ignore[attr-defined]
    (frame,) = codec.decode(av.Packet(CODES))  # type: ignore[attr-defined]
    assert np.array_equal(np.frombuffer(g711.decode(CODES, law), "<i2"), frame.to_ndarray()[0])


@pytest.mark.parametrize("law", CODECS)
def test_a_code_comes_back(law: g711.Law) -> None:
    """Of the two zeros of the µ-law one does."""
    back = g711.encode(g711.decode(CODES, law), law)
    assert {a ^ b for a, b in zip(CODES, back, strict=True)} <= ({0, 0x80} if law == "ulaw" else {0})


@pytest.mark.parametrize("law", CODECS)
def test_every_sample_becomes_the_nearest_code(law: g711.Law) -> None:
    """To within half a step of its segment, and a sample's own last bits; the steps grow with the sound."""
    back = np.frombuffer(g711.decode(g711.encode(EVERY_SAMPLE.tobytes(), law), law), "<i2").astype(int)
    loud = np.abs(EVERY_SAMPLE.astype(int))
    step = np.maximum(16 if law == "alaw" else 8, 2.0 ** (np.floor(np.log2(np.maximum(loud + 132, 1))) - 4))
    inside = loud < 32_000
    assert np.all(np.abs(back - EVERY_SAMPLE)[inside] <= step[inside] / 2 + 4)
    assert np.all(np.diff(back) >= 0)


@pytest.mark.parametrize("law", CODECS)
def test_half_a_sample_is_none(law: g711.Law) -> None:
    with pytest.raises(ValueError):
        g711.encode(b"\0\0\0", law)
    assert g711.encode(b"", law) == g711.decode(b"", law) == b""
