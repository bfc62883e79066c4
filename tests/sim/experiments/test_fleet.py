"""What binds each shape, what pools need, and shapes and traces of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.errors import ConfigError
from voicepipe.sim.experiment import Setting
from voicepipe.sim.experiments.fleet import EXPERIMENT, ONE_POOL

CONSTRAINTS = {"chat": "decode", "reasoning": "memory", "agent": "prefill", "vision": "prefill", "voice": "latency"}
SHAPES = """
[short]
requests_s = 2
prompt_tokens = 500
answer_tokens = 100
objective = { first_token_s = 0.5, token_s = 0.05 }
"""


def test_each_shape_is_bound_by_something_else_and_one_pool_by_the_strictest() -> None:
    """One pool needs more devices than all the pools together: a clause within 45 ms among others' prompts."""
    points = EXPERIMENT.points(QUICK)
    assert {str(point["pool"]): point["bound_by"] for point in points} == {ONE_POOL: "latency", **CONSTRAINTS}
    rows = rows_of(EXPERIMENT, points)
    devices = {str(row["pool"]): float(row["devices"]) for row in rows}  # type: ignore[arg-type]
    assert devices.pop(ONE_POOL) > 2 * sum(devices.values())
    for row in rows:
        if row["pool"] != ONE_POOL:
            assert row["devices"] >= row["decode_devices"] + row["prefill_devices"]  # type: ignore[operator]
    check_charts(EXPERIMENT, rows)
    stacks = EXPERIMENT.charts(rows)[0]
    assert [sum(series.ys[place] for series in stacks.series) for place in (0, 1)] == [
        float(rows[0]["devices"]),  # type: ignore[arg-type]
        sum(devices.values()),
    ]


def test_twenty_seeds_at_least_and_each_gives_its_own() -> None:
    assert EXPERIMENT.seeds >= 20
    check_twice(EXPERIMENT, {"mix": "as they are", "pool": "chat", "bound_by": "decode"})


def test_the_full_form_has_more_mixes() -> None:
    mixes = {point["mix"] for point in EXPERIMENT.points(Setting(full=True))}
    assert len(mixes) > 1 and "as they are" in mixes


def test_shapes_of_ones_own(tmp_path: Path) -> None:
    """A single one is a single pool."""
    path = tmp_path / "shapes.toml"
    path.write_text(SHAPES)
    setting = Setting(shapes=str(path))
    (point,) = EXPERIMENT.points(setting)
    assert (point["pool"], point["bound_by"]) == ("short", "prefill")
    measured = EXPERIMENT.run(point, 1, setting)
    assert measured["devices"] == 1
    check_charts(EXPERIMENT, [{**point, **measured}])


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    """Two requests a second at intervals; all seeds are alike."""
    shapes, trace = tmp_path / "shapes.toml", tmp_path / "trace.jsonl"
    shapes.write_text(SHAPES)
    lines = [{"at_s": at / 2, "shape": "short", "prompt_tokens": 4000, "answer_tokens": 50} for at in range(1, 101)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    setting = Setting(shapes=str(shapes), trace=str(trace))
    (point,) = EXPERIMENT.points(setting)
    measured = EXPERIMENT.run(point, 1, setting)
    assert measured == EXPERIMENT.run(point, 2, setting)
    assert measured["requests_s"] == pytest.approx(2.0)
    assert measured["prefill_devices"] == pytest.approx(1.0)
    assert measured["devices"] is None  # half a second for the prompt alone, and its steps


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"at_s": 0, "shape": "chta", "prompt_tokens": 4, "answer_tokens": 5}')
    for setting, field in (
        (Setting(shapes=str(tmp_path / "none.toml")), "shapes"),
        (Setting(trace=str(tmp_path)), "trace"),
        (Setting(trace=str(trace)), "trace.shape"),
    ):
        with pytest.raises(ConfigError) as caught:
            EXPERIMENT.points(setting)
        assert caught.value.field == field
