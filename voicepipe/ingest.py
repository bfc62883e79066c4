"""Intake: a client's bytes become 16 kHz samples on a clock that never drifts.

    bytes -> odd byte carried -> int16 -> channels mixed down -> gaps filled -> resampled -> ring

All positions are counts of samples; nothing here knows what time it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from voicepipe.audio import Resampler, Samples, from_pcm16, mix_down, sanitise, silence
from voicepipe.errors import BadField, BadStart

INTERNAL_HZ = 16_000
"""Rate of everything behind the intake."""
MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 48_000
MAX_CHANNELS = 2

_BYTES_PER_SAMPLE = 2
_CLOCK_MODULUS = 1 << 32  # the client's sample clock is an unsigned 32-bit number


@dataclass(frozen=True, slots=True)
class IngestStats:
    """Counts since the session began. `_frames` are samples per channel at the client's rate."""

    received_frames: int
    gaps: int
    filled_frames: int
    overlaps: int
    dropped_frames: int
    jumps: int
    """Messages refused because they lay further off the expected position than the bound."""
    non_finite: int


class Ingest:
    """One session's intake.

    The client's `offset_samples` says where in its own clock a message begins. One that begins
    later than expected has lost something before it, which is replaced with silence; one that
    begins earlier repeats something, which is dropped. Further off than `max_jump_s` in either
    direction is no loss but a broken clock: the message is refused and the clock follows the
    client, so that one jump costs one error. The first message sets the clock, wherever it begins.

    After `n` input frames the output is exactly as long as `n * 16000 / rate`, less what the
    resampler holds back (a constant of 1 to 2 ms), to within one sample, for ever.
    """

    def __init__(self, rate_hz: int, channels: int = 1, *, max_jump_s: float = 5.0) -> None:
        """Raises BadStart for a rate outside 8000 to 48000 Hz, or channels other than 1 or 2."""
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise BadStart(
                f"audio.rate must be {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz, not {rate_hz}",
                field="audio.rate",
            )
        if not 1 <= channels <= MAX_CHANNELS:
            raise BadStart(
                f"audio.channels must be 1 or {MAX_CHANNELS}, not {channels}",
                field="audio.channels",
            )
        self.rate_hz = rate_hz
        self.channels = channels
        self._max_jump_frames = round(max_jump_s * rate_hz)
        self._resampler = Resampler(rate_hz, INTERNAL_HZ)
        self._frame_bytes = _BYTES_PER_SAMPLE * channels
        self._carry = b""
        self._next: int | None = None  # client clock where the message after the last one begins
        self._heard = 0  # client clock up to which everything has gone through
        self._stalled_frames = 0
        self._counts: Counter[str] = Counter()

    def push(self, payload: bytes, offset_samples: int | None = None) -> Samples:
        """Take one message of interleaved PCM16LE, of any length in bytes; 16 kHz samples come out.

        `offset_samples` in [0, 2**32) is the clock of the frame in which the message begins; None
        means that it follows the one before. Raises BadField where it jumps. A gap can make the
        result up to `max_jump_s` longer than the message: meter the result, not the bytes.
        """
        start = self._start_of(offset_samples)
        data = self._carry + payload
        whole = len(data) - len(data) % self._frame_bytes
        self._carry = data[whole:]
        return self._take(self._mono(data[:whole]), start)

    def push_float(self, frames: NDArray[np.floating]) -> Samples:
        """Take float frames of shape (n,) or (n, channels) from a caller in this process.

        Non-finite samples become zero and are counted; the rest is clipped.
        """
        clean, n_bad = sanitise(frames)
        self._counts["non_finite"] += n_bad
        return self._take(clean if clean.ndim == 1 else mix_down(clean), self._start_of(None))

    def stall(self, frames: int) -> Samples:
        """The client has gone quiet: advance by that many frames of silence at its rate.

        What the next message's offset then reports as lost is filled only as far as it was not
        filled here.
        """
        self._stalled_frames += frames
        return self._resampler.push(silence(frames))

    def flush(self) -> Samples:
        """What the resampler still held back. Nothing is to follow."""
        return self._resampler.flush()

    def stats(self) -> IngestStats:
        return IngestStats(**{field.name: self._counts[field.name] for field in fields(IngestStats)})

    def _start_of(self, offset_samples: int | None) -> int:
        """Client clock, unwrapped, of the frame in which this message begins. Raises BadField."""
        if self._next is None:
            self._next = self._heard = offset_samples or 0
        if offset_samples is None:
            return self._next
        ahead = _signed(offset_samples - self._next)
        if ahead == 0 or (ahead == 1 and self._carry):
            return self._next  # what completes a frame may name that frame or the one after
        self._carry = b""  # its other half is lost, or comes again
        start = self._next + ahead
        if abs(start - self._heard) > self._max_jump_frames:
            self._counts["jumps"] += 1
            self._next = None
            raise BadField(
                f"offset_samples is {start - self._heard} samples off, "
                f"and no more than {self._max_jump_frames} are bridged",
                field="offset_samples",
            )
        return start

    def _take(self, frames: Samples, start: int) -> Samples:
        """Frames that begin at `start`: fill what is missing before them, drop what came before."""
        self._next = start + len(frames)
        self._counts["received_frames"] += len(frames)
        stalled, self._stalled_frames = self._stalled_frames, 0
        missing = start - self._heard
        self._heard = max(self._heard, self._next)
        if missing < 0:
            self._counts["overlaps"] += 1
            self._counts["dropped_frames"] += min(-missing, len(frames))
            frames = frames[-missing:]
        elif missing > 0:
            filled = max(missing - stalled, 0)
            self._counts["gaps"] += 1
            self._counts["filled_frames"] += filled
            frames = np.concatenate([silence(filled), frames])
        return self._resampler.push(frames)

    def _mono(self, data: bytes) -> Samples:
        samples = from_pcm16(data)
        return samples if self.channels == 1 else mix_down(samples.reshape(-1, self.channels))


def _signed(difference: int) -> int:
    """The shorter way round between two values of the client's clock."""
    wrapped = difference % _CLOCK_MODULUS
    return wrapped - _CLOCK_MODULUS if wrapped >= _CLOCK_MODULUS // 2 else wrapped


class AudioRing:
    """The last `seconds` of a session's 16 kHz audio, addressed by its absolute sample clock."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._capacity = round(seconds * INTERNAL_HZ)
        if self._capacity <= 0:
            raise ValueError(f"a ring of {seconds} s holds nothing")
        self._buffer = silence(self._capacity)
        self._newest = 0

    def close(self) -> None:
        """Let go of what was kept: a session that has ended is not collected at once, and its minute is large."""
        self._capacity = 1
        self._buffer = silence(1)

    @property
    def newest(self) -> int:
        """One past the last sample: how many were ever appended."""
        return self._newest

    @property
    def oldest(self) -> int:
        """First sample that is still here."""
        return max(0, self._newest - self._capacity)

    def append(self, samples: Samples) -> None:
        kept = samples[-self._capacity :]
        begin = (self._newest + len(samples) - len(kept)) % self._capacity
        first = min(len(kept), self._capacity - begin)
        self._buffer[begin : begin + first] = kept[:first]
        self._buffer[: len(kept) - first] = kept[first:]
        self._newest += len(samples)

    def read(self, start: int, end: int) -> Samples:
        """A copy of samples [start, end). The caller keeps within [oldest, newest]."""
        if not self.oldest <= start <= end <= self._newest:
            raise AssertionError(f"[{start}, {end}) is not within the ring's [{self.oldest}, {self._newest})")
        begin = start % self._capacity
        first = min(end - start, self._capacity - begin)
        rest = end - start - first
        return np.concatenate([self._buffer[begin : begin + first], self._buffer[:rest]])
