"""What the load benchmark is asked for, and whom it would have let in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from arrivals import Call, Question
from load import ALL, OFFERED_FULL, POLICIES, WARM_S, Job, arguments, could_have_served, jobs_at, run


def test_without_flags_it_is_none_and_deadline() -> None:
    assert arguments([]).policies == POLICIES
    full = arguments(["--full"])
    assert (full.policies, full.offered) == (ALL, OFFERED_FULL)
    assert full.turns > arguments([]).turns


def test_a_policy_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--policies", "none,hope"])
    assert "--policies" in capsys.readouterr().err


def test_all_policies_have_the_same_calls() -> None:
    """As many sessions as the load says, and as many turns as were asked for where they are let in."""
    args = arguments(["--turns", "300", "--seeds", "2"])
    none, deadline = (jobs_at(policy, 2.0, 8.0, args) for policy in ("none", "deadline"))
    assert [job.calls() for job in none] == [job.calls() for job in deadline]
    assert [job.sessions for job in none] == [16.0, 16.0] and none[0].calls() != none[1].calls()
    count = jobs_at("count", 2.0, 8.4, args)
    assert count[0].config().limits.max_sessions == 8 < deadline[0].config().limits.max_sessions


@dataclass(frozen=True, slots=True)
class Told(Job):
    """These calls instead of drawn ones."""

    these: tuple[Call, ...] = ()

    def calls(self) -> list[Call]:
        return list(self.these)


def told(*ends: float, cap: int) -> Told:
    """One question of a second from each caller, that ends so long after the first instant that counts."""
    questions = [Question(WARM_S + end - 1.0, WARM_S + end) for end in ends]
    calls = tuple(Call(WARM_S + 0.1 + 0.01 * n, WARM_S + 5.0, (one,)) for n, one in enumerate(questions))
    return Told("count", 1.0, float(len(ends)), 5.0, 1, cap, these=calls)


def test_who_would_have_been_in_time_was_refused_in_vain() -> None:
    job = told(1.6, 2.6, cap=1)
    played = run(job)
    assert [asked.call for asked in played.asked if asked.refused] == [1]
    assert could_have_served(job, played, 1)


def test_who_would_have_made_others_late_was_not() -> None:
    """Five callers who end in the same instant, where two fit into a budget."""
    job = told(1.6, 1.6, 1.6, 1.6, 1.6, cap=2)
    played = run(job)
    assert sorted(asked.call for asked in played.asked if asked.refused) == [2, 3, 4]
    more = told(1.6, 1.6, 1.6, cap=2)
    assert not could_have_served(more, run(more), 2)
    assert not could_have_served(job, played, 4)
