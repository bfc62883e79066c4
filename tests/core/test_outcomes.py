"""Each verdict is an outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voicepipe.core.events import Instants, Speculation, TurnRecord, Verdict
from voicepipe.core.outcomes import Observed, Outcome, observe


def record(verdict: Verdict, felt_s: float | None = 0.15) -> TurnRecord:
    return TurnRecord(1, verdict, felt_s, None, {}, Speculation(), None)


@pytest.mark.parametrize(
    ("verdicts", "outcome"),
    [
        ((Verdict.MET, Verdict.DEGRADED), Outcome.SUCCESS),
        ((Verdict.EMPTY, Verdict.INTERRUPTED), Outcome.IGNORED),
        ((Verdict.MISSED, Verdict.MASKED, Verdict.REFUSED, Verdict.FAILED), Outcome.DROPPED),
    ],
)
def test_what_a_verdict_says_about_the_load(verdicts: tuple[Verdict, ...], outcome: Outcome) -> None:
    for verdict in verdicts:
        assert observe(record(verdict)) == Observed(outcome, 0.15)
    assert observe(record(verdicts[0], None)).latency_s is None


def test_a_turn_that_waits_for_a_tool_says_nothing_about_the_load() -> None:
    """It was masked, and owes no content."""
    assert observe(record(Verdict.MASKED, None)) == Observed(Outcome.IGNORED, None)


@pytest.mark.parametrize(
    ("asr_final", "commit", "outcome"),
    [
        (1.1, 2.4, Outcome.IGNORED),
        (1.1, 1.15, Outcome.DROPPED),  # its reply was late
        (1.3, 1.31, Outcome.DROPPED),  # its words were
        (None, 2.4, Outcome.DROPPED),
        (1.1, None, Outcome.DROPPED),
    ],
)
def test_patience_that_was_longer_than_the_budget_says_nothing_about_the_load(
    asr_final: float | None, commit: float | None, outcome: Outcome
) -> None:
    """Speech ended at 1.0, and the words sounded as if there were more to come."""
    marks = Instants(speech_end=1.0, commit=commit, asr_final=asr_final)
    late = {
        verdict: replace(record(verdict), deadline=1.2, instants=marks)
        for verdict in (Verdict.MISSED, Verdict.MASKED, Verdict.REFUSED, Verdict.FAILED, Verdict.DEGRADED)
    }
    assert {observe(late[verdict]).outcome for verdict in (Verdict.MISSED, Verdict.MASKED, Verdict.REFUSED)} == {
        outcome
    }
    assert observe(late[Verdict.FAILED]).outcome is Outcome.DROPPED
    assert observe(late[Verdict.DEGRADED]).outcome is Outcome.SUCCESS


def test_no_verdict_is_left_out() -> None:
    assert {observe(record(verdict)).outcome for verdict in Verdict} == set(Outcome)
