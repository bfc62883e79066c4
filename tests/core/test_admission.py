"""Counting admission: exactly N of N + k, every lease back once, an honest time to come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.admission import Admission, CountAdmission, Grant, Refuse, SessionRequest

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
    assert CountAdmission(0).on_connect(REQUEST, 0.0) == Refuse("capacity", 30_000)


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


@pytest.mark.parametrize(("expected_session_s", "bound_ms"), [(0.001, 1_000), (86_400.0, 30_000)])
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
