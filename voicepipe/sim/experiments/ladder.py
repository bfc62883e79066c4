"""`ladder`: what each rung is worth, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import msgspec

from voicepipe.config import Rung
from voicepipe.core.events import WorkKind
from voicepipe.sim.arms import EVERYBODY, arm
from voicepipe.sim.experiment import Chart, Experiment, Measured, Point, Row, Series, Setting
from voicepipe.sim.played import Asked
from voicepipe.sim.scene import Scene, play
from voicepipe.sim.service import TALK, ServiceModel
from voicepipe.sim.summary import mean
from voicepipe.sim.voice_scenes import ONE_X, VOICE, calm_scene, outcome, service_of

RUNGS: Mapping[str, tuple[Rung, ...]] = {
    "none": (),
    "short-clause": ("short-clause",),
    "no-second-pass": ("no-second-pass",),
    "small-model": ("small-model",),
    "acknowledge": ("acknowledge",),
    "all": ("short-clause", "no-second-pass", "small-model", "acknowledge"),
}
"""By name in the table; each alone, and together."""
LOADS, LOADS_FULL = (2.0,), (1.0, 1.5, 2.0)
SECONDS, SECONDS_FULL = 600.0, 3600.0
SMALL_SHARE = 0.3
"""Of the model's times, that the smaller one takes where the service model has none."""
REHEARD = 2.5
"""Times a decode, that a second pass takes where the service model has none."""


def points(setting: Setting) -> Sequence[Point]:
    return [{"rungs": name, "offered": load} for load in (LOADS_FULL if setting.full else LOADS) for name in RUNGS]


def with_all_engines(model: ServiceModel) -> ServiceModel:
    """With a smaller model and a second recogniser, each with assumed times where it has none."""
    manner = model.manner
    if not manner.small_share:
        manner = msgspec.structs.replace(manner, small_share=SMALL_SHARE)
    costs = model.costs
    if model.lacks([(WorkKind.SECOND_PASS, "")]):
        final = model.cost(WorkKind.FINAL, "")
        rehearing = msgspec.structs.replace(
            final,
            kind=WorkKind.SECOND_PASS,
            base_s=REHEARD * final.base_s,
            per_unit_s=REHEARD * final.per_unit_s,
        )
        costs = (*costs, rehearing)
    return msgspec.structs.replace(model, manner=manner, costs=costs)


def scene_of(rungs: Sequence[Rung], load: float, seed: int, setting: Setting) -> Scene:
    scene = calm_scene(seed, setting, ONE_X * load, SECONDS_FULL if setting.full else SECONDS)
    scene = replace(arm("D0", scene), admission=EVERYBODY, second_pass=True, ladder=tuple(rungs))
    return replace(scene, service=with_all_engines(service_of(setting)))


@cache
def found_with(name: str, load: float, seed: int, setting: Setting) -> Measured:
    """Of turns by what became of them, and what they were given."""
    played = play(scene_of(RUNGS[name], load, seed, setting))
    counted = [asked for asked in played.asked if asked.counts]
    turns = max(1, len(counted))
    became, taken = Counter(map(outcome, counted)), Counter(rung for asked in counted for rung in _rungs(asked))
    return {
        "in_time": (became["met"] + became["degraded"]) / turns,
        **{verdict: became[verdict] / turns for verdict in ("met", "degraded", "masked", "missed")},
        "first_clause_words": mean(asked.clause_words for asked in counted if asked.clause_words),
        "shortened": taken["short-clause"] / turns,
        "not_reheard": taken["no-second-pass"] / turns,
        "by_small_model": taken["small-model"] / turns,
        "acknowledged": taken["acknowledge"] / turns,
    }


def _rungs(asked: Asked) -> Sequence[str]:
    return () if asked.record is None else asked.record.rungs


def run(point: Point, seed: int, setting: Setting) -> Measured:
    """Gains are against the same calls without a ladder."""
    load = float(point["offered"])
    found, without = (found_with(name, load, seed, setting) for name in (str(point["rungs"]), "none"))
    return {**found, "gain_in_time": (found["in_time"] or 0.0) - (without["in_time"] or 0.0)}


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    """Of the highest load."""
    load = max(float(str(row["offered"])) for row in rows)
    shown = [row for row in rows if row["offered"] == load]
    names = tuple(str(row["rungs"]) for row in shown)
    places = tuple(map(float, range(len(shown))))

    def column(name: str, measure: str) -> tuple[float, ...]:
        return tuple(float(str(row.get(name, row[measure]) or 0.0)) for row in shown)

    def bars(measure: str, called: str) -> Series:
        low, high = column(f"{measure}_low", measure), column(f"{measure}_high", measure)
        return Series(called, places, column(measure, measure), low, high, "bars")

    late = tuple(
        Series(name, places, column(name, name), kind="stack") for name in ("missed", "masked", "degraded")
    )
    x = "rungs that may be taken"
    given_up = (
        ("shortened", "first clause of three or four words"),
        ("by_small_model", "answered by the smaller model"),
        ("not_reheard", "not heard again by the larger recogniser"),
        ("acknowledged", 'a short sound, "mm-hm", at the deadline'),
    )
    return [
        Chart(
            f"Turns that were not simply met, at {load:g} times what the device carries",
            x,
            "share of turns",
            late,
            categories=names,
        ),
        Chart(
            "What each rung brings: turns in time, more than without a ladder",
            x,
            "share of turns, difference",
            (bars("gain_in_time", "gain"),),
            categories=names,
        ),
        Chart(
            "What it costs: how often something was given up",
            x,
            "share of turns",
            tuple(bars(measure, called) for measure, called in given_up),
            categories=names,
        ),
        Chart(
            "What it costs: how much is said before the first pause",
            x,
            "words of the first clause, mean",
            (bars("first_clause_words", "words"),),
            categories=names,
        ),
    ]


EXPERIMENT = Experiment(
    "ladder",
    "What is each rung of the ladder worth, and what does it cost?",
    "Twice as many callers as the device carries, all of them let in, with a smaller model and a larger "
    "second recogniser at hand. Each rung is switched on alone, then all of them: a shorter first clause, no "
    "second pass over what was said, an answer by the smaller model, a short sound at the deadline. The same "
    "calls come each time, so that gains are differences of pairs. Masked turns are counted apart: a sound at "
    "the deadline is no answer in time. What is given up stands beside it: how often, and the words of the "
    "first clause, which is the quality that a listener notices first. A rung is taken where a turn is "
    "expected to be late, not only where it would be: the lower bars say how often that was. --full has lower "
    "loads too.",
    points,
    run,
    charts,
    seeds=5,
    reads=VOICE,
    needs=TALK,
)
