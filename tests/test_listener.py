"""The second listener: bound early, no say over signals, gone in order."""

from __future__ import annotations

import signal
import socket

import pytest

from voicepipe.errors import EnvironmentFailure, PortInUse

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from voicepipe.listener import bind, listening  # noqa: E402 - it needs the extra


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
        async with listening(hello, bound):
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
