"""When a client tries again: full jitter, five times, sooner or later than that only where the server says so."""

from __future__ import annotations

import pytest

from voicepipe.errors import ConnectionLost, Refused, ServerUnreachable
from voicepipe_client.backoff import Backoff, Outage, may_return

NOBODY = ServerUnreachable("nobody answers")
FULL = Refused("capacity", 2_000)


def waits(outage: Outage, times: int) -> list[float | None]:
    return [outage.next_wait_s(), *(outage.on_failed(NOBODY, 0.0) for _ in range(times))]


def test_waits_grow_to_a_cap_and_the_fifth_failure_is_the_last() -> None:
    """The longest ones: 150 ms, half as long again each time."""
    assert [Backoff().most_s(n) for n in (0, 1, 2, 20)] == pytest.approx([0.15, 0.225, 0.3375, 3.0])
    always_longest = Outage(Backoff(), lambda: 1.0, 0.0)
    assert waits(always_longest, 5) == [
        *(pytest.approx(0.15 * 1.5**n) for n in range(5)),
        None,
    ]
    assert always_longest.tries == 5


def test_any_part_of_a_wait_may_be_drawn() -> None:
    """None at all, too: who draws is far from the others."""
    assert waits(Outage(Backoff(), lambda: 0.0, 0.0), 2) == [0.0, 0.0, 0.0]
    assert Outage(Backoff(), lambda: 0.5, 0.0).next_wait_s() == pytest.approx(0.075)


def test_a_refusal_is_waited_out_and_is_no_failure() -> None:
    """As long as the server says; until nothing can be kept any more."""
    outage = Outage(Backoff(), lambda: 1.0, now=100.0)
    outage.next_wait_s()
    assert [outage.on_failed(FULL, now) for now in (101.0, 110.0, 120.0, 128.0)] == [2.0] * 4
    assert outage.on_failed(FULL, 128.1) is None
    assert outage.tries == 5
    assert waits(outage, 4)[-1] is not None


def test_a_refusal_without_a_time_waits_like_a_failure() -> None:
    outage = Outage(Backoff(), lambda: 1.0, 0.0)
    assert outage.on_failed(Refused("draining", 0), 0.0) == pytest.approx(0.15)


def test_a_connection_that_is_lost_again_counts_as_a_failure() -> None:
    outage = Outage(Backoff(tries=1), lambda: 0.0, 0.0)
    assert outage.on_failed(ConnectionLost("lost"), 0.0) is None


def test_a_connection_that_does_not_last_counts_as_a_failure() -> None:
    """A server that lets everybody in and ends at once is not called for ever; one that has lasted begins anew."""
    outage = Outage(Backoff(tries=3), lambda: 1.0, 0.0)
    seen = []
    for lost_at in (1.0, 2.0, 3.0):
        seen.append(outage.next_wait_s())
        outage.on_back(lost_at - 0.5)
        outage = Outage(Backoff(tries=3), lambda: 1.0, lost_at, outage)
    assert seen == [pytest.approx(0.15 * 1.5**n) for n in range(3)] and outage.next_wait_s() is None
    outage.on_back(3.0)
    assert Outage(Backoff(tries=3), lambda: 1.0, 13.0, outage).next_wait_s() == pytest.approx(0.15)


@pytest.mark.parametrize("code", [None, 1000, 1001, 1006, 1011, 1012, 1013])
def test_after_these_it_may_come_back(code: int | None) -> None:
    assert may_return(code)


@pytest.mark.parametrize("code", [1002, 1003, 1007, 1008, 1009, 4400, 4408, 4409, 4410, 4999])
def test_after_these_it_may_not(code: int) -> None:
    """It would be closed again, or somebody else has come back in its place."""
    assert not may_return(code)
