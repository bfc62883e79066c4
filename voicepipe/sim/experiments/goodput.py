"""Turns in time per second, and what is left for texts: all arms, and an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from voicepipe.sim.arms import ORACLE, TUNED, arm, called
from voicepipe.sim.clairvoyant import planned
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting
from voicepipe.sim.scene import Scene, TextJobs, play
from voicepipe.sim.service import TALK, WRITING
from voicepipe.sim.voice_scenes import VOICE, calm_scene, measures, service_of, shares

ARMS = (*TUNED, "D0", "D1", "D2", "D3", "D8")
LOADS, LOADS_FULL = (1.2,), (0.6, 0.8, 1.0, 1.2, 1.5)
TEXTS_HZ = 0.05
LEARN_S = 300.0
"""Not counted: a policy that learns has seen thousands of turns by then, on a device for a hundred sessions."""
ENOUGH = 0.9
"""Of the oracle's turns in time: what is asked of a policy."""
SECONDS, SECONDS_FULL = 600.0, 3600.0


def points(setting: Setting) -> Sequence[Point]:
    loads = LOADS_FULL if setting.full else LOADS
    return [{"arm": name, "offered": load} for load in loads for name in (*ARMS, ORACLE)]


def scene_of(name: str, load: float, seed: int, setting: Setting) -> Scene:
    carries = service_of(setting).sessions
    scene = calm_scene(seed, setting, load * carries, SECONDS_FULL if setting.full else SECONDS)
    scene = replace(scene, begin_s=LEARN_S, texts=TextJobs(TEXTS_HZ))
    return planned(scene) if name == ORACLE else arm(name, scene, cap=round(carries))


def run(point: Point, seed: int, setting: Setting) -> Measured:
    played = play(scene_of(str(point["arm"]), float(point["offered"]), seed, setting))
    found, became = measures(played), shares(played)
    names = ("goodput_hz", "late_of_admitted", "refused_sessions", "felt_p50_ms", "felt_p99_ms", "load")
    return {
        **{name: found[name] for name in names},
        "refused_turns": became["refused"],
        "missed_turns": became["missed"] + became["masked"],
        "text_tokens_s": found["text_tokens_s"],
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    """Of the load that is nearest to 1.2."""
    load = min({float(str(row["offered"])) for row in rows}, key=lambda each: abs(each - 1.2))
    shown = [row for row in rows if row["offered"] == load]
    names = tuple(called(str(row["arm"])) for row in shown)

    best = [float(str(row["goodput_hz"])) for row in shown if row["arm"] == ORACLE]
    marks = tuple(Mark("y", ENOUGH * goodput_hz, "90 % of the oracle's") for goodput_hz in best)

    def chart(title: str, y: str, measure: str, *marks: Mark) -> Chart:
        return Chart(title, "arm", y, (_bars(shown, measure),), marks, categories=names, sideways=True)

    return [
        chart(
            f"Turns answered in time, at {load:g} times what the device carries",
            "turns per second",
            "goodput_hz",
            *marks,
        ),
        chart("Turns that were answered too late", "share of all questions", "missed_turns"),
        chart(
            "Turns that were refused, with their session or by themselves", "share of questions", "refused_turns"
        ),
        chart("What is left for texts on the same device", "tokens read and written per second", "text_tokens_s"),
    ]


def _bars(rows: Sequence[Row], measure: str) -> Series:
    def column(name: str) -> tuple[float, ...]:
        return tuple(float(str(row.get(name, row[measure]) or 0.0)) for row in rows)

    places = tuple(float(place) for place in range(len(rows)))
    return Series(measure, places, column(measure), column(f"{measure}_low"), column(f"{measure}_high"), "bars")


EXPERIMENT = Experiment(
    "goodput",
    "How many turns a second are answered in time, and what is left for texts beside them?",
    "More sessions come than the device carries (a hundred on one for 83, or fewer on one of --service gpu), and "
    "texts beside them. M0 to M4 let everybody in and share one engine, C1 to C6 have a limit, D0 to D3 and D8 "
    "keep the device for voice (D3 and D8 let texts into the slack; "
    "the texts of D0 to D2 have to be made elsewhere, so that their last bar is empty). O is hindsight: it knows "
    "beforehand what every turn will take, refuses single questions so that all others are in time, and makes no "
    "texts; all arms have the same draws. The bars are turns in "
    "time per second, the share of questions that were answered too late, which is a promise broken, of those that "
    "were refused, and tokens of texts per second; lines are 95 % intervals.",
    points,
    run,
    charts,
    seeds=3,
    service="gpu-large",
    reads=VOICE,
    needs=(*TALK, *WRITING),
)
