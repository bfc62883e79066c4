"""The circuit breaker: three states, literal times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.breaker import Breaker, BreakerSettings, BreakerState, Pass, Wait

SETTINGS = BreakerSettings(failures=3, first_s=1.0, most_s=4.0)


def asked(breaker: Breaker, now: float) -> int:
    """The number under which the question was let through."""
    answer = breaker.on_ask(now)
    assert isinstance(answer, Pass)
    return answer.number


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(SETTINGS)
    for _ in range(3):
        breaker.on_failure(asked(breaker, now), now)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    """A success in between begins the count anew."""
    breaker = Breaker(SETTINGS)
    for good in (False, False, True, False, False):
        number = asked(breaker, 0.0)
        if good:
            breaker.on_success(number)
        else:
            breaker.on_failure(number, 0.0)
    assert breaker.snapshot().state is BreakerState.CLOSED
    breaker.on_failure(asked(breaker, 0.0), 0.0)
    assert breaker.snapshot().state is BreakerState.OPEN
    assert breaker.on_ask(0.25) == Wait(0.75)
    assert (breaker.snapshot().opened, breaker.snapshot().refused) == (1, 1)


def test_one_probe_goes_through_when_its_time_is_over() -> None:
    """All others wait for what it brings."""
    breaker = opened()
    probe = asked(breaker, 1.0)
    assert breaker.snapshot().state is BreakerState.HALF_OPEN
    assert isinstance(breaker.on_ask(1.0), Wait)
    breaker.on_success(probe)
    assert breaker.snapshot().state is BreakerState.CLOSED
    assert breaker.snapshot().failures == 0


def test_a_probe_that_fails_doubles_the_pause_up_to_its_cap() -> None:
    """And a success resets it: the next time it begins with the first pause."""
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(4):
        wait = breaker.on_ask(now)
        assert isinstance(wait, Wait)
        pauses.append(wait.seconds)
        now += wait.seconds
        breaker.on_failure(asked(breaker, now), now)
    assert pauses == [1.0, 2.0, 4.0, 4.0]
    breaker.on_success(asked(breaker, now + 4.0))
    for _ in range(3):
        breaker.on_failure(asked(breaker, 100.0), 100.0)
    assert breaker.on_ask(100.0) == Wait(1.0)


def test_a_probe_that_tells_nothing_leaves_the_next_one_to_try() -> None:
    """Its session went away, or was told that it has asked too often."""
    breaker = opened()
    breaker.on_nothing(asked(breaker, 1.0))
    breaker.on_success(asked(breaker, 1.0))
    assert breaker.snapshot().state is BreakerState.CLOSED


def test_what_was_asked_in_an_earlier_state_says_nothing() -> None:
    """Requests that were on their way when it opened fail one after the other, and do not keep it open."""
    breaker = Breaker(SETTINGS)
    numbers = [asked(breaker, 0.0) for _ in range(6)]
    for number in numbers:
        breaker.on_failure(number, 0.0)
    assert breaker.snapshot().opened == 1
    probe = asked(breaker, 1.0)
    breaker.on_success(numbers[0])
    breaker.on_nothing(numbers[0])
    assert breaker.snapshot().state is BreakerState.HALF_OPEN
    breaker.on_success(probe)
    assert breaker.snapshot().state is BreakerState.CLOSED


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.sampled_from("snf")), max_size=60))
def test_it_never_stays_shut(events: list[tuple[float, str]]) -> None:
    """Whatever happens, somebody may ask again once the longest pause is over; and while it is half open nobody
    passes beside the probe."""
    breaker, now = Breaker(SETTINGS), 0.0
    for step_s, what in events:
        now += step_s
        match breaker.on_ask(now):
            case Pass(number):
                if breaker.snapshot().state is BreakerState.HALF_OPEN:
                    assert isinstance(breaker.on_ask(now), Wait)
                if what == "s":
                    breaker.on_success(number)
                elif what == "f":
                    breaker.on_failure(number, now)
                else:
                    breaker.on_nothing(number)
            case Wait(seconds):
                assert 0.0 <= seconds <= SETTINGS.most_s
    assert isinstance(breaker.on_ask(now + SETTINGS.most_s), Pass)
