"""G.711: 16-bit samples as one byte each, by the µ-law of North America and Japan or the A-law of elsewhere.

Both laws cut the range into segments that double in width. Decoding is a table of 256 values; encoding one of
65,536, made from the segments' bounds as ITU-T G.711 and G.191 state them.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Law = Literal["ulaw", "alaw"]
RATE_HZ: Final = 8_000

_BIAS: Final = 0x84
_CLIP: Final = 32_635


def decode(data: bytes, law: Law) -> bytes:
    """PCM16LE."""
    pcm: NDArray[np.int16] = _DECODE[law][np.frombuffer(data, np.uint8)]
    return pcm.tobytes()


def encode(pcm: bytes, law: Law) -> bytes:
    """Of PCM16LE in whole samples; ValueError otherwise."""
    coded: NDArray[np.uint8] = _ENCODE[law][np.frombuffer(pcm, "<u2")]
    return coded.tobytes()


def _ulaw_values() -> NDArray[np.int16]:
    code = ~np.arange(256) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + _BIAS) << ((code & 0x70) >> 4)) - _BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype("<i2")


def _alaw_values() -> NDArray[np.int16]:
    code = np.arange(256) ^ 0x55
    segment, step = (code & 0x70) >> 4, (code & 0x0F) << 4
    magnitude = np.where(segment == 0, step + 8, (step + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype("<i2")


def _ulaw_codes() -> NDArray[np.uint8]:
    samples = np.arange(65_536).astype("<u2").view("<i2").astype(np.int32)
    magnitude = np.minimum(np.abs(samples), _CLIP) + _BIAS
    segment = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    code = (segment << 4) | ((magnitude >> (segment + 3)) & 0x0F)
    coded: NDArray[np.uint8] = (~np.where(samples < 0, code | 0x80, code) & 0xFF).astype(np.uint8)
    return coded


def _alaw_codes() -> NDArray[np.uint8]:
    samples = np.arange(65_536).astype("<u2").view("<i2").astype(np.int32) >> 3
    magnitude = np.where(samples < 0, -samples - 1, samples)
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 4, 0)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 0x0F)
    coded: NDArray[np.uint8] = (code ^ np.where(samples < 0, 0x55, 0xD5)).astype(np.uint8)
    return coded


_DECODE: Final = {"ulaw": _ulaw_values(), "alaw": _alaw_values()}
_ENCODE: Final = {"ulaw": _ulaw_codes(), "alaw": _alaw_codes()}
