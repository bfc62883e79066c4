"""`voicepipe top`: one frame for scripts, and a live one in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.processes import serving
from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")
NOBODY = "http://127.0.0.1:9"


def test_one_frame_and_no_code_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--engines", "scripted") as port:
        assert main(["top", "--once", f"127.0.0.1:{port}"]) == 0
        said = capsys.readouterr().out
        assert main(["top", "--once", "--json", f"ws://127.0.0.1:{port}"]) == 0
        (line,) = capsys.readouterr().out.splitlines()
    assert "ready" in said and "0 of 4 sessions" in said and "budget     200 ms" in said and "\x1b" not in said
    seen = json.loads(line)
    assert seen["ready"] is True and seen["budget_ms"] == 200 and seen["verdicts"]["met"] == 0
    assert seen["server"] == f"http://127.0.0.1:{port}/metrics" and set(seen["device"]) == {"cpu", "ears"}


def test_nobody_there_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", NOBODY]) == 1
    said = capsys.readouterr()
    assert "nobody answers" in said.err and said.out == ""
    assert main(["top", "--once", "--json", NOBODY]) == 1
    said = capsys.readouterr()
    (line,) = said.out.splitlines()
    error = json.loads(line)["summary"]["error"]
    assert error["code"] == "server_unreachable" and said.err == f"voicepipe: {error['message']}\n"


def test_a_token_is_shown_where_one_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it, status 2 and where it is taken from; also of a live view, which would not come to anything."""
    monkeypatch.setenv("VOICEPIPE_METRICS_TOKEN", "s3cret")
    with serving("--engines", "scripted") as port:
        assert main(["top", "--once", f"127.0.0.1:{port}"]) == 0
        monkeypatch.delenv("VOICEPIPE_METRICS_TOKEN")
        capsys.readouterr()
        for argv in (["top", "--once"], ["top"]):
            assert main([*argv, f"127.0.0.1:{port}"]) == 2
            assert "needs its metrics' token in VOICEPIPE_METRICS_TOKEN" in capsys.readouterr().err
            assert main([*argv, "--json", f"127.0.0.1:{port}"]) == 2
            assert json.loads(capsys.readouterr().out)["summary"]["error"]["code"] == "unauthorized"


@pytest.mark.parametrize("argv", [["--interval", "0"], ["--interval", "1e1"], ["--window", "nan"], ["ftp://x"]])
def test_wrong_usage_is_status_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["top", *argv])
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        status = ended.code
    assert status == 2 and argv[-1] in capsys.readouterr().err


class Terminal:
    """`voicepipe top` in a terminal of its own."""

    def __init__(self, *argv: str, rows: int = 40, columns: int = 90, **environ: str) -> None:
        self._leader, follower = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "voicepipe", "top", "--interval", "0.2", *argv],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env={**os.environ, "TERM": "xterm", **environ},
            start_new_session=True,
        )
        os.close(follower)
        self.said = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> str:
        """What came after what was read before, up to this text."""
        fresh, end = "", time.monotonic() + 30
        while text not in fresh:
            assert time.monotonic() < end, (text, fresh)
            if select.select([self._leader], [], [], 1.0)[0]:
                try:
                    fresh += os.read(self._leader, 65_536).decode()
                except OSError:  # its other end is closed
                    break
        self.said += fresh
        assert text in fresh, fresh
        return fresh

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        status = self.process.wait(20)
        try:
            while piece := os.read(self._leader, 65_536):
                self.said += piece.decode()
        except OSError:  # its other end is closed
            pass
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._leader)


@contextmanager
def terminal(*argv: str, rows: int = 40, columns: int = 90, **environ: str) -> Iterator[Terminal]:
    made = Terminal(*argv, rows=rows, columns=columns, **environ)
    try:
        yield made
    finally:
        made.close()


def test_a_live_view_is_drawn_in_place_and_the_terminal_given_back() -> None:
    """In colour; Ctrl-C is status 0."""
    with serving("--engines", "scripted") as port, terminal(f"127.0.0.1:{port}") as view:
        first = view.until("\x1b[J")
        assert first.startswith("\x1b[?1049h\x1b[?25l\x1b[H") and "\x1b[32mready\x1b[0m" in first
        assert "last " in view.until("last ")
        assert view.end(signal.SIGINT) == 0
        assert view.said.endswith("\x1b[?25h\x1b[?1049l") and "Traceback" not in view.said


def test_a_terminal_that_is_resized_is_filled_anew() -> None:
    """At once, and to its new size; without colour where that is asked for."""
    url = NOBODY
    with terminal(url, "--interval", "60", rows=40, columns=90, NO_COLOR="1") as view:
        view.until("as soon as it answers")
        view.resize(2, 30)
        view.process.send_signal(signal.SIGWINCH)
        again = view.until("\x1b[J")
        assert again.count("\x1b[K") == 2 and "more lines" in again
        assert "\x1b[3" not in view.said and "\x1b[1m" not in view.said
        assert view.end(signal.SIGTERM) == 143


def test_a_server_that_goes_and_comes_back_is_followed() -> None:
    """Its absence is told meanwhile."""
    with ExitStack() as first:
        port = first.enter_context(serving("--engines", "scripted"))
        with terminal(f"127.0.0.1:{port}") as view:
            view.until("ready")
            first.close()
            view.until("away")
            with serving("--engines", "scripted", "--port", str(port)):
                view.until("ready")
            assert view.end(signal.SIGINT) == 0


def test_what_is_no_terminal_gets_lines_and_no_codes(tmp_path: Path) -> None:
    """A JSON object per frame, also where nobody answers; Ctrl-C is status 0 there too."""
    command = [sys.executable, "-m", "voicepipe", "top", "--json", "--interval", "0.2", NOBODY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        frames = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert all("nobody answers" in frame["away"] for frame in frames)
    assert frames[2]["away_s"] > frames[0]["away_s"]
