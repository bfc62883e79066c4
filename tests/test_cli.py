"""The command line as a whole: its commands, and how their failures are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run
from voicepipe.cli import main
from voicepipe.errors import EngineError

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("command", ["demo", "serve", "talk", "models", "replay"])
def test_every_command_says_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with status 0; and takes --verbose."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: voicepipe {command} ") and "--verbose" in said.out and said.err == ""


def test_without_a_command_there_is_nothing_to_do() -> None:
    """Status 2; as a process too."""
    done = run()
    assert done.returncode == 2 and done.stdout == "" and "COMMAND" in done.stderr


def caused(error: EngineError, cause: Exception) -> EngineError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["serve", "--port", "70000"], "port"),
        (["serve", "--max-sessions", "0"], "max_sessions"),
        (["serve", "--budget-ms=-1"], "--budget-ms"),
        (["serve", "--check", "--budget-ms", "1_0"], "1_0"),
        (["serve", "--check", "--budget-ms", "1e-300"], "1e-300"),
        (["serve", "--check", "--budget-ms", "0.5"], "from 1 to 60000"),
        (["serve", "--check", "--budget-ms", "60000.5"], "60000.5"),
        (["serve", "--check", "--budget-ms", "nan"], "nan"),
        (["serve", "--check", "--budget-ms", "\u0661\u0660"], "--budget-ms"),
        (["talk", "--wav", "WAV", "--budget-ms", "1_0"], "1_0"),
        (["talk", "--wav", "WAV", "--out", "x.mp3"], "--out x.mp3"),
        (["demo", "--wav", "WAV", "--out", "x.mp3"], "--out x.mp3"),
        (["serve", "--config", "nowhere.toml"], "nowhere.toml"),
        (["talk", "--url", "ftp://127.0.0.1", "--wav", "WAV"], "URL"),
        (["models", "fetch", "gpt-17"], "gpt-17"),
    ],
)
def test_a_wrong_argument_is_named(
    argv: list[str], says: str, tone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and a line with the offending name."""
    assert main([str(tone) if part == "WAV" else part for part in argv]) == 2
    said = capsys.readouterr().err
    assert says in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (EngineError("a voice failed"), "a voice failed"),
        (caused(EngineError("a voice failed"), ValueError("no\nroom")), "a voice failed (ValueError: no room)"),
        (caused(EngineError("failed: no room"), ValueError("no room")), "failed: no room"),
    ],
)
def test_an_engine_that_fails_at_the_start_says_why(
    error: EngineError, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, and once."""

    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr("voicepipe.commands.serve.serve_until_told", fail)
    assert main(["serve", "--engines", "scripted"]) == 1
    assert capsys.readouterr().err == f"voicepipe: {says}\n"
