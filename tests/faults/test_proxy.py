"""The proxy itself: each of its toxics does what it says, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.faults.proxy import Proxy, Toxic


@dataclass
class Peer:
    """Answers each byte with itself; keeps when what came, and how it ended."""

    port: int = 0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ended_at: float = 0.0
    was_reset: bool = False

    @property
    def got(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while data := await reader.read(65_536):
                self.pieces.append((clock(), data))
                writer.write(data)
        except ConnectionResetError:
            self.was_reset = True
        self.ended_at = clock()
        self.ended.set()
        writer.close()


@asynccontextmanager
async def through(**toxics: Toxic) -> AsyncIterator[tuple[Peer, Proxy, asyncio.StreamReader, asyncio.StreamWriter]]:
    peer = Peer()
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.port = int(server.sockets[0].getsockname()[1])
    try:
        async with Proxy(peer.port, **toxics) as proxy:  # type: ignore[arg-type]
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            yield peer, proxy, reader, writer
            writer.transport.abort()
    finally:
        server.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_without_toxics_bytes_and_ends_pass() -> None:
    async with through() as (peer, _, reader, writer):
        writer.write(b"hello" * 10_000)
        assert await reader.readexactly(50_000) == b"hello" * 10_000
        writer.write_eof()
        assert await reader.read() == b""
        await peer.ended.wait()
        assert not peer.was_reset


async def test_latency_is_each_ways_own_and_does_not_slow_a_stream_down() -> None:
    """Twenty pieces on their way at a time take the latency once, in order whatever the jitter."""
    async with through(up=Toxic(latency_s=0.15, jitter_s=0.1)) as (peer, _, reader, writer):
        began = now()
        for number in range(20):
            writer.write(bytes([number]))
            await asyncio.sleep(0.005)
        assert await reader.readexactly(20) == bytes(range(20))
        assert now() - began >= 0.05
        assert min(at for at, _ in peer.pieces) - began >= 0.05
        assert now() - began < 20 * 0.05, "one after the other"


async def test_bandwidth_holds_the_sender_back() -> None:
    async with through(up=Toxic(bandwidth_bytes_s=100_000)) as (_peer, _, reader, writer):
        began = now()
        writer.write(bytes(40_000))
        await reader.readexactly(40_000)
        assert now() - began >= 0.2


async def test_a_slicer_cuts_and_loses_nothing() -> None:
    async with through(up=Toxic(slice_bytes=3, slice_delay_s=0.001)) as (peer, _, reader, writer):
        writer.write(bytes(range(200)))
        assert await reader.readexactly(200) == bytes(range(200))
        assert len(peer.pieces) > 20


async def test_a_slow_close_is_late() -> None:
    async with through(up=Toxic(slow_close_s=0.3)) as (peer, _, _, writer):
        writer.write(b"x")
        writer.write_eof()
        began = now()
        await peer.ended.wait()
        assert peer.ended_at - began >= 0.25 and peer.got == b"x"


async def test_a_timeout_swallows_and_then_closes() -> None:
    async with through(up=Toxic(timeout_s=0.2)) as (peer, _, reader, writer):
        began = now()
        writer.write(b"x")
        assert await reader.read() == b""
        assert now() - began >= 0.15
        await peer.ended.wait()
        assert peer.got == b""


async def test_limited_data_is_passed_to_the_byte_and_then_closed() -> None:
    async with through(up=Toxic(limit_data_bytes=10)) as (peer, _, reader, writer):
        writer.write(b"0123456789abcdef")
        await reader.read()
        await peer.ended.wait()
        assert peer.got == b"0123456789"


async def test_a_reset_is_one_on_both_sides() -> None:
    async with through(up=Toxic(reset_peer_s=0.05)) as (peer, _, reader, writer):
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await peer.ended.wait()
        assert peer.was_reset


async def test_all_are_reset_when_told_to() -> None:
    async with through() as (peer, proxy, reader, writer):
        writer.write(b"x")
        await reader.readexactly(1)
        assert proxy.reset_peers() == 1
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await peer.ended.wait()
        assert peer.was_reset


async def test_out_of_a_black_hole_comes_neither_a_byte_nor_an_end() -> None:
    async with through() as (peer, proxy, reader, writer):
        writer.write(b"x")
        await reader.readexactly(1)
        proxy.poison(up=Toxic(black_hole=True), down=Toxic(black_hole=True))
        writer.write(b"y")
        writer.write_eof()
        await asyncio.sleep(0.2)
        assert peer.got == b"x" and not peer.ended.is_set()


async def test_a_server_that_is_not_there_is_a_connection_that_ends() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    async with Proxy(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b""
            raise ConnectionResetError
        writer.close()
