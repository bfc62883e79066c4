"""`simulate` from the outside: what it prints, and with which status it ends."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from tests.processes import lines, run
from tests.sim.test_calibrate import ledger
from voicepipe.cli import main
from voicepipe.commands import simulate
from voicepipe.errors import ConfigError, MissingExtra, UnknownExperiment
from voicepipe.sim.experiment import Chart, Experiment, Input, Measured, Point, Row, Series, Setting
from voicepipe.sim.experiments import NAMES, find
from voicepipe.sim.service import load_service

GOLDEN = "kv_gb hold_gb_s reprefill_s offload_s slot_ratio ttfat_s image_tokens cold_s warm_s".split()


def points(setting: Setting) -> Sequence[Point]:
    return [{"load": load} for load in (1.0, 2.0)]


def measure(point: Point, seed: int, setting: Setting) -> Measured:
    return {"missed": seed * float(point["load"])}


def interrupt(point: Point, seed: int, setting: Setting) -> Measured:
    if point["load"] == 2.0:
        raise KeyboardInterrupt
    return measure(point, seed, setting)


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    return [Chart("Load makes turns miss", "load", "share", (Series("missed", (1.0, 2.0), (0.0, 1.0)),))]


def known(monkeypatch: pytest.MonkeyPatch, run: object = measure) -> None:
    everything = frozenset(get_args(Input))
    experiment = Experiment("toy", "does it run?", "It does.", points, run, charts, seeds=2, reads=everything)  # type: ignore[arg-type]
    monkeypatch.setattr(simulate, "find", lambda name: experiment)


def test_rows_for_people(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The question, and a table; nothing on stderr that is no terminal."""
    known(monkeypatch)
    assert main(["simulate", "toy", "--processes", "1"]) == 0
    said = capsys.readouterr()
    assert "does it run?" in said.out and "1.5 ±6.4" in said.out and said.err == ""


def test_one_line_of_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With all golden keys; the same seeds give the same bytes, over however many processes."""
    known(monkeypatch)
    assert main(["simulate", "toy", "--json", "--seed", "3", "--seeds", "3", "--processes", "1"]) == 0
    one = capsys.readouterr().out
    assert main(["simulate", "toy", "--json", "--seed", "3", "--seeds", "3", "--processes", "2"]) == 0
    assert capsys.readouterr().out == one and one.count("\n") == 1
    found = json.loads(one)
    assert list(found) == ["experiment", "seed", "rows", "golden"]
    assert list(found["golden"]) == GOLDEN and found["seed"] == 3
    assert [each["missed"] for each in found["rows"]] == [4.0, 8.0] and found["rows"][0]["seeds"] == 3


def test_ctrl_c_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 130, one line all the same, and how much of it there is."""
    known(monkeypatch, interrupt)
    assert main(["simulate", "toy", "--json", "--processes", "1"]) == 130
    said = capsys.readouterr()
    assert [row["load"] for row in json.loads(said.out)["rows"]] == [1.0]
    assert "2 of 4 runs" in said.err


def test_what_a_real_run_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a ledger a service model is made, kept beside it, and told of; it can be named again."""
    known(monkeypatch, lambda point, seed, setting: {"costs": float(len(load_service(setting.service).costs))})
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(ledger()))
    assert main(["simulate", "toy", "--processes", "1", "--json", "--calibrate", str(path)]) == 0
    said = capsys.readouterr()
    assert f"{path}.service.json" in said.err
    assert json.loads(said.out)["rows"][0]["costs"] >= 1.0
    assert main(["simulate", "toy", "--processes", "1", "--json", "--service", f"{path}.service.json"]) == 0
    assert capsys.readouterr().out == said.out


def test_a_ledger_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "capacity", "--calibrate", str(tmp_path / "none.jsonl")]) == 2
    assert "--calibrate" in capsys.readouterr().err
    (tmp_path / "bad.jsonl").write_text("hello\n")
    assert main(["simulate", "capacity", "--calibrate", str(tmp_path / "bad.jsonl")]) == 2
    said = capsys.readouterr().err
    assert "bad.jsonl: line 1" in said and said.count("\n") == 1


def test_too_short_a_ledger_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the experiment needs has to be in it: how many more of what, and how to record them."""
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(ledger()))
    assert main(["simulate", "isolation", "--calibrate", str(path)]) == 2
    said = capsys.readouterr()
    assert "8 more of partial (none seen)" in said.err and "8 more of generate (split)" in said.err
    assert "voicepipe serve --ledger" in said.err and said.out == ""
    assert [each.name for each in tmp_path.iterdir()] == ["run.jsonl"]


def test_a_service_without_what_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Told before anything is run, with the file's name."""
    path = tmp_path / "own.json"
    path.write_text('{"name": "own", "costs": [{"kind": "final", "base_s": 0.01}]}')
    assert main(["simulate", "capacity", "--service", str(path)]) == 2
    said = capsys.readouterr()
    assert "own.json: no costs of hear, partial, think (prefill)" in said.err and "which capacity needs" in said.err
    assert said.out == "" and said.err.count("\n") == 1
    path.write_text('{"name": "own", "costs": [{"kind": "final", "base_s": -1}]}')
    assert main(["simulate", "capacity", "--service", str(path)]) == 2
    assert "own.json: costs[0].base_s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "option", "readers"),
    [
        ("kv-gap", "--shapes", "fleet"),
        ("isolation", "--trace", "fleet"),
        ("fleet", "--service", "isolation, goodput, overload"),
        ("same-rps", "--calibrate", "isolation, goodput, overload"),
    ],
)
def test_a_file_that_nobody_would_read_is_refused(
    name: str, option: str, readers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With who would."""
    assert main(["simulate", name, option, str(tmp_path / "a.toml")]) == 2
    said = capsys.readouterr()
    assert f"{option}: {name} makes no use of it; those that do: {readers}" in said.err and said.out == ""


def test_all_takes_what_some_read_and_tells_what_is_wrong_with_it_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been run, and no line of a table printed."""
    (tmp_path / "a.toml").write_text("[short]\nrequests_s = 2\n")
    assert main(["simulate", "all", "--shapes", str(tmp_path / "a.toml"), "--processes", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "a.toml: short." in said.err and said.err.count("\n") == 1


def test_two_answers_to_one_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "capacity", "--service", "gpu", "--calibrate", str(tmp_path / "a")]) == 2
    assert "--service and --calibrate" in capsys.readouterr().err


def spoiled(point: Point, seed: int, setting: Setting) -> Measured:
    if point["load"] == spoiled_at:
        raise ConfigError("shapes: no", field="shapes")
    return measure(point, seed, setting)


spoiled_at = 1.0


@pytest.mark.parametrize(("at", "told"), [(1.0, False), (2.0, True)])
def test_an_error_in_a_run(
    at: float, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a whole point the error is all there is, and no head of a table; else what is whole comes first."""
    monkeypatch.setattr(f"{__name__}.spoiled_at", at)
    known(monkeypatch, spoiled)
    assert main(["simulate", "toy", "--processes", "1"]) == 2
    said = capsys.readouterr()
    assert said.err.endswith("voicepipe: shapes: no\n") and ("does it run?" in said.out) is told


def test_one_seed_gives_no_interval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And is not said to."""
    known(monkeypatch)
    assert main(["simulate", "toy", "--seed", "4", "--seeds", "1", "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert "Seed 4 alone, which gives no interval" in said and "±" not in said


def more(seed: int, setting: Setting) -> Sequence[Chart]:
    return [Chart(f"As it was with seed {seed}", "s", "ms", (Series("b", (1.0,), (1.0,)),))]


@pytest.mark.parametrize("option", ["--service", "--calibrate", "--shapes", "--trace"])
def test_a_file_without_a_bottom(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Deeper than can be read: one line that names it, and nothing was run."""
    path = tmp_path / ("deep.toml" if option == "--shapes" else "deep.json")
    path.write_text(("a = " if option == "--shapes" else "") + 20_000 * "[")
    name = "fleet" if option in ("--shapes", "--trace") else "capacity"
    assert main(["simulate", name, "--seeds", "1", "--processes", "1", option, str(path)]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err and said.err.startswith("voicepipe: ") and str(path) in said.err


@pytest.mark.parametrize("option", ["--service", "--calibrate", "--shapes", "--trace"])
def test_an_empty_file_or_name(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither says anything."""
    name = "fleet" if option in ("--shapes", "--trace") else "capacity"
    path = tmp_path / ("empty.toml" if option == "--shapes" else "empty.json")
    path.write_text("")
    assert main(["simulate", name, option, str(path)]) == 2
    said = capsys.readouterr()
    assert str(path) in said.err and said.out == "" and said.err.count("\n") == 1
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", name, option, ""])
    assert f"{option}: an empty name was given" in capsys.readouterr().err


def test_a_service_that_is_none_is_told_before_anything_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "capacity", "--service", "nowhere"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "nowhere" in said.err


def test_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was asked for; a folder that is missing is made."""
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    known(monkeypatch)
    assert main(["simulate", "toy", "--processes", "1", "--plot", str(tmp_path / "new" / "a.svg")]) == 0
    drawn = (tmp_path / "new" / "a.svg").read_text()
    assert "Load makes turns miss" in drawn
    assert '<title id="title">toy: does it run?</title>' in drawn and "It does. Chart: Load makes" in drawn


def test_a_run_that_is_shown_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the charts of the rows, with the first seed."""
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    experiment = Experiment("toy", "does it run?", "It does.", points, measure, charts, shown=more)
    monkeypatch.setattr(simulate, "find", lambda name: experiment)
    assert main(["simulate", "toy", "--seed", "7", "--processes", "1", "--plot", str(tmp_path / "a.svg")]) == 0
    assert "As it was with seed 7" in (tmp_path / "a.svg").read_text()


def test_the_extra_that_draws_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is run."""
    monkeypatch.setitem(__import__("sys").modules, "voicepipe.sim.pictures", None)
    with pytest.raises(MissingExtra, match=r"\[plot\]"):
        simulate._drawing(tmp_path / "a.svg", is_folder=False)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["isolaton"], "did you mean isolation?"),
        (["xyz"], "--list"),
        ([], "--list"),
        (["isolation", "--plot", "a.gif"], ".svg or .png"),
        (["isolation", "--seed", "-1"], "whole number"),
        (["isolation", "--seeds", "0"], "from 1"),
        (["isolation", "--processes", "x"], "whole number"),
    ],
)
def test_wrong_usage(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and what to do."""
    try:
        status = main(["simulate", *argv])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2 and says in capsys.readouterr().err


def test_the_list_explains_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, question, and a paragraph."""
    assert main(["simulate", "--list"]) == 0
    said = capsys.readouterr().out
    for name in NAMES:
        assert f"{name}: {find(name).question}" in said
        assert len(find(name).explanation) > 200


def test_every_experiment_is_registered() -> None:
    """And every registered one is there."""
    import voicepipe.sim.experiments as folder

    files = {path.stem.replace("_", "-") for path in Path(folder.__file__).parent.glob("*.py")} - {"--init--"}
    assert files == set(NAMES)
    with pytest.raises(UnknownExperiment):
        find("__init__")


def test_as_a_process() -> None:
    """A short one, whole; `argparse` knows it."""
    done = run("simulate", "kv-gap", "--seeds", "1", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = lines(done.stdout)
    assert found["experiment"] == "kv-gap" and found["rows"]
    assert argparse is not None
