"""Who gets in: one decision per connection, taken before anything is made for it.

    on_connect(request, now) -> Grant | Refuse | Wait
    on_end(lease_id, now), on_leave(ticket, now), on_turn(observed, now), on_timer(now) -> list[RoomCommand]

A grant is a lease: it is given back exactly once, whatever becomes of the session. Deciding and taking are one
call, so that nobody comes in between. In this order, and the first that says no is the reason:

1. the quotas of the caller's token and address;
2. the cap on sessions, which holds under every policy;
3. an idle server takes one session, whatever its policy says: a machine too slow for its budget serves it all the
same; 4. a server that sheds load takes nobody;
5. the policy.

Who is refused by 2 to 5 may wait, where there is a waiting room: first come, first served, so that while somebody
waits nobody passes. `now` is scheduler time, monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from typing import Protocol

from voicepipe.core.limits import FixedLimit
from voicepipe.core.outcomes import Observed
from voicepipe.core.policies import Denied, LimitPolicy, OpenPolicy, Policy, SessionRequest
from voicepipe.core.quotas import Exceeded, Quotas, QuotaSettings
from voicepipe.core.room import Room, RoomSettings

__all__ = [
    "Admission",
    "AdmissionSnapshot",
    "Admitted",
    "CountAdmission",
    "Grant",
    "Moved",
    "Reason",
    "Refuse",
    "RoomCommand",
    "SessionAdmission",
    "SessionRequest",
    "TurnedOut",
    "Wait",
]


class Reason(StrEnum):
    """Every reason for which admission refuses."""

    CAPACITY = "capacity"  # the cap on sessions, or the policy `count`
    OVERLOAD = "overload"
    UTILISATION = "utilisation"
    BURST = "burst"
    MEMORY = "memory"
    LOOP_LAG = "loop-lag"
    LIMIT = "limit"  # one that an adaptive policy has estimated
    RATE = "rate"
    TOKEN_SESSIONS = "token-sessions"
    TOKEN_RATE = "token-rate"
    ADDRESS_SESSIONS = "address-sessions"
    ADDRESS_RATE = "address-rate"

    @property
    def is_quota(self) -> bool:
        """The caller's own doing: HTTP 429 instead of 503, and no place in the waiting room."""
        return self.value.startswith(("token-", "address-"))


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
class Wait:
    ticket: int
    """Serial number, from 1."""
    position: int
    """1 is next."""
    reason: str
    """Why there was no lease at once."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The wait is over, and the lease is taken."""

    ticket: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class Moved:
    ticket: int
    position: int


@dataclass(frozen=True, slots=True)
class TurnedOut:
    """Its longest wait is over, in vain."""

    ticket: int
    refuse: Refuse


RoomCommand = Admitted | Moved | TurnedOut


@dataclass(frozen=True, slots=True)
class AdmissionSnapshot:
    active: int
    limit: int | None
    """None: no limit on the number of sessions."""
    granted: int
    refused: int
    """Those that waited in vain included."""
    mean_session_s: float
    policy: str = "count"
    waiting: int = 0
    uses: Mapping[str, float] = field(default_factory=dict)
    """Of each limit of the policy, the share that is used."""


class Admission(Protocol):
    """The seam. Not thread-safe; every call is on the loop's thread."""

    def on_connect(self, request: SessionRequest, now: float) -> Grant | Refuse | Wait: ...

    def on_end(self, lease_id: int, now: float) -> list[RoomCommand]:
        """Give the lease back. AssertionError where it is not held."""
        ...

    def on_leave(self, ticket: int, now: float) -> list[RoomCommand]:
        """Who waited has gone. Nothing where nobody waits with that ticket any more."""
        ...

    def on_turn(self, observed: Observed, now: float) -> list[RoomCommand]: ...
    def on_shed(self, shed: bool, now: float) -> list[RoomCommand]: ...
    def next_deadline(self) -> float | None: ...
    def on_timer(self, now: float) -> list[RoomCommand]: ...
    def snapshot(self, now: float | None = None) -> AdmissionSnapshot: ...


class SessionAdmission:
    """Leases under a policy.

    When to come back. Where time alone has to pass, it is that time: until a rate allows the next one, or until
    overload can be over. Where somebody has to leave first: with n sessions of mean length L running, one ends
    every L / n, and those that wait in the room take the first ends; for a quota, n are the caller's own. L is
    the time that sessions have run, those that still do included, over the number of them that have ended (the
    likeliest mean of exponential lengths, of which some are seen before their end; the mean of those that have
    ended would be that of the short ones). Both fade with each end. To begin with, it is as if one
    session of `expected_session_s` had ended; one that is shorter than a second was none.

    All of it is within RETRY_MIN_MS and RETRY_MAX_MS: to ask again costs a server less than to stand idle.
    """

    RETRY_MIN_MS = 1_000
    RETRY_MAX_MS = 24_000
    """Half a minute, spread by a quarter."""
    OVERLOAD_S = 5.0
    """A level of overload is not left sooner (`core.overload`)."""
    LOOK_AGAIN_S = 0.25
    """While somebody waits: what has passed with time alone is noticed so soon."""
    _KEPT = 0.9  # at each end: the mean forgets after some ten sessions
    _SHORTEST_S = 1.0

    def __init__(
        self,
        policy: Policy,
        *,
        max_sessions: int | None = None,
        quotas: QuotaSettings | None = None,
        room: RoomSettings | None = None,
        expected_session_s: float = 20.0,
    ) -> None:
        if max_sessions is not None and max_sessions < 0:
            raise ValueError(f"max_sessions must not be negative, not {max_sessions}")
        if not expected_session_s > 0.0:
            raise ValueError(f"expected_session_s must be positive, not {expected_session_s}")
        self._policy = policy
        self._limit = max_sessions
        self._quotas = Quotas(quotas or QuotaSettings())
        self._room: Room[SessionRequest] = Room(room or RoomSettings())
        self._ran_s, self._ends = expected_session_s, 1.0
        """Time that sessions have run, and how many have ended."""
        self._held: dict[int, tuple[SessionRequest, float]] = {}
        """Of each lease, the request and when it was granted."""
        self._granted = self._refused = self._tickets = 0
        self._sheds = False
        self._counted_to: float | None = None
        """Up to when session time has been counted."""
        self._look_at: float | None = None

    # events

    def on_connect(self, request: SessionRequest, now: float) -> Grant | Refuse | Wait:
        self._count_time(now)
        denied = self._exceeded(request, now)
        if denied is not None:
            return self._refuse(denied)
        first = self._room.first
        denied = self._denied(request if first is None else first.guest, now)
        if denied is None and first is None:
            self._quotas.take(request.token, request.address, now)
            return self._grant(request, now)
        reason = Denied(Reason.CAPACITY) if denied is None else denied  # else: the next in line is about to go
        if not (request.may_wait and self._room.has_place):
            return self._refuse(reason)
        self._quotas.take(request.token, request.address, now)
        self._tickets += 1
        if self._look_at is None:
            self._look_at = now + self.LOOK_AGAIN_S
        position = self._room.enter(self._tickets, request, now, request.patience_s)
        return Wait(self._tickets, position, reason.reason)

    def on_end(self, lease_id: int, now: float) -> list[RoomCommand]:
        self._count_time(now)
        held = self._held.pop(lease_id, None)
        if held is None:
            raise AssertionError(f"lease {lease_id} is not held")
        request, granted_at = held
        self._quotas.give_back(request.token, request.address, now)
        length_s = now - granted_at
        if length_s >= self._SHORTEST_S:
            self._ran_s, self._ends = self._KEPT * self._ran_s, self._KEPT * (self._ends + 1.0)
        else:
            self._ran_s -= length_s
        return self._serve_room(now)

    def on_leave(self, ticket: int, now: float) -> list[RoomCommand]:
        request = self._room.leave(ticket)
        if request is None:
            return []
        self._quotas.give_back(request.token, request.address, now)
        return self._serve_room(now)

    def on_turn(self, observed: Observed, now: float) -> list[RoomCommand]:
        self._count_time(now)
        self._policy.on_turn(observed, len(self._held))
        return self._serve_room(now)

    def on_shed(self, shed: bool, now: float) -> list[RoomCommand]:
        """The server is overloaded, or is so no more."""
        self._sheds = shed
        return self._serve_room(now)

    # time

    def next_deadline(self) -> float | None:
        deadlines = [self._look_at, self._room.next_deadline()]
        return min((at for at in deadlines if at is not None), default=None)

    def on_timer(self, now: float) -> list[RoomCommand]:
        self._count_time(now)
        if self._look_at is not None and now >= self._look_at:
            self._look_at = now + self.LOOK_AGAIN_S
        commands: list[RoomCommand] = []
        for waiting in self._room.overdue(now):
            self._room.leave(waiting.ticket)
            request = waiting.guest
            self._quotas.give_back(request.token, request.address, now)
            denied = self._denied(request, now) or Denied(Reason.CAPACITY)
            commands.append(TurnedOut(waiting.ticket, self._refuse(denied)))
        return commands + self._serve_room(now)

    def snapshot(self, now: float | None = None) -> AdmissionSnapshot:
        """`now`: for what time alone changes in `uses`, which is empty without."""
        return AdmissionSnapshot(
            active=len(self._held),
            limit=self._limit,
            granted=self._granted,
            refused=self._refused,
            mean_session_s=self._mean_s,
            policy=self._policy.name,
            waiting=len(self._room),
            uses={} if now is None else self._policy.uses(len(self._held), now),
        )

    # inner

    def _exceeded(self, request: SessionRequest, now: float) -> Denied | None:
        exceeded: Exceeded | None = self._quotas.check(request.token, request.address, now)
        if exceeded is None:
            return None
        own_s = self._mean_s / exceeded.held if exceeded.retry_s is None else exceeded.retry_s
        return Denied(exceeded.reason, own_s)

    def _denied(self, request: SessionRequest, now: float) -> Denied | None:
        if self._limit is not None and len(self._held) >= self._limit:
            return Denied(Reason.CAPACITY)
        if not self._held:
            return None
        if self._sheds:
            return Denied(Reason.OVERLOAD, self.OVERLOAD_S)
        return self._policy.check(request, self._requests, now)

    @property
    def _mean_s(self) -> float:
        return self._ran_s / self._ends

    @property
    def _requests(self) -> Collection[SessionRequest]:
        return [request for request, _ in self._held.values()]

    def _grant(self, request: SessionRequest, now: float) -> Grant:
        self._granted += 1
        self._held[self._granted] = (request, now)
        self._policy.on_granted(now)
        return Grant(self._granted, request)

    def _serve_room(self, now: float) -> list[RoomCommand]:
        commands: list[RoomCommand] = []
        while (first := self._room.first) is not None and self._denied(first.guest, now) is None:
            self._room.leave(first.ticket)  # its quota goes over to the lease
            commands.append(Admitted(first.ticket, self._grant(first.guest, now)))
        if self._room.first is None:
            self._look_at = None
        return commands + [Moved(ticket, position) for ticket, position in self._room.moved()]

    def _refuse(self, denied: Denied) -> Refuse:
        self._refused += 1
        return Refuse(Reason(denied.reason), self._retry_after_ms(denied.retry_s))

    def _retry_after_ms(self, retry_s: float | None) -> int:
        if retry_s is None:
            active, ends = len(self._held), len(self._room) + 1
            retry_s = self._mean_s * ends / active if active else self.RETRY_MAX_MS / 1000
        return min(max(ceil(1000.0 * retry_s), self.RETRY_MIN_MS), self.RETRY_MAX_MS)

    def _count_time(self, now: float) -> None:
        if self._counted_to is not None and self._held:
            passed_s = len(self._held) * max(0.0, now - self._counted_to)
            self._ran_s += passed_s
            self._policy.on_session_time(passed_s)
        self._counted_to = now


class CountAdmission(SessionAdmission):
    """At most `max_sessions` at a time, and no other test; no limit where that is None."""

    def __init__(self, max_sessions: int | None, *, expected_session_s: float = 20.0) -> None:
        policy = LimitPolicy("count", FixedLimit(max_sessions), Reason.CAPACITY)
        super().__init__(
            policy if max_sessions is not None else OpenPolicy(),
            max_sessions=max_sessions,
            expected_session_s=expected_session_s,
        )
