"""States are looked at when somebody asks, and not before."""

from __future__ import annotations

import pytest

from tests.metrics.conftest import value
from voicepipe.core.admission import AdmissionSnapshot
from voicepipe.core.breaker import BreakerSnapshot, BreakerState
from voicepipe.core.cost import PROFILE_MARGIN, CostKey, CostModel, Size
from voicepipe.core.engine_health import HealthSnapshot
from voicepipe.core.events import Stage, WorkKind
from voicepipe.core.overload import Level, OverloadSnapshot
from voicepipe.core.parking import ParkingSnapshot
from voicepipe.core.scheduler import LaneSnapshot, SchedulerSnapshot
from voicepipe.metrics import Metrics
from voicepipe.metrics.states import Phase


def test_the_cost_models_state(metrics: Metrics) -> None:
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
    assert value(metrics, "voicepipe_cost_chunks", **labels) == 2


def test_what_admission_goes_by(metrics: Metrics) -> None:
    """The share of each limit, and the cap, where there is one."""
    seen = [AdmissionSnapshot(1, 4, 1, 0, 20.0, "deadline", 0, {"burst": 0.5})]
    metrics.follow_admission(lambda: seen[-1])
    assert value(metrics, "voicepipe_admission_use", policy="deadline", limit="burst") == 0.5
    assert value(metrics, "voicepipe_sessions_limit") == 4
    seen.append(AdmissionSnapshot(1, None, 1, 0, 20.0, "none"))
    assert value(metrics, "voicepipe_sessions_limit") is None


def test_the_level_of_overload_and_its_signals(metrics: Metrics) -> None:
    metrics.follow_overload(lambda: OverloadSnapshot(Level.REFUSE, 1.2, {"loop-lag": 1.2}, 3))
    assert value(metrics, "voicepipe_overload_level") == 3
    assert value(metrics, "voicepipe_overload_signal", signal="loop-lag") == 1.2
    assert value(metrics, "voicepipe_overload_changes_total") == 3


def test_what_is_kept_for_clients_that_come_back(metrics: Metrics) -> None:
    """Whatever has not happened yet is a series, too."""
    metrics.follow_parking(lambda: ParkingSnapshot(2, 700, 5, {"resumed": 3, "unknown": 0}))
    assert value(metrics, "voicepipe_sessions_parked") == 2
    assert value(metrics, "voicepipe_parked_bytes") == 700
    assert value(metrics, "voicepipe_resumes_total", outcome="resumed") == 3
    assert value(metrics, "voicepipe_resumes_total", outcome="unknown") == 0


def test_what_runs_and_waits_on_each_lane(metrics: Metrics) -> None:
    lanes = {"cpu": LaneSnapshot(1, 7, 100), "ears": LaneSnapshot(0, 0, 50)}
    metrics.follow_lanes(lambda: SchedulerSnapshot(lanes), {"cpu": 1, "ears": 2})
    assert value(metrics, "voicepipe_lane_queued_chunks", lane="cpu") == 7
    assert value(metrics, "voicepipe_lane_running_chunks", lane="cpu") == 1
    assert value(metrics, "voicepipe_lane_chunks", lane="ears") == 2


def test_the_phases_of_a_server(metrics: Metrics) -> None:
    phases = [Phase(ready=False, draining=False)]
    metrics.follow_phase(lambda: phases[-1])
    assert (value(metrics, "voicepipe_ready"), value(metrics, "voicepipe_draining")) == (0, 0)
    phases.append(Phase(ready=False, draining=True))
    assert (value(metrics, "voicepipe_ready"), value(metrics, "voicepipe_draining")) == (0, 1)


def test_calls_that_do_not_end_and_endpoints_that_are_left_alone(metrics: Metrics) -> None:
    """By stage, lane and engine; a stage that never had one is a series all the same."""
    breaker = BreakerSnapshot(BreakerState.OPEN, 5, 2, 7)
    seen = HealthSnapshot({"cpu": 3}, {"cpu": 1}, {Stage.LLM: 4}, {"llm": breaker})
    metrics.follow_engines(lambda: seen)
    assert value(metrics, "voicepipe_chunks_overdue_total", stage="llm") == 4
    assert value(metrics, "voicepipe_chunks_overdue_total", stage="tts") == 0
    assert value(metrics, "voicepipe_chunks_abandoned", lane="cpu") == 3
    assert value(metrics, "voicepipe_lane_held", lane="cpu") == 1
    assert value(metrics, "voicepipe_breaker_state", engine="llm") == 2
    assert value(metrics, "voicepipe_breaker_opened_total", engine="llm") == 2
    assert value(metrics, "voicepipe_breaker_refused_total", engine="llm") == 7


def test_what_did_not_get_into_a_file(metrics: Metrics) -> None:
    """As it is when somebody asks."""
    lost = {"ledger": 0}
    metrics.follow_files(lambda: lost)
    assert value(metrics, "voicepipe_file_entries_lost_total", file="ledger") == 0
    lost["ledger"] = 3
    assert value(metrics, "voicepipe_file_entries_lost_total", file="ledger") == 3
