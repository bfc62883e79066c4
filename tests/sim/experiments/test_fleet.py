"""What binds each shape, what pools need, and shapes and traces of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.errors import ConfigError
from voicepipe.sim.experiment import Setting
from voicepipe.sim.experiments import fleet
from voicepipe.sim.experiments.fleet import EXPERIMENT, ONE_POOL
from voicepipe.sim.experiments.fleet import MOST_PREFIX_TOKENS as MOST

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


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The file, the field and what may stand there; nothing of a name that could move a terminal's cursor."""
    strange = '{"at_s": 0, "shape": "chta\\u001b[2J", "prompt_tokens": 4, "answer_tokens": 5}'
    trace = written(tmp_path / "trace.jsonl", strange)
    large = '{"at_s": 0, "shape": "chat", "prompt_tokens": 500000, "prefix_tokens": 450000, "answer_tokens": 5}'
    for setting, field, says in (
        (Setting(shapes=str(tmp_path / "none.toml")), "shapes", "none.toml cannot be read"),
        (Setting(trace=str(tmp_path)), "trace", "cannot be read"),
        (Setting(trace=trace), "trace.shape", "trace.jsonl: trace: no shape 'chta\\x1b[2J'"),
        (Setting(trace=written(tmp_path / "b.jsonl", "{")), "line 1", "b.jsonl: line 1: not JSON"),
        (Setting(trace=written(tmp_path / "c.jsonl", large)), "turn 1.prefix_tokens", f"at most {MOST}"),
        (Setting(shapes=written(tmp_path / "d.toml", "[a]\nx = 1")), "a.x", "d.toml: unknown key `x`"),
        (Setting(shapes=written(tmp_path / "e.toml", '["a\\u001b[2J"]\n')), "shapes", "got 'a\\x1b[2J'"),
    ):
        with pytest.raises(ConfigError) as caught:
            EXPERIMENT.points(setting)
        assert caught.value.field == field and says in caught.value.message


@pytest.mark.parametrize(
    ("line", "field", "limit"),
    [
        ("shared_prefix_tokens = 1000000", "short.shared_prefix_tokens", f"{MOST} tokens"),
        (f"shared_prefix_tokens = {MOST + 1}", "short.shared_prefix_tokens", f"{MOST} tokens"),
        ("requests_s = 0.01", "short.requests_s", "at least 0.1"),
        ('requests_s = 0.1\narrivals = "bursty"\nburstiness = 20', "short.requests_s", "none comes in the 200 s"),
    ],
)
def test_what_a_device_or_a_run_cannot_hold(line: str, field: str, limit: str, tmp_path: Path) -> None:
    """A prefix that leaves no memory, and requests so few that there is nothing to say."""
    kept = [old for old in SHAPES.splitlines() if old.partition(" ")[0] != line.partition(" ")[0]]
    path = written(tmp_path / "shapes.toml", "\n".join([*kept, line]))
    with pytest.raises(ConfigError) as caught:
        EXPERIMENT.points(Setting(shapes=path))
    assert caught.value.field == field and limit in caught.value.message and path in caught.value.message


def test_as_large_a_prefix_as_fits_is_run(tmp_path: Path) -> None:
    """It is in memory from the beginning, and found there."""
    setting = Setting(shapes=written(tmp_path / "a.toml", SHAPES + f"shared_prefix_tokens = {MOST}\n"))
    (point,) = EXPERIMENT.points(setting)
    assert EXPERIMENT.run(point, 1, setting).keys() == EXPERIMENT.run(point, 2, setting).keys()


def test_one_shape_has_one_column(tmp_path: Path) -> None:
    """There is no pool for several."""
    setting = Setting(shapes=written(tmp_path / "a.toml", SHAPES))
    (point,) = EXPERIMENT.points(setting)
    stacks = EXPERIMENT.charts([{**point, **EXPERIMENT.run(point, 1, setting)}])[0]
    assert stacks.categories == ("as they are: a pool for each shape",)
    assert [series.ys for series in stacks.series] == [(1.0,)]


def test_a_seed_without_a_session_measures_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And has the same measures as the others."""
    setting = Setting(shapes=written(tmp_path / "a.toml", SHAPES))
    (point,) = EXPERIMENT.points(setting)
    usual = EXPERIMENT.run(point, 1, setting)
    monkeypatch.setattr(fleet, "traffic", lambda *_: [])
    assert EXPERIMENT.run(point, 1, setting) == dict.fromkeys(usual)
