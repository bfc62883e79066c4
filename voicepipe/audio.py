"""Audio as values: files, levels, PCM16, and a resampler that holds next to nothing back.

Everywhere in voicepipe audio is float32 mono in [-1, 1], shape (n,). Knows nothing of sessions.
"""

from __future__ import annotations

import errno
import io
import math
from pathlib import Path

import av
import numpy as np
import soundfile
from numpy.typing import NDArray

from voicepipe.errors import AudioFileError, EnvironmentFailure

Samples = NDArray[np.float32]
"""Mono samples in [-1, 1], shape (n,)."""

AUDIBLE_DBFS = -50.0
"""RMS level above which a window counts as audible."""
WINDOW_S = 0.010
"""Length of the windows in which audibility is judged."""

FILE_RATES_HZ = (8_000, 384_000)
"""Least and most of a recording: below, there is no speech to understand; above, nobody records."""

_PCM16_SCALE = 32768.0
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
_BLOCK_SAMPLES = 1 << 16


# --- files


def read_wav(path: Path | str, *, max_seconds: float) -> tuple[Samples, int]:
    """Read WAV, FLAC or OGG as (mono samples, rate in Hz).

    Channels are averaged, non-finite samples made zero. Raises AudioFileError (exit status 2) where
    the file is missing, not audio, empty, of a rate outside `FILE_RATES_HZ`, or longer than `max_seconds`; no
    more than that is ever decoded, whatever the header claims.
    """
    if not Path(path).is_file():
        raise AudioFileError(f"{path}: no such file")
    try:
        with soundfile.SoundFile(path) as file:
            rate_hz: int = file.samplerate
            _check_rate(path, rate_hz)
            limit = int(max_seconds * rate_hz)
            frames = _decode(file, limit + 1)
    except (soundfile.SoundFileError, OSError) as error:
        raise AudioFileError(f"{path}: not an audio file that can be read ({error})") from error
    if len(frames) == 0:
        raise AudioFileError(f"{path}: holds no audio")
    if len(frames) > limit:
        raise AudioFileError(f"{path}: longer than the limit of {max_seconds:g} s")
    return mix_down(sanitise(frames)[0]), rate_hz


def _check_rate(path: Path | str, rate_hz: int) -> None:
    least, most = FILE_RATES_HZ
    if not least <= rate_hz <= most:
        raise AudioFileError(f"{path}: its rate is {rate_hz} Hz; recordings may have {least} to {most} Hz")


def _decode(file: soundfile.SoundFile, most: int) -> NDArray[np.float32]:
    """Up to `most` frames, shape (frames, channels), by blocks: a header's length is a claim."""
    blocks = [np.zeros((0, file.channels), np.float32)]
    missing = most
    while missing > 0:
        block = file.read(min(missing, _BLOCK_SAMPLES), dtype="float32", always_2d=True)
        if len(block) == 0:
            break
        blocks.append(block)
        missing -= len(block)
    return np.concatenate(blocks)


def write_wav(path: Path | str, samples: Samples, rate_hz: int) -> None:
    """Write a mono PCM16 WAV file. Raises AudioFileError where the path cannot be written, EnvironmentFailure
    where its disk cannot take it."""
    pcm = np.frombuffer(to_pcm16(samples), dtype="<i2")
    whole = io.BytesIO()
    soundfile.write(whole, pcm, rate_hz, format="WAV", subtype="PCM_16")
    try:
        Path(path).write_bytes(whole.getbuffer())
    except OSError as error:
        text = f"{path}: cannot be written ({error.strerror})"
        if error.errno in _DISK_FAULTS:
            raise EnvironmentFailure(f"{text}; make room, or name another place") from error
        raise AudioFileError(text) from error


# --- samples


def silence(n_samples: int) -> Samples:
    return np.zeros(n_samples, np.float32)


def to_pcm16(samples: Samples) -> bytes:
    """Little-endian PCM16, clipped. The inverse of `from_pcm16`, bit for bit."""
    pcm: NDArray[np.int16] = np.clip(np.rint(samples * _PCM16_SCALE), -_PCM16_SCALE, _PCM16_SCALE - 1).astype("<i2")
    return pcm.tobytes()


def from_pcm16(data: bytes) -> Samples:
    """`data` holds whole little-endian samples; ValueError where its length is odd."""
    return np.frombuffer(data, dtype="<i2").astype(np.float32) / np.float32(_PCM16_SCALE)


def mix_down(frames: NDArray[np.float32]) -> Samples:
    """The mean over the channels of frames of shape (n, channels)."""
    mono: Samples = frames.mean(axis=1, dtype=np.float32)
    return mono


def sanitise(samples: NDArray[np.floating]) -> tuple[Samples, int]:
    """(float32 copy in [-1, 1] with every non-finite sample made zero, how many those were).

    For float audio from outside, of any shape: one NaN in a recogniser's features would disable all
    of its thresholds.
    """
    finite = np.isfinite(samples)
    n_bad = int(samples.size - np.count_nonzero(finite))
    clean = np.where(finite, samples, 0.0) if n_bad else samples
    return np.clip(clean, -1.0, 1.0).astype(np.float32), n_bad


# --- levels


def dbfs(samples: Samples) -> float:
    """RMS level: 0 for a full-scale square wave, -3 for a full-scale sine, -inf for silence."""
    if len(samples) == 0:
        return -math.inf
    mean_square = float(np.mean(np.square(samples, dtype=np.float64)))
    return 10.0 * math.log10(mean_square) if mean_square > 0.0 else -math.inf


def first_audible(samples: Samples, rate_hz: int) -> int | None:
    """First sample of the first 10 ms window above -50 dBFS RMS, None where there is none.

    Windows lie on a grid from sample 0; the last one may be shorter.
    """
    windows = _audible_windows(samples, rate_hz)
    return int(windows[0]) if len(windows) else None


def last_audible(samples: Samples, rate_hz: int) -> int | None:
    """One past the last sample of the last audible window, None where there is none."""
    windows = _audible_windows(samples, rate_hz)
    return min(int(windows[-1]) + _window_samples(rate_hz), len(samples)) if len(windows) else None


def _window_samples(rate_hz: int) -> int:
    return max(1, round(rate_hz * WINDOW_S))


def _audible_windows(samples: Samples, rate_hz: int) -> NDArray[np.intp]:
    """Start samples of the audible windows, ascending."""
    starts = np.arange(0, len(samples), _window_samples(rate_hz))
    if len(starts) == 0:
        return starts
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), starts)
    lengths = np.diff(np.append(starts, len(samples)))
    threshold = 10.0 ** (AUDIBLE_DBFS / 10.0)
    audible: NDArray[np.intp] = starts[energy / lengths > threshold]
    return audible


# --- rate


class Resampler:
    """Stateful band-limited mono resampling (libswresample), pieces of any length in and out.

    Output sample k sits at time k / dst_hz of the input: nothing is shifted. What is held back is
    the right half of the filter, 16 samples of the lower of the two rates: 1 ms from 48 kHz to
    16 kHz, 2 ms from 8 kHz. Down to 16 kHz a tone loses 0.4 dB at 7 kHz, 15 dB at 8.2 kHz, 60 dB at
    9 kHz and 96 dB from 10 kHz on. Equal rates pass through untouched.
    """

    def __init__(self, src_hz: int, dst_hz: int) -> None:
        if src_hz <= 0 or dst_hz <= 0:
            raise ValueError(f"rates must be positive, not {src_hz} and {dst_hz} Hz")
        self.src_hz = src_hz
        self.dst_hz = dst_hz
        self._swr = self._open()

    def _open(self) -> av.AudioResampler:
        return av.AudioResampler(format="fltp", layout="mono", rate=self.dst_hz)

    def push(self, samples: Samples) -> Samples:
        """What is ready after these samples. May be empty."""
        if self.src_hz == self.dst_hz:
            return samples
        if len(samples) == 0:
            return silence(0)
        plane = np.ascontiguousarray(samples, np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(plane, format="fltp", layout="mono")
        frame.sample_rate = self.src_hz
        return self._collect(frame)

    def flush(self) -> Samples:
        """What was still held back. The next `push` starts a new stream."""
        if self.src_hz == self.dst_hz:
            return silence(0)
        rest = self._collect(None)
        self._swr = self._open()  # libswresample takes nothing after its end of stream
        return rest

    def _collect(self, frame: av.AudioFrame | None) -> Samples:
        planes = [out.to_ndarray()[0] for out in self._swr.resample(frame)]
        return np.concatenate(planes, dtype=np.float32) if planes else silence(0)


def resample(samples: Samples, src_hz: int, dst_hz: int) -> Samples:
    """A whole piece at once, round(n * dst_hz / src_hz) samples within one."""
    resampler = Resampler(src_hz, dst_hz)
    return np.concatenate([resampler.push(samples), resampler.flush()])
