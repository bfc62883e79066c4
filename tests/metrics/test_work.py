"""What devices did, as series."""

from __future__ import annotations

import pytest

from tests.metrics.conftest import value
from voicepipe.metrics import CLASSES, Metrics


def test_device_time_by_lane_stage_and_class(metrics: Metrics) -> None:
    """All classes of a lane's stages are there from the beginning."""
    metrics.lane_known("cpu", frozenset({"asr"}))
    metrics.chunk_done("cpu", "asr", "asr", 0.25)
    metrics.chunk_done("cpu", "asr", "speculation", 0.5)
    busy = {klass: {"lane": "cpu", "stage": "asr", "class": klass} for klass in CLASSES}
    assert value(metrics, "voicepipe_device_busy_seconds_total", **busy["asr"]) == 0.25
    assert value(metrics, "voicepipe_device_busy_seconds_total", **busy["speculation"]) == 0.5
    assert value(metrics, "voicepipe_device_busy_seconds_total", **busy["background"]) == 0.0
    assert value(metrics, "voicepipe_chunks_total", **{"stage": "asr", "class": "asr"}) == 1


def test_how_long_chunks_wait_and_how_old_sound_is(metrics: Metrics) -> None:
    metrics.chunk_waited("started", 0.03, is_input=False)
    metrics.chunk_waited("asr", 0.15, is_input=True)
    started = {"class": "started", "le": "0.05"}
    assert value(metrics, "voicepipe_chunk_wait_seconds_bucket", **started) == 1
    assert value(metrics, "voicepipe_input_age_seconds_count") == 1
    assert value(metrics, "voicepipe_input_age_seconds_bucket", le="0.1") == 0


def test_overruns_are_counted_per_stage(metrics: Metrics) -> None:
    """All stages are there from the beginning."""
    metrics.chunk_overran("tts")
    assert value(metrics, "voicepipe_chunk_overruns_total", stage="tts") == 1
    assert value(metrics, "voicepipe_chunk_overruns_total", stage="asr") == 0


def test_faults_and_what_was_dropped(metrics: Metrics) -> None:
    metrics.engine_failed("tts")
    metrics.stale_audio_dropped(0.5)
    metrics.non_finite_samples(3)
    assert value(metrics, "voicepipe_engine_failures_total", stage="tts") == 1
    assert value(metrics, "voicepipe_stale_audio_seconds_total") == 0.5
    assert value(metrics, "voicepipe_non_finite_samples_total") == 3


def test_texts(metrics: Metrics) -> None:
    metrics.text_tokens("decode", 12)
    metrics.text_ended("length")
    metrics.texts_changed(2, 5)
    assert value(metrics, "voicepipe_text_tokens_total", kind="decode") == 12
    assert value(metrics, "voicepipe_texts_total", outcome="length") == 1
    assert value(metrics, "voicepipe_texts_running") == 2
    assert value(metrics, "voicepipe_texts_waiting") == 5


def test_our_own_labels_cannot_be_misspelt(metrics: Metrics) -> None:
    with pytest.raises(AssertionError):
        metrics.engine_failed("mouth")
    with pytest.raises(AssertionError):
        metrics.chunk_done("cpu", "mouth", "asr", 0.1)
    with pytest.raises(AssertionError):
        metrics.chunk_done("cpu", "asr", "vip", 0.1)
