"""Turns as series: gaps against the budget, blame, slack, what was begun ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.metrics.conftest import value
from voicepipe.core.events import Blame, BlameKind, Forecast, Speculation, Stage, TurnRecord, Verdict
from voicepipe.metrics import Metrics

MET = TurnRecord(
    turn=1,
    verdict=Verdict.MET,
    felt_estimate_s=0.15,
    system_s=0.01,
    stages={},
    speculation=Speculation(hit=True, attempts=3, saved_s=0.25, wasted_s=0.5),
    blame=None,
)


def test_verdicts_and_gaps(metrics: Metrics) -> None:
    """A turn without content has a verdict and no gap."""
    metrics.turn_ended("met", 0.18, 0.06)
    metrics.turn_ended("missed", 7.0, 6.0)
    metrics.turn_ended("empty", None, None)
    assert value(metrics, "voicepipe_turns_total", verdict="met") == 1
    assert value(metrics, "voicepipe_turns_total", verdict="failed") == 0
    assert value(metrics, "voicepipe_felt_gap_seconds_count") == 2
    assert value(metrics, "voicepipe_felt_gap_seconds_bucket", le="0.2") == 1
    assert value(metrics, "voicepipe_felt_gap_seconds_bucket", le="5.0") == 1
    assert value(metrics, "voicepipe_system_gap_seconds_sum") == pytest.approx(6.06)


def test_a_gap_is_held_against_the_turns_own_budget(metrics: Metrics) -> None:
    """300 ms of 1,000 that a client asked for, and of 200."""
    metrics.turn_recorded(replace(MET, felt_estimate_s=0.3, budget_s=1.0))
    metrics.turn_recorded(replace(MET, felt_estimate_s=0.3, budget_s=0.2))
    metrics.turn_recorded(replace(MET, felt_estimate_s=None))
    assert value(metrics, "voicepipe_felt_gap_budget_ratio_bucket", le="1.0") == 1
    assert value(metrics, "voicepipe_felt_gap_budget_ratio_bucket", le="1.5") == 2
    assert value(metrics, "voicepipe_felt_gap_budget_ratio_count") == 2


def test_playback_that_stood_still(metrics: Metrics) -> None:
    metrics.turn_recorded(MET)
    metrics.turn_recorded(replace(MET, stalled_s=0.3))
    assert value(metrics, "voicepipe_turns_stalled_total") == 1
    assert value(metrics, "voicepipe_playback_stall_seconds_total") == pytest.approx(0.3)


def test_blame_by_stage_and_kind(metrics: Metrics) -> None:
    """How often, by how much, and what nothing explains; all of them are there from the beginning."""
    late = Blame(Stage.LLM, BlameKind.SERVICE, over_s=0.08, unattributed_s=0.01)
    metrics.turn_recorded(replace(MET, verdict=Verdict.MISSED, blame=late))
    labels = {"stage": "llm", "kind": "service"}
    assert value(metrics, "voicepipe_blames_total", **labels) == 1
    assert value(metrics, "voicepipe_blamed_seconds_total", **labels) == pytest.approx(0.08)
    assert value(metrics, "voicepipe_unattributed_seconds_total") == pytest.approx(0.01)
    assert value(metrics, "voicepipe_blames_total", stage="tts", kind="hand-off") == 0


def test_slack_where_a_stage_begins(metrics: Metrics) -> None:
    """Before the speech end there is no deadline, and no slack."""
    ahead, behind = Forecast(Stage.LLM, 1.0, None, 1.1), Forecast(Stage.TTS, 1.2, -0.03, 1.3)
    metrics.turn_recorded(replace(MET, forecasts=(ahead, behind)))
    assert value(metrics, "voicepipe_turn_slack_seconds_bucket", stage="tts", le="0.0") == 1
    assert value(metrics, "voicepipe_turn_slack_seconds_bucket", stage="tts", le="-0.05") == 0
    assert value(metrics, "voicepipe_turn_slack_seconds_count", stage="llm") == 0


@pytest.mark.parametrize(
    ("ahead", "result"),
    [(MET.speculation, "hit"), (Speculation(attempts=2, wasted_s=0.5), "miss"), (Speculation(), "none")],
)
def test_what_was_begun_ahead(ahead: Speculation, result: str, metrics: Metrics) -> None:
    metrics.turn_recorded(replace(MET, speculation=ahead))
    counted = {
        name: value(metrics, "voicepipe_speculation_turns_total", result=name) for name in ("hit", "miss", "none")
    }
    assert counted == {"hit": 0, "miss": 0, "none": 0} | {result: 1}
    assert value(metrics, "voicepipe_speculation_attempts_total") == ahead.attempts
    assert value(metrics, "voicepipe_speculation_saved_seconds_total") == ahead.saved_s
    assert value(metrics, "voicepipe_speculation_wasted_seconds_total") == ahead.wasted_s


def test_rungs_and_commits_taken_back(metrics: Metrics) -> None:
    metrics.turn_recorded(replace(MET, rungs=("short-clause", "small-model"), reopened=2, background_s=0.05))
    assert value(metrics, "voicepipe_rungs_total", rung="small-model") == 1
    assert value(metrics, "voicepipe_rungs_total", rung="acknowledge") == 0
    assert value(metrics, "voicepipe_turns_reopened_total") == 2
    assert value(metrics, "voicepipe_turn_blocked_by_background_seconds_total") == pytest.approx(0.05)


def test_corrections_are_counted(metrics: Metrics) -> None:
    """From zero: a recogniser that corrects nothing is seen, too."""
    assert value(metrics, "voicepipe_transcript_corrections_total") == 0
    metrics.transcript_corrected()
    assert value(metrics, "voicepipe_transcript_corrections_total") == 1
