"""A server as a process: what its clients have of it when it drains, is killed, or only the way to it breaks."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.driving import ListeningLlm, engines
from voicepipe import server as voice_server
from voicepipe.app import Serving, serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, OverloadConfig, ScriptedConfig
from voicepipe.errors import ServerDrained, ServerUnreachable
from voicepipe.wire import messages as wire
from voicepipe_client import Backoff, Disconnected, LastingSession, Reconnected, Session, connect, stay_connected

pytestmark = pytest.mark.usefixtures("own_cache")

PATIENT = Backoff(tries=60, cap_s=0.5)
"""A restarted server takes its time to load."""
QUIET = """
[engines]
kind = "scripted"
[engines.scripted]
reply = "{reply}"
[limits]
max_sessions = 32
grace_s = {grace_s}
{more}
[admission]
policy = "count"
[overload]
loop_lag_ms = 10000
input_age_ms = 10000
backlog_ms = 10000
"""
"""Nothing that goes by how busy this machine is."""


class Process:
    """`voicepipe serve`."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"ws://127.0.0.1:{port}"

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode()

    async def ended(self, within_s: float) -> int:
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    async def readyz(self) -> tuple[int, dict[str, Any]]:
        def ask() -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as answer:
                return answer.code, answer.read()

        status, body = await asyncio.to_thread(ask)
        return status, json.loads(body)


@asynccontextmanager
async def begun(
    folder: Path, port: int = 0, *, reply: str = "Yes.", grace_s: float = 10.0, more: str = ""
) -> AsyncIterator[Process]:
    config = folder / "c.toml"
    config.write_text(QUIET.format(reply=reply, grace_s=grace_s, more=more))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voicepipe", "serve", "--port", str(port), "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        listening = (await process.stdout.readline()).decode()
        assert (await process.stdout.readline()).startswith(b"ready"), listening
        yield Process(process, int(listening.split(";")[0].rsplit(":", 1)[1]))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(session: Session | LastingSession, kind: type[Any]) -> Any:
    async for event in session:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"it ended without {kind.__name__}")


# --- a drain


async def in_mid_turn(url: str, told: asyncio.Event) -> tuple[list[Any], int | None]:
    """All that a client hears from the first sound of a reply on, and how it was closed."""
    heard: list[Any] = []
    async with connect(url) as session:
        await session.send_text("Talk.")
        await until(session, wire.AudioFrame)
        told.set()
        with pytest.raises(ServerDrained):
            while True:
                heard.append(await anext(session))
        return heard, session.close_code


@pytest.mark.parametrize(
    ("words", "grace_s", "cut"), [(10, 20.0, False), (400, 1.0, True)], ids=["it ends", "it is cut"]
)
async def test_sigterm_lets_five_turns_end_and_tells_everybody(
    tmp_path: Path, words: int, grace_s: float, cut: bool
) -> None:
    """`draining`, then the turn's verdict, then 1012 and never 1006; status 0. A turn that is longer than the grace
    is ended, and that is told; readiness is false meanwhile."""
    reply = " ".join(["word"] * words) + "."
    async with begun(tmp_path, reply=reply, grace_s=grace_s) as server, asyncio.TaskGroup() as group:
        clients = []
        for _ in range(5):
            told = asyncio.Event()
            clients.append(group.create_task(in_mid_turn(server.url, told)))
            await told.wait()
        server.process.send_signal(signal.SIGTERM)
        assert (await server.line()).startswith("draining")
        if not cut:
            assert await server.readyz() == (503, {"ready": False, "reason": "draining"})
        assert await server.ended(grace_s + 5.0) == 0
    for client in clients:
        heard, code = client.result()
        kinds = [type(event) for event in heard if not isinstance(event, wire.AudioFrame | wire.ReplyText)]
        assert code == 1012
        assert kinds.count(wire.Draining) == kinds.count(wire.TurnEnded) == 1
        assert kinds.index(wire.Draining) < kinds.index(wire.TurnEnded)
        assert (wire.ReplyInterrupted in kinds) is cut
        assert heard[-1].__class__ is wire.TurnEnded


async def test_before_a_drain_it_is_only_not_ready_for_a_while(tmp_path: Path) -> None:
    """`limits.pre_stop_s`: sessions are still let in, and served; a second signal cuts it short."""
    async with begun(tmp_path, more="pre_stop_s = 60.0") as server:
        server.process.send_signal(signal.SIGTERM)
        assert (await server.line()).startswith("not ready")
        assert await server.readyz() == (503, {"ready": False, "reason": "draining"})
        async with connect(server.url) as session:
            await session.send_text("Hello?")
            await until(session, wire.TurnEnded)
            server.process.send_signal(signal.SIGTERM)
            assert await server.ended(10.0) == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_second_signal_ends_at_once(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """And is an end in order all the same: 1012, with what was cut. A Ctrl-C that did not wait has its status."""
    async with begun(tmp_path, reply="word " * 400, grace_s=60.0) as server, asyncio.TaskGroup() as group:
        told = asyncio.Event()
        client = group.create_task(in_mid_turn(server.url, told))
        await told.wait()
        server.process.send_signal(number)
        assert (await server.line()).startswith("draining")
        server.process.send_signal(number)
        assert await server.ended(10.0) == status
    heard, code = client.result()
    assert code == 1012 and heard[-1].__class__ is wire.TurnEnded


# --- a process that is killed


async def survives(url: str, turned: Callable[[], None]) -> list[Any]:
    """In the middle of a turn the server vanishes. What the client sees of that, until it has talked again."""
    seen: list[Any] = []
    async with stay_connected(url, backoff=PATIENT) as session:
        await session.send_text("Talk.")
        async for event in session:
            if isinstance(event, wire.AudioFrame) and not seen:
                turned()
                seen.append("talks")
            elif isinstance(event, Disconnected):
                seen.append(event)
            elif isinstance(event, Reconnected):
                seen.append(event)
                await session.send_text("Are you there?")
            elif isinstance(event, wire.TurnEnded) and len(seen) == 3:
                seen.append(event)
                break
    return seen


async def test_kill_9_in_twenty_turns_and_a_restart(tmp_path: Path) -> None:
    """Each of twenty clients comes back by itself to the next server at that port, is told that its conversation is
    not there any more, and can talk again."""
    clock = asyncio.get_running_loop().time
    talking, everybody = [0], asyncio.Event()

    def turned() -> None:
        talking[0] += 1
        if talking[0] == 20:
            everybody.set()

    async with asyncio.TaskGroup() as group:
        async with begun(tmp_path, reply="word " * 400) as first:
            clients = [group.create_task(survives(first.url, turned)) for _ in range(20)]
            await everybody.wait()
            first.process.send_signal(signal.SIGKILL)
            await first.process.wait()
            port = first.port
        killed = clock()
        async with begun(tmp_path, port):
            await asyncio.wait(clients, timeout=60.0)
            assert all(client.done() for client in clients)
    assert clock() - killed < 60.0
    for client in clients:
        _, down, up, ended = client.result()
        assert down.close_code == 1006
        assert not up.resumed
        assert ended.turn == 1 and ended.verdict not in ("failed", "refused")


async def test_where_nobody_comes_after_it_the_end_is_clear(tmp_path: Path) -> None:
    """After five tries what it was lost by is raised; a new call says that nobody is there."""
    async with begun(tmp_path) as server:
        async with stay_connected(server.url) as session:
            await session.send_text("Hello.")
            await until(session, wire.TurnEnded)
            server.process.send_signal(signal.SIGKILL)
            await server.process.wait()
            with pytest.raises(Exception, match="1006"):
                await until(session, Reconnected)
        with pytest.raises(ServerUnreachable):
            async with connect(server.url):
                pass


# --- the way that breaks, and a server that lives


@asynccontextmanager
async def living(sessions: int) -> AsyncIterator[tuple[Serving, ListeningLlm]]:
    """In this process, so that one can look at what its model was shown."""
    script = ScriptedConfig(reply="One two three four five six seven eight nine ten.")
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=script),
        limits=LimitsConfig(max_sessions=sessions, grace_s=0.5),
        admission=AdmissionConfig(policy="count"),
        overload=OverloadConfig(loop_lag_ms=10_000, input_age_ms=10_000, backlog_ms=10_000),
    )
    llm = ListeningLlm(script, sessions)
    async with serving(config, lambda: engines(script, llm=llm)) as served:
        yield served, llm


class Way:
    """A TCP proxy: open, reset, or a hole in which everything vanishes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.black = asyncio.Event()
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Way]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.reset()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        both = {writer, back}
        self._writers |= both
        black = self.black
        await asyncio.gather(self._pipe(reader, back, black), self._pipe(there, writer, black))
        if not black.is_set():
            self._writers -= both

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, black: asyncio.Event) -> None:
        try:
            while data := await reader.read(65536):
                if not black.is_set():
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            pass
        if not black.is_set():
            writer.close()

    def swallow(self) -> None:
        """What is open leads nowhere from now on, and nobody is told; who comes after it gets through."""
        self.black.set()
        self.black = asyncio.Event()

    def reset(self) -> None:
        """RST to both ends of all that is open."""
        for writer in self._writers:
            sock = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


async def ask(session: LastingSession, text: str) -> wire.TurnEnded:
    await session.send_text(text)
    ended = await until(session, wire.TurnEnded)
    assert isinstance(ended, wire.TurnEnded)
    return ended


async def test_a_reset_connection_resumes_with_its_history() -> None:
    """RST in the middle of a reply: the model is shown the earlier turn, nothing of the old reply comes, and leases
    are live sessions."""
    async with living(1) as (served, llm), Way(served.server.port).open() as way:
        async with stay_connected(f"ws://127.0.0.1:{way.port}") as session:
            await ask(session, "My name is Ada.")
            await session.send_text("Talk.")
            old = await until(session, wire.AudioFrame)
            way.reset()
            up = await until(session, Reconnected)
            assert up.resumed
            sounds: list[int] = []
            await session.send_text("What is my name?")
            async for event in session:
                if isinstance(event, wire.AudioFrame):
                    sounds.append(event.epoch)
                if isinstance(event, wire.TurnEnded):
                    assert event.turn == 3
                    break
            assert sounds and min(sounds) > old.epoch
            said = [content for role, content in llm.asked if role == "user"]
            assert said == ["My name is Ada.", "Talk.", "What is my name?"]
            assert llm.leased == 1
        await served.stop(1.0)
        assert llm.leased == 0 and served.server.connections == 0


async def test_a_half_open_connection_is_left_for_the_new_one() -> None:
    """Neither side was told that the old one is dead. The client comes back first: its session leaves the dead
    connection, and its slot is free long before a ping would have noticed."""
    async with (
        living(2) as (served, llm),
        Way(served.server.port).open() as way,
        stay_connected(f"ws://127.0.0.1:{way.port}") as session,
    ):
        await ask(session, "My name is Ada.")
        way.swallow()
        session._session.abort()  # what a client's own heartbeat does
        up = await until(session, Reconnected)
        assert up.resumed and up.away_s < 5.0
        assert (await ask(session, "What is my name?")).turn == 2
        assert ("user", "My name is Ada.") in llm.asked
        assert llm.leased == 1


async def test_a_half_open_connection_gives_its_lease_back_when_its_pings_are_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where nobody comes back before: the conversation is parked, and still there for who comes then."""
    monkeypatch.setattr(voice_server, "_PING_INTERVAL_S", 0.2)
    monkeypatch.setattr(voice_server, "_PING_TIMEOUT_S", 0.3)
    async with (
        living(1) as (served, llm),
        Way(served.server.port).open() as way,
        stay_connected(f"ws://127.0.0.1:{way.port}") as session,
    ):
        await ask(session, "My name is Ada.")
        way.swallow()
        async with asyncio.timeout(10.0):
            await served.server._empty.wait()
        assert llm.leased == 0
        session._session.abort()
        up = await until(session, Reconnected)
        assert up.resumed and (await ask(session, "What is my name?")).turn == 2
        assert ("user", "My name is Ada.") in llm.asked
