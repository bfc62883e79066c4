"""The seam under a session: something that carries text and binary frames both ways.

The server adapts a websocket to it, tests and embedders use the in-memory pair. Knows nothing of voice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol


class ConnectionClosed(Exception):
    """The peer, or we, closed it. `code` is the WebSocket close code, 1006 where the peer just vanished."""

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"closed: {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class Connection(Protocol):
    @property
    def headers(self) -> Mapping[str, str]:
        """Request headers, names in lower case."""
        ...

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters of the request, the last value of each."""
        ...

    @property
    def peer(self) -> str:
        """Address of the peer, for limits and logs."""
        ...

    async def recv(self) -> str | bytes:
        """Next whole message. Cancellation loses nothing. Raises ConnectionClosed."""
        ...

    async def send(self, data: str | bytes) -> None:
        """Returns when the transport has taken the message. Raises ConnectionClosed."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Idempotent. Returns within the transport's own close timeout."""
        ...


class MemoryConnection:
    """One end of an in-memory pair; `pair()` makes both. Each direction holds `capacity` messages."""

    def __init__(
        self,
        inbox: asyncio.Queue[str | bytes | ConnectionClosed],
        outbox: asyncio.Queue[str | bytes | ConnectionClosed],
        *,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._closed: ConnectionClosed | None = None
        self.headers: Mapping[str, str] = {}
        self.query: Mapping[str, str] = query or {}
        self.peer = "memory"

    @classmethod
    def pair(
        cls, *, capacity: int = 64, query: Mapping[str, str] | None = None
    ) -> tuple[MemoryConnection, MemoryConnection]:
        """(server end, client end)."""
        up: asyncio.Queue[str | bytes | ConnectionClosed] = asyncio.Queue(capacity)
        down: asyncio.Queue[str | bytes | ConnectionClosed] = asyncio.Queue(capacity)
        server, client = cls(up, down, query=query), cls(down, up, query=query)
        server._peer_end, client._peer_end = client, server
        return server, client

    _peer_end: MemoryConnection

    async def recv(self) -> str | bytes:
        if self._closed is not None and self._inbox.empty():
            raise self._closed
        item = await self._inbox.get()
        if isinstance(item, ConnectionClosed):
            self._closed = item
            raise item
        return item

    async def send(self, data: str | bytes) -> None:
        if self._closed is not None:
            raise self._closed
        await self._outbox.put(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._closed is not None:
            return
        closed = ConnectionClosed(code, reason)
        self._closed = closed
        self._peer_end._closed = self._peer_end._closed or closed
        for queue in (self._outbox, self._inbox):  # wake whoever waits on either end
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(closed)
