"""Who may come back: conversations whose connection was lost, each under a token that is good once.

    on_resume(token, owner, now)  somebody shows a token: Parked, InUse, or None
    on_unused(parked, now)        what was found could not be used after all: it is put back
    on_began(session, ...)        a session that may be resumed, maybe on what was found: its token is its own
    on_lost(session, kept, now)   its connection is gone: only what was said is kept, for so long
    on_ended(session)             it has ended for good, and its token with it

Parked conversations are bounded in number and in bytes; the oldest goes. A token is known by its SHA-256 alone:
nothing here can be shown to the wrong one, and how long a comparison takes tells nothing of any token, since nobody
can choose what a guess is hashed to. `now` is scheduler time, monotonic seconds.
"""

from __future__ import annotations

import hmac
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from voicepipe.core.history import Kept

Outcome = Literal["resumed", "unknown", "expired", "displaced"]
"""What became of a token that was shown, or of a conversation that was parked."""
OUTCOMES: tuple[Outcome, ...] = ("resumed", "unknown", "expired", "displaced")


@dataclass(frozen=True, slots=True)
class ParkingSettings:
    keep_s: float = 30.0
    most: int = 64
    """Conversations; 0 keeps none."""
    most_bytes: int = 8 << 20
    """Of all of them. One that is larger by itself is not kept."""


@dataclass(frozen=True, slots=True)
class Parked:
    key: bytes
    """SHA-256 of its token."""
    owner: str
    """Whose it is: who comes back has to be the same."""
    kept: Kept
    expires: float


@dataclass(frozen=True, slots=True)
class InUse:
    """The session of that token still has its connection, as far as is known here: it has to leave first."""

    session: str


@dataclass(frozen=True, slots=True)
class ParkingSnapshot:
    parked: int
    n_bytes: int
    live: int
    """Sessions that have a token."""
    outcomes: dict[Outcome, int]


@dataclass(frozen=True, slots=True)
class _Live:
    key: bytes
    owner: str


class Parking:
    def __init__(self, settings: ParkingSettings | None = None) -> None:
        self._settings = settings or ParkingSettings()
        self._live: dict[str, _Live] = {}
        self._parked: dict[bytes, Parked] = {}
        """In the order in which they expire."""
        self._n_bytes = 0
        self._outcomes: Counter[Outcome] = Counter()

    # events

    def on_began(self, session: str, owner: str, token: str, parked: Parked | None = None) -> None:
        self._live[session] = _Live(_digest(token), owner)
        self._outcomes["resumed"] += parked is not None

    def on_lost(self, session: str, kept: Kept, now: float) -> None:
        """One that has no token is not known, and is not kept."""
        self.on_timer(now)
        live = self._live.pop(session, None)
        if live is not None:
            self._keep(Parked(live.key, live.owner, kept, now + self._settings.keep_s))

    def on_ended(self, session: str) -> None:
        """One that is not known (any more) is no error."""
        self._live.pop(session, None)

    def on_resume(self, token: str, owner: str, now: float) -> Parked | InUse | None:
        """A conversation is found once: it is taken out. Another owner finds nothing, and changes nothing."""
        self.on_timer(now)
        key = _digest(token)
        parked = self._parked.get(key)
        if parked is not None and _same(parked.owner, owner):
            self._take(key)
            return parked
        for session, live in self._live.items():
            if hmac.compare_digest(live.key, key) and _same(live.owner, owner):
                return InUse(session)
        self._outcomes["unknown"] += 1
        return None

    def on_unused(self, parked: Parked, now: float) -> None:
        """It expires when it would have."""
        self._keep(parked)
        self.on_timer(now)

    def on_timer(self, now: float) -> None:
        for key, parked in list(self._parked.items()):
            if parked.expires > now:
                break
            self._take(key)
            self._outcomes["expired"] += 1

    def next_deadline(self) -> float | None:
        return next((parked.expires for parked in self._parked.values()), None)

    # questions

    @property
    def parked(self) -> tuple[Parked, ...]:
        """Those that are there, the next to expire first."""
        return tuple(self._parked.values())

    def snapshot(self) -> ParkingSnapshot:
        counts = {outcome: self._outcomes[outcome] for outcome in OUTCOMES}
        return ParkingSnapshot(len(self._parked), self._n_bytes, len(self._live), counts)

    # inside

    def _keep(self, parked: Parked) -> None:
        settings = self._settings
        if settings.most == 0 or parked.kept.n_bytes > settings.most_bytes:
            self._outcomes["displaced"] += 1
            return
        there = sorted((*self._parked.values(), parked), key=lambda one: one.expires)
        self._parked = {one.key: one for one in there}
        self._n_bytes += parked.kept.n_bytes
        while len(self._parked) > settings.most or self._n_bytes > settings.most_bytes:
            self._take(next(iter(self._parked)))
            self._outcomes["displaced"] += 1

    def _take(self, key: bytes) -> None:
        self._n_bytes -= self._parked.pop(key).kept.n_bytes


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogatepass")).digest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
