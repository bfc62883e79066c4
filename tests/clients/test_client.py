"""The client against a real WebSocket server on the loopback, which follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

import voicepipe_client
from voicepipe import errors
from voicepipe.wire import native
from voicepipe.wire.native import AudioFrame
from voicepipe_client import Timeouts, connect

Script = Callable[[ServerConnection], Awaitable[None]]
Gate = Callable[[ServerConnection, Request], Response | None]

READY = native.SessionReady("s1", "voicepipe.v1", 22_050, 200.0, 150.0)
STAGES = native.Stages(*[native.StageTimes()] * 5)
ENDED = native.TurnEnded(1, "met", 99.0, 9.0, STAGES, native.Speculation(True, 1, 0.0, 0.0), None)


async def tell(ws: ServerConnection, *messages: native.ServerMessage | AudioFrame) -> None:
    for message in messages:
        await ws.send(native.encode_server(message))


async def admit(ws: ServerConnection) -> native.SessionStart:
    start = native.decode_client(await ws.recv())
    assert isinstance(start, native.SessionStart)
    await tell(ws, READY)
    return start


@asynccontextmanager
async def scripted(script: Script, *, gate: Gate | None = None, path: str = "") -> AsyncIterator[str]:
    """The URL of a server that follows `script` once; the script's own failure fails the test."""
    failures: list[BaseException] = []

    async def handle(ws: ServerConnection) -> None:
        try:
            await script(ws)
        except BaseException as failure:
            failures.append(failure)
            raise

    before = asyncio.all_tasks()
    server = await serve(
        handle,
        "127.0.0.1",
        0,
        process_request=gate,
        subprotocols=[Subprotocol("voicepipe.v1")],
        compression=None,
    )
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        server.close()
        await server.wait_closed()
    assert not failures, failures
    leaked = {task for task in asyncio.all_tasks() - before if not task.done()}
    assert not leaked, leaked


async def idle(ws: ServerConnection) -> None:
    await ws.wait_closed()


# --- a session ------------------------------------------------------------------------------------


async def test_a_normal_turn() -> None:
    seen: list[native.ClientMessage | AudioFrame] = []
    turn: list[native.ServerMessage | AudioFrame] = [
        native.SpeechStarted(1),
        native.TranscriptFinal(1, "Hello."),
        native.TurnCommitted(1, 1),
        native.ReplyText(1, 1, "Hi."),
        AudioFrame(1, 0, b"\x01\x00"),
        native.ReplyDone(1, 1, 1),
        ENDED,
    ]

    async def script(ws: ServerConnection) -> None:
        seen.append(await admit(ws))
        assert ws.subprotocol == "voicepipe.v1"
        assert ws.request is not None
        assert ws.request.path == "/v1/voice?budget_ms=150&route=lab"
        assert ws.request.headers["Authorization"] == "Bearer secret"
        assert "Sec-WebSocket-Extensions" not in ws.request.headers
        while not isinstance(seen[-1], native.InputCommit):
            seen.append(native.decode_client(await ws.recv()))
        await tell(ws, *turn)
        while not isinstance(seen[-1], native.SessionEnd):
            seen.append(native.decode_client(await ws.recv()))

    async with (
        scripted(script) as url,
        connect(
            url,
            token="secret",
            budget_ms=150,
            route="lab",
            output_rate=22_050,
            instructions="Be brief.",
            operating_point="safe",
            turn_taking="manual",
        ) as session,
    ):
        assert session.ready == READY
        await session.send_audio(b"\x00\x00" * 320)
        await session.send_audio(b"\x00" * 161)
        await session.send_audio(b"\x00" * 51)
        await session.commit()
        got = []
        async for event in session:
            got.append(event)
            if isinstance(event, native.TurnEnded):
                await session.report_playback(1, 1)
                await session.cancel()
                await session.send_text("Thanks.")
                await session.end()
        assert session.close_code == 1000
        assert session.statistics() == voicepipe_client.SessionStatistics(426, 0, 0)
    assert got == turn
    assert seen == [
        native.SessionStart(
            audio=native.AudioFormat(16_000, 1),
            protocol="voicepipe.v1",
            output_rate=22_050,
            instructions="Be brief.",
            operating_point="safe",
            turn_taking="manual",
        ),
        AudioFrame(0, 0, b"\x00" * 640),
        AudioFrame(0, 320, b"\x00" * 161),
        AudioFrame(0, 400, b"\x00" * 51),
        native.InputCommit(),
        native.Playback(1, 1),
        native.ReplyCancel(),
        native.InputText("Thanks."),
        native.SessionEnd(),
    ]


async def test_long_audio_goes_in_frames_that_fit() -> None:
    frames: list[AudioFrame] = []

    async def script(ws: ServerConnection) -> None:
        assert (await admit(ws)).audio == native.AudioFormat(48_000, 2)
        while sum(len(frame.pcm) for frame in frames) < 200_000:
            frame = native.decode_client(await ws.recv())
            assert isinstance(frame, AudioFrame)
            frames.append(frame)

    async with scripted(script) as url, connect(url, rate=48_000, channels=2) as session:
        await session.send_audio(bytes(200_000))
        async for _ in session:
            pass
    assert [len(frame.pcm) for frame in frames] == [65_528, 65_528, 65_528, 3_416]
    assert [frame.offset_samples for frame in frames] == [0, 16_382, 32_764, 49_146]


async def test_stale_frames_are_dropped_and_counted() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await tell(
            ws,
            native.TurnCommitted(1, 1),
            AudioFrame(1, 0, b"aa"),
            native.ReplyInterrupted(1, 1, 20.0),
            AudioFrame(1, 1, b"bb"),
            native.TurnCommitted(2, 3),
            AudioFrame(2, 0, b"cc"),
            AudioFrame(3, 0, b"dd"),
        )

    async with scripted(script) as url, connect(url) as session:
        audio = [event.pcm async for event in session if isinstance(event, AudioFrame)]
        assert audio == [b"aa", b"dd"]
        assert session.statistics().stale_frames == 2


async def test_messages_of_a_newer_server_are_ignored_and_counted() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await ws.send('{"type": "reply.mood", "mood": "glad"}')
        await ws.send('{"type": "transcript.final", "turn": 1, "text": "x", "confidence": 1}')

    async with scripted(script) as url, connect(url) as session:
        assert [event async for event in session] == [native.TranscriptFinal(1, "x")]
        assert session.statistics().unknown_messages == 1


async def test_a_server_that_breaks_the_dialect() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await ws.send('{"type": "turn.committed", "turn": 1, "epoch": -1}')
        await ws.wait_closed()

    async with scripted(script) as url, connect(url) as session:
        with pytest.raises(errors.BadField, match=r"turn\.committed: epoch"):
            await anext(session)


# --- refusals -------------------------------------------------------------------------------------


def answer(status: int, body: bytes, **headers: str) -> Gate:
    def gate(ws: ServerConnection, request: Request) -> Response:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields["Content-Length"] = str(len(body))
        return Response(status, "No", Headers(fields), body)

    return gate


BODY = json.dumps({"refused": {"reason": "capacity", "retry_after_ms": 1234}}).encode()


@pytest.mark.parametrize(
    ("gate", "reason", "retry_after_ms"),
    [
        (answer(503, BODY, Retry_After="2"), "capacity", 1234),
        (answer(429, BODY, Retry_After="2"), "capacity", 1234),
        (answer(503, b"<html>busy</html>", Retry_After="7"), "unavailable", 7000),
        (answer(503, b"\xff", Retry_After="soon"), "unavailable", 1000),
        (answer(503, b""), "unavailable", 1000),
        (answer(503, b'{"x": ' + b"[" * 60_000), "unavailable", 1000),
    ],
)
async def test_refused_before_the_upgrade(gate: Gate, reason: str, retry_after_ms: int) -> None:
    async with scripted(idle, gate=gate) as url:
        with pytest.raises(errors.Refused) as caught:
            async with connect(url):
                pytest.fail("admitted")
    assert (caught.value.reason, caught.value.retry_after_ms) == (reason, retry_after_ms)


async def test_refused_after_the_upgrade() -> None:
    """At once: the server may have closed before it has read `session.start`."""

    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Refused("capacity", 900))
        await ws.close(1013)

    async with scripted(script) as url:
        with pytest.raises(errors.Refused) as caught:
            async with connect(url):
                pytest.fail("admitted")
    assert (caught.value.reason, caught.value.retry_after_ms) == ("capacity", 900)


async def test_refused_by_close_code_alone() -> None:
    async def script(ws: ServerConnection) -> None:
        await ws.close(1013, "full")

    async with scripted(script) as url:
        with pytest.raises(errors.Refused, match="full"):
            async with connect(url):
                pytest.fail("admitted")


async def test_the_waiting_room() -> None:
    places: list[int] = []

    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Waiting(2), native.Waiting(1))
        await admit(ws)

    async with scripted(script) as url, connect(url, on_waiting=places.append) as session:
        assert session.ready == READY
    assert places == [2, 1]


async def test_a_place_in_line_that_does_not_change_is_waited_in() -> None:
    """As long as the server keeps us, and not only for the time in which a session has to be ready."""

    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Waiting(1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ws.wait_closed()
        await admit(ws)

    async with scripted(script) as url, connect(url, timeouts=Timeouts(ready_s=0.05)) as session:
        assert session.ready == READY


async def test_nobody_is_kept_in_the_waiting_room_for_ever() -> None:
    """News of the place is no reason to wait longer than the limit, and the error says where it was waited."""

    async def script(ws: ServerConnection) -> None:
        for place in range(1000, 0, -1):
            await tell(ws, native.Waiting(place))
            await asyncio.sleep(0)
        await idle(ws)

    async with scripted(script) as url:
        with pytest.raises(errors.ServerUnreachable, match="waiting room"):
            async with connect(url, timeouts=Timeouts(waiting_s=0.05)):
                pytest.fail("admitted")


async def test_a_start_that_the_server_does_not_honour() -> None:
    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Error("bad_start", "no such voice", "output_rate"))
        await ws.close(4400)

    async with scripted(script) as url:
        with pytest.raises(errors.BadStart, match="no such voice") as caught:
            async with connect(url):
                pytest.fail("admitted")
    assert caught.value.field == "output_rate"


async def test_no_voice_endpoint() -> None:
    async with scripted(idle, gate=answer(404, b"")) as url:
        with pytest.raises(errors.ServerUnreachable, match=r"HTTP 404.*/v1/voice"):
            async with connect(url):
                pytest.fail("admitted")


@pytest.mark.parametrize(
    ("token", "says"), [(None, "none was given"), ("", "none was given"), ("a1", "not accepted")]
)
@pytest.mark.parametrize("upgraded", [False, True])
async def test_a_token_that_is_missing_or_wrong(token: str | None, says: str, upgraded: bool) -> None:
    """Which of both, and where to give it; never the token. Told by HTTP, or as to a page."""

    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Refused("unauthorized", 0))
        await ws.close(1008, "unauthorized")

    async with scripted(script, gate=None if upgraded else answer(401, b"")) as url:
        with pytest.raises(errors.Unauthorized, match=f"{says}.*VOICEPIPE_TOKEN.*token=") as caught:
            async with connect(url, token=token):
                pytest.fail("admitted")
    assert (caught.value.field, caught.value.exit_status) == ("token", 2)
    assert ("HTTP 401" in caught.value.message) != upgraded
    assert "a1" not in caught.value.message


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"", "lets no such client in"), (b'{"error": {"message": "not from here"}}', "not from here")],
)
async def test_a_caller_that_is_not_let_in(body: bytes, says: str) -> None:
    """Whatever its token: it is not asked for another one."""
    async with scripted(idle, gate=answer(403, body)) as url:
        with pytest.raises(errors.Forbidden, match=f"HTTP 403: .*{says}") as caught:
            async with connect(url, token="a1"):
                pytest.fail("admitted")
    assert caught.value.exit_status == 2 and "VOICEPIPE_TOKEN" not in caught.value.message


async def test_an_origin_that_is_not_allowed_is_told_after_the_upgrade_too() -> None:
    async def script(ws: ServerConnection) -> None:
        await tell(ws, native.Refused("origin_not_allowed", 0))
        await ws.close(1008, "origin_not_allowed")

    async with scripted(script) as url:
        with pytest.raises(errors.Forbidden, match="Origin"):
            async with connect(url):
                pytest.fail("admitted")


COMPLAINT = b'{"error": {"message": "budget_ms must be\\u001b[31m a number", "field": "budget_ms"}}'


async def test_a_request_that_the_server_cannot_accept_is_wrong_usage() -> None:
    """Its own reason and the field; nothing of it can steer a terminal."""
    async with scripted(idle, gate=answer(400, COMPLAINT)) as url:
        with pytest.raises(errors.UsageError, match=r"HTTP 400: budget_ms must be \[31m a number") as caught:
            async with connect(url):
                pytest.fail("admitted")
    assert (caught.value.field, caught.value.exit_status) == ("budget_ms", 2)


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (500, b'{"error": {"message": "out of order"}}', "HTTP 500: out of order"),
        (200, b"<html>", "HTTP 200: expected a WebSocket"),
        (418, b'{"error": "tea"}', "HTTP 418: expected a WebSocket"),
    ],
)
async def test_any_other_answer_is_told_with_its_reason(status: int, body: bytes, says: str) -> None:
    """Where it is one of ours."""
    async with scripted(idle, gate=answer(status, body)) as url:
        with pytest.raises(errors.ServerUnreachable, match=says):
            async with connect(url):
                pytest.fail("admitted")


async def test_no_error_shows_the_password(unused_tcp_port: int) -> None:
    """Nobody there, and somebody who says no."""
    with pytest.raises(errors.ServerUnreachable, match=r"//me:\*\*\*@127"):
        async with connect(f"ws://me:secret@127.0.0.1:{unused_tcp_port}"):
            pytest.fail("connected")
    async with scripted(idle, gate=answer(404, b"")) as url:
        with pytest.raises(errors.ServerUnreachable, match=r"//me:\*\*\*@127"):
            async with connect(url.replace("//", "//me:secret@")):
                pytest.fail("admitted")


# --- nobody there, or no longer -------------------------------------------------------------------


async def test_nobody_there(unused_tcp_port: int) -> None:
    with pytest.raises(errors.ServerUnreachable, match="voicepipe serve"):
        async with connect(f"ws://127.0.0.1:{unused_tcp_port}"):
            pytest.fail("connected")


@asynccontextmanager
async def no_websocket(greeting: bytes) -> AsyncIterator[str]:
    """The URL of a TCP server that says `greeting` and then listens until the client goes away."""
    done = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        done.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await done.wait()


async def test_something_else_there() -> None:
    async with no_websocket(b"220 mail ready\r\n") as url:
        with pytest.raises(errors.ServerUnreachable, match="no voicepipe server"):
            async with connect(url):
                pytest.fail("connected")


async def test_a_server_that_never_answers_the_handshake() -> None:
    async with no_websocket(b"") as url:
        with pytest.raises(errors.ServerUnreachable, match="no answer within"):
            async with connect(url, timeouts=Timeouts(open_s=0.01)):
                pytest.fail("connected")


async def test_a_server_that_never_becomes_ready() -> None:
    async with scripted(idle) as url:
        with pytest.raises(errors.ServerUnreachable, match="overloaded"):
            async with connect(url, timeouts=Timeouts(ready_s=0.01)):
                pytest.fail("admitted")


async def test_a_close_in_the_middle_names_code_and_reason() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await tell(ws, native.TurnCommitted(1, 1))
        await ws.close(1012, "drain")

    async with scripted(script) as url, connect(url) as session:
        assert await anext(session) == native.TurnCommitted(1, 1)
        with pytest.raises(errors.ConnectionLost, match="1012 drain"):
            await anext(session)
        with pytest.raises(errors.ConnectionLost, match="1012 drain"):
            await session.send_audio(bytes(640))
        assert session.close_code == 1012


@pytest.mark.parametrize(("code", "drained"), [(1012, True), (1011, False)])
async def test_an_announced_restart_is_an_error_of_its_own(code: int, drained: bool) -> None:
    """`draining`, then 1012; with another code something went wrong on the way."""

    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await tell(ws, native.Draining(5000.0))
        await ws.close(code, "the server goes away")

    async with scripted(script) as url, connect(url) as session:
        assert await anext(session) == native.Draining(5000.0)
        with pytest.raises(errors.ConnectionLost, match=str(code)) as caught:
            await anext(session)
        assert isinstance(caught.value, errors.ServerDrained) is drained


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (AudioFrame(0, 0, bytes(65_529)), "binary frame"),
        (native.InputText("x" * 65_536), "text frame"),
    ],
)
async def test_a_frame_beyond_the_limit_is_not_sent(message: native.ClientMessage, field: str) -> None:
    """It would cost the session; the error names the limit, and the session goes on."""

    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        assert native.decode_client(await ws.recv()) == native.InputCommit()

    async with scripted(script) as url, connect(url) as session:
        with pytest.raises(errors.TooLarge, match="65536") as caught:
            await session.send(message)
        await session.commit()
    assert caught.value.field == field


@pytest.mark.parametrize("said", [True, False])
async def test_a_close_for_size_is_an_error_of_its_own(said: bool) -> None:
    """With what the server said of it; and with the limit where it, or a proxy, just closed."""

    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        if said:
            await tell(ws, native.Error("too_large", "a frame may have 4096 bytes, not 5000", "frame"))
        await ws.close(1009, "too big")

    async with scripted(script) as url, connect(url) as session:
        if said:
            assert isinstance(await anext(session), native.Error)
        for again in (lambda: anext(session), lambda: session.send_audio(bytes(640))):
            with pytest.raises(errors.TooLarge, match="4096" if said else "too big.*65536") as caught:
                await again()
            assert caught.value.field == "frame"
        assert session.close_code == 1009


async def test_a_server_that_sends_too_much_at_once() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await ws.send(bytes(65_537))
        await ws.wait_closed()

    async with scripted(script) as url, connect(url) as session:
        with pytest.raises(errors.TooLarge, match=r"server sent.*65537 bytes exceeds limit of 65536"):
            await anext(session)


async def test_a_start_beyond_the_limit_of_what_answers() -> None:
    """Before there is a session, too."""

    async def script(ws: ServerConnection) -> None:
        await ws.close(1009)

    async with scripted(script) as url:
        with pytest.raises(errors.TooLarge, match="65536"):
            async with connect(url):
                pytest.fail("admitted")


async def test_a_connection_that_just_vanishes() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        ws.transport.abort()

    async with scripted(script) as url, connect(url) as session:
        with pytest.raises(errors.ConnectionLost, match="1006"):
            await anext(session)
        assert session.close_code == 1006


async def test_after_end_any_close_will_do() -> None:
    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await ws.recv()
        ws.transport.abort()

    async with scripted(script) as url, connect(url) as session:
        await session.end()
        assert [event async for event in session] == []


async def test_cancelling_a_wait_loses_nothing() -> None:
    go_on = asyncio.Event()

    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await go_on.wait()
        await tell(ws, native.TurnCommitted(1, 1))

    async with scripted(script) as url, connect(url) as session:
        waiting = asyncio.ensure_future(anext(session))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        assert await anext(session) == native.TurnCommitted(1, 1)


async def test_cancelling_the_block_closes_the_connection() -> None:
    closed = asyncio.Event()
    ready = asyncio.Event()

    async def script(ws: ServerConnection) -> None:
        await admit(ws)
        await ws.wait_closed()
        closed.set()

    async def use(url: str) -> None:
        async with connect(url) as session:
            ready.set()
            async for _ in session:
                pass

    async with scripted(script) as url:
        user = asyncio.ensure_future(use(url))
        await ready.wait()
        user.cancel()
        with pytest.raises(asyncio.CancelledError):
            await user
        await closed.wait()


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "ftp://host", "ws://", "ws://h:99999", "ws://[:1"])
async def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        async with connect(url):
            pytest.fail("connected")
    assert caught.value.field == "url"


async def test_http_urls_and_paths_are_taken_as_they_are() -> None:
    paths: list[str] = []

    async def script(ws: ServerConnection) -> None:
        assert ws.request is not None
        paths.append(ws.request.path)
        await admit(ws)

    async with (
        scripted(script, path="/voice/x?a=1") as url,
        connect(url.replace("ws://", "http://"), budget_ms=90),
    ):
        pass
    assert paths == ["/voice/x?a=1&budget_ms=90"]


async def test_a_bad_argument_is_told_before_anything_is_opened() -> None:
    with pytest.raises(errors.UsageError, match="8000") as caught:
        async with connect("ws://127.0.0.1:1", rate=4000):
            pytest.fail("connected")
    assert caught.value.field == "audio.rate"


def test_exports() -> None:
    assert voicepipe_client.__all__ == sorted(voicepipe_client.__all__)
    for name in voicepipe_client.__all__:
        assert hasattr(voicepipe_client, name)
