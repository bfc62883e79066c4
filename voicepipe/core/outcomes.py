"""What a finished turn says about the load: observed once, for every policy of admission."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from voicepipe.core.events import TurnRecord, Verdict


class Outcome(StrEnum):
    SUCCESS = "success"
    """Content came in time."""
    IGNORED = "ignored"
    """Nothing follows from it: the user said nothing, or did not wait for the answer; or what was said sounded so
    unfinished that it was waited for longer than the budget, whoever else was there; or the answer waits for a
    tool."""
    DROPPED = "dropped"
    """The promise was not kept: late, masked, refused or failed."""


_OUTCOMES = {
    Verdict.MET: Outcome.SUCCESS,
    Verdict.DEGRADED: Outcome.SUCCESS,
    Verdict.EMPTY: Outcome.IGNORED,
    Verdict.INTERRUPTED: Outcome.IGNORED,
    Verdict.MASKED: Outcome.DROPPED,
    Verdict.MISSED: Outcome.DROPPED,
    Verdict.REFUSED: Outcome.DROPPED,
    Verdict.FAILED: Outcome.DROPPED,
}


@dataclass(frozen=True, slots=True)
class Observed:
    outcome: Outcome
    latency_s: float | None = None
    """The felt gap; None without content."""


def observe(record: TurnRecord) -> Observed:
    outcome = _OUTCOMES[record.verdict]
    if record.verdict is Verdict.MASKED and record.felt_estimate_s is None:
        outcome = Outcome.IGNORED  # it only called a tool
    if outcome is Outcome.DROPPED and record.verdict is not Verdict.FAILED and _was_waited_for(record):
        outcome = Outcome.IGNORED
    return Observed(outcome, record.felt_estimate_s)


def _was_waited_for(record: TurnRecord) -> bool:
    """Was it committed after its deadline though its words were known before that?"""
    deadline, marks = record.deadline, record.instants
    if deadline is None or marks.commit is None or marks.asr_final is None:
        return False
    return marks.asr_final <= deadline < marks.commit
