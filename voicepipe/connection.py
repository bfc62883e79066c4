"""The seam under a session: something that carries text and binary frames both ways.

The server adapts a websocket to it, tests and embedders use the in-memory pair. Knows nothing of voice.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
    def path(self) -> str:
        """Of the request, without the query: it says what is spoken."""
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


class _Pipe:
    """One direction of an in-memory pair: bounded, in order, with an end."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._messages: deque[str | bytes] = deque()
        self._end: tuple[int, str] | None = None
        self._moved = asyncio.Condition()

    async def put(self, data: str | bytes) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._end or len(self._messages) < self._capacity)
            if self._end is not None:
                raise ConnectionClosed(*self._end)
            self._messages.append(data)
            self._moved.notify_all()

    async def get(self) -> str | bytes:
        async with self._moved:
            await self._moved.wait_for(lambda: self._end or self._messages)
            if not self._messages:
                assert self._end is not None
                raise ConnectionClosed(*self._end)
            self._moved.notify_all()
            return self._messages.popleft()

    async def end(self, code: int, reason: str) -> None:
        async with self._moved:
            self._end = self._end or (code, reason)
            self._moved.notify_all()


class MemoryConnection:
    """One end of an in-memory pair; `pair()` makes both. Each direction holds `capacity` messages."""

    def __init__(
        self,
        inbox: _Pipe,
        outbox: _Pipe,
        query: Mapping[str, str] | None,
        path: str,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self.headers: Mapping[str, str] = headers or {}
        self.path = path
        self.query: Mapping[str, str] = query or {}
        self.peer = "memory"

    @classmethod
    def pair(
        cls,
        *,
        capacity: int = 64,
        query: Mapping[str, str] | None = None,
        path: str = "/v1/voice",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[MemoryConnection, MemoryConnection]:
        """(server end, client end)."""
        up, down = _Pipe(capacity), _Pipe(capacity)
        return cls(up, down, query, path, headers), cls(down, up, query, path, headers)

    async def recv(self) -> str | bytes:
        return await self._inbox.get()

    async def send(self, data: str | bytes) -> None:
        await self._outbox.put(data)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._outbox.end(code, reason)
        await self._inbox.end(code, reason)
