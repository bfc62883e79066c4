"""What happened, as series: names that scripts depend on, labels that stay bounded."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from voicepipe.core.cost import PROFILE_MARGIN, CostKey, CostModel, Size
from voicepipe.core.events import WorkKind
from voicepipe.metrics import LEASE_KINDS, STAGES, VERDICTS, Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_names_that_scripts_depend_on_exist_before_anything_happens(metrics: Metrics) -> None:
    names = {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert {
        "voicepipe_sessions_active",
        "voicepipe_turns",
        "voicepipe_felt_gap_seconds",
        "voicepipe_system_gap_seconds",
        "voicepipe_leases",
    } <= names
    assert all(value(metrics, "voicepipe_turns_total", verdict=verdict) == 0 for verdict in VERDICTS)
    assert all(value(metrics, "voicepipe_leases", kind=kind) == 0 for kind in LEASE_KINDS)


def test_turns_by_verdict_and_their_gaps(metrics: Metrics) -> None:
    metrics.turn_ended("met", 0.18, 0.06)
    metrics.turn_ended("missed", 7.0, 6.0)
    metrics.turn_ended("empty", None, None)
    metrics.turn_ended("met", 0.18, 0.06, stalled_s=0.3)
    assert value(metrics, "voicepipe_turns_stalled_total") == 1
    assert value(metrics, "voicepipe_playback_stall_seconds_total") == pytest.approx(0.3)
    assert value(metrics, "voicepipe_turns_total", verdict="met") == 2
    assert value(metrics, "voicepipe_turns_total", verdict="empty") == 1
    assert value(metrics, "voicepipe_felt_gap_seconds_count") == 3
    assert value(metrics, "voicepipe_felt_gap_seconds_bucket", le="0.2") == 2
    assert value(metrics, "voicepipe_felt_gap_seconds_bucket", le="5.0") == 2
    assert value(metrics, "voicepipe_system_gap_seconds_sum") == pytest.approx(6.12)


def test_sessions_and_leases_go_up_and_come_back(metrics: Metrics) -> None:
    metrics.session_started()
    metrics.lease_taken("session")
    metrics.lease_taken("llm")
    assert value(metrics, "voicepipe_sessions_active") == 1
    assert value(metrics, "voicepipe_leases", kind="llm") == 1
    metrics.lease_returned("llm")
    metrics.lease_returned("session")
    metrics.session_ended()
    assert value(metrics, "voicepipe_sessions_active") == 0
    assert all(value(metrics, "voicepipe_leases", kind=kind) == 0 for kind in LEASE_KINDS)


def test_device_time_and_chunks_by_stage_and_class(metrics: Metrics) -> None:
    metrics.chunk_done("asr", "asr", 0.25)
    metrics.chunk_done("asr", "speculation", 0.5)
    assert value(metrics, "voicepipe_device_busy_seconds_total", stage="asr") == 0.75
    assert value(metrics, "voicepipe_device_class_busy_seconds_total", **{"class": "speculation"}) == 0.5
    labels = {"stage": "asr", "class": "asr"}
    assert metrics.registry.get_sample_value("voicepipe_chunks_total", labels) == 1


def test_corrections_are_counted(metrics: Metrics) -> None:
    """From zero: a recogniser that corrects nothing is seen, too."""
    assert value(metrics, "voicepipe_transcript_corrections_total") == 0
    metrics.transcript_corrected()
    assert value(metrics, "voicepipe_transcript_corrections_total") == 1


def test_faults_are_counted_where_they_belong(metrics: Metrics) -> None:
    metrics.client_error("bad_json")
    metrics.engine_failed("tts")
    metrics.refused("capacity")
    metrics.session_failed()
    metrics.task_abandoned()
    metrics.stale_audio_dropped(0.5)
    metrics.non_finite_samples(3)
    metrics.loop_lagged(0.004)
    assert value(metrics, "voicepipe_client_errors_total", code="bad_json") == 1
    assert value(metrics, "voicepipe_engine_failures_total", stage="tts") == 1
    assert value(metrics, "voicepipe_refusals_total", reason="capacity") == 1
    assert value(metrics, "voicepipe_session_failures_total") == 1
    assert value(metrics, "voicepipe_tasks_abandoned_total") == 1
    assert value(metrics, "voicepipe_stale_audio_seconds_total") == 0.5
    assert value(metrics, "voicepipe_non_finite_samples_total") == 3
    assert value(metrics, "voicepipe_loop_lag_seconds_bucket", le="0.005") == 1


def test_our_own_labels_cannot_be_misspelt(metrics: Metrics) -> None:
    with pytest.raises(AssertionError, match="'mett' is none of"):
        metrics.turn_ended("mett", None, None)
    with pytest.raises(AssertionError):
        metrics.lease_taken("seat")
    with pytest.raises(AssertionError):
        metrics.engine_failed("mouth")
    with pytest.raises(AssertionError):
        metrics.chunk_done("mouth", "asr", 0.1)
    assert STAGES == ("endpoint", "asr", "llm", "tts", "send")


def test_words_from_elsewhere_stay_bounded(metrics: Metrics) -> None:
    for number in range(1_000):
        metrics.client_error(f"code_{number}")
    metrics.client_error("what the user said, word by word")
    metrics.client_error("code_0")
    series = [
        sample
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "voicepipe_client_errors_total"
    ]
    assert len(series) == 33
    assert value(metrics, "voicepipe_client_errors_total", code="other") == 969
    assert value(metrics, "voicepipe_client_errors_total", code="code_0") == 2


def test_two_registries_do_not_mix(metrics: Metrics) -> None:
    other = Metrics(CollectorRegistry())
    metrics.session_started()
    assert value(other, "voicepipe_sessions_active") == 0


def test_the_cost_models_state_is_read_when_it_is_asked_for(metrics: Metrics) -> None:
    """Per kind of chunk; coverage once a bound has been judged. A long name is cut."""
    model = CostModel()
    key = CostKey(WorkKind.THINK, "m" * 100, "cpu", "decode")
    metrics.follow_costs(model.snapshot)
    labels = {"stage": "llm", "kind": "think", "variant": "decode", "model": "m" * 64}
    assert value(metrics, "voicepipe_cost_bound_ratio", **labels) is None
    model.on_chunk(key, Size(2), 0.02)
    assert value(metrics, "voicepipe_cost_bound_ratio", **labels) == pytest.approx(PROFILE_MARGIN, rel=0.01)
    assert value(metrics, "voicepipe_cost_coverage", **labels) is None
    model.on_chunk(key, Size(2), 0.02)
    assert value(metrics, "voicepipe_cost_coverage", **labels) == 1.0


def test_overruns_are_counted_per_stage(metrics: Metrics) -> None:
    """All stages are there from the beginning."""
    metrics.chunk_overran("tts")
    assert value(metrics, "voicepipe_chunk_overruns_total", stage="tts") == 1
    assert value(metrics, "voicepipe_chunk_overruns_total", stage="asr") == 0


def test_decisions_by_policy_and_reason_and_how_long_refusals_take(metrics: Metrics) -> None:
    metrics.decided("deadline", "refused", "burst")
    metrics.decided("deadline", "admitted", "")
    metrics.refusal_took(0.0007)
    labels = {"policy": "deadline", "decision": "refused", "reason": "burst"}
    assert value(metrics, "voicepipe_admission_decisions_total", **labels) == 1
    assert (
        value(metrics, "voicepipe_admission_decisions_total", policy="deadline", decision="admitted", reason="")
        == 1
    )
    assert value(metrics, "voicepipe_refusal_seconds_bucket", le="0.001") == 1
    with pytest.raises(AssertionError):
        metrics.decided("deadline", "shrugged", "")


def test_the_waiting_room(metrics: Metrics) -> None:
    metrics.room(3)
    metrics.waited(4.0, "left")
    assert value(metrics, "voicepipe_waiting_room") == 3
    assert value(metrics, "voicepipe_waiting_seconds_bucket", ended="left", le="5.0") == 1
