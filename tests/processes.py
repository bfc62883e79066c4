"""`voicepipe` as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def run(*argv: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voicepipe", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def begun(*argv: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "voicepipe", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


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


def until_line(stream: IO[str], beginning: str) -> None:
    """Reads until the first sign of the line that begins so: a reply's line grows."""
    read = ""
    while beginning not in read:
        piece = stream.read(1)
        assert piece, read
        read += piece
