"""What the load benchmark is asked for."""

from __future__ import annotations

import pytest
from load import ALL, OFFERED_FULL, POLICIES, arguments, jobs_at


def test_without_flags_it_is_none_and_deadline() -> None:
    assert arguments([]).policies == POLICIES
    full = arguments(["--full"])
    assert (full.policies, full.offered) == (ALL, OFFERED_FULL)
    assert full.turns > arguments([]).turns
    assert arguments(["--full", "--offered", "0.5,4"]).offered == (0.5, 4.0)


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
