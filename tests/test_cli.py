"""The command line from the outside: what it prints, and with which status it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from voicepipe.audio import read_wav, write_wav
from voicepipe.cli import main, read_tokens
from voicepipe.config import parse_config
from voicepipe.conversation import check_out
from voicepipe.errors import ConfigError, EngineError

RATE_HZ = 16_000


def caused(error: EngineError, cause: Exception) -> EngineError:
    error.__cause__ = cause
    return error


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing here touches the user's cache."""
    monkeypatch.setenv("VOICEPIPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """A second of what the scripted VAD takes for speech, in stereo at an odd rate."""
    samples = 0.3 * np.sin(np.arange(22_050) * 0.2)
    path = tmp_path / "tone.wav"
    write_wav(path, samples.astype(np.float32), 22_050)
    return path


def run(*argv: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voicepipe", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# --- demo


def test_demo_prints_one_object_per_turn_and_nothing_else(tone: Path, tmp_path: Path) -> None:
    """stdout is JSON lines, the summary last; the replies lie where --out says."""
    out = tmp_path / "out.wav"
    done = run("demo", "--engines", "scripted", "--json", "--wav", tone, "--wav", tone, "--out", out)
    assert done.returncode == 0, done.stderr
    *turns, last = lines(done.stdout)
    assert [turn["turn"] for turn in turns] == [1, 2]
    fields = "turn transcript reply verdict felt_ms system_ms stages speculation blame cutoff".split()
    assert all(list(turn) == fields for turn in turns)
    summary = last["summary"]
    assert isinstance(summary, dict)
    assert summary["turns"] == 2
    assert summary["out"] == str(out)
    reply, _ = read_wav(out, max_seconds=60)
    assert np.abs(reply).max() > 0.1
    assert done.stderr == ""


def test_demo_records_its_chunks_and_turns(tone: Path, tmp_path: Path) -> None:
    """As JSON lines and as a trace; neither holds a word of what was said."""
    ledger, trace = tmp_path / "l.jsonl", tmp_path / "t.json"
    done = run(
        "demo",
        "--engines",
        "scripted",
        "--wav",
        tone,
        "--out",
        tmp_path / "r.wav",
        "--ledger",
        ledger,
        "--trace",
        trace,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert {line["chunk"] for line in lines if "chunk" in line} >= {"hear", "final", "think", "speak"}
    (turn,) = [line for line in lines if "verdict" in line]
    assert turn["verdict"] == "met" and turn["instants"]["commit"] > 0
    events = json.loads(trace.read_text())
    assert {event["ph"] for event in events} >= {"X", "M"}
    assert "capital" not in ledger.read_text() + trace.read_text()


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file"),
        ("", "no recording"),
        ('{"entry":"recording","version":99}\n', "a recording of version 99; this voicepipe replays version 1"),
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


@pytest.mark.parametrize("option", ["--ledger", "--trace", "--record"])
def test_a_record_that_cannot_be_written_is_said_before_anything_else(option: str) -> None:
    done = run("serve", "--engines", "scripted", option, "/dev/null/x")
    assert done.returncode == 2 and option in done.stderr


def test_demo_for_people_shows_what_was_said_and_the_waterfall(own_cache: Path) -> None:
    """Without a recording the question is synthesised; the WAV's place is said."""
    done = run("demo", "--engines", "scripted")
    assert done.returncode == 0, done.stderr
    assert "you: What is the capital of France?" in done.stdout
    assert "bot: This is a scripted reply. It has two sentences." in done.stdout
    assert "endpoint ░" in done.stdout
    assert f"the replies are in {own_cache / 'demo' / 'reply.wav'}" in done.stdout


def test_silence_is_no_turn(tmp_path: Path) -> None:
    """A recording without speech: only the summary, and status 0."""
    path = tmp_path / "quiet.wav"
    write_wav(path, np.zeros(RATE_HZ, np.float32), RATE_HZ)
    done = run("demo", "--engines", "scripted", "--json", "--wav", path)
    assert done.returncode == 0, done.stderr
    (only,) = lines(done.stdout)
    assert isinstance(only["summary"], dict)
    assert only["summary"]["turns"] == 0
    assert only["summary"]["unheard_clips"] == []
    assert only["summary"]["ended"] == "done"
    assert done.stderr == ""


# --- wrong usage


def bad_files(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "text.wav").write_text("this is no sound")
    (tmp_path / "nothing.wav").write_bytes(b"")
    write_wav(tmp_path / "empty.wav", np.zeros(0, np.float32), RATE_HZ)
    write_wav(tmp_path / "hour.wav", np.zeros(8_000 * 3_601, np.float32), 8_000)
    return {path.name: path for path in tmp_path.glob("*.wav")} | {"missing.wav": tmp_path / "missing.wav"}


@pytest.mark.parametrize("name", ["text.wav", "nothing.wav", "empty.wav", "hour.wav", "missing.wav"])
@pytest.mark.parametrize("command", ["demo", "talk"])
def test_a_bad_recording_is_wrong_usage(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, one line that names the file, before anything is loaded or connected."""
    path = bad_files(tmp_path)[name]
    assert main([command, "--wav", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert name in said.err and len(said.err.splitlines()) == 1


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
    ("argv", "says"),
    [
        (["--llm", "http://"], "--llm"),
        (["--llm", "ftp://x"], "--llm"),
        (["--llm", "http://127.0.0.1:99999/v1"], "--llm"),
        (["--llm", "/nosuch.gguf"], "engines.llm (--llm): there is no model at /nosuch.gguf"),
        (["--llm", "nosuch.gguf"], "engines.llm (--llm): there is no model at nosuch.gguf"),
        (["--llm", "~/nosuch.gguf"], "engines.llm (--llm): there is no model at ~/nosuch.gguf"),
        (["--llm", "FOLDER"], "is no file"),
        (["--llm", "gpt-17"], "engines.llm (--llm): no model is called 'gpt-17'"),
        (["--llm", ""], "engines.llm (--llm): no model is called ''"),
        (["--llm", "whisper-base"], "engines.llm (--llm): whisper-base is a model for asr, not for llm"),
        (["--asr", "./nowhere"], "engines.asr (--asr): there is no model at ./nowhere"),
        (["--asr", "FILE"], "is a file"),
        (["--asr-second", "./nowhere"], "engines.asr_second (--asr-second): there is no model at ./nowhere"),
        (["--voice", "a/b/c.onnx"], "engines.tts (--voice): there is no model at a/b/c.onnx"),
        (["--voice", "small.en"], "engines.tts (--voice): no model is called 'small.en'"),
        (["--turn-model", "smart-turn"], "engines.turn_model (--turn-model): no model is called 'smart-turn'"),
        (["--turn-model", "whisper-tiny.en"], "is a model for asr, not for turn"),
        (["--turn-model", "./nowhere.onnx"], "engines.turn_model (--turn-model): there is no model at"),
        (["--host", ""], "host"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_start_is_told_before_anything_is_fetched(
    check: bool,
    argv: list[str],
    says: str,
    tone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By --check and by a real start alike: status 2, one line with the option."""

    def resolve(*_: object) -> None:
        raise AssertionError("a model is looked for")

    monkeypatch.setattr("voicepipe.models.store.ModelStore.resolve", resolve)
    places = {"FOLDER": str(tone.parent), "FILE": str(tone)}
    flags = [places.get(part, part) for part in argv]
    assert main(["serve", *(["--check"] if check else []), *flags]) == 2
    said = capsys.readouterr()
    assert says in said.err and len(said.err.splitlines()) == 1
    assert said.out == ""


@pytest.mark.parametrize(
    "argv",
    [
        ["--llm", "FILE", "--voice", "FILE", "--asr", "FOLDER"],
        ["--llm", "org/name:model.gguf", "--asr", "small.en", "--voice", "org/voice:a/b.onnx"],
        ["--llm", "https://host.example/v1", "--asr", "org/whisper"],
        ["--turn-model", "smart-turn-v3.2"],
        ["--turn-model", "none"],
        ["--turn-model", "FILE"],
        ["--engines", "scripted", "--llm", "/nosuch.gguf"],
    ],
)
def test_check_lets_pass_what_may_start(argv: list[str], tone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What lies there, what a hub may have, and what scripted engines never look at; nothing is fetched."""
    places = {"FOLDER": str(tone.parent), "FILE": str(tone)}
    assert main(["serve", "--check", *(places.get(part, part) for part in argv)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "argv", [["talk", "--wav", ""], ["demo", "--wav", ""], ["talk", "--out", ""], ["serve", "--config", ""]]
)
def test_an_empty_name_is_called_so(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It would be the current folder."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert f"argument {argv[1]}: an empty name was given" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "talk"])
def test_a_folder_is_no_recording(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And is there, so that "no such file" would be wrong."""
    assert main([command, "--wav", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"voicepipe: {tmp_path} is a folder, not a recording\n"


@pytest.mark.parametrize("sign", ["\n", "\x1b", "\u20ac"])
def test_a_token_that_cannot_be_sent_is_not_shown(
    sign: str, tone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, before anything is connected."""
    monkeypatch.setenv("VOICEPIPE_TOKEN", f"hush{sign}hush")
    assert main(["talk", "--url", "ws://127.0.0.1:9", "--wav", str(tone)]) == 2
    said = capsys.readouterr()
    assert "VOICEPIPE_TOKEN" in said.err and "hush" not in said.err + said.out
    assert len(said.err.splitlines()) == 1


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


@pytest.mark.parametrize("command", ["demo", "talk"])
def test_replies_that_could_not_be_written_are_told_before_a_word_is_said(
    command: str, tone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder, or a place under a file: status 2 and its name, and nothing is loaded or connected."""
    for out in (tmp_path, tone / "below" / "reply.wav"):
        assert main([command, "--wav", str(tone), "--out", str(out)]) == 2
        said = capsys.readouterr()
        assert said.out == "" and str(out.parent if out.suffix else out) in said.err
        assert len(said.err.splitlines()) == 1


def test_checking_a_place_leaves_what_is_there(tmp_path: Path) -> None:
    """A file that exists keeps its content until there is a reply; none is left where none was."""
    check_out(tmp_path / "without-suffix")
    check_out(tmp_path / "loud.WAV")
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.wav"
    old.write_bytes(b"kept")
    check_out(old)
    assert old.read_bytes() == b"kept"
    check_out(tmp_path / "new" / "reply.wav")
    assert list((tmp_path / "new").iterdir()) == []


# --- surroundings


def test_a_server_that_is_not_there(tone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, and what to do about it."""
    assert main(["talk", "--url", "ws://127.0.0.1:9", "--wav", str(tone)]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.1:9" in said and "voicepipe serve" in said and "Traceback" not in said


def test_an_ipv6_address_is_a_url_that_can_be_used(tone: Path) -> None:
    """In brackets, in both lines."""
    with serving("--engines", "scripted", "--host", "::1") as port:
        done = run("talk", "--url", f"ws://[::1]:{port}", "--wav", tone, "--json")
    assert done.returncode == 0, done.stderr


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

    monkeypatch.setattr("voicepipe.cli._serve_until_told", fail)
    assert main(["serve", "--engines", "scripted"]) == 1
    assert capsys.readouterr().err == f"voicepipe: {says}\n"


def test_no_microphone_says_how_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the extra, PortAudio or the device is missing: status 1 and a --wav example."""
    with serving("--engines", "scripted") as port:
        try:
            import sounddevice
        except (ImportError, OSError):
            pass
        else:
            if sounddevice.query_devices():
                pytest.skip("this machine has a microphone")
        assert main(["talk", "--url", f"ws://127.0.0.1:{port}"]) == 1
    assert "--wav" in capsys.readouterr().err


def test_a_refused_session_is_told_as_json(tone: Path) -> None:
    """One session at a time: the second caller gets reason and time to come back, and status 1."""
    with serving("--engines", "scripted", "--max-sessions", "1") as port:
        url = f"ws://127.0.0.1:{port}"
        first = subprocess.Popen(
            [sys.executable, "-m", "voicepipe", "talk", "--url", url, "--wav", tone, "--json"],
            stdout=subprocess.PIPE,
        )
        try:
            until(lambda: "voicepipe_sessions_active 1.0" in page(port, "/metrics"))
            second = run("talk", "--url", url, "--wav", tone, "--json")
        finally:
            out, _ = first.communicate(timeout=60)
    assert second.returncode == 1
    (only,) = lines(second.stdout)
    assert isinstance(only["summary"], dict)
    refused = only["summary"]["refused"]
    assert refused["reason"] == "capacity" and refused["retry_after_ms"] > 0
    assert first.returncode == 0 and json.loads(out.splitlines()[-1])["summary"]["turns"] == 1


def test_a_port_in_use_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Named, without a traceback."""
    with serving("--engines", "scripted") as port:
        assert main(["serve", "--engines", "scripted", "--port", str(port)]) == 1
    assert str(port) in capsys.readouterr().err


def test_models_lists_every_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, state, size, licence, hash."""
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    for name in ("whisper-tiny.en", "smollm2-135m-instruct", "piper-en_US-joe-medium", "smart-turn-v3.2"):
        assert name in shown
    assert "missing" in shown and "Apache-2.0" in shown
    assert "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" in shown


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_cleanly_when_told(number: signal.Signals) -> None:
    """Exit 0 within the grace, no traceback, whichever signal."""
    with serving("--engines", "scripted", signal_number=number):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_talk_that_is_told_to_end_leaves_what_there_is(
    number: signal.Signals, tone: Path, tmp_path: Path
) -> None:
    """During the second of two recordings: the summary, the replies so far, and the status of the signal."""
    out = tmp_path / "reply.wav"
    with serving("--engines", "scripted") as port:
        url = f"ws://127.0.0.1:{port}"
        talk = begun("talk", "--url", url, "--wav", tone, "--wav", tone, "--out", out, "--json")
        assert talk.stdout is not None
        assert json.loads(talk.stdout.readline())["turn"] == 1
        talk.send_signal(number)
        rest, err = talk.communicate(timeout=20)
    assert talk.returncode == 128 + number, err
    summary = json.loads(rest.splitlines()[-1])["summary"]
    assert (summary["turns"], summary["ended"], summary["out"]) == (1, "interrupted", str(out))
    assert len(read_wav(out, max_seconds=60)[0]) > 0
    assert "Traceback" not in err


def test_a_server_that_is_killed_leaves_a_talk_its_summary(tone: Path) -> None:
    """Status 1; both the summary and stderr name the way it ended."""
    server = begun("serve", "--port", "0", "--engines", "scripted")
    assert server.stdout is not None
    listening, _ = server.stdout.readline(), server.stdout.readline()
    port = listening.split(";")[0].rsplit(":", 1)[1]
    talk = begun("talk", "--url", f"ws://127.0.0.1:{port}", "--wav", tone, "--wav", tone, "--json")
    assert talk.stdout is not None
    talk.stdout.readline()
    server.kill()
    server.communicate()
    rest, err = talk.communicate(timeout=20)
    assert talk.returncode == 1
    summary = json.loads(rest.splitlines()[-1])["summary"]
    assert (summary["turns"], summary["ended"], summary["error"]["close_code"]) == (1, "lost", 1006)
    assert "1006" in err and "Traceback" not in err


def test_a_demo_that_is_told_to_end_leaves_its_summary(tone: Path) -> None:
    """SIGTERM in the middle of the second recording."""
    demo = begun("demo", "--engines", "scripted", "--wav", tone, "--wav", tone, "--json")
    assert demo.stdout is not None
    demo.stdout.readline()
    demo.send_signal(signal.SIGTERM)
    rest, err = demo.communicate(timeout=20)
    assert demo.returncode == 143, err
    assert json.loads(rest.splitlines()[-1])["summary"]["ended"] == "interrupted"


def test_sigterm_while_the_engines_load_ends_serve_at_once(tmp_path: Path) -> None:
    """Status 0, although the load takes a minute."""
    slow = tmp_path / "slow.toml"
    slow.write_text("[engines]\nkind = 'scripted'\n[engines.scripted]\nasr_ms = 60000\n")
    server = begun("serve", "--port", "0", "--config", slow)
    assert server.stdout is not None
    assert server.stdout.readline().startswith("listening")
    server.send_signal(signal.SIGTERM)
    _, err = server.communicate(timeout=10)
    assert (server.returncode, err) == (0, "")


def test_sigterm_while_a_model_is_fetched_ends_serve_and_the_fetch(tmp_path: Path) -> None:
    """Status 0; pip is gone, what it had is kept for the next time, and nothing looks complete."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(30)
        place = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        environ = {**os.environ, "PIP_INDEX_URL": place, "PIP_CONFIG_FILE": os.devnull}
        server = begun("serve", "--port", "0", env=environ)
        pip, _ = index.accept()
        with pip:
            server.send_signal(signal.SIGTERM)
            _, err = server.communicate(timeout=20)
            pip.settimeout(10)
            while pip.recv(4096):  # until the other end of the connection is gone
                pass
    assert server.returncode == 0, err
    assert "Traceback" not in err
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir() if path.name[0] != "."] == []


@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_signal_ends_a_drain_at_once(at_once: bool, tone: Path, tmp_path: Path) -> None:
    """Even where both come in the same instant: the session that runs is closed with 1012, not waited for."""
    patient = tmp_path / "patient.toml"
    words = "word " * 200
    patient.write_text(f"[engines.scripted]\nreply = '{words}'\n[limits]\ngrace_s = 60\n")
    server = begun("serve", "--port", "0", "--engines", "scripted", "--config", patient)
    assert server.stdout is not None
    listening, _ = server.stdout.readline(), server.stdout.readline()
    port = int(listening.split(";")[0].rsplit(":", 1)[1])
    talk = begun("talk", "--url", f"ws://127.0.0.1:{port}", "--wav", tone)
    try:
        assert talk.stdout is not None
        until_line(talk.stdout, "bot:")
        if at_once:  # of two kinds: two of one kind would become one
            for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
                server.send_signal(number)
        else:
            server.send_signal(signal.SIGTERM)
            assert server.stdout.readline().startswith("draining")
            server.send_signal(signal.SIGTERM)
        _, err = server.communicate(timeout=15)
        assert server.returncode == 0, err
        _, said = talk.communicate(timeout=15)
        assert talk.returncode == 1 and "1012" in said
    finally:
        for process in (server, talk):
            process.kill()
            process.communicate()


def until_line(stream: IO[str], beginning: str) -> None:
    """Reads until the first sign of the line that begins so: a reply's line grows."""
    read = ""
    while beginning not in read:
        piece = stream.read(1)
        assert piece, read
        read += piece


def begun(*argv: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "voicepipe", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def test_ctrl_c_ends_a_talk_at_any_moment(tone: Path) -> None:
    """Connecting, speaking, listening: status 130, nothing on stderr but silence."""
    with serving("--engines", "scripted") as port:
        for after_s in (0.3, 0.9, 1.6):
            talk = subprocess.Popen(
                [sys.executable, "-m", "voicepipe", "talk", "--url", f"ws://127.0.0.1:{port}", "--wav", tone],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                talk.wait(after_s)
            except subprocess.TimeoutExpired:
                talk.send_signal(signal.SIGINT)
            _, err = talk.communicate(timeout=20)
            assert talk.returncode in (130, -signal.SIGINT), err
            assert "Traceback" not in err or after_s < 0.5  # before main runs, it is the interpreter's


@contextmanager
def serving(*argv: str, signal_number: signal.Signals = signal.SIGTERM) -> Iterator[int]:
    """`voicepipe serve` as a process, ready; told to end afterwards, which it must do with status 0."""
    process = subprocess.Popen(
        [sys.executable, "-m", "voicepipe", "serve", "--port", "0", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        listening, ready = process.stdout.readline(), process.stdout.readline()
        assert ready.startswith("ready"), (listening, ready, process.poll())
        yield int(listening.split(";")[0].rsplit(":", 1)[1])
        process.send_signal(signal_number)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "Traceback" not in err, err
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def until(condition: object, limit_s: float = 20.0) -> None:
    assert callable(condition)
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"


# --- tokens


def test_tokens_have_names_and_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "lobby").write_text("from-a-file\n")
    tokens = {"kiosk": {"env": "KIOSK"}, "lobby": {"file": str(tmp_path / "lobby")}}
    environ = {"VOICEPIPE_SERVER_TOKENS": "a,,b,a", "KIOSK": "from-the-environment"}
    assert read_tokens(parse_config({"tokens": tokens}), environ) == {
        "a": "token-1",
        "b": "token-2",
        "from-the-environment": "kiosk",
        "from-a-file": "lobby",
    }


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "the environment variable KIOSK holds no token"),
        ({"KIOSK": "two words"}, "white space"),
        ({"KIOSK": "s3cret", "VOICEPIPE_SERVER_TOKENS": "s3cret"}, "the same token as token-1"),
    ],
)
def test_a_token_that_is_missing_or_ambiguous_is_told_and_not_shown(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read_tokens(parse_config({"tokens": {"kiosk": {"env": "KIOSK"}}}), environ)
    assert caught.value.field == "tokens.kiosk" and "s3cret" not in caught.value.message


def test_a_token_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_tokens(parse_config({"tokens": {"kiosk": {"file": "/nowhere/at/all"}}}), {})


def test_check_shows_policies_and_where_tokens_are_and_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIOSK", "s3cret")
    file = tmp_path / "c.toml"
    file.write_text('[tokens.kiosk]\nenv = "KIOSK"\nquota = { sessions = 2 }\n')
    assert main(["serve", "--check", "--engines", "scripted", "--config", str(file), "--admission", "vegas"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["admission"]["policy"] == "vegas" and "KIOSK" in printed and "s3cret" not in printed
    monkeypatch.delenv("KIOSK")
    assert main(["serve", "--check", "--engines", "scripted", "--config", str(file)]) == 2


def test_an_api_without_its_extra_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to install, before anything is fetched."""
    for name in ("voicepipe.api", "voicepipe.listener"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert main(["serve", "--engines", "scripted", "--api-port", "0"]) == 1
    assert "voicepipe-realtime[api]" in capsys.readouterr().err


def test_serve_answers_at_the_api_and_ends_with_0() -> None:
    """Where it says it does; and SIGTERM is not uvicorn's."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    command = [
        sys.executable,
        "-m",
        "voicepipe",
        "serve",
        "--engines",
        "scripted",
        "--port",
        "0",
        "--api-port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(line.split()[1] for line in process.stdout if line.startswith("texts: "))
            body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 3}
            request = urllib.request.Request(url, json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert json.load(answer)["choices"][0]["message"]["content"] == "This is a"
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
