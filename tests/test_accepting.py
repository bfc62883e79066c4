"""A process that is out of file descriptors goes on, says it once, and accepts again when there are some."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import resource
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.processes import page, until
from voicepipe.accepting import AcceptFaults, is_scarcity, surviving_scarcity

DESCRIPTORS = 64
ACCEPT = "socket.accept() out of system resource"


def test_news_is_the_first_fault_and_one_after_a_while() -> None:
    faults = AcceptFaults()
    assert [now for now in (1.0, 2.0, 6.9, 11.8, 17.0, 17.1) if faults.on_fault(now)] == [1.0, 17.0]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"message": ACCEPT, "exception": OSError(errno.EMFILE, "Too many open files")}, True),
        ({"message": ACCEPT, "exception": OSError(errno.ENFILE, "Too many open files")}, True),
        ({"message": ACCEPT, "exception": OSError(errno.EBADF, "Bad file descriptor")}, False),
        ({"message": "a task failed", "exception": OSError(errno.EMFILE, "Too many open files")}, False),
        ({"message": ACCEPT}, False),
    ],
)
def test_what_is_scarcity(context: dict[str, Any], expected: bool) -> None:
    assert is_scarcity(context) is expected


async def test_other_faults_of_the_loop_go_where_they_went(caplog: pytest.LogCaptureFixture) -> None:
    """To the handler that was there, or to asyncio's; and afterwards as before."""
    loop = asyncio.get_running_loop()
    counted: list[None] = []
    told: list[str] = []
    scarce = {"message": ACCEPT, "exception": OSError(errno.EMFILE, "Too many open files")}
    caplog.set_level(logging.ERROR)
    with surviving_scarcity(loop, lambda: counted.append(None)):
        for _ in range(3):
            loop.call_exception_handler(scarce)
        loop.call_exception_handler({"message": "another"})
    assert len(counted) == 3
    assert caplog.text.count("cannot be accepted: Too many open files") == 1 and "another" in caplog.text
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    with surviving_scarcity(loop, lambda: None):
        loop.call_exception_handler({"message": "a third"})
    loop.call_exception_handler(scarce)
    assert told == ["a third", ACCEPT]
    loop.set_exception_handler(None)


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def test_a_server_without_descriptors_stays_alive_and_recovers(tmp_path: Path) -> None:
    """Sixty-four, and a hundred connections that ask for nothing."""
    config = tmp_path / "c.toml"
    config.write_text("[limits]\nmax_connections = 1000\nhandshake_s = 60.0\n")
    command = [sys.executable, "-m", "voicepipe", "serve", "--engines", "scripted", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=few_descriptors,
    )
    assert process.stdout is not None
    try:
        listening, ready = process.stdout.readline(), process.stdout.readline()
        assert ready.startswith("ready"), listening
        port = int(listening.split(";")[0].rsplit(":", 1)[1])
        assert json.loads(page(port, "/readyz"))["ready"]
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(100)]
        with pytest.raises(OSError):  # nobody answers
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2)
        for one in crowd:
            one.close()

        def accepts() -> bool:
            try:
                return json.loads(page(port, "/healthz"))["alive"] is True
            except OSError:
                return False

        until(accepts)
        counted = next(
            line
            for line in page(port, "/metrics").splitlines()
            if line.startswith("voicepipe_accept_failures_total")
        )
        assert float(counted.split()[1]) >= 1
    finally:
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err.count("connections cannot be accepted: Too many open files") == 1, err
    assert "Traceback" not in err, err
