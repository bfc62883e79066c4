"""Points times seeds: rows in order whatever ends first, and what is done is kept."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from voicepipe.sim import runner
from voicepipe.sim.experiment import Chart, Experiment, Measured, Point, Row, Setting
from voicepipe.sim.runner import Results, row, sweep


def points(setting: Setting) -> Sequence[Point]:
    return [{"arm": arm, "load": load} for arm in ("ours", "theirs") for load in (0.5, 1.0)]


def work(point: Point, seed: int, setting: Setting) -> Measured:
    """The first points are the ones that take longest."""
    chance = Random(seed)
    rounds = 20_000 if point["load"] == 0.5 else 10
    return {"mean": sum(chance.random() for _ in range(rounds)) / rounds, "constant": 3.0, "never": None}


def fail(point: Point, seed: int, setting: Setting) -> Measured:
    if (point["arm"], point["load"], seed) == ("ours", 1.0, 2):
        raise ValueError("a run has failed")
    return work(point, seed, setting)


def interrupt(point: Point, seed: int, setting: Setting) -> Measured:
    if (point["arm"], seed) == ("theirs", 2):
        raise KeyboardInterrupt
    return work(point, seed, setting)


def hang(point: Point, seed: int, setting: Setting) -> Measured:
    """Each run leaves a file named by its process, and the last point's never ends."""
    Path(setting.service, str(os.getpid())).touch()
    while point["arm"] == "theirs":
        pass
    return work(point, seed, setting)


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    return []


def results(run: object = work, seeds: Sequence[int] = (1, 2, 3), service: str = "gpu") -> Results:
    experiment = Experiment("test", "?", "", points, run, charts)  # type: ignore[arg-type]
    return Results(experiment, Setting(service=service), seeds)


def test_rows_are_the_same_over_one_process_and_over_three() -> None:
    """In the order of the points, to the last bit."""
    one, three = results(), results()
    seen: list[tuple[int, int]] = []
    sweep(one, processes=1)
    sweep(three, processes=3, progress=lambda done, of: seen.append((done, of)))
    assert one.rows() == three.rows()
    assert [(found["arm"], found["load"]) for found in one.rows()] == [
        ("ours", 0.5),
        ("ours", 1.0),
        ("theirs", 0.5),
        ("theirs", 1.0),
    ]
    assert seen == [(done, 12) for done in range(13)]


def test_a_row_by_hand() -> None:
    """Means over the seeds, an interval where they differ, None where nothing was measured."""
    found = row({"load": 2.0}, [{"a": 1.0, "b": 5.0, "c": None}, {"a": 3.0, "b": 5.0, "c": None}])
    assert found.pop("a_low") == pytest.approx(2.0 - 12.706, abs=1e-3)
    assert found.pop("a_high") == pytest.approx(2.0 + 12.706, abs=1e-3)
    assert found == {"load": 2.0, "a": 2.0, "b": 5.0, "c": None, "seeds": 2}


def test_a_seed_that_measured_nothing_does_not_count() -> None:
    """For that measure."""
    assert row({}, [{"a": 1.0}, {"a": None}]) == {"a": 1.0, "seeds": 2}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failure_keeps_what_is_done(processes: int) -> None:
    """Points of which every seed has run; the point of the failure is not one of them."""
    kept = results(fail)
    with pytest.raises(ValueError, match="a run has failed"):
        sweep(kept, processes=processes)
    found = [(each["arm"], each["load"]) for each in kept.rows()]
    assert ("ours", 1.0) not in found and kept.done < kept.runs
    if processes == 1:
        assert found == [("ours", 0.5)]


def test_it_is_told_while_nothing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs may take minutes each: the same figures again, so that somebody can say that it still runs."""
    monkeypatch.setattr(runner, "TOLD_S", 0.01)
    seen: list[tuple[int, int]] = []

    def enough(done: int, of: int) -> None:
        seen.append((done, of))
        if seen.count((2, 4)) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(results(hang, seeds=(1,), service=str(tmp_path)), processes=2, progress=enough)


def test_ctrl_c_keeps_what_is_done() -> None:
    """In this process: the two points before it."""
    kept = results(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sweep(kept, processes=1)
    assert [each["arm"] for each in kept.rows()] == ["ours", "ours"]


def test_ctrl_c_stops_what_still_runs(tmp_path: Path) -> None:
    """Runs that would never end: the workers are gone when `sweep` is."""

    def enough(done: int, of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    kept = results(hang, seeds=(1,), service=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        sweep(kept, processes=2, progress=enough)
    assert [each["load"] for each in kept.rows()] == [0.5, 1.0]
    pids = {int(path.name) for path in tmp_path.iterdir()}
    assert pids and os.getpid() not in pids
    assert not pids & {child.pid for child in multiprocessing.active_children()}
