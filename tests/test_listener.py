"""The second listener: bound early, no say over signals, gone in order."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from voicepipe.errors import EnvironmentFailure, PortInUse

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from voicepipe.listener import Bounds, bind, listening  # noqa: E402 - it needs the extra


async def hello(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_it_serves_while_the_block_runs() -> None:
    """And leaves signals as they were, while it does and after it."""
    bound = bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")
        async with listening(hello, bound, Bounds(8, [].append)):
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == "hello"
            assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        with pytest.raises(httpx.TransportError):
            await client.get(f"http://127.0.0.1:{port}/")
    assert bound.fileno() == -1
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=str(port)):
            bind("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(EnvironmentFailure, match=r"192\.0\.2\.1"):
        bind("192.0.2.1", 0)


# --- bounds


@dataclass
class Door:
    port: int
    refused: list[str] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    some: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, text: str = "") -> asyncio.StreamReader:
        """A connection on which this is sent, and nothing more."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        await self.say(text)
        return reader

    def on_refused(self, reason: str) -> None:
        self.refused.append(reason)
        self.some.set()

    async def first_refusal(self) -> str:
        await self.some.wait()
        return self.refused[0]

    async def say(self, text: str) -> None:
        self.writers[-1].write(text.encode())
        await self.writers[-1].drain()


@asynccontextmanager
async def door(
    app: Any = hello, *, most: int = 8, head_s: float = 0.05, unread_s: float = 5.0
) -> AsyncIterator[Door]:
    bound = bind("127.0.0.1", 0)
    one = Door(bound.getsockname()[1])
    async with asyncio.timeout(20), listening(app, bound, Bounds(most, one.on_refused, head_s, unread_s)):
        try:
            yield one
        finally:
            for writer in one.writers:
                writer.close()


async def told(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and error of what is said last, up to the close."""
    head, _, body = (await reader.read()).rpartition(b"\r\n\r\n")
    status, *headers = head.decode().rpartition("HTTP/1.1 ")[2].split("\r\n")
    return int(status[:3]), dict(line.split(": ") for line in headers), json.loads(body)["error"]


GET = "GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("begun", ["", "GET / HT", GET])
async def test_a_request_that_does_not_come_is_not_waited_for(begun: str) -> None:
    """Not a byte of it, or not its end: told, counted, closed."""
    async with door() as one:
        status, headers, error = await told(await one.call(begun))
        assert (status, headers["Connection"], error["code"]) == (408, "close", "request_timeout")
        assert "within 0.05 s" in error["message"]
        assert one.refused == ["request_timeout"]


async def test_bytes_that_come_one_by_one_do_not_make_the_head_last_longer() -> None:
    """The time runs from the connection on, or from a later request's first byte."""
    async with door(head_s=0.3) as one:
        reader = await one.call(f"{GET}\r\n")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        dripping = asyncio.ensure_future(told(reader))
        sent = 0
        try:
            while not dripping.done():
                await one.say("GET / HTTP/1.1\r\nX: "[sent] if sent < 19 else "x")
                sent += 1
                await asyncio.wait([dripping], timeout=0.02)
        except ConnectionError:
            pass  # it was closed between two bytes
        status, _, error = await dripping
        assert (status, error["code"]) == (408, "request_timeout")
        assert one.refused == ["request_timeout"]


async def test_the_rest_of_a_body_that_nobody_reads_is_not_taken_for_ever() -> None:
    """The answer has been given; byte by byte it would keep the connection open."""
    async with door(head_s=0.1) as one:
        reader = await one.call(f"{GET}Content-Length: 1000\r\n\r\nx")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        await one.say("x")
        await reader.read()
        assert one.refused == ["request_timeout"]


async def test_an_answer_may_take_longer_than_a_head() -> None:
    """Whoever has asked waits for the answer, not for a timer."""

    async def slow(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await go_on.wait()
        await hello(scope, receive, send)

    go_on = asyncio.Event()
    async with door(slow) as one, httpx.AsyncClient() as client:
        asked = asyncio.ensure_future(client.get(f"http://127.0.0.1:{one.port}/", timeout=10))
        reader = await one.call()
        assert (await told(reader))[0] == 408  # a whole head's time has gone by
        go_on.set()
        assert (await asked).text == "hello"
        assert one.refused == ["request_timeout"]


async def test_connections_that_ask_for_nothing_are_bounded_in_number() -> None:
    """One too many is told so, with the time to come back; it makes room at once, and so does whoever leaves."""
    async with door(most=2, head_s=30.0) as one:
        await one.call()
        await one.call()
        status, headers, error = await told(await one.call())
        assert (status, headers["Retry-After"], error["code"]) == (503, "1", "connections")
        assert one.refused == ["connections"]
        one.writers[0].close()
        while b"hello" not in await (await one.call(f"{GET}Connection: close\r\n\r\n")).read():
            pass  # that the first one has gone is not known yet


@pytest.mark.parametrize("closing", ["close", "keep-alive"])
async def test_an_answer_that_is_not_read_keeps_no_connection(closing: str) -> None:
    """More than the system takes: cut and counted, also where the app has long written all of it."""

    async def much(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", closing.encode())]})
        await send({"type": "http.response.body", "body": bytes(1 << 24)})

    async with door(much, unread_s=0.1) as one:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", one.port))
            await loop.sock_sendall(deaf, f"{GET}\r\n".encode())
            assert await one.first_refusal() == "not_reading"
            read = 0
            while piece := await loop.sock_recv(deaf, 1 << 20):
                read += len(piece)
            assert read < 1 << 24


async def test_what_is_no_http_is_told_as_the_rest_is() -> None:
    """JSON, and counted."""
    async with door() as one:
        status, _, error = await told(await one.call("hello, anybody?\r\n\r\n"))
        assert (status, error["code"], one.refused) == (400, "bad_request", ["bad_request"])


async def test_every_answer_has_the_headers_that_keep_a_browser_from_harm() -> None:
    """The app's, and what is said before there is a request; one of its own stays."""

    async def careful(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        own = [(b"content-security-policy", b"default-src 'none'")] if scope["path"] == "/own" else []
        await send({"type": "http.response.start", "status": 404, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    bound = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with httpx.AsyncClient() as client, listening(careful, bound, Bounds(8, [].append)):
        plain, own = await client.get(url), await client.get(f"{url}/own")
        assert plain.headers["x-content-type-options"] == own.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in plain.headers["content-security-policy"]
        assert own.headers.get_list("content-security-policy") == ["default-src 'none'"]
    async with door() as one:
        _, headers, _ = await told(await one.call("no HTTP\r\n\r\n"))
        assert headers["X-Content-Type-Options"] == "nosniff" and "Content-Security-Policy" in headers
