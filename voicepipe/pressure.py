"""How hard a server is pressed: gathers the signals, and passes on the level that core makes of them.

Looks whenever the event loop's lag has been measured, ten times a second, once the server is ready: what loading
and warming up do to the loop is no overload. Who sheds asks for the `level`, or is told: new sessions are refused
by admission. The rest of what a level means is up to those who ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from voicepipe.core.events import Timing, Work, WorkKind
from voicepipe.core.overload import Level, Overload, OverloadSnapshot, Signals


class Pressure:
    def __init__(self, overload: Overload, refuse: Callable[[bool], None]) -> None:
        """`refuse` is told when new sessions are to be refused, and when they are not any more."""
        self._overload = overload
        self._refuse = refuse
        self._backlog_s: Callable[[], float] | None = None
        self._input_age_s = 0.0

    @property
    def level(self) -> Level:
        return self._overload.level

    def begin(self, backlog_s: Callable[[], float]) -> None:
        """The server is ready. `backlog_s`: of service that its turns wait for."""
        self._backlog_s = backlog_s

    def on_chunk(self, work: Work, timing: Timing) -> None:
        """Sound is as old as its chunk waited; a backlog of it makes the next chunk wait."""
        if work.kind is WorkKind.HEAR:
            self._input_age_s = max(self._input_age_s, timing.wait_s)

    def on_lag(self, lag_s: float) -> None:
        if self._backlog_s is None:
            return
        before = self.level
        signals = Signals(lag_s, self._input_age_s, self._backlog_s())
        self._input_age_s = 0.0
        level = self._overload.on_signals(signals, asyncio.get_running_loop().time())
        if level is not None and (level is Level.REFUSE) is not (before is Level.REFUSE):
            self._refuse(level is Level.REFUSE)

    def snapshot(self) -> OverloadSnapshot:
        return self._overload.snapshot()
