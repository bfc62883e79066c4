"""Log-mel features as Whisper was trained on, for windows of any length.

Computing them is cheap (1.5 ms for 3 s of audio), so each step computes its window afresh and no cache is kept.
25 ms Hann windows every 10 ms at 16 kHz, a Slaney mel filter bank, log10, clamped 8 below the loudest bin of
the window, scaled to about [-1, 1] (Radford et al., arXiv 2212.04356, section 2.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voicepipe.engines.base import Samples

Features = NDArray[np.float32]
"""Shape (n_mels, frames), one frame per 10 ms."""

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
FRAMES_PER_S = SAMPLE_RATE_HZ // HOP_SAMPLES
MAX_FRAMES = 3_000
"""The model's position table ends here: 30 s."""

_FFT_SAMPLES = 400
_FLOOR = 1e-10
_DYNAMIC_RANGE = 8.0


def mel_filters(n_mels: int) -> Features:
    """Slaney's mel scale: linear below 1 kHz, logarithmic above; filters of equal area. (n_mels, 201)."""
    linear_hz = 200.0 / 3
    break_hz = 1_000.0
    break_mel = break_hz / linear_hz
    log_step = np.log(6.4) / 27.0
    top_mel = break_mel + np.log(SAMPLE_RATE_HZ / 2 / break_hz) / log_step

    mels = np.linspace(0.0, top_mel, n_mels + 2)
    edges = np.where(
        mels < break_mel,
        linear_hz * mels,
        break_hz * np.exp(log_step * (mels - break_mel)),
    )
    bins = np.fft.rfftfreq(_FFT_SAMPLES, 1.0 / SAMPLE_RATE_HZ)
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = 2.0 / (edges[2:] - edges[:-2])
    return np.asarray(triangles * area[:, None], dtype=np.float32)


class LogMel:
    """Turns samples into features. Immutable once made: one object may serve several threads.

    The filters are summed where they are not 0 (one bin in forty), and not as a product of matrices: the threads
    that numpy has for those spin on for some 75 ms after each, and take a core from the next engine. A step of the
    language model right behind a decode took 88 ms that way, and takes 39.
    """

    def __init__(self, n_mels: int) -> None:
        self.n_mels = n_mels
        filters = mel_filters(n_mels)
        of_filter, self._bins = np.nonzero(filters)
        self._weights = filters[of_filter, self._bins][:, np.newaxis]
        self._begins = np.searchsorted(of_filter, np.arange(n_mels))
        """Of each filter, its first bin in `_bins`: no filter is without."""
        self._hann = np.hanning(_FFT_SAMPLES + 1)[:-1].astype(np.float32)

    def __call__(self, samples: Samples, frames: int) -> Features:
        """Features of `samples`, cut or filled up with digital silence to exactly `frames` frames."""
        log = np.full((self.n_mels, frames), np.log10(_FLOOR), dtype=np.float32)
        heard = self._log_power(samples)[:, :frames]
        log[:, : heard.shape[1]] = heard
        log = np.maximum(log, log.max() - _DYNAMIC_RANGE)
        return np.asarray((log + 4.0) / 4.0, dtype=np.float32)

    def _log_power(self, samples: Samples) -> Features:
        """log10 mel power, one frame per whole or begun hop: (n_mels, ceil(n / 160))."""
        half = _FFT_SAMPLES // 2
        frames = -(-len(samples) // HOP_SAMPLES)
        if frames == 0:
            return np.zeros((self.n_mels, 0), dtype=np.float32)
        behind = frames * HOP_SAMPLES + half - len(samples)
        left = samples[half:0:-1] if len(samples) > half else np.zeros(half, dtype=np.float32)
        padded = np.concatenate((left, samples, np.zeros(behind, dtype=np.float32)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, _FFT_SAMPLES)[::HOP_SAMPLES]
        power = np.abs(np.fft.rfft(windows[:frames] * self._hann, axis=1)) ** 2
        mel = np.add.reduceat(power.T[self._bins].astype(np.float32) * self._weights, self._begins, axis=0)
        return np.log10(np.maximum(mel, _FLOOR))
