"""`attribution`: what late turns were late for, by stage and kind, as more sessions come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from voicepipe.core.events import Blame, BlameKind, Stage
from voicepipe.sim.arms import EVERYBODY, WORDS, arm
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting, series_of
from voicepipe.sim.scene import Scene, TextJobs, play
from voicepipe.sim.service import TALK, WRITING
from voicepipe.sim.voice_scenes import ONE_X, VOICE, calm_scene

ARMS = ("M0", "D3")
LOADS, LOADS_FULL = (0.5, 1.0, 1.5, 2.0, 3.0), (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
TEXTS_HZ = 0.05
SECONDS, SECONDS_FULL = 600.0, 3600.0
OWN = (BlameKind.WAIT, BlameKind.BLOCKING, BlameKind.SERVICE, BlameKind.ESTIMATOR, BlameKind.HAND_OFF)
"""What the time of a stage with chunks goes to. Companions in a batch are told apart on a device that goes chunk by
chunk; they are part of a shared engine's service."""

Cause = tuple[Stage, BlameKind]
CAUSES: tuple[Cause, ...] = (
    (Stage.ENDPOINT, BlameKind.ENDPOINT),
    (Stage.ENDPOINT, BlameKind.WAIT),
    (Stage.ENDPOINT, BlameKind.SERVICE),
    (Stage.ENDPOINT, BlameKind.HAND_OFF),
    *((stage, kind) for stage in (Stage.ASR, Stage.LLM, Stage.TTS) for kind in OWN),
    (Stage.LLM, BlameKind.BATCHING),
    (Stage.SEND, BlameKind.WAIT),
    (Stage.SEND, BlameKind.CLIENT),
)
OTHER = "other"
SHOWN = 0.02
"""Of all that a picture shows, below which a cause is drawn with the others."""


def named(cause: Cause) -> str:
    return f"{cause[0].value} {cause[1].value}" if cause in CAUSES else OTHER


STAGES = {
    Stage.ENDPOINT: "end of speech",
    Stage.ASR: "recogniser",
    Stage.LLM: "model",
    Stage.TTS: "voice",
    Stage.SEND: "way to the client",
}
KINDS = {
    BlameKind.WAIT: "waiting for other turns",
    BlameKind.BLOCKING: "blocked by lower classes",
    BlameKind.SERVICE: "at work beyond its share",
    BlameKind.BATCHING: "at work for others in the same chunk",
    BlameKind.ESTIMATOR: "at work longer than declared",
    BlameKind.HAND_OFF: "handed over",
    BlameKind.ENDPOINT: "not known yet",
    BlameKind.CLIENT: "on the way",
}
IN_WORDS = {named(cause): f"{STAGES[cause[0]]}: {KINDS[cause[1]]}" for cause in CAUSES} | {OTHER: "all others"}
"""As pictures call causes."""
NAMES = (*dict.fromkeys(map(named, CAUSES)), OTHER)


def points(setting: Setting) -> Sequence[Point]:
    return [{"arm": name, "offered": load} for name in ARMS for load in (LOADS_FULL if setting.full else LOADS)]


def scene_of(name: str, load: float, seed: int, setting: Setting) -> Scene:
    scene = calm_scene(seed, setting, ONE_X * load, SECONDS_FULL if setting.full else SECONDS)
    return replace(arm(name, replace(scene, texts=TextJobs(TEXTS_HZ))), admission=EVERYBODY)


def put_down(blame: Blame) -> Mapping[str, float]:
    """The whole overrun, in seconds, by cause: what the parts beyond the plan come to once what other stages left
    of their shares has been taken off, of each in proportion."""
    over = [(named((part.stage, part.kind)), part.seconds) for part in blame.parts if part.seconds > 0.0]
    if blame.unattributed_s > 0.0:
        over.append((OTHER, blame.unattributed_s))
    total = sum(seconds for _, seconds in over)
    found: Counter[str] = Counter()
    for name, seconds in over:
        found[name] += seconds * blame.overrun_s / total  # type: ignore[assignment]
    return found


def run(point: Point, seed: int, setting: Setting) -> Measured:
    played = play(scene_of(str(point["arm"]), float(point["offered"]), seed, setting))
    counted = [asked for asked in played.asked if asked.counts]
    blames = [asked.record.blame for asked in counted if asked.record is not None and asked.record.blame]
    overrun_s = sum(blame.overrun_s for blame in blames)
    spent: Counter[str] = Counter()
    for blame in blames:
        spent.update(put_down(blame))
    blamed = Counter(named((blame.stage, blame.kind)) for blame in blames)
    turns = max(1, len(counted))
    found: dict[str, float | None] = {
        "turns": float(len(counted)),
        "late": len(blames) / turns,
        "overrun_ms_per_turn": 1000.0 * overrun_s / turns,
        "attributed": sum(spent.values()) / overrun_s if blames else None,
        "unattributed_ms_per_turn": 1000.0 * sum(blame.unattributed_s for blame in blames) / turns,
    }
    for name in NAMES:
        found[f"{name}, ms per turn"] = 1000.0 * spent[name] / turns
        found[f"{name}, blamed"] = blamed[name] / turns
    return found


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    return [chart for name in ARMS for chart in _of_arm(name, [row for row in rows if row["arm"] == name]) if chart]


def _of_arm(name: str, rows: Sequence[Row]) -> Sequence[Chart]:
    if not rows:
        return ()
    x, carried = "sessions that come, times what the device carries", (Mark("x", 1.0, "what it carries"),)
    words = f"{name} ({WORDS[name].removeprefix('voicepipe: ')}, everybody let in)"
    return (
        Chart(
            f"By what turns were later than the budget, all of it: {words}",
            x,
            "ms beyond 200 ms, mean over all turns",
            (*_stack(rows, "ms per turn"), _whole(rows, "overrun_ms_per_turn", "all of it, with its interval")),
            carried,
        ),
        Chart(
            f"Turns that were late, by the one largest cause of each: {words}",
            x,
            "share of turns",
            (*_stack(rows, "blamed"), _whole(rows, "late", "all late turns, with their interval")),
            carried,
        ),
    )


def _stack(rows: Sequence[Row], measure: str) -> tuple[Series, ...]:
    """The large causes in their order, and the sum of the small ones."""
    loads = tuple(float(str(row["offered"])) for row in rows)
    heights = {name: [float(str(row[f"{name}, {measure}"])) for row in rows] for name in NAMES}
    total = sum(map(sum, heights.values()))
    large = [name for name in NAMES if name != OTHER and sum(heights[name]) > SHOWN * total]
    rest = tuple(sum(heights[name][at] for name in NAMES if name not in large) for at in range(len(rows)))
    series = [Series(IN_WORDS[name], loads, tuple(heights[name]), kind="stack") for name in large]
    return (*series, Series(IN_WORDS[OTHER], loads, rest, kind="stack"))


def _whole(rows: Sequence[Row], measure: str, name: str) -> Series:
    """Over the bands, which add up to it."""
    (whole,) = series_of([{**row, "name": name} for row in rows], "name", "offered", measure)
    return whole


EXPERIMENT = Experiment(
    "attribution",
    "Which stage, and what in it, do late turns owe their lateness to, as more sessions come?",
    "From half of what the device carries to three times that, with everybody let in and long texts beside "
    "voice, on one shared engine (M0) and on a device that goes by deadlines (D3). The ledger of a late turn "
    "splits its time by stage and by kind: waiting for others of its own class, blocked by lower ones, at "
    "work, longer at work than was declared, handed over, and not knowing yet that the speech has ended. What "
    "is beyond the plan, less what other stages left of theirs, adds up to all of the overrun. Left, "
    "milliseconds beyond the budget, as a mean over all turns: the height is the whole overrun, and each band "
    "is a cause. Right, the share of turns that were late, each put down to its largest cause. The column "
    "`attributed` says how much of the overrun the causes explain: all of it.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=(*TALK, *WRITING),
)
