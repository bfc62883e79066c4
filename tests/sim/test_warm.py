"""What a warm-up would have measured, so that first turns are priced."""

from __future__ import annotations

from random import Random

import pytest

from voicepipe.core.events import Load, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.sim.service import MODEL, ServiceModel, load_service, preset_names
from voicepipe.sim.steps import ASR
from voicepipe.sim.voice import NAME
from voicepipe.sim.warm import warm_up


@pytest.mark.parametrize("name", preset_names())
def test_what_conversations_ask_for_is_priced_afterwards(name: str) -> None:
    """Near to what it takes."""
    model = load_service(name)
    warm = warm_up(model, 2, Random(1))
    forecaster = Forecaster()
    forecaster.seed(warm.chunks, warm.ways)
    for kind, load in (
        (WorkKind.FINAL, Load(ASR, 1.5)),
        (WorkKind.PARTIAL, Load(ASR, 1.5)),
        (WorkKind.WARM, Load(MODEL, 10, 100, "prefill")),
        (WorkKind.THINK, Load(MODEL, model.manner.write_tokens, 100, "decode")),
        (WorkKind.SPEAK, Load(NAME, 30, variant="first")),
        (WorkKind.GENERATE, Load(MODEL, 2, 100, "decode-2")),
    ):
        cost = model.cost(kind, load.variant)
        middle = cost.ratios[len(cost.ratios) // 2]
        assert forecaster.mean_s(kind, load) == pytest.approx(cost.mean_s(load) * middle, rel=0.35), (kind, load)
    outlook = forecaster.outlook()
    assert outlook.clause_s == pytest.approx(warm.clause_s, rel=0.2) and outlook.final_bound_s > 0.0


def test_without_texts_none_are_measured() -> None:
    warm = warm_up(load_service("gpu"), 0, Random(1))
    assert WorkKind.GENERATE not in {chunk.kind for chunk in warm.chunks}


def test_what_nobody_can_ask_for_is_not_measured() -> None:
    """As in a ledger whose clauses were all made in one piece."""
    gpu = load_service("gpu")
    short = ServiceModel(name="short", costs=tuple(cost for cost in gpu.costs if cost.variant != "later"))
    warm = warm_up(short, 0, Random(1))
    assert {chunk.load.variant for chunk in warm.chunks if chunk.kind is WorkKind.SPEAK} == {"first"}


def test_a_turn_is_expected_to_take_the_sum_of_its_stages() -> None:
    """The scripted ones: 20 ms of recognition, a reading and seven words or so, 20 ms of voice."""
    warm = warm_up(load_service("scripted"), 0, Random(1))
    assert warm.total_s == warm.final_s + warm.clause_s + warm.audio_s == warm.expected.turn_s
    assert (warm.final_s, warm.audio_s) == (0.02, 0.02) and 0.03 < warm.clause_s < 0.07
