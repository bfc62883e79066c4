"""How many voice sessions a device carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, sqrt

from voicepipe.core.deadline import DeadlineSettings, late_risk
from voicepipe.core.demand import DemandSnapshot
from voicepipe.core.turn_state import DOWNLINK_S
from voicepipe.sim.arms import arm
from voicepipe.sim.experiment import (
    Chart,
    Experiment,
    Mark,
    Measured,
    Point,
    Row,
    Series,
    Setting,
    crossing,
    series_of,
)
from voicepipe.sim.scene import play
from voicepipe.sim.service import TALK
from voicepipe.sim.statistics import poisson, poisson_tail
from voicepipe.sim.voice_scenes import BUDGET_MS, VOICE, calm_scene, felt_ms, measures

SESSIONS, SESSIONS_FULL = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)
BUDGET_S = BUDGET_MS / 1000
PROMISED = 0.001
"""Of turns, that may be late."""
SECONDS, SECONDS_FULL = 900.0, 14_400.0


def points(setting: Setting) -> Sequence[Point]:
    return [{"sessions": sessions} for sessions in (SESSIONS_FULL if setting.full else SESSIONS)]


def late_by_count(sessions: float, demand: DemandSnapshot) -> float:
    """The share of turns that are late by the plain collision formula: as many turns fit within a budget D as

        (k - 1) C + C_own + B <= D

    says, with C what a turn costs others after its speech end, C_own what it costs itself and B half the longest
    chunk that may be in the way; a turn is late if as many others or more end within a budget of it, which is a
    Poisson number with the mean sessions x turns per second x D. What the device hears meanwhile gives way.
    """
    room_s = BUDGET_S - DOWNLINK_S - 0.5 * demand.blocking_s
    own_s = demand.hit_rate * demand.hit.path_s + (1.0 - demand.hit_rate) * demand.miss.path_s
    if own_s > room_s:
        return 1.0
    fitting = 1 + floor((room_s - own_s) / demand.shared_s)
    return poisson_tail(sessions * demand.turns_hz * BUDGET_S, fitting)


def late_by_test(sessions: float, demand: DemandSnapshot) -> float:
    """The same as the admission test has it (`core.deadline`), which asks when the others came as well: for a turn
    beside a Poisson number of other sessions, of which there are so many in the mean."""
    settings = DeadlineSettings(budget_s=BUDGET_S, overhead_s=DOWNLINK_S)
    most = ceil(sessions + 6.0 * sqrt(sessions) + 6.0)
    return sum(
        weight * late_risk(others + 1, demand, settings, BUDGET_S)
        for others, weight in enumerate(poisson(sessions, most))
    )


def run(point: Point, seed: int, setting: Setting) -> Measured:
    sessions = float(point["sessions"])
    scene = calm_scene(seed, setting, sessions, SECONDS_FULL if setting.full else SECONDS)
    played = play(replace(arm("D0", scene), watches=True))
    assert played.demand is not None
    counted = [asked for asked in played.asked if asked.counts]
    found = measures(played)
    return {
        "turns": float(len(counted)),
        "felt_p50_ms": felt_ms(counted, 0.5),
        "felt_p99_ms": felt_ms(counted, 0.99),
        "felt_p999_ms": felt_ms(counted, 0.999),
        "late": found["late_of_admitted"],
        "late_by_count": late_by_count(sessions, played.demand),
        "late_by_test": late_by_test(sessions, played.demand),
        "load": found["load"],
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    x = "sessions under way at a time, on average"

    def lines(y: str, measures: Mapping[str, str]) -> tuple[Series, ...]:
        named = [
            {
                "what": name,
                "sessions": row["sessions"],
                y: row[measure],
                **{f"{y}_{end}": row[f"{measure}_{end}"] for end in ("low", "high") if f"{measure}_{end}" in row},
            }
            for measure, name in measures.items()
            for row in rows
        ]
        return series_of(named, "what", "sessions", y)

    felt = {"felt_p50_ms": "50 % of turns", "felt_p99_ms": "99 % of turns", "felt_p999_ms": "99.9 % of turns"}
    late = {
        "load": "load of the device",
        "late": "late turns, measured",
        "late_by_test": "late turns, by the formula that admission tests by",
        "late_by_count": "late turns, by the plain collision formula",
    }
    return [
        Chart(
            "Turns collide long before the device is busy",
            x,
            "felt gap, ms",
            lines("ms", felt),
            (Mark("y", BUDGET_MS, "budget 200 ms"), *_carried(rows)),
        ),
        Chart(
            "Late turns, measured and by formula, against the load of the device",
            x,
            "share",
            lines("share", late),
            (Mark("y", PROMISED, "0.1 % of turns"),),
            log_y=True,
        ),
    ]


def _carried(rows: Sequence[Row]) -> tuple[Mark, ...]:
    """Sessions at which one turn in a thousand is late, measured and by formula; where the points reach so far."""
    marks = []
    for measure, level, name in (
        ("felt_p999_ms", BUDGET_MS, "measured"),
        ("late_by_test", PROMISED, "by formula"),
    ):
        found = [row for row in rows if row[measure] is not None]
        xs, ys = ([float(str(row[column])) for row in found] for column in ("sessions", measure))
        at = crossing(xs, ys, level)
        if at is not None:
            marks.append(Mark("x", at, f"99.9 % in time up to {at:.1f} sessions, {name}"))
    return tuple(marks)


EXPERIMENT = Experiment(
    "capacity",
    "How many voice sessions does one device carry with 99.9 % of turns inside the budget?",
    "Callers talk to a device of their own, with everybody let in: from one to a dozen at a time. Left, the "
    "felt gap of half, 99 % and 99.9 % of turns: where a line crosses the budget, so many sessions are "
    "carried at that percentile. Right, how busy the device is: at 200 ms it is collisions that bind, turns "
    "that end within the same instant, and not utilisation. Beside the measured share of late turns stand two "
    "formulas, with costs and rates as the server measures them: that by which it admits sessions, and the "
    "plain one that counts how many turns end within a budget, which takes far more for late than are. A "
    "percentile of 99.9 needs some ten thousand turns; --full plays that many.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=TALK,
)
