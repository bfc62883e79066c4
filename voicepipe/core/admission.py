"""Who gets in: one decision per connection, taken before anything is made for it.

    on_connect(request, now) -> Grant | Refuse
    on_end(lease_id, now)

A grant is a lease: it is given back exactly once, whatever becomes of the session. Policies differ
in when they refuse and agree on everything else. `now` is scheduler time, monotonic seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What is known of a session before it exists: the request, and nothing that came after it."""

    peer: str = ""
    """Address of the client."""
    budget_ms: float | None = None
    """Felt gap that the client asks for; None for the server's default."""
    route: str = ""
    """Which assistant is asked for; "" for the default one."""


@dataclass(frozen=True, slots=True)
class Grant:
    lease_id: int
    """Serial number, from 1."""
    request: SessionRequest


@dataclass(frozen=True, slots=True)
class Refuse:
    reason: str
    """A short word of a fixed set, such as "capacity"; a metric's label."""
    retry_after_ms: int
    """When it is worth asking again."""


@dataclass(frozen=True, slots=True)
class AdmissionSnapshot:
    active: int
    limit: int | None
    """None: no limit on the number of sessions."""
    granted: int
    refused: int
    mean_session_s: float


class Admission(Protocol):
    """The seam. Not thread-safe; every call is on the loop's thread."""

    def on_connect(self, request: SessionRequest, now: float) -> Grant | Refuse: ...

    def on_end(self, lease_id: int, now: float) -> None:
        """Give the lease back. AssertionError where it is not held."""
        ...

    def snapshot(self) -> AdmissionSnapshot: ...


class CountAdmission:
    """At most `max_sessions` at a time; no limit where that is None.

    With n sessions of mean length L running, the next is expected to end within L / n, whatever
    their ages: session lengths are too uneven for ages to tell much. The mean starts at
    `expected_session_s` and follows what is observed; a session shorter than a second was none.
    """

    RETRY_MIN_MS = 1_000
    RETRY_MAX_MS = 30_000
    _WEIGHT = 0.1  # of a new observation: the mean forgets after some ten sessions
    _SHORTEST_S = 1.0

    def __init__(self, max_sessions: int | None, *, expected_session_s: float = 60.0) -> None:
        if max_sessions is not None and max_sessions < 0:
            raise ValueError(f"max_sessions must not be negative, not {max_sessions}")
        if not expected_session_s > 0.0:
            raise ValueError(f"expected_session_s must be positive, not {expected_session_s}")
        self._limit = max_sessions
        self._mean_s = expected_session_s
        self._started_at: dict[int, float] = {}
        self._granted = 0
        self._refused = 0

    def on_connect(self, request: SessionRequest, now: float) -> Grant | Refuse:
        if self._limit is not None and len(self._started_at) >= self._limit:
            self._refused += 1
            return Refuse("capacity", self._retry_after_ms())
        self._granted += 1
        self._started_at[self._granted] = now
        return Grant(self._granted, request)

    def on_end(self, lease_id: int, now: float) -> None:
        started_at = self._started_at.pop(lease_id, None)
        if started_at is None:
            raise AssertionError(f"lease {lease_id} is not held")
        length_s = now - started_at
        if length_s >= self._SHORTEST_S:
            self._mean_s += self._WEIGHT * (length_s - self._mean_s)

    def snapshot(self) -> AdmissionSnapshot:
        return AdmissionSnapshot(
            active=len(self._started_at),
            limit=self._limit,
            granted=self._granted,
            refused=self._refused,
            mean_session_s=self._mean_s,
        )

    def _retry_after_ms(self) -> int:
        active = len(self._started_at)
        expected_ms = math.ceil(1000.0 * self._mean_s / active) if active else self.RETRY_MAX_MS
        return min(max(expected_ms, self.RETRY_MIN_MS), self.RETRY_MAX_MS)
