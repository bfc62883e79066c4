"""`voicepipe serve` as a process of its own, looked at from outside: its metrics, its memory, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

END_S = 30.0
READY_S = 180.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """Of the server, at one instant."""

    at: float
    rss_bytes: int
    fds: int
    threads: int
    sessions: float
    leases: float


class Server:
    """`async with Server(...)`: ready inside. Leaving it ends the process in any case."""

    def __init__(self, config: str, *, python: str = sys.executable) -> None:
        """`config`: TOML. It listens on a port of its own choice."""
        self.folder = Path(tempfile.mkdtemp(prefix="voicepipe-served-"))
        self.ledger = self.folder / "ledger.jsonl"
        (self.folder / "config.toml").write_text(config)
        self._python = python

    async def __aenter__(self) -> Self:
        self._errors = (self.folder / "stderr").open("w+")
        options = ["--port", "0", "--config", str(self.folder / "config.toml"), "--ledger", str(self.ledger)]
        self.process = subprocess.Popen(  # noqa: ASYNC220  it takes a millisecond, before there is anything to wait for
            [self._python, "-m", "voicepipe", "serve", *options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            async with asyncio.timeout(READY_S):
                listening = await asyncio.to_thread(self._line)
                ready = await asyncio.to_thread(self._line)
        except BaseException:
            self.process.kill()
            raise
        if not ready.startswith("ready"):
            self.process.kill()
            raise SystemExit(f"the server did not start: {self.errors()[-500:]}")
        self.port = int(listening.split(";")[0].rsplit(":", 1)[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/voice"

    # --- looked at

    async def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """By name and labels."""
        page = await asyncio.to_thread(self._page)
        families = text_string_to_metric_families(page)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def _page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    async def sample(self) -> Sample:
        metrics = await self.metrics()
        proc = Path(f"/proc/{self.process.pid}")
        return Sample(
            at=time.monotonic(),
            rss_bytes=int((proc / "statm").read_text().split()[1]) * _PAGE_BYTES,
            fds=len(list((proc / "fd").iterdir())),
            threads=len(list((proc / "task").iterdir())),
            sessions=total(metrics, "voicepipe_sessions_active"),
            leases=total(metrics, "voicepipe_leases"),
        )

    def cpu_s(self) -> float:
        """That the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # --- done to it

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def end(self) -> int | None:
        """SIGTERM. Its exit status; None where it did not end within `END_S`."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self.process.wait, END_S)
        except subprocess.TimeoutExpired:
            return None

    def turns(self) -> list[Mapping[str, Any]]:
        """Of the ledger, once the process has ended."""
        lines = (json.loads(line) for line in self.ledger.read_text().splitlines())
        return [line for line in lines if "verdict" in line]


def total(metrics: Mapping[tuple[str, tuple[tuple[str, str], ...]], float], name: str) -> float:
    """Over all labels."""
    return sum(value for (found, _), value in metrics.items() if found == name)
