"""The second listener: an ASGI app under uvicorn, on the loop of everything else.

uvicorn is given a bound socket and no say over signals: those are the command line's. What it does not bound is
bounded here: how many connections there are, how long the head of a request may take, and how long an answer may be
left unread.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from voicepipe.api import CONNECTIONS, ApiSettings, make_app
from voicepipe.background import TextService
from voicepipe.errors import EnvironmentFailure, PortInUse
from voicepipe.gate import Gate
from voicepipe.webfiles import SECURITY_HEADERS
from voicepipe.wire import chat

HEAD_S = 5.0
"""How long the head of a request may take: the first one from the connection on, a later one from its first byte.
What comes behind an answer, such as the rest of a body that nobody read, has as long."""
KEEP_ALIVE_S = 5
CLOSE_S = 2
"""How long what is still being answered gets when the listener ends."""
RETRY_S = 1
MAX_HEAD_BYTES = 16 * 1024
BACKLOG = 128
_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items())
"""Of every answer that does not have its own."""


def bind(host: str, port: int) -> socket.socket:
    """Bound, and not listening yet: whoever comes early is turned away by the system. Raises PortInUse and
    EnvironmentFailure."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        where = f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"{where} is in use; stop what listens there, or choose another --api-port") from error
        raise EnvironmentFailure(f"cannot listen on {where}: {error.strerror or error}") from error
    return bound


@dataclass(frozen=True, slots=True)
class Bounds:
    most: int
    """Connections, whether they have asked for something or not. One more is told so, and closed."""
    on_refused: Callable[[str], None]
    """Told the reason, a word of a fixed set, of each that did not get as far as the app."""
    head_s: float = HEAD_S
    unread_s: float = 5.0
    """How long a client may leave unread what is sent to it; then it is cut."""


class _Connection(H11Protocol):
    """uvicorn's, within bounds; and what it has to say before there is a request is said as the API says it."""

    bounds: Bounds
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # So that whatever is left unread is told, also after a close. For TLS 0 would be full when it is empty.
        transport.set_write_buffer_limits(high=0 if transport.get_extra_info("ssl_object") is None else 1)
        if len(self.connections) > self.bounds.most:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "refused: connections", "connections", "rate_limit_error")
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:  # there is no request that is being answered
            self._expect_head()
        else:
            self._head_came()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.bounds.unread_s, self._on_unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._was_read()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, "no HTTP request that can be read", "bad_request")

    def _expect_head(self) -> None:
        if self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(self.bounds.head_s, self._on_late)

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _on_unread(self) -> None:
        self.bounds.on_refused("not_reading")
        self.transport.abort()

    def _on_late(self) -> None:
        text = f"the head of a request did not arrive within {self.bounds.head_s:g} s"
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, text, "request_timeout")

    def _refuse(self, status: HTTPStatus, text: str, code: str, kind: str = "invalid_request_error") -> None:
        self.bounds.on_refused(code)
        body = chat.error(text, kind, code)
        headers = ["Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close"]
        headers += [f"{name}: {value}" for name, value in SECURITY_HEADERS.items()]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(f"Retry-After: {RETRY_S}")
        head = "\r\n".join([f"HTTP/1.1 {status.value} {status.phrase}", *headers, "", ""])
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Config(uvicorn.Config):
    """uvicorn's, with a context that has been made already."""

    def __init__(self, tls: ssl.SSLContext | None, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._tls = tls

    def load(self) -> None:
        super().load()
        self.ssl = self._tls


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class ApiListener:
    """The OpenAI-compatible API's. `close` it where `serving` was never entered."""

    def __init__(self, host: str, port: int, settings: ApiSettings, tls: ssl.SSLContext | None = None) -> None:
        """Binds the address, before anything is loaded. Raises PortInUse and EnvironmentFailure."""
        self._tls = tls
        self._bound = bind(host, port)
        self._settings = settings
        self.port = int(self._bound.getsockname()[1])

    @asynccontextmanager
    async def serving(self, service: TextService, gate: Gate) -> AsyncIterator[None]:
        app = make_app(service, gate, self._settings, port=self.port)
        settings = self._settings
        bounds = Bounds(
            2 * settings.max_connections,
            service.on_turned_away,
            head_s=settings.head_s,
            unread_s=settings.send_timeout_s,
        )
        async with listening(app, self._bound, bounds, self._tls):
            yield

    def close(self) -> None:
        self._bound.close()


@asynccontextmanager
async def listening(
    app: Any, bound: socket.socket, bounds: Bounds, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve `app` on the socket while the block runs. Closes it. Each scope holds the number of open connections
    under CONNECTIONS: whom there are too many for is the app's to say, since what uvicorn's own limit says is no
    JSON and names no time to come back."""

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        scope[CONNECTIONS] = len(server.server_state.connections)

        async def hardened(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await app(scope, receive, hardened)

    config = _Config(
        tls,
        counted,
        http=type("Connection", (_Connection,), {"bounds": bounds}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=CLOSE_S,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    server = _Server(config)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve([bound]), name="api listener")
        try:
            await server.ready.wait()
            yield
        finally:
            server.should_exit = True
            await running
            bound.close()
