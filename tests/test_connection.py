"""The in-memory pair keeps the contract of a connection: order, bounds, and one end for both."""

from __future__ import annotations

import asyncio

import pytest

from tests import virtual
from voicepipe.connection import Connection, ConnectionClosed, MemoryConnection


def test_messages_arrive_in_order_and_whole_both_ways() -> None:
    """Text stays text, bytes stay bytes."""

    async def main() -> None:
        server, client = MemoryConnection.pair()
        await client.send("one")
        await client.send(b"two")
        await server.send("three")
        assert [await server.recv(), await server.recv(), await client.recv()] == ["one", b"two", "three"]

    virtual.run(main())


def test_an_end_is_a_connection() -> None:
    """With the request's query, no headers and an address for the logs."""

    async def main() -> None:
        server: Connection = MemoryConnection.pair(query={"budget_ms": "300"})[0]
        assert dict(server.query) == {"budget_ms": "300"}
        assert dict(server.headers) == {}
        assert server.peer == "memory"

    virtual.run(main())


def test_each_direction_holds_so_many_messages_and_no_more() -> None:
    """A sender waits for its reader."""

    async def main() -> None:
        server, client = MemoryConnection.pair(capacity=2)
        await server.send("1")
        await server.send("2")
        third = asyncio.create_task(server.send("3"))
        await asyncio.sleep(5)
        assert not third.done()
        assert await client.recv() == "1"
        await third

    virtual.run(main())


@pytest.mark.parametrize("closer", [0, 1])
def test_a_close_ends_both_ends_with_its_code(closer: int) -> None:
    """Whoever closes: both learn it, from `recv` and from `send`, again and again."""

    async def main() -> None:
        ends = MemoryConnection.pair()
        await ends[closer].close(4409, "idle")
        for end in ends:
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match="closed: 4409 idle") as caught:
                    await end.recv()
                assert (caught.value.code, caught.value.reason) == (4409, "idle")
                with pytest.raises(ConnectionClosed):
                    await end.send("x")

    virtual.run(main())


def test_closing_twice_keeps_the_first_code() -> None:
    """Idempotent, from either end."""

    async def main() -> None:
        server, client = MemoryConnection.pair()
        await server.close(1012, "drain")
        await server.close(1000)
        await client.close(1001)
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()
        assert caught.value.code == 1012

    virtual.run(main())


def test_what_was_sent_before_the_close_is_still_received() -> None:
    """The end comes in its place in the order."""

    async def main() -> None:
        server, client = MemoryConnection.pair()
        await server.send("last words")
        await server.close()
        assert await client.recv() == "last words"
        with pytest.raises(ConnectionClosed):
            await client.recv()

    virtual.run(main())


def test_a_close_wakes_a_waiting_reader() -> None:
    """On either end."""

    async def main() -> None:
        server, client = MemoryConnection.pair()
        waiting = [asyncio.create_task(end.recv()) for end in (server, client)]
        await asyncio.sleep(0)
        await client.close(1006)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionClosed] * 2

    virtual.run(main())


@pytest.mark.parametrize("closer", [0, 1])
def test_a_close_wakes_a_sender_that_waits_for_room(closer: int) -> None:
    """Nobody reads any more: it is told, and does not wait for ever."""

    async def main() -> None:
        ends = MemoryConnection.pair(capacity=1)
        await ends[0].send("1")
        stuck = asyncio.create_task(ends[0].send("2"))
        await asyncio.sleep(0)
        await ends[closer].close(1006)
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(5):
                await stuck

    virtual.run(main())


def test_a_cancelled_receive_loses_nothing() -> None:
    """The next one gets the message."""

    async def main() -> None:
        server, client = MemoryConnection.pair()
        waiting = asyncio.create_task(server.recv())
        await asyncio.sleep(0)
        await client.send("kept")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await server.recv() == "kept"

    virtual.run(main())


@pytest.mark.parametrize(
    ("code", "reason", "text"), [(1006, "", "closed: 1006"), (4400, "bad_json", "closed: 4400 bad_json")]
)
def test_a_close_reads_well_in_a_log(code: int, reason: str, text: str) -> None:
    """Code, and the reason if there is one."""
    assert str(ConnectionClosed(code, reason)) == text


async def test_both_ends_of_a_pair_know_what_was_asked_for() -> None:
    """The path says which dialect is spoken."""
    ours, theirs = MemoryConnection.pair(path="/v1/realtime", query={"model": "x"}, headers={"openai-beta": "y"})
    for end in (ours, theirs):
        assert (end.path, end.query, end.headers) == ("/v1/realtime", {"model": "x"}, {"openai-beta": "y"})
    assert MemoryConnection.pair()[0].path == "/v1/voice"
