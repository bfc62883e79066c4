"""Sound on its way between the session, which takes and gives 24 kHz PCM16, and the client's format."""

from __future__ import annotations

import base64
import binascii
from typing import Final, Literal

from voicepipe import g711
from voicepipe.audio import Resampler, from_pcm16, to_pcm16
from voicepipe.errors import BadField

RATE_HZ: Final = 24_000
"""Of the session, both ways; the rate of the protocol's PCM."""

MAX_APPEND_S: Final = 20
"""Of sound in one piece: what it takes to resample it holds up everybody else."""
Format = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
_LAWS: Final[dict[Format, g711.Law]] = {"audio/pcmu": "ulaw", "audio/pcma": "alaw"}
BETA_FORMATS: Final[dict[str, Format]] = {
    "pcm16": "audio/pcm",
    "g711_ulaw": "audio/pcmu",
    "g711_alaw": "audio/pcma",
}


class Inlet:
    """What the client says. Changes of format begin a new stream; nothing that was held back is lost for it."""

    def __init__(self) -> None:
        self._format: Format = "audio/pcm"
        self._resampler = Resampler(g711.RATE_HZ, RATE_HZ)
        self._bytes = 0

    @property
    def at_samples(self) -> int:
        """Where the next piece begins, on the session's clock."""
        return self._bytes // 2

    def take(self, text: str, kind: Format) -> bytes:
        """PCM16LE, cut anywhere, of base64. Raises BadField."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise BadField("audio: expected base64", field="audio") from None
        seconds = len(data) / (2 * RATE_HZ if kind == "audio/pcm" else g711.RATE_HZ)
        if seconds > MAX_APPEND_S:
            raise BadField(f"audio: {seconds:.0f} s of sound; {MAX_APPEND_S} s may come at once", field="audio")
        pcm = data if kind == "audio/pcm" else self._expanded(data, kind)
        if kind == "audio/pcm" and self._format != "audio/pcm":
            pcm = to_pcm16(self._resampler.flush()) + pcm
        self._format = kind
        return pcm

    def on_taken(self, pcm: bytes) -> None:
        """The session has got it."""
        self._bytes += len(pcm)

    def _expanded(self, data: bytes, kind: Format) -> bytes:
        if self._format == "audio/pcm" and self._bytes % 2:
            self._bytes += 1  # the half of a sample that is left of the old format has no other half
        return to_pcm16(self._resampler.push(from_pcm16(g711.decode(data, _LAWS[kind]))))


class Outlet:
    """One reply's sound."""

    def __init__(self, kind: Format) -> None:
        self.format: Format = kind
        self._law = _LAWS.get(kind)
        self._resampler = Resampler(RATE_HZ, g711.RATE_HZ)
        self.samples = 0
        """Handed out so far, at the session's rate."""

    def push(self, pcm: bytes) -> str:
        """base64; "" where all of it is held back."""
        self.samples += len(pcm) // 2
        if self._law is None:
            return base64.b64encode(pcm).decode()
        return self._coded(to_pcm16(self._resampler.push(from_pcm16(pcm))))

    def flush(self) -> str:
        """What was held back."""
        return "" if self._law is None else self._coded(to_pcm16(self._resampler.flush()))

    def _coded(self, pcm: bytes) -> str:
        assert self._law is not None
        return base64.b64encode(g711.encode(pcm, self._law)).decode()

    @property
    def ms(self) -> float:
        return 1000 * self.samples / RATE_HZ
