"""Models of service times: what is drawn from them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from voicepipe.config import ScriptedConfig
from voicepipe.core.events import Load, WorkKind
from voicepipe.errors import ConfigError
from voicepipe.sim.service import (
    MADE,
    MODEL,
    SMALL,
    Cost,
    Manner,
    ServiceModel,
    Times,
    load_service,
    parse_service,
    preset_names,
    save_service,
    scripted,
)

LINE = {"kind": "final", "base_s": 0.01, "per_unit_s": 0.004, "per_context_s": 0.0001}


def times(*costs: Cost, **more: Any) -> Times:
    return Times(ServiceModel(name="a model", costs=costs, **more))


def test_a_chunk_takes_what_its_line_says_times_a_ratio() -> None:
    cost = Cost(kind=WorkKind.FINAL, base_s=0.01, per_unit_s=0.004, per_context_s=0.0001, ratios=(2.0,))
    assert times(cost).service_s(WorkKind.FINAL, Load("", 2.0, 10.0), 0.3) == pytest.approx(
        2 * (0.01 + 0.008 + 0.001)
    )


def test_ratios_are_drawn_evenly_between_the_quantiles() -> None:
    """A tenth of all lies between each two of eleven; none beyond the last."""
    ratios = (*(1.0 + index / 100 for index in range(10)), 3.0)
    cost = Cost(kind=WorkKind.FINAL, base_s=1.0, ratios=ratios)
    source = times(cost)
    for share, ratio in ((0.0, 1.0), (0.1, 1.01), (0.5, 1.05), (0.85, 1.085), (0.95, 2.045)):
        assert source.service_s(WorkKind.FINAL, Load("", 0.0), share) == pytest.approx(ratio)


def test_a_variant_without_a_line_of_its_own_has_its_kinds() -> None:
    """Reading ahead is a reply's reading, and a cold step a step."""
    decode, prefill = (Cost(kind=WorkKind.THINK, variant=name, base_s=1.0) for name in ("decode", "prefill"))
    model = ServiceModel(name="", costs=(decode, prefill, Cost(kind=WorkKind.FINAL, base_s=1.0)))
    assert model.cost(WorkKind.WARM, "prefill") is prefill
    assert model.cost(WorkKind.THINK, "cold-decode") is decode
    assert model.cost(WorkKind.FINAL, "recheck").kind is WorkKind.FINAL
    with pytest.raises(ConfigError, match=r"no costs of speak \(first\) chunks"):
        model.cost(WorkKind.SPEAK, "first")


def test_what_has_been_made_takes_no_time_and_the_smaller_model_its_share() -> None:
    source = times(Cost(kind=WorkKind.THINK, base_s=0.1), manner=Manner(small_share=0.25))
    assert source.service_s(WorkKind.SPEAK, Load("", 0, variant=MADE), 0.5) == 0.0
    assert source.service_s(WorkKind.THINK, Load(MODEL, 1), 0.5) == pytest.approx(0.1)
    assert source.service_s(WorkKind.THINK, Load(SMALL, 1), 0.5) == pytest.approx(0.025)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_what_a_scene_needs(name: str) -> None:
    model = load_service(name)
    model.lane_of()
    for kind, variant in (
        (WorkKind.HEAR, ""),
        (WorkKind.PARTIAL, ""),
        (WorkKind.FINAL, ""),
        (WorkKind.WARM, "prefill"),
        (WorkKind.THINK, "prefill"),
        (WorkKind.THINK, "decode"),
        (WorkKind.SPEAK, "first"),
        (WorkKind.SPEAK, "later"),
        (WorkKind.GENERATE, "prefill"),
        (WorkKind.GENERATE, "decode-1"),
        (WorkKind.GENERATE, "decode-4"),
    ):
        assert model.find(kind, variant) is not None, (kind, variant)


def test_scripted_engines_take_what_their_configuration_states() -> None:
    model = Times(scripted(ScriptedConfig(asr_ms=30.0, tts_ms=50.0)))
    assert model.service_s(WorkKind.FINAL, Load("", 2.0), 0.5) == pytest.approx(0.03)
    assert model.service_s(WorkKind.SPEAK, Load("", 20, variant="first"), 0.5) == pytest.approx(0.05)


def test_a_model_is_saved_and_loaded(tmp_path: Path) -> None:
    """As JSON; TOML is for those who write by hand."""
    for name in ("gpu", "scripted"):
        save_service(load_service(name), tmp_path / f"{name}.json")
        assert load_service(str(tmp_path / f"{name}.json")) == load_service(name)
    (tmp_path / "own.toml").write_text('name = "own"\n[[costs]]\nkind = "final"\nbase_s = 0.02\n')
    assert load_service(str(tmp_path / "own.toml")).cost(WorkKind.FINAL, "").base_s == 0.02


@pytest.mark.parametrize(
    ("values", "field", "message"),
    [
        ({"name": "x", "costs": []}, "costs", "length"),
        ({"name": "x", "costs": [LINE | {"base_s": -1.0}]}, "costs[0].base_s", ">= 0.0"),
        ({"name": "x", "costs": [LINE | {"kind": "finally"}]}, "costs[0].kind", "finally"),
        ({"name": "x", "costs": [LINE | {"bas_s": 1.0}]}, "costs[0]", "bas_s"),
        ({"name": "x", "costs": [LINE | {"ratios": [1.0, 0.5]}]}, "costs[0].ratios", "ascend"),
        ({"name": "x", "costs": [{"kind": "final"}]}, "costs[0]", "nothing at all"),
        ({"name": "x", "costs": [LINE], "send_s": [0.2, 0.1]}, "send_s", "ascend"),
        ({"name": "x", "costs": [LINE], "lanes": {"a": 0}}, "lanes[...]", ">= 1"),
        ({"name": "x", "costs": [LINE], "placement": {"hear": "b"}}, "placement.hear", "no lane 'b'"),
        ({"name": "x", "costs": [LINE], "manner": {"write_tokens": 0}}, "manner.write_tokens", ">= 1"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_service(values)
    assert caught.value.field == field and message in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(ConfigError, match="is no JSON"):
        load_service(str(broken))
    with pytest.raises(ConfigError, match="No such file"):
        load_service(str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match=r"known are .*gpu.*scripted"):
        load_service("tpu")
    with pytest.raises(ConfigError, match="No such file"):
        save_service(load_service("gpu"), tmp_path / "nowhere" / "x.json")
