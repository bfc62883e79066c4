"""The options that commands share, and the file that they go before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    "argv", [["talk", "--wav", ""], ["demo", "--wav", ""], ["talk", "--out", ""], ["serve", "--config", ""]]
)
def test_an_empty_name_is_called_so(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It would be the current folder."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert f"argument {argv[1]}: an empty name was given" in capsys.readouterr().err


def test_an_unknown_key_of_the_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error in the file must not be a silent default."""
    path = tmp_path / "c.toml"
    path.write_text("[engines]\nvoize = 'x'\n")
    assert main(["serve", "--check", "--config", str(path)]) == 2
    assert "voize" in capsys.readouterr().err


def test_a_mark_at_the_beginning_of_the_configuration_is_read_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some editors write one."""
    path = tmp_path / "c.toml"
    path.write_text("port = 1234\n", encoding="utf-8-sig")
    assert main(["serve", "--check", "--config", str(path), "--budget-ms", "150.5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["port"], shown["budget_ms"]) == (1234, 150.5)


def test_check_prints_what_would_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flags win over the file."""
    path = tmp_path / "c.toml"
    path.write_text("port = 1234\nbudget_ms = 150\n")
    assert main(["serve", "--check", "--config", str(path), "--port", "4321"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["port"], shown["budget_ms"]) == (4321, 150)
