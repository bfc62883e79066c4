"""Finds the audible windows of a stream that arrives in pieces. Sans-I/O."""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.audio import AUDIBLE_DBFS, WINDOW_S, dbfs, from_pcm16

BYTES_PER_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class Audible:
    """A 10 ms window above -50 dBFS of a reply."""

    offset_samples: int
    """Its first sample, from the reply's first."""
    at: float
    """When that sample sounds, on the player's clock, s."""
    received_at: float
    """When the window was complete in the client, s."""


class WindowScan:
    """Cuts one reply into 10 ms windows, wherever its frames were cut."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._window_bytes = round(rate_hz * WINDOW_S) * BYTES_PER_SAMPLE
        self._rest = b""
        self._rest_offset = 0
        self._rest_at = 0.0

    def push(self, offset_samples: int, pcm: bytes, at: float, now: float) -> list[Audible]:
        """The audible windows that `pcm` completes. Its first sample sounds at `at`.

        A piece that does not join the one before begins a new window.
        """
        rest_samples = len(self._rest) // BYTES_PER_SAMPLE
        if not self._rest or self._rest_offset + rest_samples != offset_samples:
            self._rest, self._rest_offset, self._rest_at = b"", offset_samples, at
            rest_samples = 0
        data = self._rest + pcm
        found: list[Audible] = []
        position = 0
        while position + self._window_bytes <= len(data):
            window = data[position : position + self._window_bytes]
            if dbfs(from_pcm16(window)) > AUDIBLE_DBFS:
                start = position // BYTES_PER_SAMPLE
                found.append(Audible(self._rest_offset + start, self._time(start, at, rest_samples), now))
            position += self._window_bytes
        start = position // BYTES_PER_SAMPLE
        self._rest_at = self._time(start, at, rest_samples)
        self._rest_offset += start
        self._rest = data[position:]
        return found

    def _time(self, start: int, at: float, rest_samples: int) -> float:
        """When sample `start` of rest + piece sounds: the rest may sound long before the piece."""
        if start < rest_samples:
            return self._rest_at + start / self._rate_hz
        return at + (start - rest_samples) / self._rate_hz
