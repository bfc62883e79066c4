"""How overloaded a server is, and what it gives up for it: speculation, then background, then new sessions.

Signals are measured against what they may be at most; the load is the worst of them. One that is high once is
nothing: what counts is the least of the last `WINDOW` looks (as CoDel looks at the least delay of an interval), so
that a burst which drains by itself is none. A level is entered at once and left one at a time, each after the load
has stayed below `leave` for `dwell_s`: apart and slow, so that it does not flap.

Nothing in here ever touches a turn that has been admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

WINDOW = 5
"""Looks."""


class Level(IntEnum):
    NONE = 0
    SHED_SPECULATION = 1
    """No replies ahead while somebody speaks."""
    SHED_BACKGROUND = 2
    REFUSE = 3
    """No new sessions."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What was seen since the last look."""

    loop_lag_s: float = 0.0
    """How late the event loop ran a timer."""
    input_age_s: float = 0.0
    """How long sound had waited when it was listened to: the worst."""
    backlog_s: float = 0.0
    """Service that turns which have begun wait for at the device."""


@dataclass(frozen=True, slots=True)
class OverloadSettings:
    loop_lag_s: float = 0.010
    input_age_s: float = 0.100
    backlog_s: float = 0.250
    enter: tuple[float, float, float] = (0.92, 0.95, 1.0)
    """Load from which on each level holds."""
    leave: float = 0.80
    dwell_s: float = 5.0

    def __post_init__(self) -> None:
        if not (min(self.loop_lag_s, self.input_age_s, self.backlog_s) > 0.0 and self.dwell_s >= 0.0):
            raise ValueError("limits are positive, and a dwell not negative")
        if not 0.0 < self.leave < self.enter[0] <= self.enter[1] <= self.enter[2]:
            raise ValueError("levels are entered in order, and left below the first")


@dataclass(frozen=True, slots=True)
class OverloadSnapshot:
    level: Level
    load: float
    """1: a signal has been at its limit all along."""
    uses: Mapping[str, float]
    """Of each signal's limit, the newest use."""
    changes: int
    """Of the level, so far."""


class Overload:
    def __init__(self, settings: OverloadSettings | None = None) -> None:
        self._settings = settings or OverloadSettings()
        self._level = Level.NONE
        self._newest: deque[Mapping[str, float]] = deque(maxlen=WINDOW)
        self._calm_since: float | None = None
        """Since when the load has been below `leave`; None: it is not. Falls back with each level that is left."""
        self._changes = 0

    @property
    def level(self) -> Level:
        return self._level

    def on_signals(self, signals: Signals, now: float) -> Level | None:
        """The new level; None where it stays."""
        settings = self._settings
        self._newest.append(
            {
                "loop-lag": signals.loop_lag_s / settings.loop_lag_s,
                "input-age": signals.input_age_s / settings.input_age_s,
                "backlog": signals.backlog_s / settings.backlog_s,
            }
        )
        load = self._load()
        reached = Level(sum(load >= threshold for threshold in settings.enter))
        if load > settings.leave:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        if reached > self._level:
            return self._become(reached)
        if self._level and self._calm_since is not None and now - self._calm_since >= settings.dwell_s:
            self._calm_since = now
            return self._become(Level(self._level - 1))
        return None

    def snapshot(self) -> OverloadSnapshot:
        uses = self._newest[-1] if self._newest else {}
        return OverloadSnapshot(self._level, self._load(), uses, self._changes)

    def _become(self, level: Level) -> Level:
        self._level = level
        self._changes += 1
        return level

    def _load(self) -> float:
        """Nothing is known before a window is full."""
        if len(self._newest) < WINDOW:
            return 0.0
        return max(min(seen[signal] for seen in self._newest) for signal in self._newest[0])
