"""Policies alone: whom each refuses, by what name, and what it learns."""

from __future__ import annotations

import pytest

from voicepipe.core.deadline import DeadlineSettings
from voicepipe.core.demand import Demand, Expected
from voicepipe.core.events import WorkKind
from voicepipe.core.limits import AimdLimit, FixedLimit, TokenBucket
from voicepipe.core.outcomes import Observed, Outcome
from voicepipe.core.policies import DeadlinePolicy, Denied, LimitPolicy, OpenPolicy, RatePolicy, SessionRequest

ANYONE = SessionRequest()


def held(n: int, **more: float) -> list[SessionRequest]:
    return [SessionRequest(**more) for _ in range(n)]  # type: ignore[arg-type]


def test_none_refuses_nobody() -> None:
    assert OpenPolicy().check(ANYONE, held(5_000), 0.0) is None and OpenPolicy().uses(5_000, 0.0) == {}


def test_a_limit_refuses_who_would_exceed_it() -> None:
    policy = LimitPolicy("count", FixedLimit(3), "capacity")
    assert policy.check(ANYONE, held(2), 0.0) is None
    assert policy.check(ANYONE, held(3), 0.0) == Denied("capacity")
    assert policy.uses(3, 0.0) == {"capacity": 1.0}
    assert LimitPolicy("count", FixedLimit(None), "capacity").uses(3, 0.0) == {"capacity": 0.0}


def test_an_adaptive_limit_learns_from_turns() -> None:
    policy = LimitPolicy("aimd", AimdLimit(4.0), "limit")
    assert policy.check(ANYONE, held(3), 0.0) is None
    policy.on_turn(Observed(Outcome.DROPPED, 0.5), 3)
    assert policy.limit == pytest.approx(3.6)
    assert policy.check(ANYONE, held(3), 0.0) == Denied("limit")


def test_a_rate_says_when_the_next_one_may_come() -> None:
    policy = RatePolicy(TokenBucket(0.1, 2))
    for _ in range(2):
        assert policy.check(ANYONE, held(1), 0.0) is None
        policy.on_granted(0.0)
    assert policy.check(ANYONE, held(0), 0.0) == Denied("rate", 10.0)
    policy.on_granted(5.0)  # the session that an idle server takes whatever the policy says
    assert policy.uses(1, 5.0) == {"rate": 1.0} and policy.uses(1, 10.0) == {"rate": 0.0}
    assert policy.check(ANYONE, held(1), 10.0) is None


def deadline(turn_s: float = 0.075, **settings: float) -> DeadlinePolicy:
    demand = Demand(frozenset(WorkKind), Expected(turn_s, 0.02))
    return DeadlinePolicy(demand, DeadlineSettings(**settings))  # type: ignore[arg-type]


def reasons(policy: DeadlinePolicy, most: int) -> list[str | None]:
    denied = (policy.check(ANYONE, held(n), 0.0) for n in range(most))
    return [None if no is None else no.reason for no in denied]


def test_deadline_admits_until_turns_would_collide() -> None:
    answers = reasons(deadline(), 40)
    first = answers.index("burst")
    assert 3 <= first <= 20 and set(answers[:first]) == {None}
    assert set(answers[first:]) <= {"burst", "utilisation"}


@pytest.mark.parametrize(("outcome", "change"), [(Outcome.DROPPED, -1), (Outcome.IGNORED, 0), (Outcome.SUCCESS, 1)])
def test_what_becomes_of_turns_corrects_how_many_are_taken(outcome: Outcome, change: int) -> None:
    """Turns that are late where few were to be expected, turns that are in time, and those that tell nothing."""
    policy = deadline()
    before = reasons(policy, 40).index("burst")
    for _ in range(5000):
        policy.on_turn(Observed(outcome), before)
    after = reasons(policy, 40).index("burst")
    assert (after > before) - (after < before) == change


def test_a_faster_machine_takes_more_and_its_device_is_the_limit() -> None:
    answers = reasons(deadline(0.010, late=0.5), 400)
    assert answers.index("utilisation") > 20 and "burst" not in answers[: answers.index("utilisation")]


def test_a_machine_that_cannot_make_its_budget_takes_nobody_by_policy() -> None:
    """The one session of an idle server is not the policy's business."""
    assert set(reasons(deadline(0.25), 5)) == {"burst"}


def test_slots_and_lag_are_reasons_of_their_own() -> None:
    assert reasons(deadline(0.01, slots=2), 4) == [None, None, "memory", "memory"]
    lagging = deadline(0.01)
    lagging.on_lag(0.02)
    assert reasons(lagging, 2) == ["loop-lag", "loop-lag"]
    lagging.on_lag(0.004)
    assert reasons(lagging, 2) == [None, None]


def test_a_smaller_budget_is_harder_to_promise() -> None:
    policy = deadline()
    assert policy.check(ANYONE, held(2), 0.0) is None
    assert policy.check(SessionRequest(budget_ms=130.0), held(2), 0.0) == Denied("burst")
    assert policy.check(ANYONE, held(2, budget_ms=130.0), 0.0) == Denied("burst")
    assert policy.check(SessionRequest(budget_ms=2_000.0), held(2), 0.0) is None


def test_what_is_used_of_each_test_is_told() -> None:
    uses = deadline(slots=4).uses(2, 0.0)
    assert set(uses) == {"utilisation", "burst", "memory", "loop-lag"} and uses["memory"] == 0.5
