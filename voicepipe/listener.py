"""The second listener: an ASGI app under uvicorn, on the loop of everything else.

uvicorn is given a bound socket and no say over signals: those are the command line's.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from voicepipe.api import CONNECTIONS, ApiSettings, make_app
from voicepipe.background import TextService
from voicepipe.errors import EnvironmentFailure, PortInUse
from voicepipe.gate import Gate

KEEP_ALIVE_S = 5
CLOSE_S = 2
"""How long what is still being answered gets when the listener ends."""
MAX_HEAD_BYTES = 16 * 1024
BACKLOG = 128


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

    def __init__(self, host: str, port: int, settings: ApiSettings) -> None:
        """Binds the address, before anything is loaded. Raises PortInUse and EnvironmentFailure."""
        self._bound = bind(host, port)
        self._settings = settings
        self.port = int(self._bound.getsockname()[1])

    @asynccontextmanager
    async def serving(self, service: TextService, gate: Gate) -> AsyncIterator[None]:
        app = make_app(service, gate, self._settings, port=self.port)
        async with listening(app, self._bound):
            yield

    def close(self) -> None:
        self._bound.close()


@asynccontextmanager
async def listening(app: Any, bound: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on the socket while the block runs. Closes it. Each scope holds the number of open connections
    under CONNECTIONS: whom there are too many for is the app's to say, since what uvicorn's own limit says is no
    JSON and names no time to come back."""

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        scope[CONNECTIONS] = len(server.server_state.connections)
        await app(scope, receive, send)

    config = uvicorn.Config(
        counted,
        http="h11",
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
