"""`talk` and `demo` from the outside: what they print, and with which status they end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes import begun, lines, page, run, serving, until
from voicepipe.audio import read_wav, write_wav
from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")

RATE_HZ = 16_000


def test_demo_prints_one_object_per_turn_and_nothing_else(tone: Path, tmp_path: Path) -> None:
    """stdout is JSON lines, the summary last; the replies lie where --out says."""
    out = tmp_path / "out.wav"
    done = run("demo", "--engines", "scripted", "--json", "--wav", tone, "--wav", tone, "--out", out)
    assert done.returncode == 0, done.stderr
    *turns, last = lines(done.stdout)
    assert [turn["turn"] for turn in turns] == [1, 2]
    said, took = ["turn", "transcript", "reply", "verdict", "reason"], ["felt_ms", "measured", "felt_estimate_ms"]
    fields = [*said, *took, "system_ms", "stages", "speculation", "blame", "cutoff"]
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


def test_demo_for_people_shows_what_was_said_and_the_waterfall(own_cache: Path) -> None:
    """Without a recording the question is synthesised; the WAV's place is said."""
    done = run("demo", "--engines", "scripted")
    assert done.returncode == 0, done.stderr
    assert "you: What is the capital of France?" in done.stdout
    assert "bot: This is a scripted reply. It has two sentences." in done.stdout
    assert "endpoint ░" in done.stdout
    assert f"the replies are in {own_cache / 'demo' / 'reply.wav'}" in done.stdout
    assert f"the question is in {own_cache / 'demo' / 'question-scripted.wav'}" in done.stdout


def test_a_recording_in_which_nobody_speaks(tmp_path: Path) -> None:
    """The summary and a line that names it, and status 1: whoever sends a recording wants it answered."""
    path = tmp_path / "quiet.wav"
    write_wav(path, np.zeros(RATE_HZ, np.float32), RATE_HZ)
    done = run("demo", "--engines", "scripted", "--json", "--wav", path)
    assert done.returncode == 1, done.stderr
    (only,) = lines(done.stdout)
    assert isinstance(only["summary"], dict)
    assert (only["summary"]["turns"], only["summary"]["ended"]) == (0, "done")
    assert (only["summary"]["silent_clips"], only["summary"]["unheard_clips"]) == (["quiet.wav"], [])
    assert done.stderr == "voicepipe: nobody spoke in quiet.wav: no sound in it is louder than -50 dBFS\n"


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


def test_a_server_that_is_not_there(tone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, and what to do about it."""
    assert main(["talk", "--url", "ws://127.0.0.1:9", "--wav", str(tone)]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.1:9" in said and "voicepipe serve" in said and "Traceback" not in said


def error_of(out: str) -> dict[str, object]:
    """Of the only line, a summary without a session."""
    (only,) = lines(out)
    summary = only["summary"]
    assert isinstance(summary, dict) and (summary["turns"], summary["ended"]) == (0, "failed")
    assert isinstance(summary["error"], dict)
    return summary["error"]


def test_machines_get_a_summary_of_what_came_to_nothing(
    tone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody there; a recording that cannot be read, of talk and of demo. The same is said on stderr."""
    missing = str(tmp_path / "missing.wav")
    for argv, status, code in (
        (["talk", "--url", "ws://127.0.0.1:9", "--wav", str(tone)], 1, "server_unreachable"),
        (["talk", "--wav", missing], 2, "bad_audio_file"),
        (["demo", "--wav", missing], 2, "bad_audio_file"),
    ):
        assert main([*argv, "--json"]) == status
        said = capsys.readouterr()
        error = error_of(said.out)
        assert error["code"] == code and said.err == f"voicepipe: {error['message']}\n"


def test_an_interrupted_wait_for_the_server_leaves_a_summary(tone: Path) -> None:
    """Status 130, and nothing of an error."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"ws://127.0.0.1:{mute.getsockname()[1]}"
        talk = begun("talk", "--url", url, "--wav", tone, "--json")
        mute.settimeout(30)
        caller, _ = mute.accept()
        with caller:
            talk.send_signal(signal.SIGINT)
            out, err = talk.communicate(timeout=20)
    assert (talk.returncode, err) == (130, "")
    assert lines(out) == [{"summary": {"turns": 0, "ended": "interrupted", "error": None}}]


@pytest.mark.parametrize(("token", "says"), [(None, "none was given"), ("barley", "not accepted")])
def test_a_talk_without_the_right_token(
    token: str | None, says: str, tone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, which of both it was, and where the right one goes."""
    monkeypatch.setenv("VOICEPIPE_SERVER_TOKENS", "sesame")
    monkeypatch.setenv("VOICEPIPE_TOKEN", token or "")
    with serving("--engines", "scripted") as port:
        assert main(["talk", "--url", f"ws://127.0.0.1:{port}", "--wav", str(tone), "--json"]) == 2
    out, said = capsys.readouterr()
    assert error_of(out)["code"] == "unauthorized"
    assert says in said and "VOICEPIPE_TOKEN" in said and "barley" not in said and "Traceback" not in said


def test_an_ipv6_address_is_a_url_that_can_be_used(tone: Path) -> None:
    """In brackets, in both lines."""
    with serving("--engines", "scripted", "--host", "::1") as port:
        done = run("talk", "--url", f"ws://[::1]:{port}", "--wav", tone, "--json")
    assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize(("recordings", "status"), [(1, 0), (2, 1)])
def test_a_server_that_drains_in_the_silence_after_an_answer(recordings: int, status: int, tmp_path: Path) -> None:
    """Nothing was left to answer: status 0, and it is said why the talk ended. Where a second recording had not
    been said, status 1 and how much was left."""
    path, err = tmp_path / "long.wav", ""
    tone = 0.3 * np.sin(np.arange(RATE_HZ) * 0.2)
    write_wav(path, np.concatenate([tone, np.zeros(20 * RATE_HZ)]).astype(np.float32), RATE_HZ)
    with serving("--engines", "scripted") as port:
        talk = begun("talk", "--url", f"ws://127.0.0.1:{port}", *["--wav", path] * recordings, "--json")
        assert talk.stdout is not None
        assert json.loads(talk.stdout.readline())["verdict"] == "met"
    rest, err = talk.communicate(timeout=20)
    assert talk.returncode == status, err
    summary = json.loads(rest.splitlines()[-1])["summary"]
    assert (summary["ended"], summary["error"]["code"], summary["open_turns"]) == ("drained", "server_drained", 0)
    said = "" if status == 0 else f"voicepipe: {summary['error']['message']}\n"
    assert err.endswith(said) and ("1 recording left unanswered" in said) is bool(status)


def test_a_demo_that_is_told_to_end_leaves_its_summary(tone: Path) -> None:
    """SIGTERM in the middle of the second recording."""
    demo = begun("demo", "--engines", "scripted", "--wav", tone, "--wav", tone, "--json")
    assert demo.stdout is not None
    demo.stdout.readline()
    demo.send_signal(signal.SIGTERM)
    rest, err = demo.communicate(timeout=20)
    assert demo.returncode == 143, err
    assert json.loads(rest.splitlines()[-1])["summary"]["ended"] == "interrupted"


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
