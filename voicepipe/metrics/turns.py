"""What became of turns: verdicts, gaps, blame, slack, what was begun ahead, what was given up."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from voicepipe.core.events import Speculation, TurnRecord
from voicepipe.metrics.labels import AHEAD, BLAME_KINDS, RUNGS, STAGES, VERDICTS, known

_GAP_BUCKETS_S = (
    *(0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25),  # fine around the budget that holds by default
    *(0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0),
)
_RATIO_BUCKETS = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_SLACK_BUCKETS_S = (-1.0, -0.5, -0.2, -0.1, -0.05, 0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5)


class TurnMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._define_gaps(registry)
        self._define_blame(registry)
        self._define_ahead(registry)
        for verdict in VERDICTS:
            self._turns.labels(verdict)

    def _define_gaps(self, registry: CollectorRegistry) -> None:
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
        self._ratio = Histogram(
            "voicepipe_felt_gap_budget_ratio",
            "Felt gap in multiples of the turn's own budget, which a client may choose",
            buckets=_RATIO_BUCKETS,
            registry=registry,
        )
        self._slack = Histogram(
            "voicepipe_turn_slack_seconds",
            "Deadline less now less predicted service, where a stage begins after the speech end; negative: late",
            ["stage"],
            buckets=_SLACK_BUCKETS_S,
            registry=registry,
        )
        for stage in STAGES:
            self._slack.labels(stage)

    def _define_blame(self, registry: CollectorRegistry) -> None:
        self._blames = Counter(
            "voicepipe_blames",
            "Late and refused turns, by the one stage and kind of time that they are put down to",
            ["stage", "kind"],
            registry=registry,
        )
        self._blamed = Counter(
            "voicepipe_blamed_seconds",
            "Time beyond the plan of what was blamed",
            ["stage", "kind"],
            registry=registry,
        )
        self._unattributed = Counter(
            "voicepipe_unattributed_seconds", "Time of late turns that nothing explains", registry=registry
        )
        self._blocked = Counter(
            "voicepipe_turn_blocked_by_background_seconds",
            "What background added to the felt gaps of turns",
            registry=registry,
        )
        for stage in STAGES:
            for kind in BLAME_KINDS:
                self._blames.labels(stage, kind)
                self._blamed.labels(stage, kind)

    def _define_ahead(self, registry: CollectorRegistry) -> None:
        self._ahead = Counter(
            "voicepipe_speculation_turns",
            "Turns by what became of replies begun ahead of the commit: hit, miss (all in vain), none (none begun)",
            ["result"],
            registry=registry,
        )
        self._attempts = Counter(
            "voicepipe_speculation_attempts", "Replies begun ahead of a commit", registry=registry
        )
        self._saved = Counter(
            "voicepipe_speculation_saved_seconds",
            "Service that released replies had before the speech end",
            registry=registry,
        )
        self._wasted = Counter(
            "voicepipe_speculation_wasted_seconds", "Service of replies that were dropped", registry=registry
        )
        self._rungs = Counter(
            "voicepipe_rungs", "Rungs of the ladder that turns took for their deadline", ["rung"], registry=registry
        )
        self._reopened = Counter(
            "voicepipe_turns_reopened", "Commits that were taken back: the speaker went on", registry=registry
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
        for result in AHEAD:
            self._ahead.labels(result)
        for rung in RUNGS:
            self._rungs.labels(rung)

    def turn_ended(self, verdict: str, felt_s: float | None, system_s: float | None) -> None:
        """Gaps are None where the turn had no content."""
        self._turns.labels(known(verdict, VERDICTS)).inc()
        if felt_s is not None:
            self._felt.observe(felt_s)
        if system_s is not None:
            self._system.observe(system_s)

    def turn_recorded(self, record: TurnRecord) -> None:
        """What else its record tells."""
        if record.felt_estimate_s is not None:
            self._ratio.observe(record.felt_estimate_s / record.budget_s)
        for forecast in record.forecasts:
            if forecast.slack_s is not None:
                self._slack.labels(forecast.stage.value).observe(forecast.slack_s)
        blame = record.blame
        if blame is not None:
            where = (blame.stage.value, blame.kind.value)
            self._blames.labels(*where).inc()
            self._blamed.labels(*where).inc(max(0.0, blame.over_s))
            self._unattributed.inc(max(0.0, blame.unattributed_s))
        self._blocked.inc(record.background_s)
        self._begun_ahead(record.speculation)
        for rung in record.rungs:
            self._rungs.labels(known(rung, RUNGS)).inc()
        self._reopened.inc(record.reopened)
        self._stalled.inc(record.stalled_s > 0.0)
        self._stalls.inc(record.stalled_s)

    def transcript_corrected(self) -> None:
        self._corrections.inc()

    def _begun_ahead(self, ahead: Speculation) -> None:
        result = "hit" if ahead.hit else "miss" if ahead.attempts else "none"
        self._ahead.labels(result).inc()
        self._attempts.inc(ahead.attempts)
        self._saved.inc(ahead.saved_s)
        self._wasted.inc(ahead.wasted_s)
