"""What the device does around a single turn, when a long text comes shortly before its question ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from voicepipe.core.events import WorkKind
from voicepipe.sim.arms import EVERYBODY, TUNED, arm
from voicepipe.sim.experiment import Setting
from voicepipe.sim.played import Asked
from voicepipe.sim.scene import Scene, TextJobs, calls_of, play
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Step
from voicepipe.sim.voice_scenes import calm_scene

EARLY_S = 0.15
"""Before the end of the question: when the text comes."""
BEFORE_MS, AFTER_MS = -400.0, 900.0
"""What is shown, around the end of the question."""

HEARING, REPLY, VOICE, TEXT = "hearing the question", "writing the answer", "speaking it", "the text"
_KINDS = {
    WorkKind.PARTIAL: HEARING,
    WorkKind.FINAL: HEARING,
    WorkKind.WARM: REPLY,
    WorkKind.THINK: REPLY,
    WorkKind.SPEAK: VOICE,
    WorkKind.GENERATE: TEXT,
}
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Trace:
    """Milliseconds since the end of the question."""

    spans: Mapping[str, tuple[Span, ...]]
    """Of what the device worked at, from the first to the last of `_KINDS`. In one step of a shared engine answer
    and text may be computed together."""
    felt_ms: float | None
    text_ms: float
    """When the text came."""


def trace_of(name: str, seed: int, setting: Setting) -> Trace:
    """Of the second question of the first caller, or of the only one, with nobody else there."""
    calls = calls_of(calm_scene(seed, setting, 1.0, 600.0))
    asked = calls[0].said[min(1, len(calls[0].said) - 1)]
    scene = replace(calm_scene(seed, setting, 1.0, calls[0].end), calls=calls[:1], begin_s=0.0, keeps_chunks=True)
    at = asked.end - EARLY_S
    steps: list[tuple[float, float, Step]] = []
    changed = replace(arm(name, replace(scene, texts=TextJobs(0.0, at=(at,)))), admission=EVERYBODY)
    played = play(_with_steps(name, changed, steps))
    turn = next(each for each in played.asked if each.said is asked)
    found: dict[str, list[Span]] = {what: [] for what in dict.fromkeys(_KINDS.values())}
    for work, timing, _ in played.chunks:
        what = _KINDS.get(work.kind)
        if what is not None and not (steps and what == REPLY):
            found[what].append((timing.started, timing.finished))
    for begin, end, step in steps:
        texts = [sequence.is_text for sequence in step.sequences]
        for what, is_in in ((TEXT, any(texts)), (REPLY, not all(texts))):
            if is_in:
                found[what].append((begin, end))
    shown = {what: _near(spans, asked.end) for what, spans in found.items()}
    return Trace(shown, _ms(turn), -1000.0 * EARLY_S)


def _with_steps(name: str, scene: Scene, steps: list[tuple[float, float, Step]]) -> Scene:
    if name not in TUNED:
        return scene
    return replace(scene, machine=shared(TUNED[name], lambda *step: steps.append(step)))


def _ms(turn: Asked) -> float | None:
    return None if turn.felt_s is None else 1000.0 * turn.felt_s


def _near(spans: list[Span], end: float) -> tuple[Span, ...]:
    """In milliseconds from there, cut to what is shown."""
    about = [(1000.0 * (begin - end), 1000.0 * (until - end)) for begin, until in spans]
    return tuple(
        (max(begin, BEFORE_MS), min(until, AFTER_MS))
        for begin, until in sorted(about)
        if until > max(begin, BEFORE_MS) and begin < AFTER_MS
    )
