"""Each verdict is an outcome."""

from __future__ import annotations

import pytest

from voicepipe.core.events import Speculation, TurnRecord, Verdict
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


def test_no_verdict_is_left_out() -> None:
    assert {observe(record(verdict)).outcome for verdict in Verdict} == set(Outcome)
