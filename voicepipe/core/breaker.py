"""A circuit breaker: who has failed several times in a row is left alone for a while, and then tried once.

    CLOSED     -- so many failures in a row ------>  OPEN       nobody asks for `first_s`
    OPEN       -- its time is over, somebody asks ->  HALF_OPEN  that one is the probe, all others wait
    HALF_OPEN  -- the probe succeeds ------------->  CLOSED
    HALF_OPEN  -- the probe fails --------------->  OPEN       for twice as long, `most_s` at most
    HALF_OPEN  -- the probe tells nothing ------->  OPEN       its time over: the next one to ask is the probe

What comes back about a question that was asked in an earlier state says nothing about the present one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    failures: int = 5
    """In a row, at least 1."""
    first_s: float = 1.0
    most_s: float = 30.0


class BreakerState(IntEnum):
    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(frozen=True, slots=True)
class Pass:
    """Ask. What comes of it is told with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Do not ask, for so many seconds yet."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BreakerSnapshot:
    state: BreakerState
    failures: int
    """In a row."""
    opened: int
    """How often it has."""
    refused: int
    """Questions that were not asked."""


class Breaker:
    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._state = BreakerState.CLOSED
        self._number = 0
        """Of the state: it rises with each change."""
        self._failures = 0
        self._pause_s = settings.first_s
        self._until = 0.0
        self._opened = self._refused = 0

    def on_ask(self, now: float) -> Pass | Wait:
        if self._state is BreakerState.OPEN and now >= self._until:
            self._become(BreakerState.HALF_OPEN)
            return Pass(self._number)
        if self._state is BreakerState.CLOSED:
            return Pass(self._number)
        self._refused += 1
        return Wait(max(0.0, self._until - now))

    def on_success(self, number: int) -> None:
        if number == self._number:
            self._failures, self._pause_s = 0, self._settings.first_s
            if self._state is BreakerState.HALF_OPEN:
                self._become(BreakerState.CLOSED)

    def on_failure(self, number: int, now: float) -> None:
        if number != self._number:
            return
        self._failures += 1
        if self._state is BreakerState.HALF_OPEN:
            self._pause_s = min(2 * self._pause_s, self._settings.most_s)
        elif self._failures < self._settings.failures:
            return
        self._until = now + self._pause_s
        self._opened += 1
        self._become(BreakerState.OPEN)

    def on_nothing(self, number: int) -> None:
        """The question was taken back, or its answer says nothing about who was asked."""
        if number == self._number and self._state is BreakerState.HALF_OPEN:
            self._become(BreakerState.OPEN)

    def snapshot(self) -> BreakerSnapshot:
        return BreakerSnapshot(self._state, self._failures, self._opened, self._refused)

    def _become(self, state: BreakerState) -> None:
        self._state = state
        self._number += 1
