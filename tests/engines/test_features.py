import subprocess
import sys

import numpy as np
import pytest

from voicepipe.engines.base import Samples
from voicepipe.engines.features import FRAMES_PER_S, HOP_SAMPLES, SAMPLE_RATE_HZ, LogMel, mel_filters


def sine(hz: float, seconds: float, level: float = 0.1) -> Samples:
    t = np.arange(int(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return (level * np.sin(2 * np.pi * hz * t)).astype(np.float32)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_filters_are_triangles_of_equal_area_from_0_to_8_khz(n_mels: int) -> None:
    filters = mel_filters(n_mels)
    peaks = filters.argmax(axis=1)
    assert filters.shape == (n_mels, 201)
    assert (filters >= 0).all() and (filters.sum(axis=1) > 0).all()
    assert (np.diff(peaks) >= 0).all()
    assert peaks[-1] > 190


@pytest.mark.parametrize("n_mels", [80, 128])
def test_every_filter_is_summed_over_its_bins(n_mels: int) -> None:
    """The same as the product of the filters and a frame's power, by the textbook."""
    rng = np.random.default_rng(0)
    samples = rng.normal(0, 0.1, 1_600).astype(np.float32)
    frame = samples[5 * HOP_SAMPLES - 200 : 5 * HOP_SAMPLES + 200].astype(np.float64)
    power = np.abs(np.fft.rfft(frame * np.hanning(401)[:-1])) ** 2
    log_mel = np.log10(np.einsum("mb,b->m", mel_filters(n_mels).astype(np.float64), power))
    np.testing.assert_allclose(LogMel(n_mels)(samples, 10)[:, 5], (log_mel + 4.0) / 4.0, atol=1e-4)


def test_a_tone_is_loudest_in_the_filter_around_it() -> None:
    filters = mel_filters(80)
    features = LogMel(80)(sine(1_000, 1.0), 100)
    centre_hz = filters[features[:, 50].argmax()].argmax() * SAMPLE_RATE_HZ / 400
    assert centre_hz == pytest.approx(1_000, abs=40)


@pytest.mark.parametrize("samples", [0, 1, 159, 160, 161, 200, 201, 16_000, 16_001])
def test_any_number_of_samples_fills_the_frames_asked_for(samples: int) -> None:
    features = LogMel(80)(np.full(samples, 0.01, np.float32), 200)
    assert features.shape == (80, 200)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()


def test_the_dynamic_range_is_clamped() -> None:
    features = LogMel(80)(sine(440, 1.0), 200)
    assert features.max() - features.min() == pytest.approx(2.0)
    assert (features[:, -50:] == features.min()).all()


def test_a_longer_tail_changes_no_frame_of_the_speech() -> None:
    audio = sine(300, 1.0) + sine(2_000, 1.0)
    short, long = LogMel(80)(audio, 150), LogMel(80)(audio, 300)
    np.testing.assert_array_equal(short, long[:, :150])


def test_audio_beyond_the_frames_is_cut() -> None:
    audio = sine(300, 2.0)
    features = LogMel(80)(audio, FRAMES_PER_S)
    np.testing.assert_allclose(features[:, :90], LogMel(80)(audio, 200)[:, :90], atol=1e-6)


def test_a_sample_that_is_no_number_shows() -> None:
    audio = sine(300, 1.0)
    audio[500] = np.nan
    assert not np.isfinite(LogMel(80)(audio, 100)).all()


ALONE = """
import time
import numpy as np
from voicepipe.engines.features import LogMel

log_mel, samples = LogMel(80), np.zeros(48_000, np.float32)

def others() -> float:
    all_s, own_s = time.process_time(), time.thread_time()
    for _ in range(20):
        log_mel(samples, 300)
    own_s, all_s = time.thread_time() - own_s, time.process_time() - all_s
    return (all_s - own_s) / own_s

print(min(others() for _ in range(10)))
"""


def test_no_other_thread_works_on_features() -> None:
    """Nor spins on behind them, beside the next engine. In a process of its own, which has no other threads but
    numpy's; these spin for a while when they are begun, so that the calmest of ten rounds counts."""
    others = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert float(others.stdout) < 0.2
