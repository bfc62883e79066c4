"""What happened, as series: names that scripts depend on, labels that stay bounded."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.metrics.conftest import value
from voicepipe.core.admission import AdmissionSnapshot, Reason
from voicepipe.core.cost import CostKey, CostModel, Size
from voicepipe.core.events import WorkKind
from voicepipe.core.overload import Level, OverloadSnapshot
from voicepipe.core.scheduler import LaneSnapshot, SchedulerSnapshot
from voicepipe.metrics import LEASE_KINDS, Metrics
from voicepipe.metrics.states import Phase


def test_names_that_scripts_depend_on_exist_before_anything_happens(metrics: Metrics) -> None:
    names = {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert {
        "voicepipe_sessions_active",
        "voicepipe_turns",
        "voicepipe_felt_gap_seconds",
        "voicepipe_system_gap_seconds",
        "voicepipe_leases",
        "voicepipe_refusals",
    } <= names
    assert value(metrics, "voicepipe_turns_total", verdict="met") == 0
    assert value(metrics, "voicepipe_leases", kind="llm") == 0
    assert all(value(metrics, "voicepipe_refusals_total", reason=reason.value) == 0 for reason in Reason)


def test_promtool_finds_nothing_to_say(metrics: Metrics) -> None:
    """About any family that there is, those that are looked at included."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    costs = CostModel()
    for _ in range(2):
        costs.on_chunk(CostKey(WorkKind.THINK, "m", "cpu", "decode"), Size(2), 0.02)
    metrics.follow_costs(costs.snapshot)
    metrics.follow_admission(lambda: AdmissionSnapshot(1, 4, 1, 0, 20.0, "deadline", 0, {"burst": 0.5}))
    metrics.follow_overload(lambda: OverloadSnapshot(Level.NONE, 0.0, {"loop-lag": 0.1}, 0))
    metrics.follow_lanes(lambda: SchedulerSnapshot({"cpu": LaneSnapshot(1, 7, 100)}), {"cpu": 1})
    metrics.follow_phase(lambda: Phase(ready=True, draining=False))
    metrics.decided("deadline", "refused", "burst")
    metrics.client_error("bad_json")
    metrics.lane_known("cpu", frozenset({"asr"}))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics.exposition(), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_server_itself(metrics: Metrics) -> None:
    """Its version, its promise, what its machine can do, its lag, its memory."""
    metrics.promised(0.2)
    metrics.measured(0.13)
    metrics.loop_lagged(0.004)
    assert value(metrics, "voicepipe_build_info", version="1.2.3") == 1
    assert value(metrics, "voicepipe_budget_seconds") == 0.2
    assert value(metrics, "voicepipe_achievable_gap_seconds") == 0.13
    assert value(metrics, "voicepipe_loop_lag_seconds_bucket", le="0.005") == 1
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 1e6


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


def test_faults_are_counted_where_they_belong(metrics: Metrics) -> None:
    metrics.client_error("bad_json")
    metrics.refused("capacity")
    metrics.session_failed()
    metrics.task_abandoned()
    assert value(metrics, "voicepipe_client_errors_total", code="bad_json") == 1
    assert value(metrics, "voicepipe_refusals_total", reason="capacity") == 1
    assert value(metrics, "voicepipe_session_failures_total") == 1
    assert value(metrics, "voicepipe_tasks_abandoned_total") == 1


def test_what_clients_sent_too_fast_is_counted_by_why(metrics: Metrics) -> None:
    """From zero on, so that the first loss is an increase."""
    assert value(metrics, "voicepipe_input_dropped_seconds_total", why="backlog") == 0
    metrics.input_dropped("rate", 1.5)
    metrics.message_dropped()
    metrics.accept_failed()
    assert value(metrics, "voicepipe_input_dropped_seconds_total", why="rate") == 1.5
    assert value(metrics, "voicepipe_messages_dropped_total") == 1
    assert value(metrics, "voicepipe_accept_failures_total") == 1


def test_our_own_labels_cannot_be_misspelt(metrics: Metrics) -> None:
    with pytest.raises(AssertionError, match="'mett' is none of"):
        metrics.turn_ended("mett", None, None)
    with pytest.raises(AssertionError):
        metrics.lease_taken("seat")
    with pytest.raises(AssertionError):
        metrics.decided("deadline", "shrugged", "")


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


def test_decisions_by_policy_and_reason_and_how_long_refusals_take(metrics: Metrics) -> None:
    """A policy's admissions are there before its first one."""
    metrics.decides("deadline")
    admitted = {"policy": "deadline", "decision": "admitted", "reason": ""}
    assert value(metrics, "voicepipe_admission_decisions_total", **admitted) == 0
    metrics.decided("deadline", "refused", "burst")
    metrics.decided("deadline", "admitted", "")
    metrics.refusal_took(0.0007)
    refused = {"policy": "deadline", "decision": "refused", "reason": "burst"}
    assert value(metrics, "voicepipe_admission_decisions_total", **refused) == 1
    assert value(metrics, "voicepipe_admission_decisions_total", **admitted) == 1
    assert value(metrics, "voicepipe_refusal_seconds_bucket", le="0.001") == 1


def test_the_waiting_room(metrics: Metrics) -> None:
    metrics.room(3)
    metrics.waited(4.0, "left")
    assert value(metrics, "voicepipe_waiting_room") == 3
    assert value(metrics, "voicepipe_waiting_seconds_bucket", ended="left", le="5.0") == 1
