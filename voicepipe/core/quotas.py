"""How much of a server one token or one address may take: sessions at once, and sessions per minute.

Asked before anything else, so that no single caller stands in the way of the tests that are about all of them. Who
waits in the waiting room counts as well. Names of tokens are configured; addresses are not, so that what is kept of
them is bounded: those without a session whose minute is over are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from voicepipe.core.limits import TokenBucket

MAX_KNOWN = 4096
"""Addresses and tokens remembered. Past that, the ones without a session are forgotten, oldest first."""


@dataclass(frozen=True, slots=True)
class Quota:
    """None: unlimited."""

    sessions: int | None = None
    per_minute: int | None = None

    def __post_init__(self) -> None:
        if any(most is not None and most < 1 for most in (self.sessions, self.per_minute)):
            raise ValueError("a quota is at least 1")


UNLIMITED = Quota()


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    token: Quota = UNLIMITED
    """For each token that has none of its own."""
    tokens: Mapping[str, Quota] = field(default_factory=dict)
    """By name."""
    address: Quota = UNLIMITED


@dataclass(frozen=True, slots=True)
class Exceeded:
    reason: str
    """"token-sessions", "token-rate", "address-sessions" or "address-rate"."""
    retry_s: float | None
    """Until there is a place again; None where one of the caller's own sessions has to end."""
    held: int = 0
    """Of that quota, sessions and places in the waiting room that are taken; 0 where time alone has to pass."""


@dataclass(slots=True)
class _Account:
    quota: Quota
    bucket: TokenBucket | None
    held: int = 0

    def exceeded(self, now: float, whose: str) -> Exceeded | None:
        if self.quota.sessions is not None and self.held >= self.quota.sessions:
            return Exceeded(f"{whose}-sessions", None, self.held)
        wait_s = 0.0 if self.bucket is None else self.bucket.wait_s(now)
        return Exceeded(f"{whose}-rate", wait_s) if wait_s else None


class Quotas:
    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._accounts: dict[tuple[str, str], _Account] = {}

    def __len__(self) -> int:
        """Accounts kept."""
        return len(self._accounts)

    def check(self, token: str, address: str, now: float) -> Exceeded | None:
        """The first quota that one more session would exceed. "" is none: a caller without a token, or an address
        that stands for many."""
        for whose, account in self._of(token, address, now):
            exceeded = account.exceeded(now, whose)
            if exceeded is not None:
                return exceeded
        return None

    def take(self, token: str, address: str, now: float) -> None:
        """After a `check` at the same instant that found nothing."""
        for _, account in self._of(token, address, now):
            account.held += 1
            if account.bucket is not None:
                account.bucket.take(now)

    def give_back(self, token: str, address: str, now: float) -> None:
        """The session is over; what it took of the minute stays taken."""
        for _, account in self._of(token, address, now):
            assert account.held > 0, "what is given back was taken"
            account.held -= 1

    def _of(self, token: str, address: str, now: float) -> list[tuple[str, _Account]]:
        settings = self._settings
        asked = (
            ("token", token, settings.tokens.get(token, settings.token)),
            ("address", address, settings.address),
        )
        return [
            (whose, self._account((whose, name), quota, now))
            for whose, name, quota in asked
            if name and quota != UNLIMITED
        ]

    def _account(self, key: tuple[str, str], quota: Quota, now: float) -> _Account:
        account = self._accounts.get(key)
        if account is None:
            self._make_room(now)
            rate = quota.per_minute
            bucket = None if rate is None else TokenBucket(rate / 60.0, rate)
            account = self._accounts[key] = _Account(quota, bucket)
        return account

    def _make_room(self, now: float) -> None:
        """Half of it at a time, so that a flood of addresses does not walk through all of them each time."""
        if len(self._accounts) < MAX_KNOWN:
            return
        idle = [key for key, account in self._accounts.items() if not account.held]
        for key in idle[: ceil(len(idle) / 2)]:
            del self._accounts[key]
