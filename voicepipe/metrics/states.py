"""What is not counted but looked at whenever somebody asks: the states of what decides, as families of gauges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voicepipe.core.admission import AdmissionSnapshot
from voicepipe.core.cost import CostSnapshot
from voicepipe.core.engine_health import HealthSnapshot
from voicepipe.core.events import Stage
from voicepipe.core.overload import OverloadSnapshot
from voicepipe.core.parking import ParkingSnapshot
from voicepipe.core.scheduler import SchedulerSnapshot
from voicepipe.metrics.labels import LONGEST_NAME, MOST_WORDS, STAGES


class Costs(Collector):
    """How good the cost model is. There is one set of labels for each kind of chunk of the engines that were
    loaded."""

    def __init__(self, snapshot: Callable[[], CostSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        labels = ("stage", "kind", "variant", "model")
        coverage = GaugeMetricFamily(
            "voicepipe_cost_coverage", "Share of the last 1,000 chunks that kept to their bound", labels=labels
        )
        bound = GaugeMetricFamily(
            "voicepipe_cost_bound_ratio", "Bound of a chunk in multiples of its expected service", labels=labels
        )
        chunks = GaugeMetricFamily(
            "voicepipe_cost_chunks", "Chunks that the expected service was learnt from", labels=labels
        )
        for key, cost in list(self._snapshot().keys.items())[:MOST_WORDS]:
            values = (key.kind.stage.value, key.kind.value, key.variant, key.model[:LONGEST_NAME])
            bound.add_metric(values, cost.q)
            chunks.add_metric(values, cost.n)
            if cost.coverage is not None:
                coverage.add_metric(values, cost.coverage)
        yield from (coverage, bound, chunks)


class AdmissionState(Collector):
    """How much of what admission goes by is used."""

    def __init__(self, snapshot: Callable[[], AdmissionSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        use = GaugeMetricFamily(
            "voicepipe_admission_use",
            "Of each limit of the policy, the share that is used; one more session needs it at 1 at most",
            labels=("policy", "limit"),
        )
        for limit, share in snapshot.uses.items():
            use.add_metric((snapshot.policy, limit), share)
        yield use
        if snapshot.limit is not None:
            yield GaugeMetricFamily(
                "voicepipe_sessions_limit", "The most sessions under any policy", value=float(snapshot.limit)
            )


class OverloadState(Collector):
    def __init__(self, snapshot: Callable[[], OverloadSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        yield GaugeMetricFamily(
            "voicepipe_overload_level",
            "What is shed: 0 nothing, 1 speculation, 2 background, 3 new sessions",
            value=float(snapshot.level),
        )
        use = GaugeMetricFamily(
            "voicepipe_overload_signal", "Of each signal's limit, the share that was seen last", labels=("signal",)
        )
        for signal, share in snapshot.uses.items():
            use.add_metric((signal,), share)
        yield use
        changes = CounterMetricFamily("voicepipe_overload_changes", "Changes of the overload level")
        changes.add_metric((), snapshot.changes)
        yield changes


class ParkingState(Collector):
    """Conversations of clients that may come back, and what became of those that were kept."""

    def __init__(self, snapshot: Callable[[], ParkingSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        yield GaugeMetricFamily(
            "voicepipe_sessions_parked",
            "Conversations that are kept for clients that lost their connection; they hold no lease",
            value=float(snapshot.parked),
        )
        yield GaugeMetricFamily(
            "voicepipe_parked_bytes", "What they take together, about", value=float(snapshot.n_bytes)
        )
        ended = CounterMetricFamily(
            "voicepipe_resumes",
            "Conversations that were gone on with, had expired, or made room for newer ones, and tokens that were "
            "shown in vain",
            labels=("outcome",),
        )
        for outcome, count in snapshot.outcomes.items():
            ended.add_metric((outcome,), count)
        yield ended


class LaneState(Collector):
    """What runs and waits on each lane of the device. `capacity`: chunks at a time, of the lanes that are used."""

    def __init__(self, snapshot: Callable[[], SchedulerSnapshot], capacity: Mapping[str, int]) -> None:
        self._snapshot = snapshot
        self._capacity = capacity

    def collect(self) -> Iterator[Metric]:
        room = GaugeMetricFamily("voicepipe_lane_chunks", "Chunks that a lane runs at a time", labels=("lane",))
        running = GaugeMetricFamily("voicepipe_lane_running_chunks", "Chunks that run", labels=("lane",))
        queued = GaugeMetricFamily("voicepipe_lane_queued_chunks", "Chunks that wait", labels=("lane",))
        lanes = self._snapshot().lanes
        for name, chunks in self._capacity.items():
            lane = lanes[name]
            room.add_metric((name,), chunks)
            running.add_metric((name,), lane.running)
            queued.add_metric((name,), lane.queued)
        yield from (room, running, queued)


class EngineState(Collector):
    """Calls of engines that did not end in time, and engines that are not asked for a while."""

    def __init__(self, snapshot: Callable[[], HealthSnapshot]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot()
        overdue = CounterMetricFamily(
            "voicepipe_chunks_overdue", "Chunks given up because they did not end in time", labels=("stage",)
        )
        for stage in STAGES:
            overdue.add_metric((stage,), snapshot.overdue.get(Stage(stage), 0))
        abandoned = GaugeMetricFamily(
            "voicepipe_chunks_abandoned",
            "Calls that were given up, cannot be stopped, and still run",
            labels=("lane",),
        )
        held = GaugeMetricFamily(
            "voicepipe_lane_held", "Chunks of a lane that wait for such a call to end", labels=("lane",)
        )
        for lane in snapshot.abandoned:
            abandoned.add_metric((lane,), snapshot.abandoned[lane])
            held.add_metric((lane,), snapshot.held[lane])
        yield from (overdue, abandoned, held, *_breakers(snapshot))


def _breakers(snapshot: HealthSnapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "voicepipe_breaker_state", "An endpoint is asked (0), tried once (1), left alone (2)", labels=("engine",)
    )
    opened = CounterMetricFamily("voicepipe_breaker_opened", "Times that it was left alone", labels=("engine",))
    refused = CounterMetricFamily(
        "voicepipe_breaker_refused", "Requests that were not made for it", labels=("engine",)
    )
    for engine, breaker in snapshot.breakers.items():
        state.add_metric((engine,), float(breaker.state))
        opened.add_metric((engine,), breaker.opened)
        refused.add_metric((engine,), breaker.refused)
    yield from (state, opened, refused)


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a server is in its life."""

    ready: bool
    draining: bool


class PhaseState(Collector):
    def __init__(self, phase: Callable[[], Phase]) -> None:
        self._phase = phase

    def collect(self) -> Iterator[Metric]:
        phase = self._phase()
        yield GaugeMetricFamily(
            "voicepipe_ready", "1: takes sessions; 0: warms up, or drains", value=float(phase.ready)
        )
        yield GaugeMetricFamily(
            "voicepipe_draining",
            "1: takes no more sessions, and ends when those that run have",
            value=float(phase.draining),
        )


class FileState(Collector):
    def __init__(self, lost: Callable[[], Mapping[str, int]]) -> None:
        self._lost = lost

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "voicepipe_file_entries_lost",
            "Entries that did not get into a file of --ledger, --trace or --record: too many, or the disk is full",
            labels=["file"],
        )
        for name, count in self._lost().items():
            family.add_metric([name], count)
        yield family
