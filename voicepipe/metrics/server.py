"""All that is counted: turns and work, and here who came, who got in, and how the server itself is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from voicepipe.core.admission import AdmissionSnapshot
from voicepipe.core.cost import CostSnapshot
from voicepipe.core.engine_health import HealthSnapshot
from voicepipe.core.overload import OverloadSnapshot
from voicepipe.core.parking import ParkingSnapshot
from voicepipe.core.scheduler import SchedulerSnapshot
from voicepipe.metrics.labels import DECISIONS, INPUT_LOSSES, LEASE_KINDS, REFUSALS, WAITS, Words, known
from voicepipe.metrics.states import (
    AdmissionState,
    Costs,
    EngineState,
    FileState,
    LaneState,
    OverloadState,
    ParkingState,
    Phase,
    PhaseState,
)
from voicepipe.metrics.turns import TurnMetrics
from voicepipe.metrics.work import WorkMetrics

_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
_REFUSAL_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_WAIT_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)


def leave_out_created() -> None:
    """For this process: no `_created` series, which the text format shows as a gauge beside every counter."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics(TurnMetrics, WorkMetrics):
    CONTENT_TYPE = CONTENT_TYPE_LATEST

    def __init__(self, registry: CollectorRegistry, *, version: str = "") -> None:
        self.registry = registry
        self._codes, self._policies = Words(), Words()
        self._reasons = Words(REFUSALS)
        self._define_server(registry, version)
        self._define_sessions(registry)
        self._define_admission(registry)
        TurnMetrics.__init__(self, registry)
        WorkMetrics.__init__(self, registry)

    def _define_server(self, registry: CollectorRegistry, version: str) -> None:
        ProcessCollector(registry=registry)
        Info("voicepipe_build", "What runs", registry=registry).info({"version": version})
        self._budget = Gauge(
            "voicepipe_budget_seconds",
            "From the speech end to sound, unless a client asks for another",
            registry=registry,
        )
        self._achievable = Gauge(
            "voicepipe_achievable_gap_seconds",
            "Felt gap of an unhurried turn that nothing was done ahead for, as the warm-up measured it; 0 before",
            registry=registry,
        )
        self._loop_lag = Histogram(
            "voicepipe_loop_lag_seconds",
            "How late the event loop runs a timer",
            buckets=_LAG_BUCKETS_S,
            registry=registry,
        )

    def _define_sessions(self, registry: CollectorRegistry) -> None:
        self._sessions = Gauge("voicepipe_sessions_active", "Sessions from admission to close", registry=registry)
        self._leases = Gauge("voicepipe_leases", "Leases held", ["kind"], registry=registry)
        self._refusals = Counter(
            "voicepipe_refusals", "Requests refused before a session", ["reason"], registry=registry
        )
        self._client_errors = Counter("voicepipe_client_errors", "Faults of clients", ["code"], registry=registry)
        self._session_failures = Counter(
            "voicepipe_session_failures", "Sessions ended by a bug of the server", registry=registry
        )
        self._abandoned = Counter(
            "voicepipe_tasks_abandoned", "Tasks that outlived their cancellation", registry=registry
        )
        self._input_dropped = Counter(
            "voicepipe_input_dropped_seconds",
            "Sound of clients that was not listened to: they sent too fast (rate), or it waited too long (backlog)",
            ["why"],
            registry=registry,
        )
        self._messages_dropped = Counter(
            "voicepipe_messages_dropped",
            "Messages of clients, other than sound, that came too fast",
            registry=registry,
        )
        self._accept_failures = Counter(
            "voicepipe_accept_failures",
            "Tries to accept a connection that failed for want of file descriptors or memory",
            registry=registry,
        )
        for why in INPUT_LOSSES:
            self._input_dropped.labels(why)
        for kind in LEASE_KINDS:
            self._leases.labels(kind)
        for reason in REFUSALS:
            self._refusals.labels(reason)

    def _define_admission(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "voicepipe_admission_decisions",
            "What admission decided about requests that reached it",
            ["policy", "decision", "reason"],
            registry=registry,
        )
        self._refusal = Histogram(
            "voicepipe_refusal_seconds",
            "From a request that was read to its refusal at the socket",
            buckets=_REFUSAL_BUCKETS_S,
            registry=registry,
        )
        self._room = Gauge("voicepipe_waiting_room", "Clients in the waiting room", registry=registry)
        self._stays = Histogram(
            "voicepipe_waiting_seconds",
            "How long clients were in the waiting room, by how that ended",
            ["ended"],
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        for ended in WAITS:
            self._stays.labels(ended)

    # --- the server

    def promised(self, budget_s: float) -> None:
        self._budget.set(budget_s)

    def measured(self, achievable_s: float) -> None:
        """By the warm-up."""
        self._achievable.set(achievable_s)

    def loop_lagged(self, lag_s: float) -> None:
        self._loop_lag.observe(lag_s)

    # --- sessions

    def session_started(self) -> None:
        self._sessions.inc()

    def session_ended(self) -> None:
        self._sessions.dec()

    def lease_taken(self, kind: str) -> None:
        self._leases.labels(known(kind, LEASE_KINDS)).inc()

    def lease_returned(self, kind: str) -> None:
        self._leases.labels(known(kind, LEASE_KINDS)).dec()

    def refused(self, reason: str) -> None:
        self._refusals.labels(self._reasons(reason)).inc()

    def client_error(self, code: str) -> None:
        self._client_errors.labels(self._codes(code)).inc()

    def input_dropped(self, why: str, seconds: float) -> None:
        self._input_dropped.labels(known(why, INPUT_LOSSES)).inc(seconds)

    def accept_failed(self) -> None:
        self._accept_failures.inc()

    def message_dropped(self) -> None:
        self._messages_dropped.inc()

    def session_failed(self) -> None:
        self._session_failures.inc()

    def task_abandoned(self) -> None:
        self._abandoned.inc()

    # --- admission

    def decides(self, policy: str) -> None:
        """This policy will; its admissions are a series from now on."""
        self._decisions.labels(self._policies(policy), "admitted", "")

    def decided(self, policy: str, decision: str, reason: str) -> None:
        """`reason` is "" where nothing stood in the way."""
        word = self._reasons(reason) if reason else ""
        self._decisions.labels(self._policies(policy), known(decision, DECISIONS), word).inc()

    def refusal_took(self, seconds: float) -> None:
        self._refusal.observe(seconds)

    def room(self, waiting: int) -> None:
        self._room.set(waiting)

    def waited(self, seconds: float, ended: str) -> None:
        self._stays.labels(known(ended, WAITS)).observe(seconds)

    # --- what is looked at whenever the metrics are read

    def follow_phase(self, phase: Callable[[], Phase]) -> None:
        self.registry.register(PhaseState(phase))

    def follow_costs(self, snapshot: Callable[[], CostSnapshot]) -> None:
        self.registry.register(Costs(snapshot))

    def follow_admission(self, snapshot: Callable[[], AdmissionSnapshot]) -> None:
        self.registry.register(AdmissionState(snapshot))

    def follow_overload(self, snapshot: Callable[[], OverloadSnapshot]) -> None:
        self.registry.register(OverloadState(snapshot))

    def follow_parking(self, snapshot: Callable[[], ParkingSnapshot]) -> None:
        self.registry.register(ParkingState(snapshot))

    def follow_lanes(self, snapshot: Callable[[], SchedulerSnapshot], capacity: Mapping[str, int]) -> None:
        """`capacity`: of each lane that is used, chunks at a time."""
        self.registry.register(LaneState(snapshot, capacity))

    def follow_files(self, lost: Callable[[], Mapping[str, int]]) -> None:
        """`lost`: entries that are not in a file, by the file's option."""
        self.registry.register(FileState(lost))

    def follow_engines(self, snapshot: Callable[[], HealthSnapshot]) -> None:
        self.registry.register(EngineState(snapshot))

    # --- out

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
