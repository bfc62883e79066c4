"""`simulate` as a process of its own session: what Ctrl-C and SIGTERM leave of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.processes import until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")

SOON_S = 5.0
"""A run takes half a minute and more; far less than that, and far more than an ending takes on a busy machine."""
ENTRY = """
import sys
from voicepipe.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""


def session(leader: int) -> set[int]:
    """Processes of that session, without those that have ended and are not reaped."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
            if int(sid) == leader and state != "Z":
                found.add(int(stat.parent.name))
    return found


def workers(leader: int) -> set[int]:
    """Those that are at work: begun, and past their imports."""
    found = set()
    for pid in session(leader) - {leader}:
        with suppress(OSError):
            is_worker = b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
            ignored = int(status.split("SigIgn:")[1].split()[0], 16)
            if is_worker and ignored & (1 << (signal.SIGINT - 1)):
                found.add(pid)
    return found


@contextmanager
def simulating(tmp_path: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """With two workers in runs that take long; whatever is left afterwards is killed."""
    script = tmp_path / "voicepipe"
    script.write_text(ENTRY)  # as the installed command does: workers import their parent's script
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, script, "simulate", "goodput", "--full", "--processes", "2", *argv],
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        until(lambda: len(workers(process.pid)) == 2, 60.0)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ended(process: subprocess.Popen[bytes]) -> int:
    """Its status; nothing of it is left."""
    began = time.monotonic()
    status = process.wait(SOON_S)
    until(lambda: not session(process.pid), SOON_S - (time.monotonic() - began))
    return status


def test_ctrl_c_stops_what_runs_and_tells_what_is_done(tmp_path: Path) -> None:
    """To all of the terminal's group, as a terminal sends it: status 130, no child, no traceback."""
    with simulating(tmp_path, "--json") as process:
        os.killpg(process.pid, signal.SIGINT)
        assert ended(process) == 130
    err = (tmp_path / "err").read_text()
    assert "voicepipe: stopped; a second Ctrl-C ends at once\n" in err
    assert "goodput: 0 of" in err and "Traceback" not in err
    assert json.loads((tmp_path / "out").read_text())["rows"] == []


def test_the_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    """While workers are not even gone: 130 all the same."""
    with simulating(tmp_path) as process:
        for worker in workers(process.pid):
            os.kill(worker, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)
        assert ended(process) == 130
    assert "Traceback" not in (tmp_path / "err").read_text()


def test_sigterm_leaves_no_child(tmp_path: Path) -> None:
    with simulating(tmp_path) as process:
        os.kill(process.pid, signal.SIGTERM)
        assert ended(process) == 143
    assert "Traceback" not in (tmp_path / "err").read_text()


def test_a_worker_whose_parent_is_gone_ends(tmp_path: Path) -> None:
    """Whatever became of the parent."""
    with simulating(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        assert ended(process) == -signal.SIGKILL
