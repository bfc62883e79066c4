"""Disks that are full or cannot be written: a clear word, the session goes on, what is lost is counted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.processes import page, run
from voicepipe.wire.messages import AudioFormat, InputText, SessionStart, TurnEnded
from voicepipe.wire.native import PROTOCOL, decode_server, encode_client

SIZE_KB = 16


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB. Skips where none may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={SIZE_KB}k,mode=0777"]
    done = subprocess.run(["mount", *options, "tmpfs", str(place)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def turns(port: int, number: int) -> list[str]:
    """Verdicts of typed turns of one session."""
    async with connect(f"ws://127.0.0.1:{port}/v1/voice", proxy=None) as ws:
        await ws.send(encode_client(SessionStart(audio=AudioFormat(16_000), protocol=PROTOCOL)))
        verdicts: list[str] = []
        for _ in range(number):
            await ws.send(encode_client(InputText("Hello.")))
            while True:
                if isinstance(message := decode_server(await ws.recv()), TurnEnded):
                    verdicts.append(str(message.verdict))
                    break
        return verdicts


def lost(port: int) -> dict[str, float]:
    """By file, as the metrics have it."""
    name = "voicepipe_file_entries_lost_total{file="
    found = [line for line in page(port, "/metrics").splitlines() if line.startswith(name)]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in found}


def test_a_session_goes_on_when_the_disk_of_its_ledger_is_full(small_disk: Path, tmp_path: Path) -> None:
    """Ledger and trace fill it; the turns are answered, the loss is said once for each file and counted."""
    config = tmp_path / "c.toml"
    config.write_text('[engines]\nkind = "scripted"\n[engines.scripted]\nreply = "Yes."\n')
    argv = ["serve", "--config", str(config), "--port", "0", "--ledger", str(small_disk / "l.jsonl")]
    argv += ["--trace", str(small_disk / "t.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "voicepipe", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline().split(";")[0].rsplit(":", 1)[1])
        assert process.stdout.readline().startswith("ready")
        (small_disk / "ballast").write_bytes(bytes(1024 * (SIZE_KB - 8)))
        verdicts = asyncio.run(turns(port, 8))
        counted = lost(port)
    finally:
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert len(verdicts) == 8 and set(verdicts) <= {"met", "missed", "degraded"}
    assert set(counted) == {"ledger", "trace"} and max(counted.values()) > 0
    assert 1 <= err.count("No space left on device; nothing more is written to it") <= 2, err


def test_replies_that_do_not_fit_are_status_1(small_disk: Path, tone: Path) -> None:
    """`--out` on a full disk: what is wrong, and no traceback."""
    done = run("demo", "--engines", "scripted", "--wav", tone, "--out", small_disk / "reply.wav")
    assert done.returncode == 1, done.stderr
    assert "reply.wav" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("read_only", [False, True])
def test_a_cache_that_cannot_hold_a_model_is_status_1(read_only: bool, small_disk: Path) -> None:
    """Full, or mounted read-only: the folder, and what to set."""
    if read_only:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    environ = {**os.environ, "VOICEPIPE_CACHE": str(small_disk)}
    done = run("models", "fetch", "whisper-tiny.en", env=environ)
    assert done.returncode == 1, done.stderr
    assert str(small_disk) in done.stderr and "VOICEPIPE_CACHE" in done.stderr
    assert "Traceback" not in done.stderr
