"""The server on real sockets of the loopback interface, with a scripted handler in place of sessions."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed as WebsocketClosed
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.typing import Subprotocol

from voicepipe.app import serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig
from voicepipe.connection import Connection, ConnectionClosed
from voicepipe.core.admission import CountAdmission, Grant, Reason, Refuse, SessionAdmission, SessionRequest
from voicepipe.core.limits import FixedLimit
from voicepipe.core.policies import LimitPolicy
from voicepipe.core.quotas import Quota, QuotaSettings
from voicepipe.core.room import RoomSettings
from voicepipe.engines.table import load
from voicepipe.errors import BadJson, EnvironmentFailure, PortInUse
from voicepipe.gate import AccessRules
from voicepipe.metrics import Metrics
from voicepipe.proxies import Proxies
from voicepipe.server import Handler, Readiness, ServerSettings, VoiceServer

V1 = [Subprotocol("voicepipe.v1")]
SETTINGS = ServerSettings(port=0, grace_s=0.0, close_timeout_s=0.5)


async def echo(connection: Connection, grant: Grant) -> None:
    while True:
        await connection.send(await connection.recv())


class House:
    """A running server with everything around it in reach."""

    def __init__(self, handler: Handler, settings: ServerSettings, admission: Any) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.admission = admission
        self.state = Readiness(True)
        self.server = VoiceServer(
            settings,
            handler,
            admission=admission,
            metrics=self.metrics,
            ready=lambda: self.state,
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"voicepipe_{name}", labels)

    def connect(self, path: str = "/v1/voice", **options: Any) -> connect:
        options = {"subprotocols": V1, "compression": None, "proxy": None, **options}
        return connect(f"ws://127.0.0.1:{self.server.port}{path}", **options)

    async def http(self, target: str, method: str = "GET", **headers: str) -> HttpAnswer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        lines = [f"{method} {target} HTTP/1.1", "Host: here"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        raw = await reader.read()
        writer.close()
        await writer.wait_closed()
        return HttpAnswer(raw)

    async def deaf_client(self) -> ClientConnection:
        """It completes the handshake, and never reads again."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.server.port))
        ws: ClientConnection = await self.connect(sock=sock)
        ws.transport.pause_reading()
        return ws

    async def emptied(self) -> None:
        """Until every socket is gone and every lease is back."""
        await until(lambda: self.server.connections == 0 and self.admission.snapshot().active == 0)


class HttpAnswer:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in rest)}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it holds. The test's own time limit is the bound."""
    while not condition():
        await turn()


async def turn() -> None:
    """One round of the event loop in which sockets are looked at."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.001, done.set_result, None)
    await done


@asynccontextmanager
async def house(
    handler: Handler = echo, settings: ServerSettings = SETTINGS, admission: Any = None
) -> AsyncIterator[House]:
    built = House(handler, settings, CountAdmission(8) if admission is None else admission)
    async with built.server:
        yield built


async def exchange(port: int, request: bytes, *, end: bool = False) -> bytes:
    """All that the server sends back; `end` sends no more than this, and says so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if end:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def closing(ws: ClientConnection) -> tuple[int, str]:
    """(code, reason) with which the server closes."""
    with pytest.raises(WebsocketClosed) as caught:
        while True:
            await ws.recv()
    assert caught.value.rcvd is not None, "closed without a close frame"
    return caught.value.rcvd.code, caught.value.rcvd.reason


# --- messages


async def test_text_and_binary_pass_through_both_ways() -> None:
    async with house() as h, h.connect() as ws:
        assert ws.subprotocol == "voicepipe.v1"
        for message in ("héllo", b"\x00\x01\xff", "", b"", b"x" * 65_536):
            await ws.send(message)
            assert await ws.recv() == message


async def test_the_handler_sees_the_request_and_its_grant() -> None:
    seen: list[Any] = []

    async def look(connection: Connection, grant: Grant) -> None:
        seen.extend([connection.peer, connection.query, connection.headers["x-thing"], grant])

    path = "/v1/voice?budget_ms=300&route=a"
    async with house(look) as h, h.connect(path, additional_headers={"X-Thing": "1"}) as ws:
        assert await closing(ws) == (1000, "")
    request = SessionRequest("127.0.0.1", 300.0, "a", may_wait=True)
    assert seen == ["127.0.0.1", {"budget_ms": "300", "route": "a"}, "1", Grant(1, request)]


async def test_the_peers_close_reaches_the_handler_with_its_code() -> None:
    ended: asyncio.Queue[ConnectionClosed] = asyncio.Queue()

    async def listen(connection: Connection, grant: Grant) -> None:
        try:
            await connection.recv()
        except ConnectionClosed as closed:
            ended.put_nowait(closed)
            with pytest.raises(ConnectionClosed) as again:
                await connection.send("too late")
            assert again.value.code == closed.code
            raise

    async with house(listen) as h:
        ws = await h.connect()
        await ws.close(4321, "bye")
        closed = await ended.get()
        assert (closed.code, closed.reason) == (4321, "bye")
        ws = await h.connect()
        ws.transport.abort()
        assert (await ended.get()).code == 1006
        await h.emptied()
        assert h.value("session_failures_total") == 0


@pytest.mark.parametrize("size", [65_537, 262_144])
@pytest.mark.parametrize("kind", ["text frame", "binary frame"])
async def test_an_oversized_message_is_named_with_its_limit_before_1009_and_counted_once(
    kind: str, size: int
) -> None:
    config = Config(port=0, engines=EnginesConfig(kind="scripted"), limits=LimitsConfig(grace_s=0.1))
    async with (
        serving(config, lambda: load(config.engines, None, sessions=2, api_key=None)) as served,
        connect(f"ws://127.0.0.1:{served.server.port}/v1/voice", subprotocols=V1, proxy=None) as ws,
    ):
        await ws.send(json.dumps({"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}))
        assert json.loads(await ws.recv())["type"] == "session.ready"
        await ws.send("x" * size if kind == "text frame" else b"x" * size)
        assert json.loads(await ws.recv()) == {
            "type": "error",
            "code": "too_large",
            "message": f"a {kind} may have 65536 bytes, not {size}",
            "field": kind,
        }
        assert await closing(ws) == (1009, "too_large")
        page = await exchange(served.server.port, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b'voicepipe_client_errors_total{code="too_large"} 1.0' in page


@pytest.mark.parametrize(
    ("message", "size"),
    [(b"x" * 262_145, 262_145), ("x" * 262_145, 262_145), (["x" * 140_000, "x" * 140_000], 280_000)],
)
async def test_a_message_far_too_large_is_named_with_its_limit_before_1009_and_counted(
    message: Any, size: int
) -> None:
    """Though the library cuts it off before it is held in memory, and no session gets to see it."""
    async with house() as h, h.connect() as ws, h.connect() as bystander:
        await ws.send(message)
        assert json.loads(await ws.recv()) == {
            "type": "error",
            "code": "too_large",
            "message": f"a frame may have 65536 bytes, not {size}",
            "field": "frame",
        }
        assert (await closing(ws))[0] == 1009
        await until(lambda: h.value("client_errors_total", code="too_large") == 1)
        await bystander.send("still here")
        assert await bystander.recv() == "still here"


async def test_too_many_fragments_are_named_before_1009(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("websockets.asyncio.messages.MAX_FRAGMENTS", 4)
    async with house() as h, h.connect() as ws:
        await ws.send(["x"] * 6)
        told = json.loads(await ws.recv())
        assert (told["code"], told["field"]) == ("too_large", "frame") and "65536 bytes" in told["message"]
        assert (await closing(ws))[0] == 1009
        await until(lambda: h.value("client_errors_total", code="too_large") == 1)


async def test_nothing_is_said_behind_a_close() -> None:
    """A client that goes on after the server has closed, with something too large, is told nothing more: a frame
    behind the close would be against the protocol."""

    async def goes(connection: Connection, grant: Grant) -> None:
        await connection.send("bye")

    async with house(goes) as h:
        reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        lines = ("GET /v1/voice HTTP/1.1", "Host: here", "Connection: Upgrade", "Upgrade: websocket")
        keys = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
        writer.write("\r\n".join([*lines, *keys, "Sec-WebSocket-Protocol: voicepipe.v1", "", ""]).encode())
        await reader.readuntil(b"\x81\x03bye")
        assert await reader.readexactly(4) == b"\x88\x02\x03\xe8"  # 1000
        writer.write(b"\x82\xff" + struct.pack("!Q", 10**9) + b"mask")
        assert await reader.read() == b""
        writer.close()
        await h.emptied()


async def test_text_that_is_not_utf8_closes_with_1007() -> None:
    async with house() as h, h.connect() as ws:
        await ws.send(b"\xff\xfe", text=True)
        assert (await closing(ws))[0] == 1007
        await until(lambda: h.value("client_errors_total", code="encoding") == 1)


async def test_connections_are_set_up_for_speech() -> None:
    seen: dict[str, object] = {}

    async def look(connection: Connection, grant: Grant) -> None:
        ws: Any = connection._ws  # type: ignore[attr-defined]
        sock = ws.transport.get_extra_info("socket")
        seen.update(
            pings=(ws.ping_interval, ws.ping_timeout),
            queue=ws.max_queue_high,
            write=ws.transport.get_write_buffer_limits(),
            extensions=ws.protocol.extensions,
            nodelay=bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
            send_buffer_is_small=sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 65_536,
        )

    async with house(look) as h, h.connect(compression="deflate") as ws:
        assert await closing(ws) == (1000, "")
    assert seen == {
        "pings": (5.0, 10.0),
        "queue": 8,
        "write": (2_048, 8_192),
        "extensions": [],
        "nodelay": True,
        "send_buffer_is_small": True,
    }


# --- ends of sessions


async def test_a_bug_costs_its_own_session_only_and_is_logged_without_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def buggy(connection: Connection, grant: Grant) -> None:
        said = await connection.recv()
        if said == "crash":
            raise RuntimeError(f"they said {said}")
        await echo(connection, grant)

    async with house(buggy) as h, h.connect() as bystander:
        await bystander.send("fine")
        async with h.connect() as ws:
            await ws.send("crash")
            assert await closing(ws) == (1011, "internal error")
        await bystander.send("hello")
        assert await bystander.recv() == "hello"
        assert h.value("session_failures_total") == 1
    text = caplog.text
    assert "RuntimeError" in text and "in buggy" in text and "they said crash" not in text


async def test_an_error_out_of_a_task_group_closes_with_its_own_code() -> None:
    async def strict(connection: Connection, grant: Grant) -> None:
        async def reader() -> None:
            await connection.recv()
            raise BadJson("no JSON at all")

        async with asyncio.TaskGroup() as group:
            group.create_task(reader())
            group.create_task(asyncio.Event().wait())

    async with house(strict) as h, h.connect() as ws:
        await ws.send("?")
        assert await closing(ws) == (4400, "bad_json")
        assert h.value("client_errors_total", code="bad_json") == 1
        assert h.value("session_failures_total") == 0


async def test_a_long_reason_is_cut_to_what_a_close_frame_holds() -> None:
    async def wordy(connection: Connection, grant: Grant) -> None:
        await connection.close(4400, "ü" * 100)

    async with house(wordy) as h, h.connect() as ws:
        assert await closing(ws) == (4400, "ü" * 61)


# --- admission


async def test_of_n_plus_k_connections_at_once_exactly_n_get_in() -> None:
    async def welcome(connection: Connection, grant: Grant) -> None:
        await connection.send("in")
        await echo(connection, grant)

    async with house(welcome, admission=CountAdmission(3)) as h, AsyncExitStack() as stack:
        clients = await asyncio.gather(*[h.connect() for _ in range(8)])
        for ws in clients:
            stack.push_async_callback(ws.close)
        answers = [await ws.recv() for ws in clients]
        refused = [json.loads(answer) for answer in answers if answer != "in"]
        assert answers.count("in") == 3 and len(refused) == 5
        assert all(message["type"] == "refused" for message in refused)
        assert all(message["reason"] == "capacity" for message in refused)
        assert all(1_000 <= message["retry_after_ms"] <= 30_000 for message in refused)
        assert h.value("leases", kind="session") == h.value("sessions_active") == 3
        assert h.value("refusals_total", reason="capacity") == 5


async def test_who_cannot_read_a_refused_message_gets_a_503() -> None:
    async with house(admission=CountAdmission(0)) as h:
        for path, options in [("/v1/voice?refuse=http", {}), ("/v1/voice", {"subprotocols": None})]:
            with pytest.raises(InvalidStatus) as caught:
                await h.connect(path, **options)
            response = caught.value.response
            assert response.status_code == 503 and response.headers["Retry-After"] == "24"
            body = json.loads(response.body)
            assert body == {"refused": {"reason": "capacity", "retry_after_ms": 24_000}}


async def test_others_get_the_upgrade_a_message_and_1013_and_no_session() -> None:
    async with house(admission=CountAdmission(0)) as h, h.connect() as ws:
        message = json.loads(await ws.recv())
        assert message == {"type": "refused", "reason": "capacity", "retry_after_ms": 24_000}
        assert await closing(ws) == (1013, "capacity")
        assert h.admission.snapshot().granted == 0


async def test_a_client_without_a_subprotocol_is_served() -> None:
    async with house() as h, h.connect(subprotocols=None) as ws:
        assert ws.subprotocol is None
        await ws.send("hi")
        assert await ws.recv() == "hi"


async def test_nobody_is_let_in_before_the_server_is_ready() -> None:
    async with house() as h:
        h.state = Readiness(False, "warming_up")
        async with h.connect() as ws:
            assert json.loads(await ws.recv())["reason"] == "warming_up"
        assert (await h.http("/readyz")).json == {"ready": False, "reason": "warming_up"}
        h.state = Readiness(True)
        answer = await h.http("/readyz")
        assert (answer.status, answer.json) == (200, {"ready": True})
        async with h.connect() as ws:
            await ws.send("now")
            assert await ws.recv() == "now"


async def test_a_budget_without_sense_is_a_400_and_takes_no_lease() -> None:
    async with house() as h:
        with pytest.raises(InvalidStatus) as caught:
            await h.connect("/v1/voice?budget_ms=soon")
        assert caught.value.response.status_code == 400
        assert h.admission.snapshot().granted == 0


async def test_a_request_that_is_no_handshake_takes_no_lease() -> None:
    async with house() as h:
        assert (await h.http("/v1/voice")).status == 426
        assert (await h.http("/v1/voice", Upgrade="websocket", Connection="Upgrade")).status == 400
        assert h.admission.snapshot().granted == 0


class Sabotage(CountAdmission):
    """Grants, and lets something happen to the connection between the lease and the 101."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        super().__init__(1)
        self.act = act
        self.sockets: set[Any] = set()

    def on_connect(self, request: SessionRequest, now: float) -> Grant | Refuse:
        decision = super().on_connect(request, now)
        (ws,) = self.sockets
        self.act(ws)
        return decision


def _peer_lost(ws: Any) -> None:
    ws.transport.abort()
    ws.protocol.receive_eof()


def _cancelled(ws: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def _write_fails(ws: Any) -> None:
    def fail(response: object) -> None:
        raise OSError("broken pipe")

    ws.protocol.send_response = fail


def _aborted(ws: Any) -> None:
    ws.transport.abort()


@pytest.mark.parametrize(
    ("act", "handled"),
    [(_peer_lost, 0), (_write_fails, 0), (_aborted, 0), (_cancelled, 3)],
    ids=["peer lost", "write fails", "aborted", "cancelled"],
)
async def test_a_handshake_that_dies_after_the_lease_gives_it_back(act: Any, handled: int) -> None:
    handlers = 0

    async def count(connection: Connection, grant: Grant) -> None:
        nonlocal handlers
        handlers += 1
        await connection.recv()

    admission = Sabotage(act)
    async with house(count, admission=admission) as h:
        admission.sockets = h.server._socket_class.everyone  # type: ignore[assignment]
        for number in range(1, 4):
            with pytest.raises((WebsocketClosed, InvalidMessage, OSError)):
                async with h.connect() as ws:
                    await ws.recv()
            await h.emptied()
            assert admission.snapshot().granted == number
        assert h.value("leases", kind="session") == h.value("sessions_active") == 0
    assert handlers == handled


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_two_hundred_connects_and_drops_leave_nothing_behind() -> None:
    async with house() as h:

        async def visit(number: int) -> None:
            ws = await h.connect()
            await ws.send("x")
            await ws.recv()
            if number % 2:
                linger = struct.pack("ii", 1, 0)  # a reset instead of a goodbye
                ws.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                ws.transport.abort()
                await ws.wait_closed()
            else:
                await ws.close()

        async def census() -> tuple[int, int]:
            await h.emptied()
            await until(lambda: len(asyncio.all_tasks()) <= tasks_at_rest)
            gc.collect()
            return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

        tasks_at_rest = len(asyncio.all_tasks())
        await visit(0)
        before = await census()
        for number in range(200):
            await visit(number)
        assert await census() == before
        snapshot = h.admission.snapshot()
        assert (snapshot.active, snapshot.granted) == (0, 201)
        assert h.value("leases", kind="session") == h.value("sessions_active") == 0


# --- the slow reader


async def test_a_client_that_stops_reading_is_let_go_and_its_lease_comes_back() -> None:
    swallowed = 0
    why: list[ConnectionClosed] = []

    async def talk(connection: Connection, grant: Grant) -> None:
        nonlocal swallowed
        try:
            while True:
                await connection.send(bytes(960))  # 20 ms of 24 kHz
                swallowed += 960
        except ConnectionClosed as closed:
            why.append(closed)
            raise

    settings = replace(SETTINGS, send_timeout_s=0.2)
    async with house(talk, settings) as h:
        ws = await h.deaf_client()
        await until(lambda: bool(why))
        await h.emptied()
        assert (why[0].code, why[0].reason) == (1008, "reads too slowly")
        assert h.value("client_errors_total", code="slow_reader") == 1
        assert swallowed < 150_000  # 3 s of speech; without the small buffers it is minutes
        ws.transport.abort()
        await ws.wait_closed()


async def test_a_close_behind_a_full_write_buffer_is_bounded() -> None:
    closed = asyncio.Event()

    async def stuff_and_close(connection: Connection, grant: Grant) -> None:
        ws: Any = connection._ws  # type: ignore[attr-defined]
        ws.transport.write(bytes(1_000_000))
        assert ws.paused, "the write buffer is full, and stays so: nobody reads"
        ws.keepalive_task.cancel()  # it would notice some seconds later
        await connection.close(1000)
        closed.set()

    async with house(stuff_and_close) as h:
        ws = await h.deaf_client()
        await closed.wait()
        await h.emptied()
        ws.transport.abort()
        await ws.wait_closed()


async def test_a_close_with_a_full_receive_queue_is_bounded() -> None:
    filled = asyncio.Event()

    async def deaf(connection: Connection, grant: Grant) -> None:
        await filled.wait()

    async with house(deaf) as h:
        ws = await h.connect()
        for _ in range(40):
            await ws.send(b"x" * 1_000)
        filled.set()
        await h.emptied()
        ws.transport.abort()
        await ws.wait_closed()


# --- the gate, on the wire


async def test_foreign_origins_and_missing_tokens_are_turned_away_and_counted() -> None:
    rules = AccessRules(origins=frozenset({"https://app.example"}), tokens=frozenset({"sesame"}))
    async with house(settings=replace(SETTINGS, access=rules)) as h:
        for status, options in [
            (403, {"origin": "https://evil.example", "subprotocols": None}),
            (401, {"origin": "https://app.example", "path": "/v1/voice?refuse=http"}),
            (401, {"subprotocols": [*V1, "barley"]}),
        ]:
            with pytest.raises(InvalidStatus) as caught:
                await h.connect(**options)
            assert caught.value.response.status_code == status
        for options in (
            {"additional_headers": {"Authorization": "Bearer sesame"}},
            {"subprotocols": [*V1, "sesame"], "origin": "https://app.example"},
            {"subprotocols": [*V1, "sesame"], "origin": f"http://localhost:{h.server.port}"},
        ):
            async with h.connect(**options) as ws:
                assert ws.subprotocol == "voicepipe.v1"
        assert h.value("refusals_total", reason="origin_not_allowed") == 1
        assert h.value("refusals_total", reason="unauthorized") == 2


@pytest.mark.parametrize(
    ("origin", "reason"),
    [("https://evil.example", "origin_not_allowed"), ("https://app.example", "unauthorized")],
)
async def test_a_page_is_told_why_it_may_not_come_in(origin: str, reason: str) -> None:
    """A browser shows its script nothing of a 401 or 403: it gets the upgrade, the reason, and no session."""
    rules = AccessRules(origins=frozenset({"https://app.example"}), tokens=frozenset({"sesame"}))
    handled = asyncio.Event()

    async def never(connection: Connection, grant: Grant) -> None:
        handled.set()

    async with house(never, replace(SETTINGS, access=rules)) as h:
        async with h.connect(origin=origin, subprotocols=[*V1, "barley"]) as ws:
            assert json.loads(await ws.recv()) == {"type": "refused", "reason": reason, "retry_after_ms": 0}
            assert await closing(ws) == (1008, reason)
        await h.emptied()
        assert h.value("refusals_total", reason=reason) == 1
        assert h.admission.snapshot().granted == 0 and not handled.is_set()


# --- the door of the Realtime protocol


KEY = "openai-insecure-api-key"


async def test_the_realtime_door_knows_a_key_by_header_and_among_the_subprotocols() -> None:
    """As programs send it, and as browsers do; the subprotocol that is agreed on is never the key."""
    rules = AccessRules(origins=frozenset({"https://app.example"}), tokens=frozenset({"sesame"}))
    async with house(settings=replace(SETTINGS, access=rules)) as h:
        for options, agreed in [
            ({"additional_headers": {"Authorization": "Bearer sesame"}, "subprotocols": None}, None),
            ({"subprotocols": ["realtime", f"{KEY}.sesame"], "origin": "https://app.example"}, "realtime"),
            ({"subprotocols": ["realtime", f"{KEY}.sesame", "openai-beta.realtime-v1"]}, "realtime"),
        ]:
            async with h.connect("/v1/realtime?model=gpt-realtime", **options) as ws:
                assert ws.subprotocol == agreed
        for wrong in (["realtime"], ["realtime", "sesame"], ["realtime", f"{KEY}.barley"], None):
            with pytest.raises(InvalidStatus) as caught:
                await h.connect("/v1/realtime", subprotocols=wrong)
            assert caught.value.response.status_code == 401


@pytest.mark.parametrize(
    ("key", "code", "reason"), [("barley", 1008, "unauthorized"), ("sesame", 1013, "capacity")]
)
async def test_a_page_at_the_realtime_door_is_told_why_in_its_own_words(key: str, code: int, reason: str) -> None:
    rules = AccessRules(origins=frozenset({"https://app.example"}), tokens=frozenset({"sesame"}))
    async with (
        house(admission=CountAdmission(0), settings=replace(SETTINGS, access=rules)) as h,
        h.connect("/v1/realtime", origin="https://app.example", subprotocols=["realtime", f"{KEY}.{key}"]) as ws,
    ):
        told = json.loads(await ws.recv())
        assert (told["type"], told["error"]["code"]) == ("error", reason)
        assert await closing(ws) == (code, reason)


async def test_a_program_at_the_realtime_door_gets_a_503() -> None:
    async with house(admission=CountAdmission(0)) as h:
        with pytest.raises(InvalidStatus) as caught:
            await h.connect("/v1/realtime", subprotocols=None)
        assert caught.value.response.status_code == 503 and caught.value.response.headers["Retry-After"] == "24"


async def test_the_realtime_door_takes_a_larger_event_and_names_its_own_limit() -> None:
    """What is read at the native door is less."""
    async with house() as h, h.connect("/v1/realtime", subprotocols=None) as ws:
        await ws.send("x" * 1_000_000)
        assert len(await ws.recv()) == 1_000_000
        await ws.send("x" * 2_000_000)
        told = json.loads(await ws.recv())
        assert told["error"]["code"] == "too_large" and "1048576" in told["error"]["message"]
        assert (await closing(ws))[0] == 1009


async def test_a_page_that_is_refused_and_does_not_go_is_let_go() -> None:
    """Without a token nobody holds a connection for longer than a closing handshake may take."""
    async with house(settings=replace(SETTINGS, access=AccessRules(tokens=frozenset({"sesame"})))) as h:
        reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        lines = (
            "GET /v1/voice HTTP/1.1",
            "Host: here",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol: voicepipe.v1",
            f"Origin: http://localhost:{h.server.port}",
        )
        writer.write("\r\n".join([*lines, "", ""]).encode())
        told = await reader.read()  # until the server hangs up: nothing is sent any more from here
        assert told.startswith(b"HTTP/1.1 101") and b'"reason":"unauthorized"' in told
        await h.emptied()
        writer.close()


async def test_connections_over_the_cap_are_told_so_and_a_flood_is_cut() -> None:
    rules = AccessRules(max_connections=2)
    async with house(settings=replace(SETTINGS, access=rules)) as h, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(h.connect())
        with pytest.raises(InvalidStatus) as caught:
            await h.connect()
        assert json.loads(caught.value.response.body)["refused"]["reason"] == "connections"
        silent = [await asyncio.open_connection("127.0.0.1", h.server.port) for _ in range(3)]
        reader, _ = silent[-1]
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await until(lambda: h.server.connections == 4)
        for _, writer in silent:
            writer.close()


# --- pages


async def test_behind_a_trusted_proxy_callers_are_told_apart_and_none_is_this_machine() -> None:
    """Connections per address are those of the callers; one that names nobody gets in nowhere without a token."""
    rules = AccessRules(
        tokens=frozenset({"t"}), max_connections_per_address=1, proxies=Proxies(["127.0.0.1"]), metrics_token=""
    )

    def headers(caller: str) -> dict[str, str]:
        return {"Authorization": "Bearer t", "X-Forwarded-For": caller}

    async with house(settings=replace(SETTINGS, access=rules)) as h:
        async with (
            h.connect(additional_headers=headers("192.0.2.1")) as first,
            h.connect(additional_headers=headers("203.0.113.9, 192.0.2.2")) as second,
        ):
            for ws in (first, second):
                await ws.send("hello")
                assert await ws.recv() == "hello"
            with pytest.raises(InvalidStatus) as caught:
                await h.connect(additional_headers=headers("192.0.2.1"))
            assert caught.value.response.status_code == 429
        await h.emptied()
        assert (await h.http("/metrics", x_forwarded_for="192.0.2.1")).status == 403
        assert (await h.http("/metrics")).status == 200


async def test_a_proxy_that_is_not_trusted_makes_nobody_local(caplog: pytest.LogCaptureFixture) -> None:
    """Its header is not believed, and what it forwards is not taken for this machine's own."""
    async with house() as h:
        for header in ("X-Forwarded-For", "Forwarded"):
            with pytest.raises(InvalidStatus) as caught:
                await h.connect(additional_headers={header: "127.0.0.1"})
            assert caught.value.response.status_code == 401
            answer = await h.http("/metrics", **{header: "127.0.0.1"})
            assert answer.status == 403


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    root.mkdir()
    (root / "index.html").write_text("<!doctype html>")
    (tmp_path / "secret.html").write_text("secret")
    return root


async def test_the_browser_client_is_served_with_get_and_head_only(site: Path) -> None:
    async with house(settings=replace(SETTINGS, web_files=site)) as h:
        answer = await h.http("/?theme=dark")
        assert (answer.status, answer.body) == (200, b"<!doctype html>")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" in answer.headers and "server" not in answer.headers
        head = await h.http("/", "HEAD")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "15")
        post = await h.http("/", "POST")
        assert (post.status, post.headers["allow"]) == (405, "GET, HEAD")


async def test_every_answer_has_the_headers_that_keep_a_browser_from_harm() -> None:
    """Refusals, and what the library says of a handshake that is none."""
    async with house() as h:
        h.state = Readiness(False, "warming_up")
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
        key = {"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        for target, headers, status in (
            ("/v1/voice", {}, 426),
            ("/v1/voice", upgrade, 400),
            ("/v1/voice", {**upgrade, **key}, 503),
            ("/nothing", {}, 404),
            ("/metrics", {}, 200),
        ):
            answer = await h.http(target, **headers)
            assert answer.status == status
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_pictures_are_shown_as_they_are_when_their_page_is_asked_for(tmp_path: Path) -> None:
    async with house(settings=replace(SETTINGS, pictures=tmp_path)) as h:
        assert b"no picture" in (await h.http("/experiments")).body
        (tmp_path / "gap.svg").write_text("<svg/>")
        assert b"experiments/gap.svg" in (await h.http("/experiments")).body
        picture = await h.http("/experiments/gap.svg")
        assert (picture.status, picture.headers["content-type"], picture.body) == (200, "image/svg+xml", b"<svg/>")
        assert picture.headers["content-security-policy"].startswith("default-src 'none'")
        assert (await h.http("/experiments/../secret.svg")).status == 404
        moved = await h.http("/experiments/")
        assert (moved.status, moved.headers["location"]) == (308, "../experiments")


@pytest.mark.parametrize("size", [1, 100_000, 8_000_000])
async def test_a_request_with_a_body_is_answered_and_its_body_read_over(size: int) -> None:
    async with house() as h:
        reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        writer.write(b"POST /v1/voice HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(b"x" * size)
        await writer.drain()  # raises if the connection is reset
        answer = HttpAnswer(await reader.read())
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert answer.headers["connection"] == "close"
        assert answer.json == {"error": {"message": "only GET and HEAD"}}
        writer.close()
        await h.emptied()


async def test_what_cannot_be_read_is_a_bad_request_and_a_hang_up_is_none() -> None:
    async with house() as h:
        for request in (
            b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/3\r\n\r\n",
        ):
            assert HttpAnswer(await exchange(h.server.port, request)).status == 400
        assert await exchange(h.server.port, b"GET / HT", end=True) == b""
        await h.emptied()


async def test_a_body_that_never_ends_is_cut_off() -> None:
    async with house(settings=replace(SETTINGS, handshake_s=0.2)) as h:
        reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 999999\r\n\r\n")
        assert HttpAnswer(await reader.read()).status == 405
        await h.emptied()
        writer.close()


@pytest.mark.parametrize(
    "target",
    ["/../secret.html", "/%2e%2e/secret.html", "//secret.html", "/nothing", "/./index.html"],
)
async def test_paths_that_are_not_in_the_table_are_not_found(site: Path, target: str) -> None:
    async with house(settings=replace(SETTINGS, web_files=site)) as h:
        assert (await h.http(target)).status == 404


async def test_websockets_exist_at_one_path_only() -> None:
    async with house() as h:
        for path in ("/", "/v1/voice/", "/v1", "/healthz"):
            with pytest.raises(InvalidStatus) as caught:
                await h.connect(path)
            assert caught.value.response.status_code == 404


async def test_health_and_metrics_pages() -> None:
    async with house() as h:
        health = await h.http("/healthz")
        assert health.status == 200 and health.json["alive"] is True
        metrics = await h.http("/metrics")
        assert metrics.status == 200 and metrics.headers["content-type"].startswith("text/plain")
        assert b"voicepipe_sessions_active 0.0" in metrics.body


async def test_metrics_with_a_token() -> None:
    """401 and a challenge without it, which a scraper understands; the rest of the pages needs none."""
    async with house(settings=replace(SETTINGS, access=AccessRules(metrics_token="s3cret"))) as h:
        refused = await h.http("/metrics")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await h.http("/metrics", Authorization="Bearer wrong")).status == 401
        assert (await h.http("/metrics", Authorization="Bearer s3cret")).status == 200
        assert (await h.http("/healthz")).status == 200


# --- start and drain


async def test_a_port_in_use_is_named() -> None:
    async with house() as h:
        settings = replace(SETTINGS, port=h.server.port)
        with pytest.raises(PortInUse, match=f"127.0.0.1:{h.server.port} is in use") as caught:
            async with House(echo, settings, CountAdmission(1)).server:
                pass
        assert caught.value.exit_status == 1


async def test_an_address_that_is_not_ours_is_an_environment_failure() -> None:
    with pytest.raises(EnvironmentFailure, match=r"cannot listen on 192\.0\.2\.1:0") as caught:
        async with House(echo, replace(SETTINGS, host="192.0.2.1"), CountAdmission(1)).server:
            pass
    assert not isinstance(caught.value, PortInUse)


async def test_a_drain_lets_the_running_session_end_and_takes_no_other() -> None:
    async def courteous(connection: Connection, grant: Grant) -> None:
        await h.server.draining.wait()
        await connection.send("draining")
        assert await connection.recv() == "enough"

    async with house(courteous, replace(SETTINGS, grace_s=60.0)) as h, h.connect() as ws:
        drain = asyncio.create_task(h.server.stop(60.0))
        assert await ws.recv() == "draining"
        ready = await h.http("/readyz")
        assert (ready.status, ready.json["reason"]) == (503, "draining")
        with pytest.raises(InvalidStatus) as caught:
            await h.connect()
        assert caught.value.response.status_code == 503
        assert json.loads(caught.value.response.body)["refused"]["reason"] == "draining"
        await ws.send("enough")
        assert await closing(ws) == (1000, "")
        await drain
        assert h.server.connections == 0
        with pytest.raises(ConnectionRefusedError):
            await h.connect()


async def test_after_the_grace_sessions_are_closed_with_1012() -> None:
    async with house() as h, h.connect() as ws:
        stop = asyncio.create_task(h.server.stop(0.0))
        assert await closing(ws) == (1012, "the server goes away")
        await stop
        assert h.admission.snapshot().active == 0


async def test_a_second_stop_does_not_wait_for_the_grace_of_the_first() -> None:
    async with house() as h, h.connect() as ws:
        first = asyncio.create_task(h.server.stop(3600.0))
        await h.server.draining.wait()
        second = asyncio.create_task(h.server.stop(0.0))
        assert (await closing(ws))[0] == 1012
        await asyncio.gather(first, second)


async def test_a_session_that_ignores_its_close_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def deaf(connection: Connection, grant: Grant) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with house(deaf, replace(SETTINGS, close_timeout_s=0.1)) as h, h.connect() as ws:
        await h.server.stop(0.0)
        assert cancelled.is_set() and h.admission.snapshot().active == 0
        assert (await closing(ws))[0] == 1012
        assert h.value("tasks_abandoned_total") == 0


async def test_a_session_that_swallows_its_cancellation_is_left_behind_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()

    async def stubborn(connection: Connection, grant: Grant) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with house(stubborn, replace(SETTINGS, close_timeout_s=0.1)) as h:
        ws = await h.connect()
        await h.server.stop(0.0)
        assert h.value("tasks_abandoned_total") == 1
        assert h.admission.snapshot().active == 1  # it still holds what it holds
        assert "left behind" in caplog.text
        release.set()
        await h.emptied()
        await ws.wait_closed()


async def test_a_half_open_handshake_does_not_hold_up_the_end() -> None:
    async with house() as h:
        _, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        writer.write(b"GET /v1/voice HTTP/1.1\r\nHost:")
        await until(lambda: h.server.connections == 1)
        await h.server.stop(0.0)
        assert h.server.connections == 0
        writer.close()


async def test_leaving_by_an_exception_does_not_wait_for_sessions() -> None:
    built = House(echo, replace(SETTINGS, grace_s=3600.0), CountAdmission(1))
    with pytest.raises(KeyError):
        async with built.server:
            ws = await built.connect()
            raise KeyError
    assert (await closing(ws))[0] == 1012


async def test_the_library_never_logs_what_people_say(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="websockets.client")
    caplog.set_level(logging.DEBUG)
    async with house() as h, h.connect("/v1/voice?token=hush") as ws:
        await ws.send("my secret words")
        await ws.recv()
    assert "secret words" not in caplog.text and "hush" not in caplog.text
    assert "session 1 opened: peer 127.0.0.1" in caplog.text


# --- the waiting room


def small(places: int = 2, longest_s: float = 30.0, sessions: int = 1) -> SessionAdmission:
    policy = LimitPolicy("count", FixedLimit(sessions), Reason.CAPACITY)
    return SessionAdmission(policy, room=RoomSettings(places, longest_s))


async def message(ws: ClientConnection) -> Any:
    return json.loads(await ws.recv())


async def test_who_waits_is_told_its_place_as_it_moves_and_then_served() -> None:
    async with house(admission=small()) as h, h.connect() as guest:
        first, second = await h.connect(), await h.connect()
        assert await message(first) == {"type": "waiting", "position": 1}
        assert await message(second) == {"type": "waiting", "position": 2}
        assert h.value("waiting_room") == 2
        await second.send("said while waiting")
        await guest.close()
        await first.send("hi")
        assert await first.recv() == "hi"
        assert await message(second) == {"type": "waiting", "position": 1}
        await first.close()
        assert await second.recv() == "said while waiting"
        await second.close()
        await h.emptied()
        assert h.value("leases", kind="session") == h.value("waiting_room") == 0
        assert h.value("waiting_seconds_count", ended="admitted") == 2


@pytest.mark.parametrize("goes", ["closes", "vanishes"])
async def test_a_client_that_leaves_the_line_frees_its_place(goes: str) -> None:
    async with house(admission=small()) as h, h.connect():
        first, second = await h.connect(), await h.connect()
        assert (await message(second))["position"] == 2
        if goes == "closes":
            await first.close()
        else:
            first.transport.abort()
        assert await message(second) == {"type": "waiting", "position": 1}
        async with h.connect() as third:
            assert (await message(third))["position"] == 2
        await second.close()


async def test_who_cannot_be_told_to_wait_is_refused_at_once() -> None:
    async with house(admission=small()) as h, h.connect():
        with pytest.raises(InvalidStatus) as caught:
            await h.connect("/v1/voice?refuse=http")
        assert caught.value.response.status_code == 503
        assert h.value("waiting_room") == 0


async def test_a_wait_in_vain_ends_with_a_refusal() -> None:
    async with house(admission=small(longest_s=0.05)) as h, h.connect(), h.connect() as ws:
        assert (await message(ws))["type"] == "waiting"
        told = await message(ws)
        assert (told["type"], told["reason"]) == ("refused", "capacity")
        assert 20_000 < told["retry_after_ms"] <= 24_000  # of one session, which has run since a moment
        assert await closing(ws) == (1013, "capacity")


async def test_a_drain_turns_out_who_waits() -> None:
    async with house(admission=small()) as h, h.connect() as guest, h.connect() as ws:
        assert (await message(ws))["type"] == "waiting"
        stop = asyncio.create_task(h.server.stop(60.0))
        assert (await message(ws))["reason"] == "draining"
        assert await closing(ws) == (1013, "draining")
        await guest.close()
        await stop


# --- the waiting room, for clients that know of none

PLAIN: dict[str, Any] = {"path": "/v1/realtime", "subprotocols": None}


async def test_an_upgrade_is_held_until_there_is_a_place() -> None:
    """The client is told nothing, and so sends nothing: to it the server is slow to answer."""
    async with house(admission=small()) as h, h.connect() as guest:
        waiting = asyncio.create_task(h.connect(**PLAIN).__aenter__())
        await until(lambda: h.value("waiting_room") == 1)
        assert not waiting.done()
        await guest.close()
        ws = await waiting
        await ws.send("hi")
        assert await ws.recv() == "hi"
        await ws.close()
        await h.emptied()
        assert h.value("waiting_seconds_count", ended="admitted") == 1


async def test_a_held_upgrade_ends_in_a_refusal_where_no_place_comes() -> None:
    async with house(admission=small(longest_s=0.05)) as h, h.connect():
        with pytest.raises(InvalidStatus) as caught:
            await h.connect(**PLAIN)
        response = caught.value.response
        assert response.status_code == 503 and int(response.headers["Retry-After"]) > 20
        assert h.value("waiting_seconds_count", ended="refused") == 1
        assert h.value("refusal_seconds_bucket", le="0.01") == 1, "from the decision on"


async def test_a_page_that_waited_in_vain_is_told_so_behind_its_upgrade() -> None:
    async with house(admission=small(longest_s=0.05)) as h, h.connect():
        options = {**PLAIN, "subprotocols": [Subprotocol("realtime")]}
        async with h.connect(**options) as ws:
            told = await message(ws)
            assert (told["type"], told["error"]["code"]) == ("error", "capacity")
            assert await closing(ws) == (1013, "capacity")


async def test_a_client_that_gives_up_its_held_upgrade_frees_its_place() -> None:
    async with house(admission=small(places=1)) as h, h.connect() as guest:
        first = asyncio.create_task(h.connect(**PLAIN).__aenter__())
        await until(lambda: h.value("waiting_room") == 1)
        first.cancel()
        await until(lambda: h.value("waiting_room") == 0)
        second = asyncio.create_task(h.connect(**PLAIN).__aenter__())
        await until(lambda: h.value("waiting_room") == 1)
        await guest.close()
        await (await second).close()
        await h.emptied()
        assert h.value("waiting_seconds_count", ended="left") == 1
        assert h.value("leases", kind="session") == 0


async def test_who_does_not_want_to_wait_is_refused_at_once() -> None:
    async with house(admission=small()) as h, h.connect():
        with pytest.raises(InvalidStatus) as caught:
            await h.connect(**{**PLAIN, "path": "/v1/realtime?refuse=http"})
        assert caught.value.response.status_code == 503
        assert h.value("waiting_room") == 0


async def test_a_drain_refuses_whose_upgrade_is_held() -> None:
    async with house(admission=small()) as h, h.connect() as guest:
        waiting = asyncio.create_task(h.connect(**PLAIN).__aenter__())
        await until(lambda: h.value("waiting_room") == 1)
        stop = asyncio.create_task(h.server.stop(60.0))
        with pytest.raises(InvalidStatus) as caught:
            await waiting
        assert caught.value.response.status_code == 503
        assert json.loads(caught.value.response.body)["refused"]["reason"] == "draining"
        await guest.close()
        await stop


async def test_a_request_that_does_not_come_is_not_waited_for_as_long() -> None:
    async with house(settings=replace(SETTINGS, handshake_s=0.05)) as h:
        reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
        writer.write(b"GET /v1/realtime HTTP/1.1\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await h.emptied()
        writer.close()


# --- quotas


async def test_a_token_that_has_used_up_its_quota_is_told_429_and_others_get_in() -> None:
    rules = AccessRules(tokens=frozenset({"t1", "t2"}), token_names={"t1": "kiosk", "t2": "lobby"})
    policy = LimitPolicy("count", FixedLimit(8), Reason.CAPACITY)
    admission = SessionAdmission(policy, quotas=QuotaSettings(token=Quota(sessions=1)))
    async with house(settings=replace(SETTINGS, access=rules), admission=admission) as h:
        kiosk = {"additional_headers": {"Authorization": "Bearer t1"}}
        async with h.connect(**kiosk):
            with pytest.raises(InvalidStatus) as caught:
                await h.connect("/v1/voice?refuse=http", **kiosk)
            response = caught.value.response
            assert response.status_code == 429 and "Retry-After" in response.headers
            assert json.loads(response.body)["refused"]["reason"] == "token-sessions"
            async with h.connect(**kiosk) as ws:
                assert (await message(ws))["reason"] == "token-sessions"
                assert (await closing(ws))[0] == 1013
            async with h.connect(subprotocols=[*V1, Subprotocol("t2")]) as other:
                await other.send("in")
                assert await other.recv() == "in"
        await h.emptied()
        page = await h.http("/metrics")
        assert b"t1" not in page.body and b"t2" not in page.body
        async with h.connect(**kiosk) as ws:
            await ws.send("again")
            assert await ws.recv() == "again"


# --- what is logged of a refusal


class Refusing(CountAdmission):
    """It takes nobody."""

    def __init__(self, reason: str) -> None:
        super().__init__(8)
        self._reason = reason

    def on_connect(self, request: SessionRequest, now: float) -> Refuse:
        return Refuse(self._reason, 1_000)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for record in caplog.records if (line := record.getMessage()).startswith("refused, ")]


@pytest.mark.parametrize("path", ["/v1/voice", "/v1/voice?refuse=http"])
@pytest.mark.parametrize("reason", list(Reason))
async def test_every_refusal_of_admission_is_logged_with_the_tokens_name(
    reason: Reason, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, whichever way it is told; and never with the token itself."""
    rules = AccessRules(tokens=frozenset({"sesame"}), token_names={"sesame": "kiosk"})
    caplog.set_level(logging.WARNING, logger="voicepipe")
    async with house(settings=replace(SETTINGS, access=rules), admission=Refusing(reason)) as h:
        with suppress(InvalidStatus):
            async with h.connect(path, additional_headers={"Authorization": "Bearer sesame"}) as ws:
                await closing(ws)
    assert refusals(caplog) == [f"refused, {reason}: peer 127.0.0.1, origin '', token 'kiosk'"]
    assert "sesame" not in caplog.text


async def test_refusals_of_the_door_and_of_the_waiting_room_are_logged_alike(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="voicepipe")
    async with house(admission=small(longest_s=0.05)) as h:
        with pytest.raises(InvalidStatus):
            await h.connect(origin="https://evil.example", subprotocols=None)
        h.state = Readiness(False, "warming_up")
        with pytest.raises(InvalidStatus):
            await h.connect("/v1/voice?refuse=http")
        h.state = Readiness(True)
        async with h.connect(), h.connect() as ws:
            assert (await message(ws))["type"] == "waiting"
            await closing(ws)
    assert refusals(caplog) == [
        "refused, origin_not_allowed: peer 127.0.0.1, origin 'https://evil.example', token ''",
        "refused, warming_up: peer 127.0.0.1, origin '', token ''",
        "refused, capacity: peer 127.0.0.1, origin '', token ''",
    ]


# --- how fast


async def test_refusals_take_milliseconds_also_beside_running_sessions() -> None:
    """Both ways of refusing, measured from the request to its answer at the socket."""
    async with house(admission=CountAdmission(2)) as h, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(h.connect())
        for number in range(100):
            if number % 2:
                with pytest.raises(InvalidStatus):
                    await h.connect("/v1/voice?refuse=http")
            else:
                async with h.connect() as ws:
                    await closing(ws)
        await until(lambda: h.value("refusal_seconds_count") == 100)
        under = h.value("refusal_seconds_bucket", le="0.01")
        assert under is not None and under >= 90  # the rest belongs to the machine


@pytest.mark.parametrize("seed", range(4))
async def test_races_over_sockets_admit_exactly_n_and_leave_no_lease(seed: int) -> None:
    """N + k real connections at once, a random part of which break within the handshake or right after it."""
    rng = random.Random(seed)
    n, k = rng.randint(2, 5), rng.randint(2, 8)

    async def welcome(connection: Connection, grant: Grant) -> None:
        await connection.send("in")
        await echo(connection, grant)

    async with house(welcome, admission=small(3, 0.5, sessions=n)) as h:
        for _ in range(5):
            clients = await asyncio.gather(*[h.connect() for _ in range(n + k)])
            answers = [await ws.recv() for ws in clients]
            assert answers.count("in") == n == h.admission.snapshot().active
            assert sum('"waiting"' in str(answer) for answer in answers) == min(3, k)

            async def go(ws: ClientConnection) -> None:
                if rng.random() < 0.5:
                    ws.transport.abort()
                    await ws.wait_closed()
                else:
                    await ws.close()

            rng.shuffle(clients)
            await asyncio.gather(*[go(ws) for ws in clients])
            for _ in range(n + k):  # handshakes that are cut off in the middle
                _reader, writer = await asyncio.open_connection("127.0.0.1", h.server.port)
                lines = ("GET /v1/voice HTTP/1.1", "Host: here", "Connection: Upgrade", "Upgrade: websocket")
                keys = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
                request = "\r\n".join([*lines, *keys, "Sec-WebSocket-Protocol: voicepipe.v1", "", ""]).encode()
                writer.write(request[: rng.randint(1, len(request))])
                await writer.drain()
                writer.transport.abort()
            await h.emptied()
            assert h.value("leases", kind="session") == h.value("sessions_active") == h.value("waiting_room") == 0
