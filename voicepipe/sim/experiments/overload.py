"""Where turns go as more and more sessions come."""

from __future__ import annotations

from collections.abc import Sequence

from voicepipe.sim.arms import arm
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting
from voicepipe.sim.scene import play
from voicepipe.sim.service import TALK
from voicepipe.sim.voice_scenes import ONE_X, OUTCOMES, VOICE, calm_scene, measures, shares

ARMS = ("D0", "D1", "M4", "D3", "D4", "D5", "D6", "D7")
TITLES = {
    "D0": "Earliest deadline first, with everybody let in: most turns are late once too many talk",
    "D1": "A fixed number of sessions: what is let in is mostly in time",
    "M4": "Batches by deadlines, with everybody let in: it breaks later",
    "D3": "Admission by deadline: what is let in is in time, whatever comes",
    "D4": "A rate of new sessions, whatever becomes of them",
    "D5": "A limit that grows by one a round and falls with each late turn (AIMD)",
    "D6": "A limit that follows the gradient of latency",
    "D7": "A limit that follows how much latency exceeds the least one (TCP Vegas)",
}
LOADS, LOADS_FULL = (0.5, 1.0, 2.0, 3.0), (0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
SECONDS, SECONDS_FULL = 600.0, 3600.0


def points(setting: Setting) -> Sequence[Point]:
    loads = LOADS_FULL if setting.full else LOADS
    return [{"arm": name, "offered": load} for name in ARMS for load in loads]


def run(point: Point, seed: int, setting: Setting) -> Measured:
    seconds = SECONDS_FULL if setting.full else SECONDS
    scene = calm_scene(seed, setting, ONE_X * float(point["offered"]), seconds)
    played = play(arm(str(point["arm"]), scene, cap=round(ONE_X)))
    return {**shares(played), "goodput_hz": measures(played)["goodput_hz"]}


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    return [_chart(name, [row for row in rows if row["arm"] == name]) for name in ARMS]


def _chart(name: str, rows: Sequence[Row]) -> Chart:
    loads = tuple(float(str(row["offered"])) for row in rows)
    series = (
        Series(each, loads, tuple(float(str(row[each])) for row in rows), kind="stack")
        for each in OUTCOMES
        if any(row[each] for row in rows)
    )
    return Chart(
        f"{name}: {TITLES[name]}",
        "sessions that come, times what the device carries",
        "share of all turns that callers wanted",
        tuple(series),
        (Mark("x", 1.0, "what it carries"),),
    )


EXPERIMENT = Experiment(
    "overload",
    "What becomes of turns when up to three times as many sessions come as the device carries?",
    "From half of what the device carries to three times that, with everybody let in (D0), with a fixed "
    "number of sessions (D1), with everybody let in to an engine with batches by deadlines (M4), with admission "
    "by deadline (D3), at a fixed rate (D4), and with limits that learn from latency that has been suffered: AIMD "
    "(D5), the gradient (D6) and TCP Vegas (D7). The bands add up to all turns that callers wanted: met, met by "
    "a lower rung, masked, missed, and those that were never spoken because the session was refused. A device "
    "that goes by the earliest deadline and refuses nobody collapses: it spends its time on turns that are late "
    "anyway.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=TALK,
)
