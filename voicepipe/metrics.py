"""What a server counts, in Prometheus' format. Observes; decides nothing.

Methods are named after what happened. Each `Metrics` has a registry of its own, so that two servers
in one process do not mix. No label ever holds what a user said, an address or a session's id, and
each label takes a bounded number of values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voicepipe.core.admission import AdmissionSnapshot
from voicepipe.core.cost import CostSnapshot
from voicepipe.core.events import Stage, Verdict, WorkClass
from voicepipe.core.overload import OverloadSnapshot

VERDICTS = tuple(verdict.value for verdict in Verdict)
STAGES = tuple(stage.value for stage in Stage)
LEASE_KINDS = ("session", "llm", "text")
DECISIONS = ("admitted", "refused", "waiting")
WAITS = ("admitted", "refused", "left")
CLASSES = tuple(klass.name.lower() for klass in WorkClass)
TEXT_KINDS = ("prefill", "decode")
TEXT_OUTCOMES = ("stop", "length", "cancelled", "failed", "refused")

_GAP_BUCKETS_S = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
_REFUSAL_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
_WAIT_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
_WORD = re.compile(r"[a-z0-9_.-]{1,40}")
_MOST_WORDS = 32
_LONGEST_MODEL = 64


class _Words:
    """Label values that come from elsewhere: short lower-case words, the rest is "other"."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= _MOST_WORDS or not _WORD.fullmatch(value):
            return "other"
        self._seen.add(value)
        return value


class _Costs(Collector):
    """How good the cost model is, read when somebody asks. There is one set of labels for each kind of chunk of the
    engines that were loaded."""

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
        for key, cost in list(self._snapshot().keys.items())[:_MOST_WORDS]:
            values = (key.kind.stage.value, key.kind.value, key.variant, key.model[:_LONGEST_MODEL])
            bound.add_metric(values, cost.q)
            if cost.coverage is not None:
                coverage.add_metric(values, cost.coverage)
        yield coverage
        yield bound


class _Admission(Collector):
    """How much of what admission goes by is used, read when somebody asks."""

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


class _Overload(Collector):
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


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._reasons, self._codes, self._classes = _Words(), _Words(), _Words()
        self._policies = _Words()
        self._define_sessions(registry)
        self._define_admission(registry)
        self._define_turns(registry)
        self._define_work(registry)
        self._define_texts(registry)

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
        self._loop_lag = Histogram(
            "voicepipe_loop_lag_seconds",
            "How late the event loop runs a timer",
            buckets=_LAG_BUCKETS_S,
            registry=registry,
        )
        for kind in LEASE_KINDS:
            self._leases.labels(kind)

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
        self._waits = Histogram(
            "voicepipe_waiting_seconds",
            "How long clients were in the waiting room, by how that ended",
            ["ended"],
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        for ended in WAITS:
            self._waits.labels(ended)

    def _define_turns(self, registry: CollectorRegistry) -> None:
        self._turns = Counter("voicepipe_turns", "Turns ended", ["verdict"], registry=registry)
        self._felt = Histogram(
            "voicepipe_felt_gap_seconds",
            "Speech end to estimated audibility of the reply's content",
            buckets=_GAP_BUCKETS_S,
            registry=registry,
        )
        self._system = Histogram(
            "voicepipe_system_gap_seconds",
            "Commit to the first audible content handed to the socket",
            buckets=_GAP_BUCKETS_S,
            registry=registry,
        )
        self._stalled = Counter(
            "voicepipe_turns_stalled", "Turns whose playback stood still for want of audio", registry=registry
        )
        self._stalls = Counter(
            "voicepipe_playback_stall_seconds", "How long playback stood still for that", registry=registry
        )
        self._corrections = Counter(
            "voicepipe_transcript_corrections",
            "Transcripts in which a second pass heard other words",
            registry=registry,
        )
        for verdict in VERDICTS:
            self._turns.labels(verdict)

    def _define_work(self, registry: CollectorRegistry) -> None:
        self._engine_failures = Counter(
            "voicepipe_engine_failures", "Engine calls that failed", ["stage"], registry=registry
        )
        self._busy = Counter("voicepipe_device_busy_seconds", "Device time used", ["stage"], registry=registry)
        self._busy_by_class = Counter(
            "voicepipe_device_class_busy_seconds",
            "Device time used, by who goes first",
            ["class"],
            registry=registry,
        )
        self._blocked = Counter(
            "voicepipe_turn_blocked_by_background_seconds",
            "What background added to the felt gaps of turns",
            registry=registry,
        )
        self._chunks = Counter("voicepipe_chunks", "Chunks run by a device", ["stage", "class"], registry=registry)
        self._overruns = Counter(
            "voicepipe_chunk_overruns", "Chunks that took longer than their bound", ["stage"], registry=registry
        )
        self._stale_audio = Counter(
            "voicepipe_stale_audio_seconds",
            "Reply audio dropped because its epoch or revision had passed",
            registry=registry,
        )
        self._non_finite = Counter(
            "voicepipe_non_finite_samples",
            "Input samples that were no numbers and became zero",
            registry=registry,
        )
        for stage in STAGES:
            self._engine_failures.labels(stage)
            self._busy.labels(stage)
            self._overruns.labels(stage)

    def _define_texts(self, registry: CollectorRegistry) -> None:
        self._text_tokens = Counter(
            "voicepipe_text_tokens",
            "Tokens read and made for texts that nobody waits to hear",
            ["kind"],
            registry=registry,
        )
        self._texts = Counter("voicepipe_texts", "Texts ended", ["outcome"], registry=registry)
        self._texts_running = Gauge("voicepipe_texts_running", "Texts that have a slot", registry=registry)
        self._texts_waiting = Gauge("voicepipe_texts_waiting", "Texts that wait for a slot", registry=registry)
        for kind in TEXT_KINDS:
            self._text_tokens.labels(kind)
        for outcome in TEXT_OUTCOMES:
            self._texts.labels(outcome)
        for klass in CLASSES:
            self._busy_by_class.labels(klass)

    # --- sessions

    def session_started(self) -> None:
        self._sessions.inc()

    def session_ended(self) -> None:
        self._sessions.dec()

    def lease_taken(self, kind: str) -> None:
        self._leases.labels(_known(kind, LEASE_KINDS)).inc()

    def lease_returned(self, kind: str) -> None:
        self._leases.labels(_known(kind, LEASE_KINDS)).dec()

    def refused(self, reason: str) -> None:
        self._refusals.labels(self._reasons(reason)).inc()

    def decided(self, policy: str, decision: str, reason: str) -> None:
        """`reason` is "" where nothing stood in the way."""
        known = _known(decision, DECISIONS)
        self._decisions.labels(self._policies(policy), known, self._reasons(reason) if reason else "").inc()

    def refusal_took(self, seconds: float) -> None:
        self._refusal.observe(seconds)

    def room(self, waiting: int) -> None:
        self._room.set(waiting)

    def waited(self, seconds: float, ended: str) -> None:
        self._waits.labels(_known(ended, WAITS)).observe(seconds)

    def client_error(self, code: str) -> None:
        self._client_errors.labels(self._codes(code)).inc()

    def session_failed(self) -> None:
        self._session_failures.inc()

    def task_abandoned(self) -> None:
        self._abandoned.inc()

    def loop_lagged(self, lag_s: float) -> None:
        self._loop_lag.observe(lag_s)

    # --- turns

    def turn_ended(
        self, verdict: str, felt_s: float | None, system_s: float | None, stalled_s: float = 0.0
    ) -> None:
        """Gaps are None where the turn had no content."""
        self._turns.labels(_known(verdict, VERDICTS)).inc()
        if stalled_s > 0.0:
            self._stalled.inc()
            self._stalls.inc(stalled_s)
        if felt_s is not None:
            self._felt.observe(felt_s)
        if system_s is not None:
            self._system.observe(system_s)

    def transcript_corrected(self) -> None:
        self._corrections.inc()

    # --- work

    def chunk_done(self, stage: str, chunk_class: str, service_s: float) -> None:
        known = _known(stage, STAGES)
        self._chunks.labels(known, self._classes(chunk_class)).inc()
        self._busy.labels(known).inc(service_s)
        self._busy_by_class.labels(_known(chunk_class, CLASSES)).inc(service_s)

    def chunk_overran(self, stage: str) -> None:
        self._overruns.labels(_known(stage, STAGES)).inc()

    def follow_costs(self, snapshot: Callable[[], CostSnapshot]) -> None:
        """Show the cost model's state whenever the metrics are read."""
        self.registry.register(_Costs(snapshot))

    def follow_admission(self, snapshot: Callable[[], AdmissionSnapshot]) -> None:
        """Show what admission goes by whenever the metrics are read."""
        self.registry.register(_Admission(snapshot))

    def follow_overload(self, snapshot: Callable[[], OverloadSnapshot]) -> None:
        self.registry.register(_Overload(snapshot))

    def engine_failed(self, stage: str) -> None:
        self._engine_failures.labels(_known(stage, STAGES)).inc()

    def stale_audio_dropped(self, seconds: float) -> None:
        self._stale_audio.inc(seconds)

    def non_finite_samples(self, n_samples: int) -> None:
        self._non_finite.inc(n_samples)

    def turn_blocked(self, background_s: float) -> None:
        self._blocked.inc(background_s)

    # --- texts

    def text_tokens(self, kind: str, tokens: int) -> None:
        self._text_tokens.labels(_known(kind, TEXT_KINDS)).inc(tokens)

    def text_ended(self, outcome: str) -> None:
        self._texts.labels(_known(outcome, TEXT_OUTCOMES)).inc()

    def texts_changed(self, running: int, waiting: int) -> None:
        self._texts_running.set(running)
        self._texts_waiting.set(waiting)

    # --- out

    CONTENT_TYPE = CONTENT_TYPE_LATEST

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


def _known(value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise AssertionError(f"{value!r} is none of {', '.join(allowed)}")
    return value
