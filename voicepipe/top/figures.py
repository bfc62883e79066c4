"""What a view shows, as plain figures: of the time since a server's start, or since an earlier reading."""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.top.scrape import Scrape

LATE = ("missed", "masked", "failed", "refused")
UNCOUNTED = ("empty", "interrupted")
"""Verdicts of turns that nobody was kept waiting in."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Blamed:
    stage: str
    kind: str
    turns: int
    mean_ms: float
    """Beyond the plan."""


@dataclass(frozen=True, slots=True)
class Lane:
    busy: float
    """Share of its time in which it was at work: 0 to 1."""
    classes: dict[str, float]
    """The same, by who goes first."""
    running: int
    queued: int


@dataclass(frozen=True, slots=True)
class Ahead:
    """Replies that were begun ahead of their turn's commit."""

    hit_rate: float | None
    """Of turns: the released reply had been begun ahead. None: there was no turn."""
    attempts: float | None
    """Per turn."""
    saved_ms: float | None
    wasted_ms: float | None
    """Service per turn."""
    wasted_share: float | None
    """Of the device's time."""


@dataclass(frozen=True, slots=True)
class Figures:
    version: str
    ready: bool
    draining: bool
    span_s: float | None
    """What the counts are of; None: since the start, which is not known."""
    is_since_start: bool
    budget_ms: float
    achievable_ms: float | None
    """None before it has been measured."""
    sessions: int
    most_sessions: int | None
    waiting: int
    felt_ms: dict[str, float | None]
    """Quantiles; None where no turn had content."""
    system_ms: dict[str, float | None]
    turns: int
    in_time: float | None
    """Share, of turns that somebody waited in."""
    verdicts: dict[str, int]
    blame: list[Blamed]
    """Most turns first."""
    refusals: dict[str, int]
    """By reason, most first; only those that there were."""
    leases: dict[str, int]
    device: dict[str, Lane]
    ahead: Ahead
    admission: dict[str, float]
    """Use of each of the policy's limits."""
    loop_lag_p99_ms: float | None
    input_age_p99_ms: float | None
    overload: int
    engine_failures: int
    resident_mb: float | None


def figures(now: Scrape, before: Scrape | None, uptime_s: float | None) -> Figures:
    """`before`: an earlier reading of the same server; None: all since its start, `uptime_s` ago."""
    change = now if before is None else now.since(before)
    span_s = uptime_s if before is None else now.at - before.at
    achievable = now.value("voicepipe_achievable_gap_seconds")
    most = now.value("voicepipe_sessions_limit")
    resident = now.value("process_resident_memory_bytes")
    verdicts = {name: round(count) for name, count in change.by("voicepipe_turns_total", "verdict").items()}
    refusals = change.by("voicepipe_refusals_total", "reason")
    return Figures(
        version=now.label("voicepipe_build_info", "version"),
        ready=bool(now.value("voicepipe_ready")),
        draining=bool(now.value("voicepipe_draining")),
        span_s=span_s,
        is_since_start=before is None,
        budget_ms=1000 * (now.value("voicepipe_budget_seconds") or 0.0),
        achievable_ms=1000 * achievable if achievable else None,
        sessions=round(now.value("voicepipe_sessions_active") or 0.0),
        most_sessions=None if most is None else round(most),
        waiting=round(now.value("voicepipe_waiting_room") or 0.0),
        felt_ms=_quantiles(change, "voicepipe_felt_gap_seconds"),
        system_ms=_quantiles(change, "voicepipe_system_gap_seconds"),
        turns=sum(verdicts.values()),
        in_time=_in_time(verdicts),
        verdicts=verdicts,
        blame=_blame(change),
        refusals={name: round(count) for name, count in _sorted(refusals) if round(count)},
        leases={name: round(count) for name, count in now.by("voicepipe_leases", "kind").items()},
        device=_device(now, change, span_s),
        ahead=_ahead(change),
        admission=now.by("voicepipe_admission_use", "limit"),
        loop_lag_p99_ms=_ms(change.quantile("voicepipe_loop_lag_seconds", 0.99)),
        input_age_p99_ms=_ms(change.quantile("voicepipe_input_age_seconds", 0.99)),
        overload=round(now.value("voicepipe_overload_level") or 0.0),
        engine_failures=round(change.total("voicepipe_engine_failures_total")),
        resident_mb=None if resident is None else resident / 1e6,
    )


def _quantiles(change: Scrape, name: str) -> dict[str, float | None]:
    return {label: _ms(change.quantile(name, q)) for label, q in QUANTILES.items()}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _in_time(verdicts: dict[str, int]) -> float | None:
    counted = sum(count for name, count in verdicts.items() if name not in UNCOUNTED)
    late = sum(verdicts.get(name, 0) for name in LATE)
    return 1 - late / counted if counted else None


def _sorted(counts: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _blame(change: Scrape) -> list[Blamed]:
    seconds = change.labelled("voicepipe_blamed_seconds_total", "stage", "kind")
    turns = change.labelled("voicepipe_blames_total", "stage", "kind")
    blamed = [
        Blamed(stage, kind, round(count), 1000 * seconds.get((stage, kind), 0.0) / count)
        for (stage, kind), count in turns.items()
        if round(count)
    ]
    return sorted(blamed, key=lambda one: (-one.turns, -one.mean_ms, one.stage, one.kind))


def _device(now: Scrape, change: Scrape, span_s: float | None) -> dict[str, Lane]:
    busy = change.labelled("voicepipe_device_busy_seconds_total", "lane", "stage", "class")
    running, queued = (now.by(f"voicepipe_lane_{what}_chunks", "lane") for what in ("running", "queued"))
    lanes = {}
    for name, chunks in now.by("voicepipe_lane_chunks", "lane").items():
        classes: dict[str, float] = {}
        for (lane, _, klass), seconds in busy.items():
            if lane == name and span_s:
                classes[klass] = classes.get(klass, 0.0) + seconds / (chunks * span_s)
        lanes[name] = Lane(
            sum(classes.values()), classes, round(running.get(name, 0.0)), round(queued.get(name, 0.0))
        )
    return lanes


def _ahead(change: Scrape) -> Ahead:
    results = change.by("voicepipe_speculation_turns_total", "result")
    turns = sum(results.values())
    busy_s = change.total("voicepipe_device_busy_seconds_total")
    wasted_s = change.total("voicepipe_speculation_wasted_seconds_total")

    def per_turn(amount: float) -> float | None:
        return amount / turns if turns else None

    return Ahead(
        hit_rate=per_turn(results.get("hit", 0.0)),
        attempts=per_turn(change.total("voicepipe_speculation_attempts_total")),
        saved_ms=_ms(per_turn(change.total("voicepipe_speculation_saved_seconds_total"))),
        wasted_ms=_ms(per_turn(wasted_s)),
        wasted_share=wasted_s / busy_s if busy_s else None,
    )
