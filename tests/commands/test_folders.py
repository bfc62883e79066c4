"""Folders of files that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run
from voicepipe.cli import main
from voicepipe.commands.folders import check_file, make_folder
from voicepipe.errors import ConfigError

pytestmark = pytest.mark.usefixtures("own_cache")
OPTIONS = ["--ledger", "--trace", "--record", "--out"]


def test_a_folder_that_is_there_is_used_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name without a folder lies in the current one."""
    make_folder(tmp_path / "f.jsonl", "--ledger")
    make_folder(Path("f.jsonl"), "--ledger")
    assert capsys.readouterr().err == ""


def test_a_last_folder_is_made_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once."""
    for _ in range(2):
        make_folder(tmp_path / "runs" / "f.jsonl", "--ledger")
    assert (tmp_path / "runs").is_dir()
    assert capsys.readouterr().err == f"voicepipe: --ledger: made the folder {tmp_path / 'runs'}\n"


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """Be it the last one or one on the way."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"--trace .*{tmp_path / 'file'}: File exists"):
        make_folder(tmp_path / "file" / "t.json", "--trace")
    with pytest.raises(ConfigError, match=f"there is no folder {tmp_path / 'file' / 'below'}") as caught:
        make_folder(tmp_path / "file" / "below" / "deep" / "t.json", "--trace")
    assert caught.value.field == "--trace"


@pytest.mark.parametrize("option", OPTIONS)
def test_a_whole_way_that_is_missing_is_a_slip(
    option: str, tone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 for every option alike, before anything is loaded, and nothing is made."""
    path = tmp_path / "rnus" / "today" / "f.wav"
    assert main(["demo", "--engines", "scripted", "--wav", str(tone), option, str(path)]) == 2
    said = capsys.readouterr()
    assert said.err == (
        f"voicepipe: {option} {path}: there is no folder {tmp_path / 'rnus'}; make it first, or check the name\n"
    )
    assert said.out == "" and not (tmp_path / "rnus").exists()


def test_every_option_makes_its_last_folder(tone: Path, tmp_path: Path) -> None:
    """And says so."""
    paths = {option: tmp_path / option.strip("-") / "f" for option in OPTIONS}
    flags = [str(part) for pair in paths.items() for part in pair]
    done = run("demo", "--engines", "scripted", "--wav", tone, *flags)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_size > 0 for path in paths.values())
    assert sorted(done.stderr.splitlines()) == sorted(
        f"voicepipe: {option}: made the folder {path.parent}" for option, path in paths.items()
    )


def test_a_file_is_looked_at_before_it_is_made(tmp_path: Path) -> None:
    """What could be written is neither made nor opened, and neither is its folder."""
    check_file(tmp_path / "f.jsonl", "--ledger")
    check_file(tmp_path / "runs" / "f.jsonl", "--ledger")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("kept")
    check_file(tmp_path / "old", "--ledger")
    check_file(Path("/dev/null"), "--ledger")
    assert (tmp_path / "old").read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is a folder"),
        ("file/f", "is no folder"),
        ("file/below/f", "there is no folder"),
        ("a/b/f", "there is no folder"),
    ],
)
def test_a_file_that_could_not_be_made_is_told_beforehand(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=says) as caught:
        check_file(tmp_path / name, "--trace")
    assert caught.value.field == "--trace"
