"""docs/simulator.md says what there is: its examples run, its pictures are there, each experiment has its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from voicepipe.cli import main
from voicepipe.sim.experiments import NAMES, find
from voicepipe.sim.shapes import parse_shapes
from voicepipe.sim.traffic import parse_trace

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "simulator.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"!\[([a-z-]+)\]\(simulations/([a-z-]+)\.svg\)", PAGE)


def example(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The examples of shapes and of a trace, as files."""
    shapes, trace = tmp_path / "shapes.toml", tmp_path / "trace.jsonl"
    shapes.write_text(example("toml"), encoding="utf-8")
    trace.write_text(example("json"), encoding="utf-8")
    return str(shapes), str(trace)


def test_the_example_of_shapes_runs(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """A pool for each shape, and one for both; it shows every key that there is."""
    shapes, _ = files
    assert main(["simulate", "fleet", "--shapes", shapes, "--seeds", "1", "--processes", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["pool"] for row in rows] == ["one for all", "support", "photos"]
    assert all(row["devices"] >= 1 for row in rows)
    used = set(re.findall(r"\b([a-z_]+) =", example("toml")))
    known = set(re.findall(r'table\.[a-z]+\(\s*"([a-z_]+)"|parse_spread\(table, "([a-z_]+)"', shapes_source()))
    assert {name for pair in known for name in pair if name} <= used


def shapes_source() -> str:
    return (Path(__file__).parents[2] / "voicepipe" / "sim" / "shapes.py").read_text(encoding="utf-8")


def test_the_example_of_a_trace_runs_with_these_shapes(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The third turn begins with the first and its answer, and the pictures' tokens are what shapes would make."""
    shapes, trace = files
    argv = ["simulate", "fleet", "--shapes", shapes, "--trace", trace, "--seeds", "1", "--processes", "1", "--json"]
    assert main(argv) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["mix"] for row in rows} == {"trace"} and len(rows) == 3
    turns = parse_trace(example("json").splitlines())
    assert turns[2].history_tokens == 80 + 120 and turns[2].number == 2 and turns[2].tool
    image = parse_shapes(example("toml"))["photos"].image
    assert image is not None and turns[1].image_tokens == image.tokens


def test_every_experiment_has_its_place() -> None:
    """A heading of its own, or one that it shares; and every picture is that of an experiment."""
    heads = [name.strip() for line in re.findall(r"^## (.*)$", PAGE, re.MULTILINE) for name in line.split(",")]
    assert set(NAMES) <= set(heads)
    assert PICTURES and all(name == file and name in NAMES for name, file in PICTURES)


@pytest.mark.parametrize("name", [file for _, file in PICTURES])
def test_pictures_are_there_and_say_what_they_are(name: str) -> None:
    """With the experiment's own question as their title."""
    root = ElementTree.parse(DOCS / "simulations" / f"{name}.svg").getroot()
    assert root[0].text == f"{name}: {find(name).question}" and root[1].text
