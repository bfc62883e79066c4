"""What devices did: chunks, the time they took, what they waited; and the texts beside voice."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from voicepipe.metrics.labels import CLASSES, STAGES, TEXT_KINDS, TEXT_OUTCOMES, Words, known

MOST_KEPT = 256
_WAIT_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class WorkMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._lanes = Words()
        self._define_chunks(registry)
        self._define_faults(registry)
        self._define_texts(registry)

    def _define_chunks(self, registry: CollectorRegistry) -> None:
        self._busy = Counter(
            "voicepipe_device_busy_seconds",
            "Device time used, by lane, stage, and who goes first",
            ["lane", "stage", "class"],
            registry=registry,
        )
        self._chunks = Counter("voicepipe_chunks", "Chunks run by a device", ["stage", "class"], registry=registry)
        self._overruns = Counter(
            "voicepipe_chunk_overruns", "Chunks that took longer than their bound", ["stage"], registry=registry
        )
        self._waits = Histogram(
            "voicepipe_chunk_wait_seconds",
            "From a chunk's request to its beginning",
            ["class"],
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self._input_age = Histogram(
            "voicepipe_input_age_seconds",
            "How long sound had waited when it was listened to",
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        for stage in STAGES:
            self._overruns.labels(stage)
        self._waits_of = {klass: self._waits.labels(klass) for klass in CLASSES}
        self._done: dict[tuple[str, str, str], tuple[Counter, Counter]] = {}
        """By lane, stage and class, the counters of chunks and of their time: they are counted a hundred times a
        second, and a look-up by labels costs ten times the count."""

    def _define_faults(self, registry: CollectorRegistry) -> None:
        self._engine_failures = Counter(
            "voicepipe_engine_failures", "Engine calls that failed", ["stage"], registry=registry
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

    # --- chunks

    def lane_known(self, lane: str, stages: frozenset[str]) -> None:
        """A lane of the device, and the stages that run on it: their series exist from now on."""
        for stage in stages:
            for klass in CLASSES:
                self._counters(lane, stage, klass)

    def chunk_done(self, lane: str, stage: str, chunk_class: str, service_s: float) -> None:
        """One has run, whatever came of it."""
        counters = self._done.get((lane, stage, chunk_class)) or self._counters(lane, stage, chunk_class)
        chunks, busy = counters
        chunks.inc()
        busy.inc(service_s)

    def chunk_waited(self, chunk_class: str, wait_s: float, *, is_input: bool) -> None:
        """`is_input`: it listened to sound that had come, so that its wait is the sound's age."""
        self._waits_of[known(chunk_class, CLASSES)].observe(wait_s)
        if is_input:
            self._input_age.observe(wait_s)

    def _counters(self, lane: str, stage: str, chunk_class: str) -> tuple[Counter, Counter]:
        where, who = known(stage, STAGES), known(chunk_class, CLASSES)
        pair = self._chunks.labels(where, who), self._busy.labels(self._lanes(lane), where, who)
        if len(self._done) < MOST_KEPT:
            self._done[lane, stage, chunk_class] = pair
        return pair

    def chunk_overran(self, stage: str) -> None:
        self._overruns.labels(known(stage, STAGES)).inc()

    def engine_failed(self, stage: str) -> None:
        self._engine_failures.labels(known(stage, STAGES)).inc()

    def stale_audio_dropped(self, seconds: float) -> None:
        self._stale_audio.inc(seconds)

    def non_finite_samples(self, n_samples: int) -> None:
        self._non_finite.inc(n_samples)

    # --- texts

    def text_tokens(self, kind: str, tokens: int) -> None:
        self._text_tokens.labels(known(kind, TEXT_KINDS)).inc(tokens)

    def text_ended(self, outcome: str) -> None:
        self._texts.labels(known(outcome, TEXT_OUTCOMES)).inc()

    def texts_changed(self, running: int, waiting: int) -> None:
        self._texts_running.set(running)
        self._texts_waiting.set(waiting)
