"""What a connection costs in memory, whatever its client does, and what is left of it afterwards.

A server with scripted engines runs in a process of its own and tells its memory (RSS), descriptors, tasks, sessions
and leases when asked. It gets clients that are idle, clients that send sound as fast as the socket takes it and
come back as often as they are thrown out, clients that ask for replies and never read them, and ones that only
come and go.
Per connection is the highest memory seen while they are there, less that before they came. Scripted engines hold
nothing of a session: a model's slot comes on top (`kv` in docs/admission.md).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from voicepipe.app import Serving, serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.table import load
from voicepipe.session import Session
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

RATE_HZ = 48_000
SAMPLE_S = 0.05
SETTLE_S = 2.0
BOUND_KIB = 8 * 1024
"""Per connection. By far the largest part is what it has said in the last minute (3,750 KiB); the rest is what the
library may hold of frames that nobody has read yet, nine of 256 KiB."""


@dataclass(frozen=True, slots=True)
class Holds:
    """Of the server's process."""

    rss_kib: int
    descriptors: int
    tasks: int
    sessions: int
    leases: int
    remembered: int
    """Sessions that have ended and are still in memory; 0 where it was not asked to collect them."""


# --- the server's process


def _rss_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("a process without memory")


def _remembered(served: Serving) -> int:
    gc.collect()
    alive = sum(isinstance(each, Session) for each in gc.get_objects())
    return max(0, alive - served.server.connections)


def _holds(served: Serving, *, collected: bool) -> Holds:
    return Holds(
        _rss_kib(),
        len(os.listdir("/proc/self/fd")),
        len(asyncio.all_tasks()),
        served.server.connections,
        served.engines.llm.leased,  # type: ignore[attr-defined]
        _remembered(served) if collected else 0,
    )


async def _serve(sessions: int) -> None:
    """Answers each line of its input with what it holds."""
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(reply="A word. " * 200)),
        limits=LimitsConfig(max_sessions=sessions, max_connections=2 * sessions, grace_s=0.1),
        admission=AdmissionConfig(policy="count"),
    )
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with serving(config, lambda: load(config.engines, None, sessions=sessions, api_key=None)) as served:
        print(served.server.port, flush=True)
        while line := await reader.readline():
            print(json.dumps(asdict(_holds(served, collected=line == b"collect\n"))), flush=True)


class Server:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self.url = f"ws://127.0.0.1:{port}/v1/voice"

    async def holds(self, *, collected: bool = False) -> Holds:
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(b"collect\n" if collected else b"\n")
            return Holds(**json.loads(await self._process.stdout.readline()))

    async def highest(self, until: asyncio.Event) -> int:
        """RSS in KiB, until it is told to end."""
        most = 0
        while not until.is_set():
            most = max(most, (await self.holds()).rss_kib)
            await asyncio.sleep(SAMPLE_S)
        return most

    async def emptied(self, before: Holds) -> Holds:
        """What it holds once all have gone; after some seconds at most."""
        for _ in range(100):
            now = await self.holds(collected=True)
            names = ("sessions", "leases", "tasks", "remembered")
            if all(getattr(now, name) <= getattr(before, name) for name in names):
                return now
            await asyncio.sleep(0.1)
        return now


@asynccontextmanager
async def server(sessions: int) -> AsyncIterator[Server]:
    pipe = asyncio.subprocess.PIPE
    argv = [sys.executable, __file__, "--serve", str(sessions)]
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    try:
        assert process.stdout is not None and process.stdin is not None
        yield Server(process, int(await process.stdout.readline()))
        process.stdin.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# --- clients


def _start(rate: int = RATE_HZ) -> str | bytes:
    return encode_client(wire.SessionStart(audio=wire.AudioFormat(rate), protocol=wire.PROTOCOL))


def _connect(url: str, **more: object) -> connect:
    return connect(url, compression=None, proxy=None, ping_interval=None, **more)  # type: ignore[arg-type]


async def idle(url: str, done: asyncio.Event) -> None:
    async with _connect(url) as ws:
        await ws.send(_start())
        await done.wait()


async def flooding(url: str, done: asyncio.Event) -> None:
    """As large frames as there may be, without a pause; back again when it is thrown out."""
    noise = random.Random(1).randbytes(65_520)
    while not done.is_set():
        with suppress(ConnectionClosed, InvalidHandshake, OSError):
            async with _connect(url) as ws:
                await ws.send(_start(16_000))
                at = 0
                while not done.is_set():
                    await ws.send(encode_client(wire.AudioFrame(0, at & wire.U32_MAX, noise)))
                    at += len(noise) // 2


async def not_reading(url: str, done: asyncio.Event) -> None:
    """Asks for reply after reply, and takes nothing."""
    host, port = url.split("/")[2].split(":")
    while not done.is_set():
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        with suppress(ConnectionClosed, InvalidHandshake, OSError):
            async with _connect(url, sock=sock, close_timeout=0.1) as ws:
                ws.transport.pause_reading()
                await ws.send(_start())
                while not done.is_set():
                    await ws.send(encode_client(wire.InputText("Go on.")))
                    await asyncio.sleep(0.05)


async def come_and_go(url: str, number: int) -> None:
    """Some in good order, some just gone; some before they have begun."""
    chance = random.Random(number)
    ws: ClientConnection = await _connect(url)
    if chance.random() < 0.8:
        await ws.send(_start())
    if chance.random() < 0.5:
        await ws.send(encode_client(wire.InputText("Hello.")))
    if chance.random() < 0.5:
        ws.transport.abort()
    else:
        await ws.close()


# --- what is measured

Kind = Callable[[str, asyncio.Event], Awaitable[None]]


async def per_connection(house: Server, kind: Kind, number: int, seconds: float) -> dict[str, object]:
    before = await house.holds(collected=True)
    done = asyncio.Event()
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        watch = group.create_task(house.highest(done))
        for _ in range(number):
            group.create_task(kind(house.url, done))  # type: ignore[arg-type]
        await asyncio.sleep(seconds)
        done.set()
    after = await house.emptied(before)
    return {
        "clients": kind.__name__,
        "n": number,
        "kib_each": round(max(0, watch.result() - before.rss_kib) / number),
        "left": _left(before, after),
    }


async def cycles(house: Server, number: int) -> dict[str, object]:
    """The first fifth of them counts as warming up."""
    for index in range(number // 5):
        await come_and_go(house.url, index)
    before = await house.emptied(Holds(0, 0, 1, 0, 0, 0))
    for index in range(number // 5, number):
        await come_and_go(house.url, index)
    after = await house.emptied(before)
    return {"clients": come_and_go.__name__, "n": number, "left": _left(before, after)}


def _left(before: Holds, after: Holds) -> dict[str, int]:
    """What the server holds more than before."""
    return {name: value - asdict(before)[name] for name, value in asdict(after).items()}


async def measure(idle_n: int, hostile_n: int, cycles_n: int, seconds: float) -> list[dict[str, object]]:
    async with server(max(idle_n, hostile_n) + 50) as house:
        await cycles(house, 20)
        return [
            await per_connection(house, idle, idle_n, seconds),
            await per_connection(house, flooding, hostile_n, seconds),
            await per_connection(house, not_reading, hostile_n, seconds),
            await cycles(house, cycles_n),
        ]


def show(rows: list[dict[str, object]]) -> None:
    print(
        f"{'clients':>12} {'n':>6} {'KiB each':>9}  left: RSS KiB, descriptors, tasks, sessions, leases, remembered"
    )
    for row in rows:
        left = row["left"]
        assert isinstance(left, dict)
        each, rest = row.get("kib_each", "-"), ", ".join(map(str, left.values()))
        print(f"{row['clients']:>12} {row['n']:>6} {each:>9}  {rest}")
    print(json.dumps({"summary": {"bound_kib": BOUND_KIB, "rows": rows}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=50)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15.0, help="for which each kind of client is there")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(_serve(args.serve))
    else:
        show(asyncio.run(measure(args.idle, args.hostile, args.cycles, args.seconds)))


if __name__ == "__main__":
    main()
