import numpy as np
import pytest

from voicepipe.engines.base import Samples
from voicepipe.engines.features import FRAMES_PER_S, SAMPLE_RATE_HZ, LogMel, mel_filters


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
