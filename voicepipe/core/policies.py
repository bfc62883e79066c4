"""Policies of session admission: whether one more may run beside those that do.

    check(request, held, now) -> Denied | None      may be asked at any time, changes nothing
    on_granted(now), on_turn(...), on_session_time(...)     what has happened meanwhile

A policy refuses; what it refuses by is estimated elsewhere (`core.limits`, `core.demand`), and what has become of a
turn is observed once for all (`core.outcomes`). Leases, quotas, the cap on sessions and the idle server are not its
business (`core.admission`). `held` are the requests of the sessions that run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Protocol

from voicepipe.core.calibration import Calibration, LateBudget, Room
from voicepipe.core.deadline import DeadlineSettings, LagGate, Learnt, Test, late_risk, loads, tightest, utilisation
from voicepipe.core.demand import Demand
from voicepipe.core.limits import Limit, TokenBucket
from voicepipe.core.outcomes import Observed, Outcome


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What is known of a session before it exists: the request, and nothing that came after it."""

    peer: str = ""
    """Address of the client."""
    budget_ms: float | None = None
    """Felt gap that the client asks for; None for the server's default."""
    route: str = ""
    """Which assistant is asked for; "" for the default one."""
    token: str = ""
    """Configured name of the token that was shown; "" without one."""
    address: str = ""
    """What quotas per address count by; "" where the address stands for many, as a proxy's on loopback."""
    may_wait: bool = False
    """The client can be kept waiting."""
    patience_s: float = inf
    """For how long, where the room's own limit is longer."""


@dataclass(frozen=True, slots=True)
class Denied:
    reason: str
    """A short word of a fixed set; a metric's label."""
    retry_s: float | None = None
    """Until it changes; None where that is up to somebody's leaving."""


class Policy(Protocol):
    name: str

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None: ...
    def on_granted(self, now: float) -> None: ...
    def on_turn(self, observed: Observed, in_flight: int) -> None: ...
    def on_session_time(self, seconds: float) -> None: ...

    def uses(self, held: int, now: float) -> Mapping[str, float]:
        """Of each limit, the share that is used; for metrics."""
        ...


class _Policy:
    """One that learns nothing."""

    def on_granted(self, now: float) -> None:
        """Nothing follows from it."""

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        """Nothing follows from it."""

    def on_session_time(self, seconds: float) -> None:
        """Nothing follows from it."""


class OpenPolicy(_Policy):
    """`none`: everybody."""

    name = "none"

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
        return None

    def uses(self, held: int, now: float) -> Mapping[str, float]:
        return {}


class RatePolicy(_Policy):
    """`token-bucket`: so many new sessions per minute, whatever becomes of them."""

    name = "token-bucket"

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
        wait_s = self._bucket.wait_s(now)
        return Denied("rate", wait_s) if wait_s else None

    def on_granted(self, now: float) -> None:
        if not self._bucket.wait_s(now):  # an idle server's session may have come without one
            self._bucket.take(now)

    def uses(self, held: int, now: float) -> Mapping[str, float]:
        return {"rate": float(self._bucket.wait_s(now) > 0.0)}


class LimitPolicy(_Policy):
    """`count`, `aimd`, `gradient`, `vegas`: at most as many sessions as a limit says."""

    def __init__(self, name: str, limit: Limit, reason: str) -> None:
        self.name = name
        self._limit = limit
        self._reason = reason

    @property
    def limit(self) -> float:
        return self._limit.limit

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
        return None if len(held) + 1 <= self._limit.limit else Denied(self._reason)

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        self._limit.on_turn(observed, in_flight)

    def uses(self, held: int, now: float) -> Mapping[str, float]:
        limit = self._limit.limit
        return {self._reason: held / limit if 0.0 < limit < inf else float(held > 0 and isfinite(limit))}


FULL = 0.9
"""Of what may be used, from which on turns in time tell that more may be."""


class DeadlinePolicy(_Policy):
    """`deadline`: as long as every turn can be expected to be in time (`core.deadline`)."""

    name = "deadline"

    def __init__(self, demand: Demand, settings: DeadlineSettings) -> None:
        self.demand = demand
        self.settings = settings
        self.calibration = Calibration()
        self.late = LateBudget(settings.late)
        self.room = Room(settings.late)
        self._lag = LagGate(settings.lag_s, settings.lag_again_s)

    def on_turn(self, observed: Observed, in_flight: int) -> None:
        """What was to be expected with so many sessions, against what became of it."""
        if observed.outcome is not Outcome.IGNORED:
            demand, settings = self.demand.snapshot(), self.settings
            risk = late_risk(in_flight, demand, settings, settings.budget_s)
            late = observed.outcome is Outcome.DROPPED
            self.calibration.on_turn(risk, late=late)
            self.late.on_turn(self.calibration.factor * risk)
            self.room.on_turn(late=late, full=utilisation(in_flight, demand, settings, self.room.share) > FULL)

    def on_lag(self, p99_s: float) -> None:
        self._lag.on_lag(p99_s)

    def on_session_time(self, seconds: float) -> None:
        self.demand.on_session_time(seconds)

    def check(self, request: SessionRequest, held: Collection[SessionRequest], now: float) -> Denied | None:
        asked_s = None if request.budget_ms is None else request.budget_ms / 1000
        used = self._loads(len(held) + 1, asked_s, held)
        return next((Denied(test.value) for test, load in used.items() if load > 1.0), None)

    def uses(self, held: int, now: float) -> Mapping[str, float]:
        return {test.value: load for test, load in self._loads(held, None, ()).items()}

    def _loads(self, n: int, asked_s: float | None, held: Collection[SessionRequest]) -> Mapping[Test, float]:
        demand, settings = self.demand.snapshot(), self.settings
        held_s = [other.budget_ms / 1000 for other in held if other.budget_ms is not None]
        budget_s = tightest(settings, demand, asked_s, held_s)
        learnt = Learnt(self.calibration.factor, self.late.allowed, self.room.share)
        return loads(n, demand, settings, budget_s, self._lag, learnt)
