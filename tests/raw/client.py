"""A websocket client without a library: it sends any bytes, and reads what the server sends as frames."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
START = b'{"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}'
NO_WAIT = struct.pack("ii", 1, 0)
"""SO_LINGER: what is closed is reset."""


def request(path: str = "/v1/voice") -> bytes:
    lines = (
        f"GET {path} HTTP/1.1",
        "Host: here",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol: voicepipe.v1",
    )
    return "\r\n".join((*lines, "", "")).encode()


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    masked: bool = True,
    size: int | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """`size`: what the header claims; `length_bytes`: 0, 2 or 8, where it is not the shortest that holds it. The
    mask is of zeros, so that the payload stands there as it is."""
    size = len(payload) if size is None else size
    if length_bytes is None:
        length_bytes = 0 if size < 126 else 2 if size < 65_536 else 8
    mark = {0: size, 2: 126, 8: 127}[length_bytes]
    head = bytes([fin << 7 | rsv << 4 | opcode, masked << 7 | mark])
    length = size.to_bytes(length_bytes, "big") if length_bytes else b""
    return head + length + (bytes(4) if masked else b"") + payload


def close(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack(">H", code) + reason)


def text(**message: Any) -> bytes:
    return frame(TEXT, json.dumps(message).encode())


def say(words: str) -> bytes:
    """Typed: it makes a turn."""
    return text(type="input.text", text=words)


@dataclass(slots=True)
class Ended:
    """How the server let go."""

    code: int | None = None
    """Of its close frame; None where it sent none."""
    reset: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    pongs: list[bytes] = field(default_factory=list)
    took_s: float = 0.0

    def kinds(self) -> list[str]:
        return [message["type"] for message in self.messages]


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answers_pings = True
        """While it reads."""
        self.reader = reader
        self.writer = writer
        self.got = Ended()

    async def shake_hands(self) -> None:
        await self.send(request())
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head

    async def start(self) -> None:
        await self.send(frame(TEXT, START))
        await self.until("session.ready")

    async def send(self, data: bytes) -> None:
        """What is sent to a socket that the server has closed meanwhile is lost, as it is for anybody."""
        self.writer.write(data)
        try:
            await self.writer.drain()
        except ConnectionError:
            self.got.reset = True

    def end(self) -> None:
        """No more is sent; what comes is still read."""
        self.writer.write_eof()

    def reset(self) -> None:
        """RST, and gone."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)
        self.writer.transport.abort()

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of that type."""
        while True:
            opcode, _ = await self._frame()
            if opcode == TEXT and self.got.messages[-1]["type"] == kind:
                return self.got.messages[-1]
            assert opcode is not None and opcode != CLOSE, f"it ended before {kind}: {self.got}"

    async def until_ended(self) -> Ended:
        """To the end of what the server sends. A close of the server is not answered."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while (await self._frame())[0] is not None:
            pass
        self.got.took_s = clock() - began
        return self.got

    async def _frame(self) -> tuple[int | None, bytes]:
        try:
            first, second = await self.reader.readexactly(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            payload = await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.got.reset |= isinstance(error, ConnectionError)
            return None, b""
        assert first & 0x80 and not second & 0x80, "a server sends whole frames, and no masks"
        match first & 0x0F:
            case 1:
                self.got.messages.append(json.loads(payload))
            case 8:
                self.got.code = int.from_bytes(payload[:2], "big") if payload else 1005
            case 9 if self.answers_pings:
                await self.send(frame(PONG, payload))
            case 10:
                self.got.pongs.append(payload)
        return first & 0x0F, payload


@asynccontextmanager
async def raw(port: int, *, receive_bytes: int | None = None) -> AsyncIterator[Raw]:
    """A socket; nothing has been sent."""
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def open_raw(port: int, *, started: bool = True, receive_bytes: int | None = None) -> AsyncIterator[Raw]:
    """Behind the upgrade, and with a session."""
    async with raw(port, receive_bytes=receive_bytes) as client:
        await client.shake_hands()
        if started:
            await client.start()
        yield client
