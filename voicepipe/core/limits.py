"""How many sessions may run at once, estimated from what finished turns took; and a bucket of tokens.

These estimators know nothing of a turn's cost. They learn from latency that somebody has already suffered, and see
a long prompt and a short one alike: the outer net for where the cost model is wrong, and the rivals of the policy
`deadline` in experiments. Their formulas are those of the library concurrency-limits (Netflix), which were made for
hundreds of requests per second; here a sample is a turn, its latency the felt gap, and what is limited are
sessions. An estimate does not grow while less than half of it is used: of more, such a sample says nothing.
"""

from __future__ import annotations

from math import ceil, inf, log10
from typing import Protocol

from voicepipe.core.outcomes import Observed, Outcome


class Limit(Protocol):
    """An estimate. It refuses nobody; that is up to a policy."""

    @property
    def limit(self) -> float:
        """Sessions; `inf` where there is none."""
        ...

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        """A turn has ended while so many sessions ran."""
        ...


class FixedLimit:
    """One that learns nothing. None: no limit."""

    def __init__(self, limit: int | None) -> None:
        self.limit: float = inf if limit is None else limit

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        """Nothing follows from it."""


class _Bounded:
    """A smoothed estimate between two bounds."""

    def __init__(self, initial: float, least: float, most: float) -> None:
        if not 1.0 <= least <= initial <= most:
            raise ValueError(f"expected 1 <= {least} <= {initial} <= {most}")
        self.limit = initial
        self._least, self._most = least, most

    def _set(self, limit: float) -> None:
        self.limit = min(max(limit, self._least), self._most)


class AimdLimit(_Bounded):
    """Additive increase, multiplicative decrease (Chiu and Jain, 1989): one more per `limit` turns in time, so that
    a round of turns adds one; times `backoff` for each that was not (0.9, AIMDLimit of concurrency-limits)."""

    def __init__(
        self, initial: float = 4.0, *, least: float = 1.0, most: float = 200.0, backoff: float = 0.9
    ) -> None:
        super().__init__(initial, least, most)
        assert 0.5 <= backoff < 1.0
        self._backoff = backoff

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        if observed.outcome is Outcome.DROPPED:
            self._set(self.limit * self._backoff)
        elif observed.outcome is Outcome.SUCCESS and 2 * in_flight >= self.limit:
            self._set(self.limit + 1.0 / self.limit)


class GradientLimit(_Bounded):
    """Gradient2Limit of concurrency-limits: latency against its own long average.

        g = clamp(tolerance * long / short, 0.5, 1)      limit <- limit + smoothing (limit g + queue - limit)

    tolerance 1.5, smoothing 0.2, a long average over 600 samples that is pulled down by 5 % where it is more than
    twice the newest (after an overload). `queue`, the growth per step while all is well, is 4 there, for limits of
    20 to 200; sessions are fewer. A turn that had no latency to show, because it
    failed, counts as the steepest gradient. Where load never falls, the long average follows the queue, and the
    limit drifts upwards.
    """

    LONG_SAMPLES = 600
    WARM_UP = 10

    def __init__(
        self,
        initial: float = 4.0,
        *,
        least: float = 1.0,
        most: float = 200.0,
        queue: float = 1.0,
        tolerance: float = 1.5,
        smoothing: float = 0.2,
    ) -> None:
        super().__init__(initial, least, most)
        assert tolerance >= 1.0 and 0.0 < smoothing <= 1.0 and queue >= 0.0
        self._queue, self._tolerance, self._smoothing = queue, tolerance, smoothing
        self._long_s = 0.0
        self._samples = 0

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        if observed.outcome is Outcome.IGNORED:
            return
        gradient = 0.5 if observed.latency_s is None else self._gradient(observed.latency_s)
        if 2 * in_flight < self.limit and gradient == 1.0:
            return
        target = self.limit * gradient + self._queue
        self._set(self.limit + self._smoothing * (target - self.limit))

    def _gradient(self, short_s: float) -> float:
        self._samples += 1
        weight = 1.0 / self._samples if self._samples <= self.WARM_UP else 2.0 / (self.LONG_SAMPLES + 1)
        self._long_s += weight * (short_s - self._long_s)
        if self._long_s > 2.0 * short_s:
            self._long_s *= 0.95
        return min(max(self._tolerance * self._long_s / max(short_s, 1e-9), 0.5), 1.0)


class VegasLimit(_Bounded):
    """VegasLimit of concurrency-limits, after TCP Vegas (Brakmo and Peterson, 1995): how many of those in flight
    only wait, by how much latency exceeds the least one seen.

        queue = ceil(limit (1 - least / latency))        step = max(1, log10 limit)
        queue <= step -> limit + 6 step;   < 3 step -> limit + step;   > 6 step, or dropped -> limit - step

    The least latency is forgotten after 30 * limit turns, because the machine may have changed.
    """

    PROBE = 30

    def __init__(self, initial: float = 4.0, *, least: float = 1.0, most: float = 200.0) -> None:
        super().__init__(initial, least, most)
        self._least_s = inf
        self._since_probe = 0

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        if observed.outcome is Outcome.IGNORED:
            return
        step = max(1.0, log10(self.limit))
        latency_s = observed.latency_s
        if latency_s is not None:
            self._note(latency_s)
        if observed.outcome is Outcome.DROPPED or latency_s is None:
            self._set(self.limit - step)
            return
        queue = ceil(self.limit * (1.0 - self._least_s / max(latency_s, 1e-9)))
        if queue > 6.0 * step:
            self._set(self.limit - step)
        elif 2 * in_flight >= self.limit and queue < 3.0 * step:
            self._set(self.limit + (6.0 * step if queue <= step else step))

    def _note(self, latency_s: float) -> None:
        self._since_probe += 1
        if self._since_probe > self.PROBE * self.limit:
            self._since_probe, self._least_s = 0, inf
        self._least_s = min(self._least_s, latency_s)


class TokenBucket:
    """`rate_hz` tokens per second, of which `burst` are kept at most; full at first."""

    def __init__(self, rate_hz: float, burst: float) -> None:
        if not (rate_hz > 0.0 and burst >= 1.0):
            raise ValueError(f"expected a positive rate and room for one token, not {rate_hz} and {burst}")
        self._rate_hz, self._burst = rate_hz, burst
        self._tokens = burst
        self._at: float | None = None

    def wait_s(self, now: float) -> float:
        """Until there is a token; 0 where there is one."""
        self._fill(now)
        return max(0.0, (1.0 - self._tokens) / self._rate_hz)

    def take(self, now: float) -> None:
        """AssertionError where `wait_s` is not 0."""
        assert self.wait_s(now) == 0.0, "nobody takes what is not there"
        self._tokens -= 1.0

    def is_full(self, now: float) -> bool:
        self._fill(now)
        return self._tokens >= self._burst

    def _fill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + self._rate_hz * max(0.0, now - self._at))
        self._at = now
        if 1.0 - self._tokens < 1e-9:  # what rounding has kept from a whole one
            self._tokens = max(self._tokens, 1.0)
