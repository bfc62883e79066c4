"""Estimators alone: what one turn does to a limit, and where many lead."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.limits import AimdLimit, FixedLimit, GradientLimit, Limit, TokenBucket, VegasLimit
from voicepipe.core.outcomes import Observed, Outcome


def met(latency_s: float = 0.1) -> Observed:
    return Observed(Outcome.SUCCESS, latency_s)


MISSED = Observed(Outcome.DROPPED, 0.4)
EMPTY = Observed(Outcome.IGNORED)


def test_a_fixed_limit_learns_nothing() -> None:
    limit = FixedLimit(3)
    for observed in (met(), MISSED, EMPTY):
        limit.on_turn(observed, 3)
    assert limit.limit == 3 and FixedLimit(None).limit == inf


# --- additive increase, multiplicative decrease


def test_aimd_adds_one_per_round_of_turns_and_takes_a_tenth_per_miss() -> None:
    limit = AimdLimit(4.0)
    for _ in range(4):
        limit.on_turn(met(), 4)
    assert limit.limit == pytest.approx(5.0, abs=0.1)
    limit = AimdLimit(10.0)
    limit.on_turn(MISSED, 1)
    assert limit.limit == 9.0


def test_aimd_does_not_grow_while_half_of_it_is_free() -> None:
    limit = AimdLimit(10.0)
    limit.on_turn(met(), 4)
    assert limit.limit == 10.0
    limit.on_turn(met(), 5)
    assert limit.limit == 10.1


# --- gradient


def test_gradient_grows_by_its_queue_while_latency_is_what_it_was() -> None:
    limit = GradientLimit(4.0, queue=1.0, smoothing=0.2)
    limit.on_turn(met(0.1), 4)
    assert limit.limit == pytest.approx(4.2)


def test_gradient_shrinks_in_proportion_to_the_latency_beyond_its_tolerance() -> None:
    limit = GradientLimit(10.0, queue=1.0, smoothing=1.0)
    for _ in range(2_000):
        limit.on_turn(met(0.1), 1)  # far from used: it does not grow, and learns the long average
    assert limit.limit == 10.0
    limit.on_turn(met(0.15), 10)
    assert limit.limit == pytest.approx(11.0, abs=0.01)  # within 1.5 times: no queue is seen
    limit = GradientLimit(10.0, queue=1.0, smoothing=1.0)
    for _ in range(2_000):
        limit.on_turn(met(0.1), 1)
    limit.on_turn(met(0.2), 10)
    assert limit.limit == pytest.approx(10.0 * 0.75 + 1.0, abs=0.05)


def test_gradient_never_takes_more_than_half_at_once_and_a_failed_turn_is_the_worst() -> None:
    for worst in (Observed(Outcome.DROPPED, 60.0), Observed(Outcome.DROPPED)):
        limit = GradientLimit(10.0, queue=0.0, smoothing=1.0)
        for _ in range(2_000):
            limit.on_turn(met(0.1), 1)
        limit.on_turn(worst, 10)
        assert limit.limit == pytest.approx(5.0)


# --- vegas


def test_vegas_grows_while_nobody_waits_and_shrinks_while_many_do() -> None:
    limit = VegasLimit(10.0)
    limit.on_turn(met(0.1), 10)
    assert limit.limit == 16.0  # queue 0: + 6 log10(10)
    limit = VegasLimit(10.0)
    limit.on_turn(met(0.1), 1)
    assert limit.limit == 10.0  # unused
    limit.on_turn(met(0.125), 10)
    assert limit.limit == 11.0  # queue ceil(10 * 0.2) = 2 < 3
    limit = VegasLimit(10.0)
    limit.on_turn(met(0.1), 1)
    limit.on_turn(met(0.4), 10)
    assert limit.limit == 9.0  # queue 8 > 6
    limit.on_turn(MISSED, 10)
    assert limit.limit == 8.0


def test_vegas_forgets_the_least_latency_after_a_while() -> None:
    limit = VegasLimit(1.0, most=1.0)
    limit.on_turn(met(0.05), 1)
    for _ in range(31):
        limit.on_turn(met(0.2), 1)
    limit = VegasLimit(4.0)
    limit.on_turn(met(0.01), 1)
    for _ in range(130):
        limit.on_turn(met(0.2), 1)
    before = limit.limit
    limit.on_turn(met(0.2), 4)
    assert limit.limit > before


# --- all of them


@pytest.mark.parametrize("make", [AimdLimit, GradientLimit, VegasLimit])
def test_an_empty_turn_says_nothing(make: type[AimdLimit]) -> None:
    limit = make(7.0)
    for _ in range(50):
        limit.on_turn(EMPTY, 7)
    assert limit.limit == 7.0


@pytest.mark.parametrize("make", [AimdLimit, GradientLimit, VegasLimit])
@given(
    st.lists(st.tuples(st.sampled_from(Outcome), st.one_of(st.none(), st.floats(0.0, 100.0)), st.integers(0, 300)))
)
def test_limits_stay_within_their_bounds(
    make: type[AimdLimit], turns: list[tuple[Outcome, float | None, int]]
) -> None:
    limit: Limit = make(4.0, least=2.0, most=50.0)
    for outcome, latency_s, in_flight in turns:
        limit.on_turn(Observed(outcome, latency_s), in_flight)
        assert 2.0 <= limit.limit <= 50.0


def saturated(limit: Limit, turns: int) -> float:
    """The mean limit over the last half, where as many as it allows are always there: a queue, in which beyond six
    in flight each one more costs a sixth of the latency, and beyond eight turns are late."""
    seen = []
    for _ in range(turns):
        in_flight = max(1, int(limit.limit))
        latency_s = 0.1 * max(1.0, in_flight / 6)
        limit.on_turn(Observed(Outcome.DROPPED if in_flight > 8 else Outcome.SUCCESS, latency_s), in_flight)
        seen.append(limit.limit)
    return sum(seen[turns // 2 :]) / (turns - turns // 2)


def test_a_device_that_serves_six_settles_aimd_and_vegas_around_it() -> None:
    assert 6.0 <= saturated(AimdLimit(1.0), 4_000) <= 9.5
    assert 6.0 <= saturated(VegasLimit(1.0), 4_000) <= 16.0


def test_gradient_follows_a_queue_that_never_drains() -> None:
    """Its long average does: it is made for load that falls now and then."""
    assert saturated(GradientLimit(1.0), 4_000) > 100.0


def test_impossible_bounds_are_refused_at_birth() -> None:
    with pytest.raises(ValueError, match="expected 1 <="):
        AimdLimit(0.5)


# --- tokens


def test_a_bucket_gives_its_burst_at_once_and_then_at_its_rate() -> None:
    bucket = TokenBucket(0.5, 2)
    for _ in range(2):
        assert bucket.wait_s(10.0) == 0.0
        bucket.take(10.0)
    assert bucket.wait_s(10.0) == 2.0 and bucket.wait_s(11.0) == 1.0
    with pytest.raises(AssertionError):
        bucket.take(11.0)
    assert bucket.wait_s(12.0) == 0.0
    bucket.take(12.0)
    assert not bucket.is_full(15.0) and bucket.is_full(16.0)


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(1.0, 3)
    bucket.take(0.0)
    taken = 0
    while bucket.wait_s(1_000.0) == 0.0:
        bucket.take(1_000.0)
        taken += 1
    assert taken == 3


@given(st.floats(0.01, 10.0), st.integers(1, 5), st.lists(st.floats(0.0, 5.0), max_size=60))
def test_in_any_span_no_more_than_burst_plus_rate(rate_hz: float, burst: int, gaps: list[float]) -> None:
    bucket, now, taken = TokenBucket(rate_hz, burst), 0.0, 0
    for gap in gaps:
        now += gap
        if bucket.wait_s(now) == 0.0:
            bucket.take(now)
            taken += 1
        assert taken <= burst + rate_hz * now + 1e-6


def test_a_bucket_without_a_rate_or_a_place_is_refused_at_birth() -> None:
    for rate_hz, burst in ((0.0, 1), (1.0, 0.5)):
        with pytest.raises(ValueError, match="rate"):
            TokenBucket(rate_hz, burst)
