"""Readings as figures."""

from __future__ import annotations

import pytest

from tests.top.conftest import Watched
from voicepipe.core.events import BlameKind, Stage, Verdict
from voicepipe.top.figures import figures


def test_of_all_since_the_start() -> None:
    watched = Watched()
    watched.turn(Verdict.MET, 0.12)
    watched.turn(Verdict.EMPTY, None)
    watched.late(Stage.LLM, BlameKind.SERVICE, 0.3)
    watched.late(Stage.LLM, BlameKind.SERVICE, 0.1)
    watched.late(Stage.ASR, BlameKind.WAIT, 0.1)
    watched.metrics.refused("burst")
    watched.metrics.lease_taken("session")
    watched.metrics.session_started()
    watched.metrics.chunk_done("cpu", "llm", "started", 10.0)
    watched.metrics.chunk_done("cpu", "asr", "asr", 5.0)
    watched.metrics.loop_lagged(0.0005)
    seen = figures(watched.read(), None, 50.0)
    assert (seen.version, seen.ready, seen.draining, seen.span_s, seen.is_since_start) == (
        "1.2.3",
        True,
        False,
        50,
        True,
    )
    assert (seen.budget_ms, seen.achievable_ms, seen.sessions, seen.most_sessions) == (200, 130, 1, 4)
    assert seen.turns == 5 and seen.in_time == 0.25
    assert [(one.stage, one.kind, one.turns) for one in seen.blame] == [("llm", "service", 2), ("asr", "wait", 1)]
    assert seen.blame[0].mean_ms == pytest.approx(200)
    assert seen.refusals == {"burst": 1} and seen.leases == {"session": 1, "llm": 0, "text": 0}
    lane = seen.device["cpu"]
    assert lane.busy == pytest.approx(0.15) and lane.classes["started"] == pytest.approx(0.1)
    assert (lane.running, lane.queued) == (1, 3)
    assert (seen.ahead.hit_rate, seen.ahead.attempts) == (0.8, 2) and seen.ahead.saved_ms == pytest.approx(30)
    assert seen.ahead.wasted_share == pytest.approx(0.25 / 15)
    assert seen.admission == {"burst": 0.5} and (seen.loop_lag_p99_ms or 9) < 1.0 and seen.input_age_p99_ms is None


def test_of_the_time_since_an_earlier_reading() -> None:
    watched = Watched()
    watched.turn(Verdict.MISSED, 3.0)
    before = watched.read(100.0)
    watched.turn(Verdict.MET, 0.12)
    seen = figures(watched.read(110.0), before, 5_000.0)
    assert (seen.span_s, seen.is_since_start, seen.turns, seen.in_time) == (10, False, 1, 1.0)
    assert seen.felt_ms["p99"] == pytest.approx(125, abs=1)


def test_of_a_server_at_which_nothing_has_happened() -> None:
    """No figure is made up."""
    watched = Watched()
    watched.metrics.measured(0.0)
    seen = figures(watched.read(), None, None)
    assert seen.in_time is None and seen.felt_ms == {"p50": None, "p95": None, "p99": None}
    assert seen.blame == [] and seen.refusals == {} and seen.achievable_ms is None and seen.span_s is None
    assert seen.ahead.hit_rate is None and seen.ahead.wasted_share is None and seen.device["cpu"].busy == 0.0
