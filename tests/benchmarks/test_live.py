"""What was measured live, beside the curve."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest
from curve import Series, svg
from live import live_series, read_points


def point(name: str, felt: float | None, rate: float | None = 0.5) -> dict[str, Any]:
    spread = {"p50": felt, "p95": None}
    commit = {"p50": None if felt is None else felt - 50}
    return {"operating_point": name, "false_cutoff_rate": rate, "felt_ms": spread, "commit_ms": commit, "n": 1}


def written(folder: Path, summary: object) -> str:
    path = folder / "results.txt"
    path.write_text("a table\n" + json.dumps({"summary": summary}) + "\n")
    return str(path)


def test_the_points_of_a_run_are_drawn_by_commit_and_by_sound(tmp_path: Path) -> None:
    points = [point("fast", 300.0), point("safe", 1_700.0, 0.04)]
    series = live_series(read_points(written(tmp_path, {"operating_point": "all", "points": points})))
    assert series == [
        Series("live: commit", ((250.0, 50.0, "fast"), (1_650.0, 4.0, "safe"))),
        Series("live: first sound", ((300.0, 50.0, "fast"), (1_700.0, 4.0, "safe"))),
    ]
    picture = svg(series, "title", "x", "y")
    assert picture.count(">fast<") == 2 and "live: first sound" in picture


def test_a_run_at_one_point_will_do(tmp_path: Path) -> None:
    (commit, sound) = live_series(read_points(written(tmp_path, point("fast", 300.0))))
    assert (commit.points, sound.points) == (((250.0, 50.0, "fast"),), ((300.0, 50.0, "fast"),))


def test_what_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    """Half of the turns without an answer, or a set without pauses."""
    points = [point("fast", None), point("safe", 100.0, None)]
    assert live_series(read_points(written(tmp_path, {"points": points}))) == []


@pytest.mark.parametrize("text", ["", "a table", "{}", "[]", '{"summary": {"points": [{}]}}', '{"summary": 3}'])
def test_another_file_is_an_error_of_the_user(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(ArgumentTypeError, match="does not end with a summary"):
        read_points(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="No such file"):
        read_points(str(tmp_path / "nothing"))
