"""`replay` from the outside: what it prints, and with which status it ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.processes import lines, run
from voicepipe.audio import write_wav
from voicepipe.tape import VERSION

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two spoken turns over a real socket."""
    folder = tmp_path_factory.mktemp("recording")
    samples = 0.3 * np.sin(np.arange(22_050) * 0.2)
    write_wav(folder / "tone.wav", samples.astype(np.float32), 22_050)
    path, wav = folder / "r.jsonl", folder / "tone.wav"
    done = run(
        "demo", "--engines", "scripted", "--wav", wav, "--wav", wav, "--out", folder / "o.wav", "--record", path
    )
    assert done.returncode == 0, done.stderr
    return path


def test_a_recorded_demo_is_decided_the_same_again(recording: Path) -> None:
    """Over real threads and sockets, in another process; the first line says that words are held."""
    done = run("replay", recording)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 1 session agree (" in done.stdout and done.stderr == ""
    (only,) = lines(run("replay", "--json", recording).stdout)
    summary = only["summary"]
    assert isinstance(summary, dict)
    entries = lines(recording.read_text())
    told = [entry for entry in entries if entry["entry"] == "input"]
    assert (summary["agreed"], summary["whole"], summary["inputs"]) == (True, True, len(told))
    assert {str(entry["on"]) for entry in told} >= {
        "on_endpoint",
        "on_transcript",
        "on_spoken",
        "on_submit",
        "on_done",
    }
    assert "words" in str(entries[0]["holds"])
    assert "capital of France" in recording.read_text()


def test_a_recording_that_was_tampered_with_shows_where(recording: Path, tmp_path: Path) -> None:
    """Status 1; the input, what was expected, and what came."""
    path = tmp_path / "t.jsonl"
    path.write_text(recording.read_text().replace('"text":"What is the', '"text":"What was the', 1))
    assert path.read_text() != recording.read_text()
    done = run("replay", path)
    assert done.returncode == 1 and done.stderr == ""
    assert "differs, on_" in done.stdout and "\n  expected  " in done.stdout and "\n  got       " in done.stdout
    (only,) = lines(run("replay", "--json", path).stdout)
    assert isinstance(only["summary"], dict) and only["summary"]["difference"]["line"] > 1


def test_a_recording_that_breaks_off_is_replayed_as_far_as_it_goes(recording: Path, tmp_path: Path) -> None:
    """As after a kill: status 0, and it says so."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(recording.read_bytes()[:-100])
    done = run("replay", path)
    assert done.returncode == 0 and "breaks off" in done.stdout


def test_a_gap_is_no_agreement(recording: Path, tmp_path: Path) -> None:
    """Status 1, and how many entries are missing."""
    path = tmp_path / "t.jsonl"
    kept = recording.read_text().splitlines(keepends=True)
    path.write_text("".join([*kept[:10], *kept[13:]]))
    done = run("replay", path)
    assert done.returncode == 1 and done.stderr == ""
    assert "3 entries that follow were not recorded" in done.stdout


@pytest.mark.parametrize("whole", [True, False])
def test_a_recording_of_no_calls_says_so(recording: Path, tmp_path: Path, whole: bool) -> None:
    """Nobody came, or the process was killed before anybody did: nothing differs, and nobody is left to guess."""
    path = tmp_path / "t.jsonl"
    head, *_, end = recording.read_text().splitlines(keepends=True)
    path.write_text(head + end if whole else head)
    done = run("replay", path)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("no calls recorded: ") and ("breaks off" in done.stdout) is not whole


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ("", "no recording"),
        (
            '{"entry":"recording","version":99}\n',
            f"a recording of version 99; this voicepipe replays version {VERSION}",
        ),
    ],
)
def test_what_cannot_be_replayed_is_wrong_usage(tmp_path: Path, text: str | None, problem: str) -> None:
    """Status 2, one line, the file named."""
    path = tmp_path / "r.jsonl"
    if text is not None:
        path.write_text(text)
    done = run("replay", path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"voicepipe: {path}") and problem in done.stderr
    assert done.stderr.count("\n") == 1
