"""What long texts beside voice do to turns, and what each layout of the device makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from voicepipe.sim.arms import EVERYBODY, arm, called, in_words
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting, series_of
from voicepipe.sim.one_turn import AFTER_MS, Trace, trace_of
from voicepipe.sim.scene import Scene, TextJobs, play
from voicepipe.sim.service import TALK, WRITING
from voicepipe.sim.voice_scenes import BUDGET_MS, VOICE, calm_scene, felt_ms, load_of, measures

ARMS = ("M0", "M1", "M2", "M3", "M4", "D3")
RATES = (0.0, 0.02, 0.05, 0.1, 0.2)
SESSIONS = 3.0
"""Half of what the device carries, so that voice alone is no reason to be late."""
SECONDS, SECONDS_FULL = 600.0, 3600.0


def points(setting: Setting) -> Sequence[Point]:
    rates = (*RATES, 0.3, 0.4) if setting.full else RATES
    return [{"arm": name, "texts_hz": rate} for name in ARMS for rate in rates]


def scene_of(name: str, rate: float, seed: int, setting: Setting) -> Scene:
    scene = calm_scene(seed, setting, SESSIONS, SECONDS_FULL if setting.full else SECONDS)
    return replace(arm(name, replace(scene, texts=TextJobs(rate))), admission=EVERYBODY)


def run(point: Point, seed: int, setting: Setting) -> Measured:
    played = play(scene_of(str(point["arm"]), float(point["texts_hz"]), seed, setting))
    found = measures(played)
    counted = [asked for asked in played.asked if asked.counts]
    slowest = felt_ms(counted, 1.0)
    return {
        "average_load": load_of(played),
        "felt_p50_ms": found["felt_p50_ms"],
        "felt_p99_ms": found["felt_p99_ms"],
        "felt_max_ms": slowest,
        "late": found["late_of_admitted"],
        "text_tokens_s": found["text_tokens_s"],
        "texts_done": float(played.texts.done),
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    budget = Mark("y", BUDGET_MS, "budget 200 ms")
    x = "texts that nobody waits for, per second (4,000 tokens in, 800 out)"
    return [
        Chart(
            "A few long texts break a shared engine; by deadlines they stay out of the way",
            x,
            "felt gap, 99 % of turns, ms",
            series_of(in_words(rows), "arm", "texts_hz", "felt_p99_ms"),
            (budget,),
            log_y=True,
        ),
        Chart(
            "It happens while the device is mostly idle",
            "average load of the device",
            "turns that are late, share",
            series_of(in_words(rows), "arm", "average_load", "late"),
            (Mark("x", 0.3, "30 % load"),),
        ),
    ]


def shown(seed: int, setting: Setting) -> Sequence[Chart]:
    """One turn in M0 and in D3, in the middle of which a long text comes."""
    return [chart_of(name, trace_of(name, seed, setting)) for name in ("M0", "D3")]


def chart_of(name: str, trace: Trace) -> Chart:
    """Milliseconds from the end of speech."""
    ends = "never" if trace.felt_ms is None else f"{trace.felt_ms:.0f} ms after the question"
    marks = [
        Mark("x", 0.0, "the question ends"),
        Mark("x", BUDGET_MS, "budget 200 ms"),
        Mark("x", trace.text_ms, "a text of 4,000 tokens in and 800 out comes"),
    ]
    if trace.felt_ms is not None and trace.felt_ms < AFTER_MS:
        marks.append(Mark("x", trace.felt_ms, "the answer begins to be heard"))
    series = [
        Series(
            what,
            tuple(begin for begin, _ in spans),
            (float(place),) * len(spans),
            tuple(begin for begin, _ in spans),
            tuple(end for _, end in spans),
            "spans",
        )
        for place, (what, spans) in enumerate(trace.spans.items())
    ]
    return Chart(
        f"One turn beside one long text, answered {ends}: {called(name)}",
        "ms since the end of the question",
        "what the device works at",
        tuple(series),
        tuple(marks),
        categories=tuple(trace.spans),
        sideways=True,
    )


EXPERIMENT = Experiment(
    "isolation",
    "What do long texts beside voice do to the felt gap, and on how idle a device?",
    "About three callers at a time, all of whom are let in, talk while texts of 4,000 tokens, to be answered "
    "with 800, come at random to the same device. In M0 to M3 one engine with continuous batching makes "
    "replies and texts alike: first come, first served; voice first in the queue; prompts in chunks; slots "
    "taken back. In M4 and D3 the device goes by deadlines, in M4 with texts in the same batches, in D3, "
    "which is what voicepipe does, in chunks of their own that fit the slack. The left chart is the felt gap "
    "of 99 % of turns against the budget, the right one says on how busy a device turns are late: below the "
    "vertical line the device is idle for more than 70 % of the time. Below them, what the device does around "
    "one turn when a long text comes shortly before the question ends: in M0 the whole prompt of the text is "
    "read in one step, and everything waits for it; in D3 it is read in pieces that fit between what the turn "
    "needs.",
    points,
    run,
    charts,
    seeds=3,
    reads=VOICE,
    needs=(*TALK, *WRITING),
    shown=shown,
)
