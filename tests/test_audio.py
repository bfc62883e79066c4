"""Files, levels, PCM16 and the resampler."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from voicepipe import audio
from voicepipe.audio import Resampler, Samples, dbfs, first_audible, last_audible
from voicepipe.errors import AudioFileError


def tone(hz: float, rate_hz: int, seconds: float = 1.0, level: float = 0.5) -> Samples:
    k = np.arange(round(rate_hz * seconds))
    return (level * np.sin(2 * np.pi * hz * k / rate_hz)).astype(np.float32)


# --- files


@pytest.mark.parametrize(("suffix", "exact"), [("wav", True), ("flac", True), ("ogg", False)])
def test_reads_the_three_formats(tmp_path: Path, suffix: str, exact: bool) -> None:
    path = tmp_path / f"tone.{suffix}"
    written = tone(440, 22_050)
    soundfile.write(path, written, 22_050)
    samples, rate_hz = audio.read_wav(path, max_seconds=2)
    assert rate_hz == 22_050 and samples.dtype == np.float32 and samples.shape == written.shape
    assert np.abs(samples - written).max() < (1e-4 if exact else 0.1)


def test_channels_are_averaged(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "s.wav", np.tile([0.5, -0.25], (100, 1)), 8_000, subtype="FLOAT")
    samples, _ = audio.read_wav(tmp_path / "s.wav", max_seconds=1)
    assert samples.shape == (100,) and np.all(samples == 0.125)


def test_non_finite_samples_of_a_file_become_zero_before_the_mix(tmp_path: Path) -> None:
    frames = np.array([[np.nan, 0.5], [np.inf, -np.inf], [0.5, 0.5]], np.float32)
    soundfile.write(tmp_path / "nan.wav", frames, 8_000, subtype="FLOAT")
    samples, _ = audio.read_wav(tmp_path / "nan.wav", max_seconds=1)
    assert samples.tolist() == [0.25, 0.0, 0.5]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    samples = tone(300, 16_000)
    audio.write_wav(tmp_path / "out.wav", samples, 16_000)
    again, rate_hz = audio.read_wav(tmp_path / "out.wav", max_seconds=1)
    assert rate_hz == 16_000 and np.abs(again - samples).max() <= 0.5 / 32768


def test_a_file_of_exactly_the_limit_is_taken_and_one_sample_more_is_not(tmp_path: Path) -> None:
    audio.write_wav(tmp_path / "fits.wav", audio.silence(8_000), 8_000)
    audio.write_wav(tmp_path / "long.wav", audio.silence(8_001), 8_000)
    assert len(audio.read_wav(tmp_path / "fits.wav", max_seconds=1)[0]) == 8_000
    with pytest.raises(AudioFileError, match="limit of 1 s"):
        audio.read_wav(tmp_path / "long.wav", max_seconds=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "not an audio file"), (b"hello" * 100, "not an audio file")],
)
def test_what_is_not_audio_is_a_usage_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "bad.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AudioFileError, match=message) as caught:
        audio.read_wav(path, max_seconds=1)
    assert caught.value.exit_status == 2 and str(path) in caught.value.message


@pytest.mark.parametrize("rate_hz", [1, 7_999, 384_001])
def test_a_rate_that_no_recording_has_is_told_with_the_limits(tmp_path: Path, rate_hz: int) -> None:
    """Resampled it would be nothing, or a rumble, and be called silence."""
    audio.write_wav(tmp_path / "r.wav", audio.silence(100), rate_hz)
    with pytest.raises(AudioFileError, match=f"rate is {rate_hz} Hz; recordings may have 8000 to 384000 Hz"):
        audio.read_wav(tmp_path / "r.wav", max_seconds=200)


def test_a_folder_and_an_empty_recording_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match="no such file"):
        audio.read_wav(tmp_path, max_seconds=1)
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 8_000)
    with pytest.raises(AudioFileError, match="holds no audio"):
        audio.read_wav(tmp_path / "empty.wav", max_seconds=1)


def test_a_header_that_claims_hours_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "liar.wav"
    audio.write_wav(path, audio.silence(100), 8_000)
    data = bytearray(path.read_bytes())
    data[40:44] = (0x7FFFFFF0).to_bytes(4, "little")  # length of the data chunk
    path.write_bytes(bytes(data))
    assert len(audio.read_wav(path, max_seconds=1)[0]) == 100


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match="cannot be written"):
        audio.write_wav(tmp_path / "no" / "out.wav", audio.silence(1), 8_000)


# --- samples


@given(st.lists(st.integers(-32768, 32767)))
def test_pcm16_survives_the_way_to_float_and_back(values: list[int]) -> None:
    data = np.array(values, "<i2").tobytes()
    assert audio.to_pcm16(audio.from_pcm16(data)) == data


def test_pcm16_is_clipped_and_never_wraps() -> None:
    samples = np.array([2.0, 1.0, -1.0, -2.0], np.float32)
    assert np.frombuffer(audio.to_pcm16(samples), "<i2").tolist() == [32767, 32767, -32768, -32768]


def test_half_a_sample_is_the_callers_bug() -> None:
    with pytest.raises(ValueError, match="multiple"):
        audio.from_pcm16(b"\0\0\0")


def test_sanitise_zeroes_counts_and_clips() -> None:
    dirty = np.array([np.nan, np.inf, -np.inf, 3.0, -3.0, 0.25])
    clean, n_bad = audio.sanitise(dirty)
    assert clean.tolist() == [0.0, 0.0, 0.0, 1.0, -1.0, 0.25] and n_bad == 3
    assert clean.dtype == np.float32


# --- levels


def test_levels() -> None:
    assert dbfs(np.ones(100, np.float32)) == pytest.approx(0.0)
    assert dbfs(tone(1000, 16_000, level=1.0)) == pytest.approx(-3.01, abs=0.01)
    assert dbfs(audio.silence(10)) == dbfs(audio.silence(0)) == -math.inf


def test_audibility_is_judged_in_windows_of_10_ms() -> None:
    samples = audio.silence(16_000)
    samples[4_900:6_000] = tone(1000, 16_000, 1_100 / 16_000)
    assert first_audible(samples, 16_000) == 4_800
    assert last_audible(samples, 16_000) == 6_080


@pytest.mark.parametrize(("level_dbfs", "audible"), [(-49.5, True), (-50.5, False)])
def test_the_threshold_is_minus_50_dbfs(level_dbfs: float, audible: bool) -> None:
    samples = np.full(160, 10 ** (level_dbfs / 20), np.float32)
    assert (first_audible(samples, 16_000) == 0) is audible
    assert (last_audible(samples, 16_000) == 160) is audible


def test_a_short_last_window_counts_by_its_own_level() -> None:
    samples = np.concatenate([audio.silence(160), np.full(8, 0.1, np.float32)])
    assert first_audible(samples, 16_000) == 160
    assert last_audible(samples, 16_000) == 168


def test_silence_and_nothing_are_not_audible() -> None:
    for samples in (audio.silence(0), audio.silence(1_000)):
        assert first_audible(samples, 24_000) is None
        assert last_audible(samples, 24_000) is None


# --- rate


def chunked(samples: Samples, src_hz: int, dst_hz: int, chunk: int) -> Samples:
    resampler = Resampler(src_hz, dst_hz)
    pieces = [resampler.push(samples[i : i + chunk]) for i in range(0, len(samples), chunk)]
    return np.concatenate([*pieces, resampler.flush()])


@pytest.mark.parametrize("src_hz", [8_000, 11_025, 22_050, 24_000, 44_100, 48_000])
def test_a_tone_comes_out_in_place_whatever_the_pieces(src_hz: int) -> None:
    out = chunked(tone(1_000, src_hz), src_hz, 16_000, chunk=src_hz // 50)
    expected = tone(1_000, 16_000)
    assert abs(len(out) - 16_000) <= 1
    assert np.abs(out[500:-500] - expected[500 : len(out) - 500]).max() < 1e-3
    assert np.array_equal(out, chunked(tone(1_000, src_hz), src_hz, 16_000, chunk=37))


@pytest.mark.parametrize("src_hz", [24_000, 44_100, 48_000])
@pytest.mark.parametrize(
    ("hz", "at_least_db", "at_most_db"),
    [(3_000, -0.1, 0.1), (7_000, -0.6, 0.0), (9_000, -400, -55), (10_000, -400, -90)],
)
def test_what_the_new_rate_cannot_hold_is_removed_and_the_rest_kept(
    src_hz: int, hz: float, at_least_db: float, at_most_db: float
) -> None:
    out = audio.resample(tone(hz, src_hz), src_hz, 16_000)[1_000:-1_000]
    gain_db = dbfs(out) - dbfs(tone(hz, src_hz))
    assert at_least_db <= gain_db <= at_most_db


@pytest.mark.parametrize(
    ("src_hz", "dst_hz", "held_s"),
    [
        (48_000, 16_000, 0.001),
        (24_000, 16_000, 0.001),
        (8_000, 16_000, 0.002),
        (16_000, 24_000, 0.001),
    ],
)
def test_what_is_held_back_is_a_filter_half(src_hz: int, dst_hz: int, held_s: float) -> None:
    resampler = Resampler(src_hz, dst_hz)
    received = 0
    for _ in range(100):
        received += len(resampler.push(audio.silence(src_hz // 50)))
    assert 2 * dst_hz - received == pytest.approx(held_s * dst_hz, abs=1)
    assert received + len(resampler.flush()) == 2 * dst_hz


def test_equal_rates_pass_through_untouched() -> None:
    samples = tone(100, 16_000)
    resampler = Resampler(16_000, 16_000)
    assert resampler.push(samples) is samples
    assert len(resampler.flush()) == 0


def test_after_a_flush_a_new_stream_begins() -> None:
    resampler = Resampler(48_000, 16_000)
    samples = tone(500, 48_000, 0.1)
    once = np.concatenate([resampler.push(samples), resampler.flush()])
    again = np.concatenate([resampler.push(samples), resampler.flush()])
    assert np.array_equal(once, again)


def test_nothing_in_is_nothing_out() -> None:
    resampler = Resampler(48_000, 16_000)
    assert len(resampler.push(audio.silence(0))) == 0
    assert len(resampler.flush()) == 0


@pytest.mark.parametrize("rates", [(0, 16_000), (16_000, -1)])
def test_rates_are_positive(rates: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Resampler(*rates)
