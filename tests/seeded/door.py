"""The server's door without a socket: the real `VoiceServer`, whose connections are pairs in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from websockets.asyncio.server import Server
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from voicepipe.connection import Connection, ConnectionClosed, MemoryConnection
from voicepipe.core.admission import Admission
from voicepipe.gate import Crowd, Visit
from voicepipe.metrics import Metrics
from voicepipe.pages import Readiness
from voicepipe.server import Handler, ServerSettings, VoiceServer
from voicepipe.transport import VoiceSocket, WebsocketConnection
from voicepipe.wire.native import PROTOCOL

_REQUEST = Request("/v1/voice", Headers())


class Counts:
    """Metrics and observer in one, without Prometheus: leases, failures, and nothing of the rest."""

    def __init__(self) -> None:
        self.leases: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()

    def lease_taken(self, kind: str) -> None:
        self.leases[kind] += 1

    def lease_returned(self, kind: str) -> None:
        self.leases[kind] -= 1

    def refused(self, reason: str) -> None:
        self.refusals[reason] += 1

    def turn_ended(self, verdict: str, felt_s: float | None, system_s: float | None) -> None:
        self.verdicts[verdict] += 1

    def __getattr__(self, name: str) -> Callable[..., None]:
        def count(*args: object, **more: object) -> None:
            self.calls[name] += 1

        return count


class SeededConnection:
    """The server's end, with the limits that the websocket's adapter has. `watch` sees all that is handed over."""

    def __init__(self, inner: MemoryConnection, timeout_s: float, watch: Callable[[str | bytes], None]) -> None:
        self._inner = inner
        self._timeout_s = timeout_s
        self._watch = watch
        self.headers: Mapping[str, str] = inner.headers
        self.path = inner.path
        self.query: Mapping[str, str] = inner.query
        self.peer = inner.peer
        self.closed_with: tuple[int, str] | None = None

    async def recv(self) -> str | bytes:
        return await self._inner.recv()

    async def send(self, data: str | bytes) -> None:
        self._watch(data)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._inner.send(data)
        except TimeoutError:
            self.closed_with = self.closed_with or (1008, "reads too slowly")
            await self._inner.close(1008, "reads too slowly")
            raise ConnectionClosed(1008, "reads too slowly") from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed_with = self.closed_with or (code, reason)
        await self._inner.close(code, reason)


class Socket(VoiceSocket):
    """What the server knows of a connection, and its two ends."""

    def __init__(self, visit: Visit, near: SeededConnection, far: MemoryConnection) -> None:
        self.visit = visit
        self.near = near
        self.far = far
        self.arrived = asyncio.get_running_loop().time()

    async def vanish(self) -> None:
        """The client is gone, without a word."""
        await self.far.close(1006)
        if self.on_lost is not None:
            self.on_lost()


class _Listener:
    """Where `VoiceServer` has the library's."""

    def __init__(self) -> None:
        self.handler_tasks: set[asyncio.Task[None]] = set()

    def close(self, close_connections: bool = True) -> None:
        """Nobody can connect without `MemoryServer.connect`."""

    async def wait_closed(self) -> None:
        """Nothing is open."""


class MemoryServer(VoiceServer):
    def __init__(
        self,
        settings: ServerSettings,
        handler: Handler,
        admission: Admission,
        counts: Counts,
        ready: Callable[[], Readiness],
        jitter: Callable[[], float],
    ) -> None:
        super().__init__(
            settings, handler, admission=admission, metrics=cast(Metrics, counts), ready=ready, jitter=jitter
        )
        self._listener = _Listener()
        self._server = cast(Server, self._listener)
        self.refused_before: Counter[int] = Counter()
        """By HTTP status, before the upgrade."""

    @property
    def live(self) -> int:
        """Sessions, from admission to close."""
        return len(self._sessions)

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Of connections."""
        return self._listener.handler_tasks

    def connect(
        self,
        query: Mapping[str, str],
        capacity: int,
        watch: Callable[[Socket, str | bytes], None],
        token: str | None = None,
    ) -> Socket:
        """As the library does: gate, handshake and session in one task of the connection's own."""
        near, far = MemoryConnection.pair(capacity=capacity, query=query)
        protocols = PROTOCOL if token is None else f"{PROTOCOL}, {token}"
        visit = Visit("GET", f"/v1/voice?{urlencode(query)}", {"sec-websocket-protocol": protocols}, "127.0.0.1")
        socket: Socket
        connection = SeededConnection(near, self._settings.send_timeout_s, lambda data: watch(socket, data))
        socket = Socket(visit, connection, far)
        task = asyncio.get_running_loop().create_task(self._shake_hands(socket), name="connection")
        self._listener.handler_tasks.add(task)
        task.add_done_callback(self._listener.handler_tasks.discard)
        return socket

    async def _shake_hands(self, socket: Socket) -> None:
        assert socket.visit is not None
        crowd = Crowd(len(self.tasks), len(self.tasks))
        turned_away = self._gate.check(socket.visit, crowd, port=0, draining=self.draining.is_set())
        if turned_away is not None:
            self.refused_before[turned_away.reply.status] += 1
            await socket.near.close(1006, str(turned_away.reply.status.value))
            return
        answer = await self._process_response(socket, _REQUEST, Response(101, "", Headers()))
        if answer is not None:
            self.refused_before[answer.status_code] += 1
            await socket.near.close(1006, str(answer.status_code))
            return
        if socket.decision is not None:
            await self._serve_session(socket)

    def _connection(self, ws: Any) -> WebsocketConnection:
        return cast(WebsocketConnection, cast(Connection, ws.near))
