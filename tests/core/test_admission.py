"""Admission: exactly N of N + k, every lease back once, an honest time to come back, and a line in its order."""

from __future__ import annotations

import random
from collections.abc import Collection
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from voicepipe.core.admission import (
    Admission,
    Admitted,
    CountAdmission,
    Grant,
    Moved,
    Reason,
    Refuse,
    RoomCommand,
    SessionAdmission,
    SessionRequest,
    TurnedOut,
    Wait,
)
from voicepipe.core.limits import FixedLimit
from voicepipe.core.outcomes import Observed, Outcome
from voicepipe.core.overload import OverloadSettings
from voicepipe.core.policies import Denied, LimitPolicy
from voicepipe.core.quotas import Quota, QuotaSettings
from voicepipe.core.room import RoomSettings

REQUEST = SessionRequest(peer="192.0.2.1")


def test_exactly_n_of_n_plus_k_get_in() -> None:
    admission: Admission = CountAdmission(3)
    answers = [admission.on_connect(REQUEST, now=0.0) for _ in range(8)]
    assert [type(answer) for answer in answers] == [Grant] * 3 + [Refuse] * 5
    snapshot = admission.snapshot()
    assert (snapshot.active, snapshot.granted, snapshot.refused, snapshot.limit) == (3, 3, 5, 3)


def test_a_grant_carries_its_request_and_a_serial_number() -> None:
    admission = CountAdmission(2)
    assert admission.on_connect(REQUEST, 0.0) == Grant(1, REQUEST)
    assert admission.on_connect(REQUEST, 0.0) == Grant(2, REQUEST)


def test_a_lease_given_back_is_free_at_once_under_a_new_number() -> None:
    admission = CountAdmission(1)
    admission.on_connect(REQUEST, 0.0)
    admission.on_end(1, 5.0)
    assert admission.on_connect(REQUEST, 5.0) == Grant(2, REQUEST)


def test_giving_back_twice_or_what_was_never_held_is_a_bug() -> None:
    admission = CountAdmission(1)
    admission.on_connect(REQUEST, 0.0)
    admission.on_end(1, 1.0)
    with pytest.raises(AssertionError, match="lease 1 is not held"):
        admission.on_end(1, 1.0)
    with pytest.raises(AssertionError, match="lease 7"):
        admission.on_end(7, 1.0)


def test_without_a_limit_everyone_gets_in() -> None:
    admission = CountAdmission(None)
    assert all(isinstance(admission.on_connect(REQUEST, 0.0), Grant) for _ in range(1_000))


def test_a_limit_of_zero_refuses_everyone_for_the_longest_time() -> None:
    assert CountAdmission(0).on_connect(REQUEST, 0.0) == Refuse("capacity", 24_000)


def refusal(admission: CountAdmission, now: float) -> Refuse:
    answer = admission.on_connect(REQUEST, now)
    assert isinstance(answer, Refuse)
    return answer


def test_the_time_to_come_back_is_the_mean_length_over_the_sessions_running() -> None:
    admission = CountAdmission(4, expected_session_s=20.0)
    for _ in range(4):
        admission.on_connect(REQUEST, 0.0)
    assert refusal(admission, 0.0).retry_after_ms == 5_000


def test_the_mean_follows_the_lengths_observed() -> None:
    admission = CountAdmission(1, expected_session_s=60.0)
    for lease_id in range(1, 101):
        admission.on_connect(REQUEST, 100.0 * lease_id)
        admission.on_end(lease_id, 100.0 * lease_id + 10.0)
    assert admission.snapshot().mean_session_s == pytest.approx(10.0, abs=0.01)
    admission.on_connect(REQUEST, 0.0)
    assert refusal(admission, 0.0).retry_after_ms == pytest.approx(10_000, abs=10)


def test_a_handshake_that_died_is_no_session() -> None:
    admission = CountAdmission(1, expected_session_s=60.0)
    admission.on_connect(REQUEST, 0.0)
    admission.on_end(1, 0.5)
    assert admission.snapshot().mean_session_s == 60.0


def test_the_first_sessions_of_a_server_tell_already() -> None:
    """What was assumed before there was any counts for little once some have ended."""
    admission, now = CountAdmission(1), 0.0
    hints = []
    for lease_id in range(1, 6):
        admission.on_connect(REQUEST, now)
        hints.append(refusal(admission, now).retry_after_ms)
        now += 4.0
        admission.on_end(lease_id, now)
    assert hints[0] == 20_000 and hints[1] == 12_000 and hints[4] < 8_000
    assert hints == sorted(hints, reverse=True)


def test_sessions_that_still_run_count_by_how_long_they_have() -> None:
    """The first to end are the short ones: three that last are not forgotten for one that was over at once."""
    admission = CountAdmission(4, expected_session_s=20.0)
    for _ in range(4):
        admission.on_connect(REQUEST, 0.0)
    admission.on_end(1, 2.0)
    admission.on_connect(REQUEST, 2.0)
    assert refusal(admission, 2.0).retry_after_ms == ceil(1000 * (20.0 + 8.0) / 2 / 4)
    assert refusal(admission, 32.0).retry_after_ms > 3 * refusal(CountAdmission(0), 0.0).retry_after_ms / 4


def test_those_who_wait_go_first() -> None:
    """Whoever finds the room full comes back behind them."""
    admission = full(places=2, expected_session_s=5.0)
    admission.on_connect(WAITER, 0.0)
    assert refusal(admission, 0.0).retry_after_ms == 10_000
    admission.on_connect(WAITER, 0.0)
    assert refusal(admission, 0.0).retry_after_ms == 15_000


def test_a_caller_at_its_own_quota_waits_for_its_own_sessions() -> None:
    """However many others end meanwhile."""
    admission = SessionAdmission(Moody(), quotas=QuotaSettings(token=Quota(sessions=2)), expected_session_s=20.0)
    kiosk = SessionRequest(token="kiosk")
    for request in (kiosk, kiosk, *[REQUEST] * 8):
        assert isinstance(admission.on_connect(request, 0.0), Grant)
    assert admission.on_connect(kiosk, 0.0) == Refuse("token-sessions", 10_000)


def test_overload_is_over_by_time_alone() -> None:
    admission = CountAdmission(4)
    admission.on_connect(REQUEST, 0.0)
    admission.on_shed(True, 0.0)
    assert refusal(admission, 0.0) == Refuse("overload", round(1000 * OverloadSettings().dwell_s))


@pytest.mark.parametrize(("expected_session_s", "bound_ms"), [(0.001, 1_000), (86_400.0, 24_000)])
def test_the_time_to_come_back_is_bounded(expected_session_s: float, bound_ms: int) -> None:
    admission = CountAdmission(1, expected_session_s=expected_session_s)
    admission.on_connect(REQUEST, 0.0)
    assert refusal(admission, 0.0).retry_after_ms == bound_ms


@given(st.integers(0, 5), st.lists(st.booleans(), max_size=60))
def test_never_over_the_limit_and_no_lease_lost(limit: int, arrivals: list[bool]) -> None:
    admission = CountAdmission(limit)
    held: list[int] = []
    for now, arrives in enumerate(arrivals):
        if arrives:
            answer = admission.on_connect(REQUEST, float(now))
            assert isinstance(answer, Grant) is (len(held) < limit)
            if isinstance(answer, Grant):
                held.append(answer.lease_id)
        elif held:
            admission.on_end(held.pop(0), float(now))
        assert admission.snapshot().active == len(held) <= limit


def test_impossible_settings_are_refused_at_birth() -> None:
    with pytest.raises(ValueError, match="max_sessions"):
        CountAdmission(-1)
    with pytest.raises(ValueError, match="expected_session_s"):
        CountAdmission(1, expected_session_s=0.0)


# --- the order of the tests


class Moody:
    """A policy that refuses while it is told to."""

    name = "moody"

    def __init__(self, denied: Denied | None = None) -> None:
        self.denied = denied
        self.asked: list[SessionRequest] = []
        self.session_s = 0.0
        self.turns: list[tuple[Observed, int]] = []

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
        self.asked.append(request)
        return self.denied

    def on_granted(self, now: float) -> None: ...

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        self.turns.append((observed, in_flight))

    def on_session_time(self, seconds: float) -> None:
        self.session_s += seconds

    def uses(self, held: int, now: float) -> dict[str, float]:
        return {}


BURST = Denied(Reason.BURST)


def reason(answer: object) -> str | None:
    return answer.reason if isinstance(answer, Refuse) else None


def test_an_idle_server_takes_one_session_whatever_its_policy_says() -> None:
    admission = SessionAdmission(Moody(BURST))
    admission.on_shed(True, 0.0)
    assert isinstance(admission.on_connect(REQUEST, 0.0), Grant)
    assert reason(admission.on_connect(REQUEST, 0.0)) == "overload"
    admission.on_shed(False, 0.0)
    assert reason(admission.on_connect(REQUEST, 0.0)) == "burst"
    admission.on_end(1, 1.0)
    assert isinstance(admission.on_connect(REQUEST, 1.0), Grant)


def test_the_cap_holds_under_every_policy_and_quotas_go_before_it() -> None:
    quotas = QuotaSettings(token=Quota(sessions=1))
    admission = SessionAdmission(Moody(), max_sessions=1, quotas=quotas)
    kiosk = SessionRequest(token="kiosk")
    assert isinstance(admission.on_connect(kiosk, 0.0), Grant)
    assert reason(admission.on_connect(kiosk, 0.0)) == "token-sessions"
    assert reason(admission.on_connect(REQUEST, 0.0)) == "capacity"


def test_a_quota_binds_an_idle_server_too() -> None:
    admission = SessionAdmission(Moody(), quotas=QuotaSettings(token=Quota(per_minute=1)))
    kiosk = SessionRequest(token="kiosk")
    admission.on_connect(kiosk, 0.0)
    admission.on_end(1, 10.0)
    assert admission.on_connect(kiosk, 10.0) == Refuse("token-rate", 24_000)
    assert isinstance(admission.on_connect(kiosk, 60.0), Grant)


def test_a_policy_that_knows_when_says_when() -> None:
    admission = SessionAdmission(Moody(Denied(Reason.RATE, 7.5)))
    admission.on_connect(REQUEST, 0.0)
    assert admission.on_connect(REQUEST, 0.0) == Refuse("rate", 7_500)


def test_a_policy_is_told_of_turns_and_of_the_time_that_sessions_spend() -> None:
    policy = Moody()
    admission = SessionAdmission(policy)
    for now in (0.0, 2.0):
        admission.on_connect(REQUEST, now)
    turn = Observed(Outcome.SUCCESS, 0.1)
    admission.on_turn(turn, 5.0)
    admission.on_end(1, 6.0)
    admission.on_end(2, 16.0)
    admission.on_connect(REQUEST, 100.0)
    assert policy.turns == [(turn, 2)]
    assert policy.session_s == 2.0 + 2 * 3.0 + 2 * 1.0 + 10.0


# --- the waiting room

WAITER = SessionRequest(may_wait=True)


def full(places: int = 2, longest_s: float = 30.0, **more: Any) -> SessionAdmission:
    """One session that runs, and room for no other."""
    policy = LimitPolicy("count", FixedLimit(1), Reason.CAPACITY)
    admission = SessionAdmission(policy, room=RoomSettings(places, longest_s), **more)
    assert admission.on_connect(REQUEST, 0.0) == Grant(1, REQUEST)
    return admission


def test_who_may_wait_is_told_its_place_and_who_may_not_is_refused() -> None:
    admission = full()
    assert admission.on_connect(WAITER, 0.0) == Wait(1, 1, "capacity")
    assert admission.on_connect(REQUEST, 0.0) == Refuse("capacity", 24_000)
    assert admission.on_connect(WAITER, 0.0) == Wait(2, 2, "capacity")
    assert reason(admission.on_connect(WAITER, 0.0)) == "capacity"  # every chair is taken
    assert admission.snapshot().waiting == 2


def test_the_first_one_gets_the_place_and_the_others_move_up() -> None:
    admission = full()
    admission.on_connect(WAITER, 0.0)
    admission.on_connect(WAITER, 0.0)
    assert admission.on_end(1, 5.0) == [Admitted(1, Grant(2, WAITER)), Moved(2, 1)]
    assert admission.on_end(2, 6.0) == [Admitted(2, Grant(3, WAITER))]
    assert admission.next_deadline() is None and admission.snapshot().active == 1


def test_nobody_passes_who_waits() -> None:
    """Not even where the newcomer would have been let in: the first in line wants more than there is."""

    class Picky(Moody):
        def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
            return BURST if request.budget_ms is not None else None

    admission = SessionAdmission(Picky(), room=RoomSettings(4, 30.0))
    admission.on_connect(REQUEST, 0.0)
    hasty = SessionRequest(budget_ms=100.0, may_wait=True)
    assert admission.on_connect(hasty, 0.0) == Wait(1, 1, "burst")
    assert admission.on_connect(WAITER, 0.0) == Wait(2, 2, "burst")
    assert reason(admission.on_connect(REQUEST, 0.0)) == "burst"
    assert admission.on_leave(1, 1.0) == [Admitted(2, Grant(2, WAITER))]


def test_who_leaves_frees_its_chair_and_leaving_twice_is_nothing() -> None:
    admission = full()
    admission.on_connect(WAITER, 0.0)
    admission.on_connect(WAITER, 0.0)
    assert admission.on_leave(1, 1.0) == [Moved(2, 1)]
    assert admission.on_leave(1, 1.0) == []
    assert isinstance(admission.on_connect(WAITER, 1.0), Wait)


def test_who_has_waited_for_long_enough_is_refused() -> None:
    admission = full(longest_s=10.0)
    admission.on_connect(WAITER, 0.0)
    admission.on_connect(WAITER, 4.0)
    assert admission.on_timer(9.9) == []
    assert admission.on_timer(10.0) == [TurnedOut(1, Refuse("capacity", 24_000)), Moved(2, 1)]
    assert admission.on_timer(14.0) == [TurnedOut(2, Refuse("capacity", 24_000))]
    assert admission.next_deadline() is None and admission.snapshot().refused == 2


def test_what_passes_with_time_alone_is_noticed_soon() -> None:
    policy = Moody(BURST)
    admission = SessionAdmission(policy, room=RoomSettings(1, 30.0))
    admission.on_connect(REQUEST, 0.0)
    admission.on_connect(WAITER, 0.0)
    assert admission.next_deadline() == 0.25
    assert admission.on_timer(0.25) == [] and admission.next_deadline() == 0.5
    policy.denied = None
    assert admission.on_timer(0.5) == [Admitted(1, Grant(2, WAITER))]


def test_who_waits_counts_against_its_quota_and_a_quota_is_not_waited_for() -> None:
    admission = full(places=4, quotas=QuotaSettings(token=Quota(sessions=1)))
    kiosk = SessionRequest(token="kiosk", may_wait=True)
    assert isinstance(admission.on_connect(kiosk, 0.0), Wait)
    assert reason(admission.on_connect(kiosk, 0.0)) == "token-sessions"
    assert admission.on_end(1, 1.0) == [Admitted(1, Grant(2, kiosk))]
    assert reason(admission.on_connect(kiosk, 1.0)) == "token-sessions"
    admission.on_end(2, 2.0)
    assert isinstance(admission.on_connect(kiosk, 2.0), Grant)


class Visitors(RuleBasedStateMachine):
    """Any order of coming, leaving, ending and waiting: nobody is lost, nobody passes, no lease is left."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas = QuotaSettings(token=Quota(sessions=3))
        policy = LimitPolicy("count", FixedLimit(2), Reason.CAPACITY)
        self.admission = SessionAdmission(policy, quotas=self.quotas, room=RoomSettings(3, 5.0))
        self.now = 0.0
        self.held: dict[int, SessionRequest] = {}
        self.line: list[int] = []
        self.guests: dict[int, SessionRequest] = {}
        self.places: dict[int, int] = {}

    def follow(self, commands: list[RoomCommand]) -> None:
        for command in commands:
            match command:
                case Admitted(ticket, grant):
                    assert self.line.pop(0) == ticket, "first come, first served"
                    self.held[grant.lease_id] = grant.request
                case TurnedOut(ticket, _):
                    self.line.remove(ticket)
                case Moved(ticket, position):
                    self.places[ticket] = position

    @rule(token=st.sampled_from(["", "a", "b"]), may_wait=st.booleans(), after=st.floats(0.0, 2.0))
    def connect(self, token: str, may_wait: bool, after: float) -> None:
        self.now += after
        request = SessionRequest(token=token, may_wait=may_wait)
        match self.admission.on_connect(request, self.now):
            case Grant(lease_id, _):
                self.held[lease_id] = request
            case Wait(ticket, position):
                self.line.append(ticket)
                self.guests[ticket] = request
                self.places[ticket] = position
            case Refuse(why, _):
                assert why in ("capacity", "token-sessions")

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 9))
    def end(self, which: int) -> None:
        lease_id = sorted(self.held)[which % len(self.held)]
        del self.held[lease_id]
        self.follow(self.admission.on_end(lease_id, self.now))

    @precondition(lambda self: self.line)
    @rule(which=st.integers(0, 9))
    def leave(self, which: int) -> None:
        ticket = self.line.pop(which % len(self.line))
        self.follow(self.admission.on_leave(ticket, self.now))

    @rule(after=st.floats(0.0, 6.0))
    def timer(self, after: float) -> None:
        self.now += after
        self.follow(self.admission.on_timer(self.now))

    @invariant()
    def books_agree(self) -> None:
        snapshot = self.admission.snapshot()
        assert (snapshot.active, snapshot.waiting) == (len(self.held), len(self.line))
        assert len(self.held) <= 2 and len(self.line) <= 3
        assert not self.line or len(self.held) == 2, "nobody waits beside a free place"
        assert [self.places[ticket] for ticket in self.line] == [*range(1, len(self.line) + 1)]
        for name in ("a", "b"):
            takers = [*self.held.values(), *(self.guests[ticket] for ticket in self.line)]
            assert sum(request.token == name for request in takers) <= 3

    def teardown(self) -> None:
        while self.held:
            lease_id = next(iter(self.held))
            del self.held[lease_id]
            self.follow(self.admission.on_end(lease_id, self.now))
        snapshot = self.admission.snapshot()
        assert (snapshot.active, snapshot.waiting) == (0, 0) and self.admission.next_deadline() is None


TestVisitors = Visitors.TestCase
TestVisitors.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_races_of_n_plus_k_admit_exactly_n(seed: int) -> None:
    """N + k at once, some of them killed at once: never more than N, N while as many want in, none at the end."""
    rng = random.Random(seed)
    for _ in range(100):
        n, k = rng.randint(1, 12), rng.randint(1, 12)
        admission = CountAdmission(n)
        answers = [admission.on_connect(REQUEST, 0.0) for _ in range(n + k)]
        leases = [answer.lease_id for answer in answers if isinstance(answer, Grant)]
        assert len(leases) == n and len(set(leases)) == n
        rng.shuffle(leases)
        killed = rng.randint(0, n)
        for lease_id in leases[:killed]:
            admission.on_end(lease_id, 0.1)
        again = [admission.on_connect(REQUEST, 0.2) for _ in range(n + k)]
        leases = leases[killed:] + [answer.lease_id for answer in again if isinstance(answer, Grant)]
        assert len(leases) == n
        for lease_id in leases:
            admission.on_end(lease_id, 1.0)
        assert admission.snapshot().active == 0
