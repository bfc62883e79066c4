"""When to try again after a connection was lost, and when not. Sans-I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from voicepipe.errors import ConnectionLost, Refused, ServerUnreachable

FOR_GOOD: Final = frozenset({1002, 1003, 1007, 1008, 1009})
"""Close codes after which the same client would fare no better. So are those from 4000 on."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often and when. Those who lost a server together do not come back together: each waits a random part of
    what it may wait ("full jitter")."""

    first_s: float = 0.15
    factor: float = 1.5
    cap_s: float = 3.0
    tries: int = 5
    """That found nobody. A server that says when to come back is waited for, and is not one of them."""
    refused_s: float = 30.0
    """For so long after the loss refusals are waited out: then nothing is kept any more."""
    settled_s: float = 10.0
    """A connection that is lost again within so long counts as a try that failed."""

    def most_s(self, tries: int) -> float:
        """The longest wait after so many tries."""
        return min(self.cap_s, self.first_s * self.factor**tries)


def may_return(close_code: int | None) -> bool:
    return close_code is None or (close_code not in FOR_GOOD and close_code < 4000)


class Outage:
    """From the loss of a connection until there is one again, or none is to be had."""

    def __init__(
        self, backoff: Backoff, chance: Callable[[], float], now: float, before: Outage | None = None
    ) -> None:
        """`chance` draws from [0, 1). `before`: the outage before this one."""
        self._backoff = backoff
        self._chance = chance
        self._waits_until = now + backoff.refused_s
        self.since = now
        self.tries = 0
        """That were made, refusals included."""
        self._failed = 0
        self._ended = now
        if before is not None and now - before._ended < backoff.settled_s:
            self._failed = before._failed + 1

    def on_back(self, now: float) -> None:
        """There is a connection."""
        self._ended = now

    def next_wait_s(self) -> float | None:
        """Before the next try. None: there have been too many."""
        if self._failed >= self._backoff.tries:
            return None
        self.tries += 1
        return self._chance() * self._backoff.most_s(self._failed)

    def on_failed(self, error: ConnectionLost | ServerUnreachable | Refused, now: float) -> float | None:
        """A try was in vain: how long to wait before the next one, or None to give up."""
        if isinstance(error, Refused):
            wait_s = max(error.retry_after_ms / 1000, self._chance() * self._backoff.most_s(self._failed))
            if now + wait_s > self._waits_until:
                return None
            self.tries += 1
            return wait_s
        self._failed += 1
        return self.next_wait_s()
