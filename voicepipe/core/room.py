"""The waiting room: who came first goes first, nobody waits longer than promised, and there are only so many
chairs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoomSettings:
    places: int = 0
    """0: nobody waits."""
    longest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.places < 0 or not self.longest_s > 0.0:
            raise ValueError("a room has no negative places, and a wait some length")


@dataclass(frozen=True, slots=True)
class Waiting(Generic[T]):
    ticket: int
    guest: T
    until: float


class Room(Generic[T]):
    """Positions count from 1, which is next."""

    def __init__(self, settings: RoomSettings) -> None:
        self._settings = settings
        self._line: dict[int, Waiting[T]] = {}
        self._told: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._line)

    @property
    def has_place(self) -> bool:
        return len(self._line) < self._settings.places

    @property
    def first(self) -> Waiting[T] | None:
        return next(iter(self._line.values()), None)

    def enter(self, ticket: int, guest: T, now: float, patience_s: float = inf) -> int:
        """The position. `patience_s`: this guest's own limit, where it is shorter."""
        assert self.has_place and ticket not in self._line
        self._line[ticket] = Waiting(ticket, guest, now + min(self._settings.longest_s, patience_s))
        self._told[ticket] = len(self._line)
        return len(self._line)

    def leave(self, ticket: int) -> T | None:
        """None where nobody waits with that ticket (any more)."""
        waiting = self._line.pop(ticket, None)
        self._told.pop(ticket, None)
        return None if waiting is None else waiting.guest

    def overdue(self, now: float) -> list[Waiting[T]]:
        """Who has waited for long enough."""
        return [waiting for waiting in self._line.values() if now >= waiting.until]

    def moved(self) -> list[tuple[int, int]]:
        """(ticket, position) of those who have a new one since the last call."""
        positions = {ticket: place for place, ticket in enumerate(self._line, 1)}
        news = [(ticket, place) for ticket, place in positions.items() if self._told[ticket] != place]
        self._told = positions
        return news

    def next_deadline(self) -> float | None:
        return min((waiting.until for waiting in self._line.values()), default=None)
