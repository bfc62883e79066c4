"""How the load that fits is looked for with real models. The models themselves are not played here."""

from __future__ import annotations

from typing import Any, cast

import pytest
from arrivals import Question
from caller import Asked, Played
from real_load import Stage, _find_one

from .test_caller import answered


class Machine:
    """Answers in time up to so many sessions."""

    budget_ms = 200.0

    def __init__(self, most: float) -> None:
        self.most = most
        self.asked: list[float] = []

    def play(self, policy: str, sessions: float) -> Played:
        assert policy == "none"
        self.asked.append(sessions)
        record = answered(2.0, 2.1 if sessions <= self.most else 2.5)
        return Played([Asked(0, Question(0.0, 2.0), "", record, 0.1)], 1)


def test_the_last_load_that_kept_its_turns_is_taken() -> None:
    machine = Machine(1.2)
    assert _find_one(cast("Any", machine)) == pytest.approx(1.125)
    assert machine.asked == pytest.approx([0.5, 0.75, 1.125, 1.6875])


def test_a_machine_that_is_too_slow_for_half_a_session_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match=r"200 ms: a larger --budget-ms, or --one"):
        _find_one(cast("Stage", Machine(0.1)))
