"""What a finished turn says about the load: observed once, for every policy of admission."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from voicepipe.core.events import TurnRecord, Verdict


class Outcome(StrEnum):
    SUCCESS = "success"
    """Content came in time."""
    IGNORED = "ignored"
    """Nothing follows from it: the user said nothing, or did not wait for the answer."""
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
    return Observed(_OUTCOMES[record.verdict], record.felt_estimate_s)
