"""What is to be thought of engines that fail: how long a call may take, whether one is asked at all, and what
becomes of a lane whose call does not end.

A call is *overdue* when it has taken several times its declared bound, and some seconds at least. One that is
awaited is cancelled. One on a thread cannot be stopped: it is *abandoned*. Its lane gets another thread and goes
on, as long as no more than so many abandoned calls still run; each of them goes on taking the cores that it takes.
Beyond that number the lane is *held* until the call ends, and the server is not ready.

An engine that computes one call at a time for all sessions is not entered while an abandoned call is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from voicepipe.core.breaker import Breaker, BreakerSettings, BreakerSnapshot, Pass, Wait
from voicepipe.core.events import Stage, Work, WorkKind


@dataclass(frozen=True, slots=True)
class HealthSettings:
    floor_s: float = 5.0
    """No call is overdue sooner."""
    bounds: float = 5.0
    """Nor before so many times its declared bound."""
    unbounded_s: float = 10.0
    """Nor before this, where nothing is declared."""
    floors_s: Mapping[WorkKind, float] = field(default_factory=dict)
    """Higher floors of some kinds: of those that have a limit of their own, which tells more."""
    abandoned: int = 2
    """Calls that may run on, abandoned, before lanes are held."""
    engines: Mapping[WorkKind, str] = field(default_factory=dict)
    """Of kinds whose engine computes one call at a time: its name."""
    breakers: Mapping[WorkKind, tuple[str, BreakerSettings]] = field(default_factory=dict)
    """Of kinds that are behind a circuit breaker: its name, and how it is set."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call was let through; given back with what came of it."""

    breaker: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    abandoned: Mapping[str, int]
    """By lane, calls that still run."""
    held: Mapping[str, int]
    """By lane, those of them that hold it."""
    overdue: Mapping[Stage, int]
    """So far, calls that were given up."""
    breakers: Mapping[str, BreakerSnapshot]

    @property
    def stuck(self) -> bool:
        return any(self.held.values())


class EngineHealth:
    def __init__(self, settings: HealthSettings, lanes: Mapping[str, int]) -> None:
        self._settings = settings
        self._abandoned = dict.fromkeys(lanes, 0)
        self._held = dict.fromkeys(lanes, 0)
        self._overdue: dict[Stage, int] = {}
        self._inside: dict[str, int] = {}
        """By engine, abandoned calls."""
        self._breakers = {name: Breaker(set_to) for name, set_to in settings.breakers.values()}

    def limit_s(self, work: Work) -> float:
        """How long its call may take."""
        settings = self._settings
        floor_s = settings.floors_s.get(work.kind, settings.floor_s)
        return max(floor_s, settings.bounds * work.bound_s if work.bound_s else settings.unbounded_s)

    def on_start(self, work: Work, now: float) -> Asked | str:
        """May it be called? If not, why, in words for people."""
        if self._inside.get(self._settings.engines.get(work.kind, "")):
            return "a call of it does not end"
        if work.kind not in self._settings.breakers or not _begins(work):
            return Asked()
        name, _ = self._settings.breakers[work.kind]
        match self._breakers[name].on_ask(now):
            case Pass(number):
                return Asked(name, number)
            case Wait(seconds):
                return f"it has failed several times in a row; next try in {seconds:.1f} s"

    def on_success(self, asked: Asked) -> None:
        if asked.breaker:
            self._breakers[asked.breaker].on_success(asked.number)

    def on_failure(self, asked: Asked, now: float) -> None:
        """The engine's fault."""
        if asked.breaker:
            self._breakers[asked.breaker].on_failure(asked.number, now)

    def on_nothing(self, asked: Asked) -> None:
        """Taken back, or another's fault."""
        if asked.breaker:
            self._breakers[asked.breaker].on_nothing(asked.number)

    def on_overdue(self, work: Work) -> None:
        stage = work.kind.stage
        self._overdue[stage] = self._overdue.get(stage, 0) + 1

    def on_abandoned(self, work: Work, lane: str) -> bool:
        """An overdue call runs on. May its lane go on beside it? Otherwise it is held until `on_ended`."""
        self._abandoned[lane] += 1
        self._enter(work, 1)
        if sum(self._abandoned.values()) <= self._settings.abandoned:
            return True
        self._held[lane] += 1
        return False

    def on_ended(self, work: Work, lane: str, *, held: bool) -> None:
        """An abandoned call has come to its end after all."""
        self._abandoned[lane] -= 1
        self._held[lane] -= held
        self._enter(work, -1)

    def snapshot(self) -> HealthSnapshot:
        breakers = {name: breaker.snapshot() for name, breaker in self._breakers.items()}
        return HealthSnapshot(dict(self._abandoned), dict(self._held), dict(self._overdue), breakers)

    def _enter(self, work: Work, by: int) -> None:
        engine = self._settings.engines.get(work.kind)
        if engine is not None:
            self._inside[engine] = self._inside.get(engine, 0) + by


def _begins(work: Work) -> bool:
    """Does it open a request? Who is in the middle of an answer is let go on, and tells nothing about others."""
    return work.load is not None and work.load.variant == "prefill"
