"""Clients that stop in the middle of something: half a frame, half a request, a goodbye that is not answered."""

from __future__ import annotations

import asyncio

import pytest

from tests.raw.client import (
    BINARY,
    PING,
    START,
    TEXT,
    Raw,
    frame,
    open_raw,
    raw,
    request,
    say,
    text,
)
from tests.raw.house import NOTICED_S, beside_a_good_client, house, one_turn, shorten, within

HALVES = {
    "half a header": frame(TEXT, b"x" * 300)[:3],
    "half a mask": frame(TEXT, b"x")[:4],
    "half a payload": frame(TEXT, b"x" * 300)[:100],
    "half of a large sound": frame(BINARY, bytes(60_000))[:30_000],
    "half a message": frame(TEXT, b"{", fin=False),
    "nothing": b"",
}


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
async def test_half_a_frame_and_then_silence_is_let_go_by_its_pings(half: bytes) -> None:
    """Of whoever is silent, nothing answers a ping."""
    async with beside_a_good_client() as built, open_raw(built.port) as client:
        client.answers_pings = False
        await client.send(half)
        await client.until_ended()
        assert client.got.took_s < NOTICED_S
        await built.leases_come_to(1)
        assert built.value("client_errors_total", code="silent") == 1


async def test_who_answers_pings_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with beside_a_good_client() as built, open_raw(built.port) as client:
        listening = asyncio.create_task(client.until_ended())
        await asyncio.sleep(1.5)
        assert not listening.done() and built.leases == 2
        await client.send(text(type="session.end"))
        assert (await listening).code == 1000


@pytest.mark.parametrize("size", [0, 1, 10, 60, len(request()) - 1])
async def test_half_a_handshake_and_then_silence_is_let_go(size: int) -> None:
    async with beside_a_good_client() as built, raw(built.port) as client:
        await client.send(request()[:size])
        assert (await client.reader.read()) == b""
        assert built.leases == 1, "no lease before there is a request"


async def test_a_handshake_byte_by_byte_is_one() -> None:
    async with beside_a_good_client() as built, raw(built.port) as client:
        for byte in request():
            await client.send(bytes([byte]))
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        await client.start()


async def test_a_handshake_so_slow_that_its_time_is_up_is_none() -> None:
    async with beside_a_good_client() as built, raw(built.port) as client:
        asked = asyncio.create_task(trickle(client, request()))
        assert (await client.reader.read()) == b""
        asked.cancel()


async def trickle(client: Raw, data: bytes) -> None:
    for byte in data:
        await client.send(bytes([byte]))
        await asyncio.sleep(0.05)


async def test_what_comes_with_the_request_is_not_lost() -> None:
    """A client that does not wait for the upgrade."""
    async with beside_a_good_client() as built, raw(built.port) as client:
        await client.send(request() + frame(TEXT, START) + say("Hello."))
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        assert (await client.until("turn.ended"))["verdict"] == "met"


async def test_no_first_message_is_told_and_closed() -> None:
    async with beside_a_good_client() as built, open_raw(built.port, started=False) as client:
        got = await client.until_ended()
        assert (got.code, got.messages[-1]["code"]) == (4409, "session_limit")


async def test_a_close_that_is_never_answered_is_cut() -> None:
    async with beside_a_good_client() as built, open_raw(built.port) as client:
        await client.send(text(type="session.end"))
        got = await client.until_ended()
        assert got.code == 1000 and got.took_s < NOTICED_S


async def test_a_flood_of_pings_costs_nobody_anything() -> None:
    """Each is answered, or the client is let go; one that reads nothing cannot make the server keep the answers."""
    async with beside_a_good_client() as built, open_raw(built.port, receive_bytes=8_192) as client:
        flood = frame(PING, b"x" * 125) * 500
        peak = 0

        async def send() -> None:
            for _ in range(60):
                await client.send(flood)

        sending = asyncio.create_task(send())
        while not sending.done() and built.leases > 1:
            await asyncio.sleep(0.02)
            peak = max(peak, *(ws.transport.get_write_buffer_size() for ws in built.server._socket_class.everyone))
            async with open_raw(built.port) as other:
                assert await one_turn(other) in ("met", "degraded")
            if peak:
                break
        assert peak < 4_000_000, "the answers pile up"
        client.reset()
        sending.cancel()


# --- TCP


STEPS = ("nothing", "half a request", "a request", "upgraded", "started", "half a frame", "in a reply", "closing")


async def bring_to(client: Raw, step: str) -> None:
    if step == "half a request":
        await client.send(request()[:50])
    if step == "a request":
        await client.send(request())
    if STEPS.index(step) >= STEPS.index("upgraded"):
        await client.shake_hands()
    if STEPS.index(step) >= STEPS.index("started"):
        await client.start()
    match step:
        case "half a frame":
            await client.send(frame(TEXT, b"x" * 200)[:90])
        case "in a reply":
            await client.send(say("Talk to me."))
            while (await client._frame())[0] != BINARY:
                pass
        case "closing":
            await client.send(text(type="session.end"))


@pytest.mark.parametrize("step", STEPS)
async def test_a_reset_in_any_step_gives_the_lease_back(step: str) -> None:
    async with beside_a_good_client() as built:
        async with raw(built.port) as client:
            await bring_to(client, step)
            client.reset()
        await within(lambda: built.server.connections == 1, "the socket is gone")
        await built.leases_come_to(1)


@pytest.mark.parametrize("step", STEPS)
async def test_half_a_close_of_tcp_in_any_step_ends_it(step: str) -> None:
    """A client that sends no more is gone: its session ends."""
    async with beside_a_good_client() as built, raw(built.port) as client:
        await bring_to(client, step)
        client.end()
        async with asyncio.timeout(NOTICED_S):
            await client.reader.read()
        await within(lambda: built.server.connections == 1, "the socket is gone")
        await built.leases_come_to(1)


# --- that these tests find something


async def test_a_lease_that_is_not_given_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voicepipe.metrics.Metrics.lease_returned", lambda self, kind: None)
    monkeypatch.setattr("tests.raw.house.NOTICED_S", 0.5)
    monkeypatch.setattr("tests.raw.house.within.__defaults__", (0.5,))
    with pytest.raises(AssertionError, match="0 leases"):
        async with house() as built, open_raw(built.port) as client:
            client.reset()


async def test_a_server_without_pings_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voicepipe.server._PING_INTERVAL_S", None)
    async with house() as built, open_raw(built.port) as client:
        await client.send(HALVES["half a payload"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                client.answers_pings = False
                await client.until_ended()
        client.reset()


async def test_a_request_without_a_limit_is_found() -> None:
    async with house(handshake_s=60.0) as built, raw(built.port) as client:
        await client.send(request()[:20])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await client.reader.read()
        client.reset()
