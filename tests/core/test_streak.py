"""Failed turns in a row."""

from __future__ import annotations

import pytest

from voicepipe.core.events import Verdict
from voicepipe.core.streak import ANSWERED, Streak


def told(streak: Streak, verdicts: list[Verdict]) -> list[bool]:
    return [streak.on_turn(verdict) for verdict in verdicts]


@pytest.mark.parametrize("answered", sorted(ANSWERED))
def test_an_answer_begins_the_count_anew(answered: Verdict) -> None:
    """An engine that fails, recovers and fails is not given up over hours."""
    failed = Verdict.FAILED
    assert told(Streak(2), [failed, answered, failed, answered, failed, failed]) == [False] * 5 + [True]


@pytest.mark.parametrize("silent", sorted(set(Verdict) - ANSWERED - {Verdict.FAILED}))
def test_what_was_not_answered_for_other_reasons_tells_nothing(silent: Verdict) -> None:
    """Neither for nor against the engines."""
    assert told(Streak(2), [Verdict.FAILED, silent, Verdict.FAILED]) == [False, False, True]


def test_zero_is_never() -> None:
    """However many fail."""
    assert told(Streak(0), [Verdict.FAILED] * 9) == [False] * 9
