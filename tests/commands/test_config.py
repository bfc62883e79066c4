"""`voicepipe config`: the file that it writes is one that `serve` reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from voicepipe.cli import main
from voicepipe.config import Config, parse_config
from voicepipe.config.write import as_toml

pytestmark = pytest.mark.usefixtures("own_cache")


def test_it_prints_what_parses_to_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    assert parse_config(tomllib.loads(capsys.readouterr().out)) == Config()


def test_what_it_writes_is_read_by_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And comes to what holds without a file."""
    file = tmp_path / "etc" / "voicepipe.toml"
    assert main(["config", "--output", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    assert main(["serve", "--check", "--config", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(msgspec.json.encode(Config()))


def test_it_writes_over_nothing_unless_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text("port = 1\n")
    assert main(["config", "--output", str(file)]) == 2
    assert "is there already; --force" in capsys.readouterr().err and file.read_text() == "port = 1\n"
    assert main(["config", "--output", str(file), "--force"]) == 0
    assert file.read_text() == as_toml()


@pytest.mark.parametrize("place", ["/nowhere/at/all/c.toml", "/dev/null/c.toml", "/"])
def test_where_nothing_can_be_written_that_is_told(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--output", place, "--force"]) == 2
    assert f"--output {place}" in capsys.readouterr().err


def test_it_writes_the_page_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# Configuration\n")
