"""Malformed frames, ten thousand of them and more: each is taken, or answered with a typed error.

By the dialect alone; by whole sessions; and by a few on a real socket. A session lives on, or is closed with a code
that is written down, behind the error that says why.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import get_args

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed as WebsocketClosed
from websockets.typing import Subprotocol

from tests.driving import Caller, call
from tests.realtime_server import TOKEN, server
from tests.wire.garbage import CALLS, FIRST, FRAMES
from voicepipe.errors import ClientError
from voicepipe.wire import messages as m
from voicepipe.wire.native import NativeDialect, decode_server

WANTED = 10_000
CODES = {error.code: error.close_code for error in ClientError.__subclasses__()}
GOOD = 1000
GONE = 1006

generated = settings(deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def test_every_generated_frame_is_a_message_or_a_typed_error() -> None:
    """And the error can be told."""
    seen = fatal = 0
    dialect = NativeDialect()

    @settings(generated, max_examples=650)
    @given(st.lists(FRAMES, min_size=16, max_size=20))
    def run(frames: list[str | bytes]) -> None:
        nonlocal seen, fatal
        for frame in frames:
            seen += 1
            try:
                (message,) = dialect.receive(frame)
            except ClientError as error:
                fatal += dialect.is_fatal(error)
                (told,) = (decode_server(one) for one in dialect.fault(error))
                assert isinstance(told, m.Error) and told.code in CODES and told.message
            else:
                assert isinstance(message, (*get_args(m.ClientMessage), m.AudioFrame))

    run()
    assert seen >= WANTED and fatal > 100


def test_sessions_live_on_or_end_with_a_code_that_is_written_down() -> None:
    """Whatever comes first, and in whatever order. Who lives on answers."""
    seen = lived = ended = 0

    @settings(generated, max_examples=150)
    @given(FIRST, CALLS)
    def run(first: str, frames: list[str | bytes]) -> None:
        nonlocal lived, ended

        async def script(caller: Caller) -> None:
            nonlocal seen
            for frame in (first, *frames):
                await caller.send_raw(frame)
                seen += 1
                await caller.wait(0.005)
            await caller.wait(1.0)
            await caller.send(m.SessionUpdate())
            await caller.send(m.InputText("Are you there?"))
            await caller.wait(8.0)

        caller = call(script)
        assert caller.closed is not None
        if caller.closed.code == GONE:  # it was the client that went
            lived += 1
            last = max(committed.turn for committed in caller.of(m.TurnCommitted))
            assert any(over.turn == last for over in caller.of(m.TurnEnded))
        else:
            ended += 1
            check_closed(caller.closed.code, caller.closed.reason, caller.errors)
        assert set(caller.errors) <= set(CODES) | {"engine_failed", "input_overrun"}

    run()
    assert seen >= 2_000 and lived > 10 and ended > 10


def check_closed(code: int, reason: str, errors: list[str]) -> None:
    """Behind the error that says why, or as the client asked for."""
    if code != GOOD:
        assert CODES[errors[-1]] == code and reason == errors[-1]


async def test_a_few_on_a_real_socket() -> None:
    """One connection after the other, to one server: none of them does it any harm."""
    told: set[str] = set()
    async with server() as served:
        url = f"ws://127.0.0.1:{served.server.port}/v1/voice"

        def reach() -> connect:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return connect(url, additional_headers=headers, proxy=None, subprotocols=[Subprotocol("voicepipe.v1")])

        for frames in sequences(25):
            async with reach() as ws, asyncio.TaskGroup() as group:
                listening = group.create_task(listen(ws))
                with suppress(WebsocketClosed):
                    for frame in (*frames, '{"type": "session.end"}'):
                        await ws.send(frame)
                        await asyncio.sleep(0.002)
            errors, code, reason = listening.result()
            check_closed(code, reason, errors)
            told |= set(errors)
        async with reach() as ws:
            await ws.send('{"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}')
            assert isinstance(decode_server(await ws.recv()), m.SessionReady)
    assert told <= set(CODES) and len(told) >= 3


async def listen(ws: ClientConnection) -> tuple[list[str], int, str]:
    """Codes of the errors, and how the server closed."""
    errors: list[str] = []
    try:
        while True:
            message = decode_server(await ws.recv())
            if isinstance(message, m.Error):
                errors.append(message.code)
    except WebsocketClosed as closed:
        assert closed.rcvd is not None, "not a code, but a hang-up"
        return errors, closed.rcvd.code, closed.rcvd.reason


def sequences(wanted: int) -> list[list[str | bytes]]:
    """Drawn beforehand: hypothesis does not await."""
    drawn: list[list[str | bytes]] = []

    @settings(generated, max_examples=wanted)
    @given(FIRST, CALLS)
    def draw(first: str, frames: list[str | bytes]) -> None:
        drawn.append([first, *frames])

    draw()
    return drawn
