"""What voice experiments have in common: the callers, the load that a device carries, and measures of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from math import inf

from voicepipe.core.events import Verdict
from voicepipe.sim.caller import Habits
from voicepipe.sim.experiment import Input, Measured, Setting
from voicepipe.sim.played import Asked, Played
from voicepipe.sim.scene import Scene
from voicepipe.sim.service import ServiceModel, load_service
from voicepipe.sim.statistics import finite, percentile

CALM = Habits(pause=0.0)
"""No pauses within questions: a turn that patience alone makes late says nothing about load."""
FILL_S = 60.0
"""As long as a call lasts; not counted."""
ONE_X = 7.0
"""Sessions under way at which, on the device `gpu` and with everybody let in, one turn in a hundred is late."""
OUTCOMES = ("met", "degraded", "masked", "missed", "refused", "failed")
BUDGET_MS = 200.0
VOICE: frozenset[Input] = frozenset({"service"})
"""What experiments with voice read of a setting."""


@cache
def service_of(setting: Setting, faster: float = 1.0) -> ServiceModel:
    """Of a device so many times as fast as the one that is named."""
    model = load_service(setting.service)
    if faster == 1.0:
        return model
    costs = tuple(_faster(cost.base_s, cost.per_unit_s, cost.per_context_s, faster) for cost in model.costs)
    made = [
        type(cost)(
            kind=cost.kind,
            variant=cost.variant,
            base_s=base_s,
            per_unit_s=unit_s,
            per_context_s=context_s,
            more_s=cost.more_s / faster,
            ratios=cost.ratios,
        )
        for cost, (base_s, unit_s, context_s) in zip(model.costs, costs, strict=True)
    ]
    return ServiceModel(
        name=f"{model.name}, {faster:g} times as fast",
        costs=tuple(made),
        manner=model.manner,
        sessions=model.sessions,
        lanes=model.lanes,
        placement=model.placement,
        begin_s=model.begin_s,
        end_s=model.end_s,
        send_s=model.send_s,
        noticed_s=model.noticed_s,
    )


def _faster(base_s: float, unit_s: float, context_s: float, times: float) -> tuple[float, float, float]:
    return base_s / times, unit_s / times, context_s / times


def calm_scene(seed: int, setting: Setting, sessions: float, seconds: float) -> Scene:
    return Scene(
        seed=seed,
        begin_s=FILL_S,
        seconds=seconds,
        sessions=sessions,
        habits=CALM,
        service=service_of(setting),
    )


def with_sessions(scene: Scene, sessions: float) -> Scene:
    return replace(scene, sessions=sessions)


def outcome(asked: Asked) -> str:
    """Of a question that counts; one that came to no turn was missed."""
    if asked.refused:
        return "refused"
    return "missed" if asked.record is None else str(asked.record.verdict.value)


def shares(played: Played) -> dict[str, float]:
    """Of all questions that were asked, but those that nobody waited to hear the answer of."""
    counted = [asked for asked in played.asked if asked.refused or asked.counts]
    found = Counter(outcome(asked) for asked in counted)
    return {name: found[name] / max(1, len(counted)) for name in OUTCOMES}


def felt_ms(asked: Iterable[Asked], share: float) -> float | None:
    """Percentile of the felt gap over all turns of sessions let in; None where too many had no content."""
    gaps = [1000.0 * (inf if each.felt_s is None else each.felt_s) for each in asked if each.counts]
    return finite(percentile(gaps, share))


def load_of(played: Played) -> float:
    """Share of the time for which the device was busy, texts included."""
    return sum(busy_s for (lane, _), busy_s in played.busy_s.items() if lane == "device") / played.ran_s


def voice_load_of(played: Played) -> float:
    background = played.busy_s.get(("device", "background"), 0.0)
    return load_of(played) - background / played.ran_s


def measures(played: Played) -> Measured:
    counted = [asked for asked in played.asked if asked.counts]
    kept = sum(asked.kept for asked in counted)
    late = sum(not asked.kept for asked in counted)
    return {
        "goodput_hz": kept / played.seconds,
        "in_time": kept / len(counted) if counted else None,
        "late_of_admitted": late / len(counted) if counted else None,
        "refused_sessions": len(played.refused) / max(1, len(played.refused) + played.admitted),
        "felt_p50_ms": felt_ms(counted, 0.5),
        "felt_p99_ms": felt_ms(counted, 0.99),
        "load": load_of(played),
        "voice_load": voice_load_of(played),
        "text_tokens_s": (played.texts.read_tokens + played.texts.written_tokens) / played.ran_s,
        "written_tokens_s": played.texts.written_tokens / played.ran_s,
    }


def is_late(asked: Asked) -> bool:
    return asked.counts and not asked.kept and (asked.record is None or asked.record.verdict is not Verdict.FAILED)
