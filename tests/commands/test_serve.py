"""`serve` from the outside: what it prints, and with which status it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.processes import begun, run, serving, until_line
from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("option", ["--ledger", "--trace", "--record"])
def test_a_record_that_cannot_be_written_is_said_before_anything_else(option: str) -> None:
    done = run("serve", "--engines", "scripted", option, "/dev/null/x")
    assert done.returncode == 2 and option in done.stderr


def test_a_port_in_use_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Named, without a traceback."""
    with serving("--engines", "scripted") as port:
        assert main(["serve", "--engines", "scripted", "--port", str(port)]) == 1
    assert str(port) in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_cleanly_when_told(number: signal.Signals) -> None:
    """Exit 0 within the grace, no traceback, whichever signal."""
    with serving("--engines", "scripted", signal_number=number):
        pass


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


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (signal.SIGTERM, signal.SIGTERM, 0),
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGINT, signal.SIGTERM, 0),
        (signal.SIGTERM, None, 0),
    ],
)
def test_a_second_signal_ends_a_drain_at_once(
    first: signal.Signals, second: signal.Signals | None, status: int, tone: Path, tmp_path: Path
) -> None:
    """The session that runs is closed with 1012, not waited for; also where both come in the same instant (None:
    the other kind then). The status of a drain that Ctrl-C alone cut short is 130; SIGTERM's is always 0."""
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
        if second is None:  # of two kinds: two of one kind would become one
            for number in (signal.SIGSTOP, first, signal.SIGINT, signal.SIGCONT):
                server.send_signal(number)
        else:
            server.send_signal(first)
            assert server.stdout.readline().startswith("draining")
            server.send_signal(second)
        _, err = server.communicate(timeout=15)
        assert server.returncode == status, err
        assert "Traceback" not in err
        shown, said = talk.communicate(timeout=15)
        assert talk.returncode == 1 and "1012" in said, (shown[-600:], said)
    finally:
        for process in (server, talk):
            process.kill()
            process.communicate()


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


def test_a_folder_of_pictures_that_is_not_there_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["serve", "--engines", "scripted", "--experiments", str(tmp_path / "gone"), "--check"]) == 2
    assert "there is no folder" in capsys.readouterr().err


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
