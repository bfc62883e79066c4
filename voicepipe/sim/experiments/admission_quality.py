"""`admission-quality`: how often each policy is right, against what could have been served."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeVar, cast

from voicepipe.config import AdmissionConfig, PolicyName
from voicepipe.core.events import Verdict
from voicepipe.sim.arms import EVERYBODY, admitted_by, arm
from voicepipe.sim.counterfactual import Question, beside, fits
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting
from voicepipe.sim.played import Asked, Played
from voicepipe.sim.scene import Scene, calls_of, play
from voicepipe.sim.service import TALK
from voicepipe.sim.voice_scenes import BUDGET_MS, ONE_X, VOICE, calm_scene

TURNS = "turns"
"""Not a policy for sessions: turns are refused, at the deadline that they will miss."""
LIMITS: Mapping[str, Sequence[float]] = {
    "none": (),
    "count": (5.0, 7.0, 9.0),
    "token-bucket": (7.0, 10.0),
    "aimd": (),
    "gradient": (),
    "vegas": (),
    "deadline": (0.0025, 0.005, 0.03, 0.12),
    TURNS: (),
}
"""Of `count` the sessions that it takes, of `token-bucket` those that its rate comes to, of `deadline` the share of
turns that it lets be late; the others have none that could be set."""
USUAL: Mapping[str, float] = {"count": 7.0, "token-bucket": 7.0, "deadline": 0.005}
NAMES: Mapping[str, str] = {
    "none": "nobody is refused",
    "count": "a number of sessions",
    "token-bucket": "a rate of sessions",
    "aimd": "AIMD",
    "gradient": "gradient of latency",
    "vegas": "TCP Vegas",
    "deadline": "by deadline (voicepipe)",
    TURNS: "turns refused at their deadline",
}
SHORT: Mapping[str, str] = {
    "none": "nobody refused",
    "count": "number",
    "token-bucket": "rate",
    "aimd": "AIMD",
    "gradient": "gradient",
    "vegas": "Vegas",
    "deadline": "by deadline",
    TURNS: "turns refused",
}
"""Where there is little room for names."""
OFFERED = 1.2
LEARN_S = 240.0
"""Not counted: what learns has seen some turns by then."""
SECONDS, SECONDS_FULL = 420.0, 3600.0
SAMPLES, SAMPLES_FULL = 8, 100
"""Decisions of each kind that are looked into, drawn by chance."""
MOST_FALSE_ADMITS, MOST_FALSE_REFUSALS = 0.001, 0.05


def points(setting: Setting) -> Sequence[Point]:
    found: list[Point] = []
    for name, limits in LIMITS.items():
        found += [{"policy": name, "limit": limit} for limit in limits] or [{"policy": name}]
    return found


def scene_of(name: str, limit: float, seed: int, setting: Setting) -> Scene:
    scene = calm_scene(seed, setting, OFFERED * ONE_X, SECONDS_FULL if setting.full else SECONDS)
    scene = replace(arm("D0", scene), begin_s=LEARN_S)
    if name == TURNS:
        return replace(scene, enforcement="enforce")
    if name == "deadline":
        return replace(scene, admission=AdmissionConfig(policy="deadline", late=limit))
    return admitted_by(cast(PolicyName, name), scene, round(limit))


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about sessions, or about turns, and whether it was right of those that were looked into."""

    admitted: int
    refused: int
    rightly_admitted: Sequence[bool]
    rightly_refused: Sequence[bool]

    def measures(self) -> Measured:
        """Shares of all decisions, as far as the samples tell."""
        every = max(1, self.admitted + self.refused)
        wrong = _share(self.rightly_admitted, False)
        missed = _share(self.rightly_refused, False)
        admits, refusals = self.admitted / every, self.refused / every
        cells = {
            "rightly_admitted": admits * (1.0 - wrong) if wrong is not None else 0.0,
            "falsely_admitted": admits * wrong if wrong is not None else 0.0,
            "rightly_refused": refusals * (1.0 - missed) if missed is not None else 0.0,
            "falsely_refused": refusals * missed if missed is not None else 0.0,
        }
        could = cells["rightly_admitted"] + cells["falsely_refused"]
        could_not = cells["falsely_admitted"] + cells["rightly_refused"]
        return {
            **cells,
            "false_admits": wrong,
            "false_refusals": missed,
            "admitted_of_servable": cells["rightly_admitted"] / could if could else None,
            "admitted_of_others": cells["falsely_admitted"] / could_not if could_not else None,
            "decisions": float(self.admitted + self.refused),
            "looked_into": float(len(self.rightly_admitted) + len(self.rightly_refused)),
        }


def _share(found: Sequence[bool], value: bool) -> float | None:
    return sum(each is value for each in found) / len(found) if found else None


def late_of(scene: Scene, until: float, numbers: Collection[int]) -> Collection[Question]:
    """Which questions that end by then are late, if these calls and no others come, and all are let in."""
    everybody = replace(scene, admission=EVERYBODY, max_sessions=Scene().max_sessions)
    alone = replace(everybody, only=frozenset(numbers), begin_s=0.0, seconds=until)
    return {(asked.call, float(asked.number)) for asked in play(alone).asked if _is_late(asked)}


def _is_late(asked: Asked) -> bool:
    """A caller who has gone on before there was an answer has waited for longer than the budget."""
    if asked.record is None:
        return True
    if asked.record.verdict is Verdict.INTERRUPTED:
        return asked.felt_s is None or 1000.0 * asked.felt_s > BUDGET_MS
    return not asked.kept and asked.record.verdict is not Verdict.EMPTY


def _end(scene: Scene) -> float:
    return scene.begin_s + scene.seconds


def decided_on_sessions(scene: Scene, samples: int, chance: Random) -> tuple[Decided, Played]:
    """Of calls that were over when it ended: of those that were not, it is not known who came beside them."""
    calls = calls_of(scene)
    played, scene = play(scene), replace(scene, calls=calls)
    counted = [number for number, call in enumerate(calls) if scene.begin_s <= call.at and call.end <= _end(scene)]
    admitted = [number for number in counted if number in played.let_in]
    refused = [number for number in counted if number not in played.let_in]

    def could_be(number: int) -> bool:
        return fits(partial(late_of, scene, calls[number].end), beside(calls, played.let_in, number), number)

    rightly_admitted = [could_be(number) for number in _drawn(admitted, samples, chance)]
    rightly_refused = [not could_be(number) for number in _drawn(refused, samples, chance)]
    return Decided(len(admitted), len(refused), rightly_admitted, rightly_refused), played


def decided_on_turns(scene: Scene, samples: int, chance: Random) -> tuple[Decided, Played]:
    """An admitted turn was so rightly if it was in time. A refused one could have been served if it, answered all
    the same, is in time, and nobody else is late for it."""
    calls = calls_of(scene)
    played, scene = play(scene), replace(scene, calls=calls)
    counted = [asked for asked in played.asked if asked.counts]
    refused = [asked for asked in counted if _is_refused(asked)]
    admitted = [asked for asked in counted if not _is_refused(asked)]

    def could_have_been(asked: Asked) -> bool:
        others = beside(calls, range(len(calls)), asked.call)
        until, numbers = calls[asked.call].end, {*others, asked.call}
        without = set(late_of(scene, until, numbers))
        given = late_of(replace(scene, answered=frozenset({asked.call})), until, numbers)
        return (asked.call, float(asked.number)) not in given and not set(given) - without

    return Decided(
        len(admitted),
        len(refused),
        [asked.kept for asked in admitted],
        [not could_have_been(asked) for asked in _drawn(refused, samples, chance)],
    ), played


def _is_refused(asked: Asked) -> bool:
    return asked.record is not None and asked.record.verdict is Verdict.REFUSED


Any_ = TypeVar("Any_")


def _drawn(of: Sequence[Any_], samples: int, chance: Random) -> Sequence[Any_]:
    return chance.sample(of, min(samples, len(of)))


def run(point: Point, seed: int, setting: Setting) -> Measured:
    name = str(point["policy"])
    scene = scene_of(name, float(point.get("limit", ONE_X)), seed, setting)
    chance, samples = Random(f"{seed} samples"), SAMPLES_FULL if setting.full else SAMPLES
    decide = decided_on_turns if name == TURNS else decided_on_sessions
    decided, played = decide(scene, samples, chance)
    counted = [asked for asked in played.asked if asked.counts]
    late = sum(not asked.kept for asked in counted)
    return {
        **decided.measures(),
        "late_of_admitted": late / len(counted) if counted else None,
        "goodput_hz": (len(counted) - late) / played.seconds,
    }


CELLS = {
    "rightly_admitted": "let in, and could be served",
    "falsely_admitted": "let in, and should not have been",
    "rightly_refused": "refused, and could not have been served",
    "falsely_refused": "refused, and could have been served",
}


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    usual = [row for row in rows if row.get("limit") in (None, USUAL.get(str(row["policy"])))]
    names = tuple(SHORT[str(row["policy"])] for row in usual)
    places = tuple(map(float, range(len(usual))))

    def column(name: str, measure: str) -> tuple[float, ...]:
        return tuple(float(str(row.get(name, row[measure]) or 0.0)) for row in usual)

    def bars(measure: str, called: str) -> Series:
        low, high = column(f"{measure}_low", measure), column(f"{measure}_high", measure)
        return Series(called, places, column(measure, measure), low, high, "bars")

    cells = tuple(Series(called, places, column(name, name), kind="stack") for name, called in CELLS.items())
    return [
        Chart(
            f"Decisions at {OFFERED:g} times what the device carries, against what could have been served",
            "policy",
            "share of decisions",
            cells,
            categories=names,
        ),
        Chart(
            "The higher and the further left, the better a policy tells them apart",
            "let in, of what should not have been (share)",
            "let in, of what could be served (share)",
            _curves(rows),
        ),
        Chart(
            "What is wrong with each, and what is promised",
            "policy",
            "share",
            (
                bars("late_of_admitted", "turns of sessions let in, that were late"),
                bars("false_refusals", "refusals of what could have been served"),
            ),
            (
                Mark("y", MOST_FALSE_ADMITS, "late turns: 0.1 % at most"),
                Mark("y", MOST_FALSE_REFUSALS, "false refusals: 5 % of refusals at most"),
            ),
            categories=names,
        ),
    ]


def _curves(rows: Sequence[Row]) -> tuple[Series, ...]:
    """A line through the limits of each policy for sessions, and what chance alone would give."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        x, y = row["admitted_of_others"], row["admitted_of_servable"]
        if row["policy"] != TURNS and x is not None and y is not None:
            found.setdefault(NAMES[str(row["policy"])], []).append((float(x), float(y)))
    curves = [
        Series(name, tuple(x for x, _ in sorted(points)), tuple(y for _, y in sorted(points)))
        for name, points in found.items()
    ]
    return (*curves, Series("by chance", (0.0, 1.0), (0.0, 1.0)))


EXPERIMENT = Experiment(
    "admission-quality",
    "How often does each policy let in what could not be served, and refuse what could have been?",
    f"At {OFFERED:g} times what the device carries, {SAMPLES} of those that each policy has let in and "
    f"{SAMPLES} of those that it has refused are drawn by chance, and the same calls are played once more, in "
    "which every piece of work takes what it took before: with this one call and without it. It could be "
    "served if with it no turn is late that is not late without it, its own included. That is told of the "
    "future, collisions that nobody can foresee among it, so that no policy is right every time. Left, what "
    "became of the decisions; then the same as a curve over each policy's limit (sessions, a rate, the share "
    "of turns that may be late); right, turns that were late though their session was let in, and refusals "
    "that were not needed, against what is promised. The last policy refuses turns instead of sessions, where "
    "the deadline is enforced: of a refused one it is asked whether it would have been in time if it had been "
    "answered, and nobody else late for it.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=TALK,
)
