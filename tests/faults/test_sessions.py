"""Real sessions through the proxy: a conversation holds where it can, and what cannot hold gives its lease back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.faults.proxy import Proxy, Toxic
from tests.raw.client import BINARY, Raw, frame, open_raw, raw, say
from tests.raw.house import IN_TIME, NOTICED_S, House, beside_a_good_client, house, one_turn, shorten, within
from tests.raw.test_silence import STEPS, bring_to

LONG = "One two three four five six seven eight nine ten. " * 6


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@asynccontextmanager
async def proxied(**toxics: Toxic) -> AsyncIterator[tuple[House, Proxy]]:
    async with beside_a_good_client() as built, Proxy(built.port, **toxics) as proxy:  # type: ignore[arg-type]
        yield built, proxy


SLOW = Toxic(latency_s=0.1, jitter_s=0.04)
WORSE = Toxic(latency_s=0.1, jitter_s=0.04, slice_bytes=40)


@pytest.mark.parametrize("toxic", [SLOW, WORSE, Toxic(slice_bytes=3)], ids=["late", "late and sliced", "sliced"])
async def test_a_conversation_holds(toxic: Toxic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three turns, each answered; a reply's sound comes whole and in order."""
    monkeypatch.setattr("voicepipe.server._PING_TIMEOUT_S", 5.0)
    async with proxied(up=toxic, down=toxic) as (_built, proxy), open_raw(proxy.port) as client:
        for _ in range(3):
            assert await one_turn(client) in IN_TIME
        done = [message for message in client.got.messages if message["type"] == "reply.done"]
        assert len(done) == 3 and all(message["samples"] > 0 for message in done)
        assert await heard(client) > 0


async def heard(client: Raw) -> int:
    """Samples of one more reply, which follow one another without a gap."""
    await client.send(say("And now?"))
    position = 0
    while True:
        opcode, payload = await client._frame()
        if opcode == BINARY:
            assert int.from_bytes(payload[4:8], "big") == position
            position += (len(payload) - 8) // 2
        elif client.got.messages[-1]["type"] == "reply.done":
            assert client.got.messages[-1]["samples"] == position
            return position


async def test_a_half_open_connection_gives_its_lease_back_within_ping_and_timeout() -> None:
    """S152: the peer loses power. Nothing arrives, and nothing says so."""
    async with proxied() as (built, proxy), open_raw(proxy.port):
        await built.leases_come_to(2)
        began = asyncio.get_running_loop().time()
        proxy.poison(up=Toxic(black_hole=True), down=Toxic(black_hole=True))
        await built.leases_come_to(1)
        assert asyncio.get_running_loop().time() - began < NOTICED_S


async def test_a_client_that_hears_nothing_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way down is stuck, in the middle of a reply: a slow reader to the server, whatever its pongs."""
    async with (
        house(reply=LONG, send_timeout_s=0.5) as built,
        Proxy(built.port) as proxy,
        open_raw(proxy.port, receive_bytes=8_192) as client,
    ):
        await client.send(say("Tell me."))
        while (await client._frame())[0] != BINARY:
            pass
        proxy.poison(down=Toxic(black_hole=True))
        await built.leases_come_to(0)


@pytest.mark.parametrize("step", STEPS)
async def test_a_reset_in_any_step_gives_the_lease_back(step: str) -> None:
    async with proxied() as (built, proxy), raw(proxy.port) as client:
        await bring_to(client, step)
        await within(lambda: bool(proxy.links), "it is connected")
        proxy.reset_peers()
        await built.leases_come_to(1)
        await within(lambda: built.server.connections == 1, "the socket is gone")


@pytest.mark.parametrize("size", [20, 150, 400, 1_000])
async def test_a_connection_that_is_cut_after_some_bytes_gives_its_lease_back(size: int) -> None:
    async with proxied(up=Toxic(limit_data_bytes=size)) as (built, proxy), raw(proxy.port) as client:
        for step in ("started", "in a reply"):
            try:
                await bring_to(client, step)
            except (AssertionError, asyncio.IncompleteReadError, ConnectionError):
                break
            client.got.messages.clear()
        await client.send(frame(BINARY, bytes(1_008)))
        await client.until_ended()
        await built.leases_come_to(1)


async def test_an_end_that_comes_late_is_one() -> None:
    async with proxied(up=Toxic(slow_close_s=0.3)) as (built, proxy), open_raw(proxy.port) as client:
        await built.leases_come_to(2)
        client.end()
        await built.leases_come_to(1)


async def test_a_stream_that_is_swallowed_and_then_closed_ends() -> None:
    async with proxied() as (built, proxy), open_raw(proxy.port) as client:
        proxy.poison(up=Toxic(timeout_s=0.3))
        await client.send(say("Hello?"))
        await client.until_ended()
        await built.leases_come_to(1)


async def test_a_thin_line_carries_speech() -> None:
    """24 kHz at 16 bits are 48,000 bytes a second."""
    async with proxied(down=Toxic(bandwidth_bytes_s=80_000)) as (_built, proxy), open_raw(proxy.port) as client:
        assert await one_turn(client) in IN_TIME


async def test_a_half_open_connection_that_is_kept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without pings: the lease stays away."""
    monkeypatch.setattr("voicepipe.server._PING_INTERVAL_S", None)
    async with house() as built, Proxy(built.port) as proxy, open_raw(proxy.port):
        await built.leases_come_to(1)
        proxy.poison(up=Toxic(black_hole=True), down=Toxic(black_hole=True))
        with pytest.raises(AssertionError, match="0 leases"):
            await within(lambda: built.leases == 0, "0 leases", 1.5)
        proxy.reset_peers()
