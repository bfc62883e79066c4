"""How late the event loop runs its timers: everything else on it is at least as late."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

INTERVAL_S = 0.1
_KEPT = 300
"""Half a minute of samples, at that interval."""


class LagProbe:
    """A timer that measures its own lateness. Costs one callback per interval, and no task."""

    def __init__(self, observed: Callable[[float], None], interval_s: float = INTERVAL_S) -> None:
        """`observed` is told each lag in seconds; `interval_s` lies between two looks."""
        self._observed = observed
        self._interval_s = interval_s
        self._lags: deque[float] = deque([0.0], maxlen=_KEPT)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._arm(loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def last_s(self) -> float:
        return self._lags[-1]

    @property
    def p99_s(self) -> float:
        """Over the last half minute, or the last 300 looks; of fewer than 100, all but the worst one."""
        ordered = sorted(self._lags)
        return ordered[int(0.99 * (len(ordered) - 1))]

    def forget(self) -> None:
        """What has been seen so far is not to count: it was before anybody was served."""
        self._lags.clear()
        self._lags.append(0.0)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + self._interval_s
        self._timer = loop.call_at(due, self._on_time, loop, due)

    def _on_time(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        lag_s = max(0.0, loop.time() - due)
        self._lags.append(lag_s)
        self._observed(lag_s)
        self._arm(loop)
