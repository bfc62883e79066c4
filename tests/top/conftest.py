"""Readings of a server, as its own metrics write them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from voicepipe.core.admission import AdmissionSnapshot
from voicepipe.core.events import Blame, BlameKind, Speculation, Stage, TurnRecord, Verdict
from voicepipe.core.overload import Level, OverloadSnapshot
from voicepipe.core.scheduler import LaneSnapshot, SchedulerSnapshot
from voicepipe.metrics import Metrics
from voicepipe.metrics.states import Phase
from voicepipe.top.scrape import Scrape, read


class Watched:
    """A server that is watched: its metrics, and readings of them."""

    def __init__(self) -> None:
        self.metrics = metrics = Metrics(CollectorRegistry(), version="1.2.3")
        self.phase = Phase(ready=True, draining=False)
        self.level = Level.NONE
        metrics.promised(0.2)
        metrics.measured(0.13)
        metrics.follow_phase(lambda: self.phase)
        metrics.follow_overload(lambda: OverloadSnapshot(self.level, 0.0, {}, 0))
        metrics.follow_admission(lambda: AdmissionSnapshot(2, 4, 2, 0, 20.0, "deadline", 0, {"burst": 0.5}))
        metrics.follow_lanes(lambda: SchedulerSnapshot({"cpu": LaneSnapshot(1, 3, 9)}), {"cpu": 2})
        metrics.lane_known("cpu", frozenset({"llm", "asr"}))

    def turn(self, verdict: Verdict, felt_s: float | None, blame: Blame | None = None) -> None:
        ahead = Speculation(hit=felt_s is not None, attempts=2, saved_s=0.03, wasted_s=0.05)
        self.metrics.turn_ended(verdict.value, felt_s, None if felt_s is None else felt_s / 2)
        self.metrics.turn_recorded(TurnRecord(1, verdict, felt_s, None, {}, ahead, blame))

    def late(self, stage: Stage, kind: BlameKind, over_s: float) -> None:
        self.turn(Verdict.MISSED, 0.2 + over_s, Blame(stage, kind, over_s))

    def read(self, at: float = 0.0) -> Scrape:
        return read(self.metrics.exposition().decode(), at)
