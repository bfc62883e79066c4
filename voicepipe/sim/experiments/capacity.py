"""How many voice sessions a device carries."""

from __future__ import annotations

from collections.abc import Sequence

from voicepipe.sim.arms import arm
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Setting, series_of
from voicepipe.sim.scene import play
from voicepipe.sim.service import TALK
from voicepipe.sim.voice_scenes import BUDGET_MS, VOICE, calm_scene, felt_ms, measures

SESSIONS, SESSIONS_FULL = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)
SECONDS, SECONDS_FULL = 900.0, 14_400.0


def points(setting: Setting) -> Sequence[Point]:
    return [{"sessions": sessions} for sessions in (SESSIONS_FULL if setting.full else SESSIONS)]


def run(point: Point, seed: int, setting: Setting) -> Measured:
    scene = calm_scene(seed, setting, float(point["sessions"]), SECONDS_FULL if setting.full else SECONDS)
    played = play(arm("D0", scene))
    counted = [asked for asked in played.asked if asked.counts]
    found = measures(played)
    return {
        "turns": float(len(counted)),
        "felt_p50_ms": felt_ms(counted, 0.5),
        "felt_p99_ms": felt_ms(counted, 0.99),
        "felt_p999_ms": felt_ms(counted, 0.999),
        "late": found["late_of_admitted"],
        "load": found["load"],
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    x = "sessions under way at a time, on average"
    shares = [
        {"percentile": name, "sessions": row["sessions"], "ms": row[measure]}
        for name, measure in (("50 %", "felt_p50_ms"), ("99 %", "felt_p99_ms"), ("99.9 %", "felt_p999_ms"))
        for row in rows
    ]
    return [
        Chart(
            "Turns collide long before the device is busy",
            x,
            "felt gap, ms",
            series_of(shares, "percentile", "sessions", "ms"),
            (Mark("y", BUDGET_MS, "budget 200 ms"),),
        ),
        Chart(
            "Load of the device, and turns that are late",
            x,
            "share",
            series_of(
                [
                    {"what": name, "sessions": row["sessions"], "share": row[name]}
                    for name in ("load", "late")
                    for row in rows
                ],
                "what",
                "sessions",
                "share",
            ),
        ),
    ]


EXPERIMENT = Experiment(
    "capacity",
    "How many voice sessions does one device carry with 99.9 % of turns inside the budget?",
    "Callers talk to a device of their own, with everybody let in: from one to a dozen at a time. Left, the "
    "felt gap of half, 99 % and 99.9 % of turns: where a line crosses the budget, so many sessions are "
    "carried at that percentile. Right, how busy the device is: at 200 ms it is collisions that bind, turns "
    "that end within the same instant, and not utilisation. A percentile of 99.9 needs some ten thousand "
    "turns; --full plays that many.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=TALK,
)
