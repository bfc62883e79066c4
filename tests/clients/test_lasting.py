"""A session that comes back, against a real WebSocket server whose connections follow one script each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from voicepipe import errors
from voicepipe.wire import native
from voicepipe.wire.native import AudioFrame
from voicepipe_client import Backoff, Disconnected, LastingSession, Reconnected, stay_connected

Script = Callable[["Visit"], Awaitable[None]]
QUICK = Backoff(first_s=0.001, cap_s=0.002)
GONE = 1006


class Visit:
    """One connection, from the server's side."""

    def __init__(self, ws: ServerConnection) -> None:
        self.ws = ws

    async def start(self) -> native.SessionStart:
        message = await self.recv()
        assert isinstance(message, native.SessionStart)
        return message

    async def recv(self) -> Any:
        return native.decode_client(await self.ws.recv())

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            await self.ws.send(native.encode_server(message))

    async def admit(self, token: str = "t1", *, resumed: bool = False, rate: int = 22_050) -> native.SessionStart:
        start = await self.start()
        ready = native.SessionReady("s", native.PROTOCOL, rate, 200.0, 150.0, resume=token, resumed=resumed)
        await self.tell(ready)
        return start

    async def close(self, code: int) -> None:
        if code == GONE:
            self.ws.transport.abort()
        else:
            await self.ws.close(code, "")


@asynccontextmanager
async def scripted(*scripts: Script, refusals: int = 0) -> AsyncIterator[str]:
    """The n-th connection follows the n-th script. The first `refusals` that come back are refused."""
    failures: list[BaseException] = []
    coming = iter(scripts)
    left = [refusals]
    seen = [0]

    async def handle(ws: ServerConnection) -> None:
        try:
            await next(coming)(Visit(ws))
        except BaseException as failure:
            failures.append(failure)
            raise

    def gate(ws: ServerConnection, request: Request) -> Response | None:
        seen[0] += 1
        if seen[0] == 1 or not left[0]:
            return None
        left[0] -= 1
        body = '{"refused": {"reason": "warming_up", "retry_after_ms": 1}}'
        return ws.respond(HTTPStatus.SERVICE_UNAVAILABLE, body)

    protocols = [Subprotocol(native.PROTOCOL)]
    server = await serve(handle, "127.0.0.1", 0, process_request=gate, subprotocols=protocols, compression=None)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
    assert not failures, failures


def connected(url: str, **more: Any) -> Any:
    return stay_connected(url, chance=lambda: 0.5, **{"backoff": QUICK, **more})


async def the_rest(session: LastingSession) -> list[Any]:
    return [event async for event in session]


def leaves(code: int, token: str = "t1") -> Script:
    async def script(visit: Visit) -> None:
        await visit.admit(token)
        await visit.close(code)

    return script


@pytest.mark.parametrize("code", [GONE, 1001, 1011, 1012])
async def test_it_comes_back_with_its_token_and_the_caller_is_told(code: int) -> None:
    """Two events, in order; then the conversation goes on."""
    starts: list[native.SessionStart] = []

    async def again(visit: Visit) -> None:
        starts.append(await visit.admit("t2", resumed=True))
        await visit.tell(native.TranscriptFinal(5, "back"))
        await visit.close(1000)

    async with scripted(leaves(code), again) as url, connected(url) as session:
        down, up, final = await the_rest(session)
        assert isinstance(down, Disconnected) and down.close_code == code
        assert isinstance(up, Reconnected) and up.resumed and up.tries == 1 and up.away_s >= 0
        assert final == native.TranscriptFinal(5, "back")
    assert starts[0].resume == "t1"


async def test_the_newest_token_is_shown() -> None:
    """Each is good once."""
    shown: list[object] = []

    def visits(token: str, code: int) -> Script:
        async def script(visit: Visit) -> None:
            shown.append((await visit.admit(token, resumed=True)).resume)
            await visit.close(code)

        return script

    async with (
        scripted(visits("t1", GONE), visits("t2", GONE), visits("t3", 1000)) as url,
        connected(url) as session,
    ):
        await the_rest(session)
    assert shown == [True, "t1", "t2"]


async def test_where_the_conversation_is_forgotten_it_begins_afresh_and_says_so() -> None:
    """On the same connection."""
    starts: list[object] = []

    async def again(visit: Visit) -> None:
        starts.append((await visit.start()).resume)
        await visit.tell(native.Error("resume_unknown", "nothing is kept", "resume"))
        starts.append((await visit.admit("t9")).resume)
        await visit.close(1000)

    async with scripted(leaves(GONE), again) as url, connected(url) as session:
        events = await the_rest(session)
    assert starts == ["t1", True]
    assert isinstance(events[1], Reconnected) and not events[1].resumed


@pytest.mark.parametrize("code", [1002, 1003, 1008, 4400, 4409, 4410])
async def test_it_does_not_come_back_where_it_may_not(code: int) -> None:
    async with scripted(leaves(code)) as url, connected(url) as session:
        with pytest.raises(errors.ConnectionLost, match=str(code)):
            await the_rest(session)


async def test_it_does_not_come_back_from_a_good_end() -> None:
    async with scripted(leaves(1000)) as url, connected(url) as session:
        assert await the_rest(session) == []


async def test_after_five_tries_what_it_was_lost_by_is_raised() -> None:
    """And whoever waits with a message is told, too."""
    async with scripted(leaves(1012)) as url, connected(url) as session:
        assert isinstance(await anext(session), Disconnected)
        waiting = asyncio.create_task(session.send_text("Hello."))
        session._destination = session._destination.__class__("ws://127.0.0.1:9", session._destination.start)
        with pytest.raises(errors.ConnectionLost, match="1012"):
            await anext(session)
        with pytest.raises(errors.ConnectionLost, match="1012"):
            await waiting
        with pytest.raises(errors.ConnectionLost):
            await session.send_text("Hello?")


async def test_a_server_that_always_lets_go_again_is_not_called_for_ever() -> None:
    always = [leaves(GONE)] * 9
    async with scripted(*always) as url, connected(url) as session:
        seen: list[Any] = []
        with pytest.raises(errors.ConnectionLost):
            while True:
                seen.append(await anext(session))
    assert [type(event) for event in seen] == [Disconnected, Reconnected] * 5 + [Disconnected]


async def test_a_refusal_is_waited_out() -> None:
    """More of them than there are tries: the server is there, and says when."""

    async def again(visit: Visit) -> None:
        await visit.admit("t2", resumed=True)
        await visit.close(1000)

    async with scripted(leaves(GONE), again, refusals=8) as url, connected(url) as session:
        _, up = await the_rest(session)
        assert isinstance(up, Reconnected) and up.tries == 9


async def test_a_token_that_is_not_accepted_any_more_ends_it() -> None:
    """It would not be accepted the next time either."""

    async def again(visit: Visit) -> None:
        await visit.start()
        await visit.tell(native.Refused("unauthorized", 0))
        await visit.close(1008)

    async with scripted(leaves(GONE), again) as url, connected(url) as session:
        assert isinstance(await anext(session), Disconnected)
        with pytest.raises(errors.Unauthorized):
            await anext(session)


async def test_what_is_of_the_moment_is_left_out_and_the_rest_waits() -> None:
    """Sound and playback reports of a turn that is over concern nobody; a typed question does. Settings that had
    been changed are told the new session."""
    got: list[Any] = []
    update = native.SessionUpdate(instructions="Be brief.")

    async def first(visit: Visit) -> None:
        await visit.admit()
        assert await visit.recv() == update
        await visit.close(GONE)

    async def again(visit: Visit) -> None:
        await visit.admit("t2", resumed=True)
        got.extend([await visit.recv() for _ in range(3)])
        await visit.close(1000)

    async with scripted(first, again) as url, connected(url) as session:
        await session.send(update)
        assert isinstance(await anext(session), Disconnected)
        await session.send_audio(bytes(640))
        await session.report_playback(1, 100)
        await session.commit()
        question = asyncio.create_task(session.send_text("Are you there?"))
        assert isinstance(await anext(session), Reconnected)
        await question
        await session.send_audio(bytes(320))
        assert await the_rest(session) == []
        assert session.left_out_samples == 320
        assert session.statistics().sent_samples == 160
    assert got == [update, native.InputText("Are you there?"), AudioFrame(0, 0, bytes(320))]


async def test_sound_goes_on_at_the_rate_at_which_it_began() -> None:
    """Also where the server has another voice by then."""
    starts: list[native.SessionStart] = []

    async def again(visit: Visit) -> None:
        starts.append(await visit.admit("t2", resumed=True))
        await visit.close(1000)

    async with scripted(leaves(GONE), again) as url, connected(url) as session:
        await the_rest(session)
    assert starts[0].output_rate == 22_050


async def test_ending_while_there_is_no_connection_ends_it() -> None:
    """Not in good order: what was going on was lost."""
    async with scripted(leaves(GONE)) as url, connected(url) as session:
        assert isinstance(await anext(session), Disconnected)
        await session.end()
        with pytest.raises(errors.ConnectionLost, match="1006"):
            await the_rest(session)


async def test_leaving_the_block_while_it_tries_ends_at_once() -> None:
    patient = Backoff(first_s=60.0, cap_s=60.0)
    async with scripted(leaves(GONE)) as url, connected(url, backoff=patient) as session:
        assert isinstance(await anext(session), Disconnected)
        coming = asyncio.create_task(anext(session))
        waiting = asyncio.create_task(session.send_text("Hello."))
        await asyncio.sleep(0)
        coming.cancel()
        await asyncio.wait([coming])
        await session.close()
        with pytest.raises(errors.ConnectionLost):
            await waiting


async def test_no_token_is_shown_by_what_holds_it() -> None:
    """Neither the bearer token nor that of the session."""

    async def first(visit: Visit) -> None:
        await visit.admit("resume-s3cret")
        await visit.close(1000)

    async with scripted(first) as url, connected(url, wishes={"token": "bearer-s3cret"}) as session:
        await the_rest(session)
        assert "s3cret" not in f"{session!r} {session._destination!r}"
