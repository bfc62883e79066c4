"""A TCP proxy that makes what networks make of a connection. Its words are those of Toxiproxy.

Each direction has a `Toxic` of its own, which may be changed while connections run: what is read from then on is
treated by the new one. What has been read and not been passed on is bounded, so that a slow direction holds the
sender back, as a network does.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_PIECE_BYTES = 16_384
_WAITING_PIECES = 256
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Toxic:
    """What happens to one direction. Without any of it, nothing."""

    latency_s: float = 0.0
    jitter_s: float = 0.0
    """The latency is drawn from `latency_s` plus and minus so much; nothing overtakes anything."""
    bandwidth_bytes_s: float | None = None
    slice_bytes: int | None = None
    """What is passed on is cut into pieces of so many bytes on average, each of its own segment."""
    slice_delay_s: float = 0.0
    slow_close_s: float = 0.0
    """The end of the stream is passed on so much later."""
    timeout_s: float | None = None
    """Nothing is passed on, and so much later both sides are closed."""
    limit_data_bytes: int | None = None
    """Of one connection; then both sides are closed."""
    reset_peer_s: float | None = None
    """So long after its first byte the connection is reset, on both sides."""
    black_hole: bool = False
    """Nothing is passed on, neither bytes nor ends: the other side cannot tell this from a peer without power."""


@dataclass(slots=True)
class Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    passed_bytes: dict[str, int] = field(default_factory=lambda: {"up": 0, "down": 0})

    def close(self) -> None:
        for side in (self.client, self.server):
            side.transport.abort() if side.is_closing() else side.close()

    def reset(self) -> None:
        """RST to both, at once."""
        for side in (self.client, self.server):
            sock: socket.socket | None = side.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            side.transport.abort()


class Proxy:
    """`async with Proxy(port)`: listens on `self.port` of the loopback interface."""

    def __init__(
        self,
        port: int,
        *,
        up: Toxic | None = None,
        down: Toxic | None = None,
        seed: int = 1,
        host: str = "127.0.0.1",
    ) -> None:
        """`up` is what goes to the server at `port`."""
        self.toxics = {"up": up or Toxic(), "down": down or Toxic()}
        self.links: list[Link] = []
        self._upstream = (host, port)
        self._draw = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self.links:
            link.reset()

    def poison(self, up: Toxic | None = None, down: Toxic | None = None) -> None:
        """From now on. Without any it is a network again; what lies in a black hole stays there."""
        self.toxics = {"up": up or Toxic(), "down": down or Toxic()}

    def reset_peers(self) -> int:
        """Every connection that there is."""
        links, self.links = self.links, []
        for link in links:
            link.reset()
        return len(links)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        link = Link(writer, up_writer)
        self.links.append(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(link, "up", reader, up_writer))
                group.create_task(self._pass(link, "down", up_reader, writer))
        except asyncio.CancelledError:
            pass  # the proxy closes; asyncio asks this task for its exception, and a cancelled one raises (3.11)
        finally:
            link.close()
            if link in self.links:
                self.links.remove(link)
            self._tasks.discard(task)

    async def _pass(
        self, link: Link, side: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One direction, to its end."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WAITING_PIECES)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take(side, reader, queue))
            await self._give(link, side, queue, writer)

    async def _take(
        self, side: str, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """Each piece gets the instant at which it is due; b"" is the end."""
        clock, due = asyncio.get_running_loop().time, 0.0
        data = b"start"
        while data:
            try:
                data = await reader.read(_PIECE_BYTES)
            except ConnectionError:
                data = b""
            toxic = self.toxics[side]
            late_s = toxic.latency_s + toxic.jitter_s * self._draw.uniform(-1.0, 1.0)
            due = max(due, clock() + late_s)
            await queue.put((due, data))

    async def _give(
        self, link: Link, side: str, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due, data = await queue.get()
            toxic = self.toxics[side]
            await asyncio.sleep(due - clock())
            if toxic.black_hole:
                continue
            if toxic.timeout_s is not None:
                await asyncio.sleep(toxic.timeout_s)
                link.close()
                return
            if not data:
                await asyncio.sleep(toxic.slow_close_s)
                with suppress(OSError, RuntimeError):  # it has been closed meanwhile
                    writer.write_eof()
                return
            if toxic.reset_peer_s is not None and not link.passed_bytes[side]:
                asyncio.get_running_loop().call_later(toxic.reset_peer_s, link.reset)
            if not await self._write(link, side, toxic, data, writer):
                link.close()
                return

    async def _write(self, link: Link, side: str, toxic: Toxic, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether more is wanted."""
        for piece in self._sliced(toxic, data):
            left = len(piece)
            if toxic.limit_data_bytes is not None:
                left = min(left, toxic.limit_data_bytes - link.passed_bytes[side])
            writer.write(piece[:left])
            link.passed_bytes[side] += left
            try:
                await writer.drain()
            except ConnectionError:
                return False
            if left < len(piece):
                return False
            if toxic.bandwidth_bytes_s is not None:
                await asyncio.sleep(left / toxic.bandwidth_bytes_s)
            if toxic.slice_bytes is not None:
                await asyncio.sleep(toxic.slice_delay_s)
        return True

    def _sliced(self, toxic: Toxic, data: bytes) -> list[bytes]:
        if toxic.slice_bytes is None:
            return [data]
        pieces, begin = [], 0
        while begin < len(data):
            end = begin + self._draw.randint(1, 2 * toxic.slice_bytes - 1)
            pieces.append(data[begin:end])
            begin = end
        return pieces
