"""A voice session over the native dialect, on asyncio.

    async with connect("ws://127.0.0.1:8765") as session:
        await session.send_audio(pcm)
        async for event in session:
            ...

There is no background task: iterating reads the socket. While nobody iterates, the transport's
bounded buffer fills and the server is held back, so iterate in a task of its own while you send.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict, Unpack

from msgspec import structs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from voicepipe import errors
from voicepipe.wire import native
from voicepipe.wire.native import AudioFrame, ServerMessage
from voicepipe_client.epochs import EpochGate
from voicepipe_client.opening import (
    DEFAULT_RETRY_MS,
    DEFAULT_TIMEOUTS,
    Timeouts,
    check_token,
    forbidden,
    open_connection,
    unauthorized,
    voice_url,
)

_TRY_AGAIN_LATER: Final = 1013
_TOO_LARGE: Final = 1009
_RESTART: Final = 1012
_MAX_PCM_BYTES: Final = (native.MAX_BINARY_BYTES - native.HEADER_BYTES) // 4 * 4
"""Whole samples of two channels."""


class StartOptions(TypedDict, total=False):
    """The fields of `session.start` beside the audio; None leaves the choice to the server."""

    output_rate: int | None
    instructions: str | None
    operating_point: native.OperatingPoint | None
    enforcement: native.Enforcement | None
    turn_taking: native.TurnTaking
    mode: native.Mode
    auto_reply: bool
    interruptible: bool
    resume: bool | str | None
    tools: tuple[native.ToolSpec, ...]


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    sent_samples: int
    """The client's sample clock."""
    stale_frames: int
    """Reply audio of an older epoch, dropped here."""
    unknown_messages: int
    """Messages of a newer server, ignored."""


class Wishes(TypedDict, total=False):
    """What the request itself asks for; see `connect`."""

    token: str | None
    budget_ms: float | None
    route: str | None
    timeouts: Timeouts
    on_waiting: Callable[[int], None] | None


@dataclass(frozen=True, slots=True)
class Destination:
    """Whom to call and with which wishes, as often as it takes."""

    url: str
    start: native.SessionStart
    token: str | None = field(default=None, repr=False)
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    on_waiting: Callable[[int], None] | None = None

    @classmethod
    def of(cls, url: str, start: native.SessionStart, **wishes: Unpack[Wishes]) -> Destination:
        """Raises UsageError before anything is opened."""
        token = wishes.get("token")
        check_token(token)
        return cls(
            voice_url(url, wishes.get("budget_ms"), wishes.get("route")),
            _checked(start),
            token,
            wishes.get("timeouts", DEFAULT_TIMEOUTS),
            wishes.get("on_waiting"),
        )

    async def open(self, resume: bool | str | None = None) -> Session:
        """An admitted session, for its owner to close. `resume` goes before that of `start`."""
        start = self.start if resume is None else structs.replace(self.start, resume=resume)
        connection = await open_connection(self.url, self.token, self.timeouts)
        session = Session(connection, start, self.timeouts)
        try:
            await session._begin(self.on_waiting, self.token)
        except BaseException:
            await session.close()
            raise
        return session


@asynccontextmanager
async def connect(
    url: str,
    *,
    rate: int = 16_000,
    channels: Literal[1, 2] = 1,
    token: str | None = None,
    budget_ms: float | None = None,
    route: str | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    on_waiting: Callable[[int], None] | None = None,
    **options: Unpack[StartOptions],
) -> AsyncIterator[Session]:
    """A session that is ready: the server has admitted it.

    `url` is ws(s):// or http(s)://; without a path it is /v1/voice. `rate` in Hz and `channels` are
    those of the audio that will be sent. `on_waiting` is told the place in the waiting room.

    Raises UsageError (an argument), Unauthorized (no token, or a wrong one), Forbidden, Refused (no
    capacity; when to come back), ServerUnreachable, ConnectionLost, or the ClientError that the server
    names. Leaving the block closes the connection, in `timeouts.close_s` at most, on every path.
    """
    start = native.SessionStart(audio=native.AudioFormat(rate, channels), protocol=native.PROTOCOL, **options)
    destination = Destination.of(
        url, start, token=token, budget_ms=budget_ms, route=route, timeouts=timeouts, on_waiting=on_waiting
    )
    session = await destination.open()
    try:
        yield session
    finally:
        await session.close()


class Session:
    """One admitted session; made by `connect`.

    Every method may be called from any task, iteration from one at a time. Cancelling a call leaves
    the session usable.
    """

    ready: native.SessionReady

    def __init__(self, connection: ClientConnection, start: native.SessionStart, timeouts: Timeouts) -> None:
        self._connection = connection
        self._start = start
        self._timeouts = timeouts
        self._gate = EpochGate()
        self._sent_bytes = 0
        self._stale_frames = 0
        self._unknown_messages = 0
        self._ended = False
        self._draining = False
        self._too_large: native.Error | None = None
        """What the server said before it closed for that reason."""
        self._frame_bytes = 2 * start.audio.channels

    # --- receiving

    def __aiter__(self) -> AsyncIterator[ServerMessage | AudioFrame]:
        return self

    async def __anext__(self) -> ServerMessage | AudioFrame:
        """The next message, or the next reply audio that may still be played.

        The iteration ends when the server closes in good order (1000). Raises ConnectionLost, and of its kind
        ServerDrained where the server had said that it goes away (`draining`, then 1012); TooLarge
        where the server closed because of a frame beyond its limit (1009); and a ClientError for what is
        not the native dialect.
        """
        while True:
            event = await self._receive()
            if event is None:
                raise StopAsyncIteration
            if not isinstance(event, AudioFrame):
                self._gate.on_message(event)
                return event
            if self._gate.admits(event):
                return event
            self._stale_frames += 1

    def statistics(self) -> SessionStatistics:
        return SessionStatistics(
            sent_samples=self._sent_bytes // self._frame_bytes,
            stale_frames=self._stale_frames,
            unknown_messages=self._unknown_messages,
        )

    @property
    def close_code(self) -> int | None:
        """WebSocket close code, None while open; 1006 if the server just vanished."""
        return self._connection.close_code

    async def close(self) -> None:
        """The connection, in `timeouts.close_s` at most. Idempotent."""
        await self._connection.close()

    def abort(self) -> None:
        """Let go of the connection without a word: whoever iterates gets ConnectionLost."""
        self._connection.transport.abort()

    # --- sending

    async def send_audio(self, pcm: bytes) -> None:
        """PCM16LE in the declared rate and channels, cut anywhere; keeps the sample clock."""
        for position in range(0, len(pcm), _MAX_PCM_BYTES):
            piece = pcm[position : position + _MAX_PCM_BYTES]
            offset_samples = self._sent_bytes // self._frame_bytes
            self._sent_bytes += len(piece)
            await self.send(AudioFrame(0, offset_samples, piece))

    async def commit(self) -> None:
        """The speaker's turn is over."""
        await self.send(native.InputCommit())

    async def cancel(self) -> None:
        """Stop the reply."""
        await self.send(native.ReplyCancel())

    async def send_text(self, text: str) -> None:
        """A typed turn, of 8,192 characters at most."""
        await self.send(native.InputText(text))

    async def report_playback(self, epoch: int, played_samples: int) -> None:
        """How much of the reply has been heard. Without reports the server estimates it."""
        await self.send(native.Playback(epoch, played_samples))

    async def end(self) -> None:
        """Ask the server to close; the iteration then ends, however it closes."""
        await self.send(native.SessionEnd())
        self._ended = True

    async def send(self, message: native.ClientMessage | AudioFrame) -> None:
        """Any message of the dialect. Raises TooLarge for one beyond the dialect's limit, which is not sent and
        leaves the session as it was, and ConnectionLost."""
        data = native.encode_client(message)
        native.check_size(data)
        try:
            async with asyncio.timeout(self._timeouts.send_s):
                await self._connection.send(data)
        except ConnectionClosed as closed:
            raise self._why(closed) from None
        except TimeoutError:
            raise errors.ConnectionLost(
                f"connection lost: the server has read nothing for {self._timeouts.send_s:g} s"
            ) from None

    # --- inside

    async def _begin(self, on_waiting: Callable[[int], None] | None, token: str | None) -> None:
        with contextlib.suppress(errors.ConnectionLost, errors.TooLarge):
            # A server that refuses at once may have closed already; what it said is still unread.
            await self.send(self._start)
        place: int | None = None
        try:
            async with asyncio.timeout(self._timeouts.ready_s) as limit:
                while (moved_to := await self._next_place(token)) is not None:
                    if place is None:
                        limit.reschedule(asyncio.get_running_loop().time() + self._timeouts.waiting_s)
                    place = moved_to
                    if on_waiting is not None:
                        on_waiting(place)
        except TimeoutError:
            raise self._too_late(place) from None

    def _too_late(self, place: int | None) -> errors.ServerUnreachable:
        if place is not None:
            return errors.ServerUnreachable(
                f"still in the server's waiting room after {self._timeouts.waiting_s:g} s, "
                f"at place {place}; try again"
            )
        return errors.ServerUnreachable(
            f"the server took the connection and did not start a session within "
            f"{self._timeouts.ready_s:g} s: it may be overloaded; try again"
        )

    async def _next_place(self, token: str | None) -> int | None:
        """The next news of the place in the waiting room; None once the session is ready."""
        while True:
            try:
                event = await self._receive()
            except errors.ConnectionLost:
                if self.close_code == _TRY_AGAIN_LATER:
                    reason = self._connection.close_reason or "overloaded"
                    raise errors.Refused(reason, DEFAULT_RETRY_MS) from None
                raise
            match event:
                case native.SessionReady():
                    self.ready = event
                    return None
                case native.Waiting(position=position):
                    return position
                case native.Refused():
                    raise _as_refusal(event, token)
                case native.Error(code=errors.ResumeUnknown.code) if isinstance(self._start.resume, str):
                    self._start = structs.replace(self._start, resume=True)
                    with contextlib.suppress(errors.ConnectionLost):
                        await self.send(self._start)
                case native.Error():
                    raise _as_error(event)
                case None:
                    raise errors.ConnectionLost("the server closed before the session was ready")
                case _:
                    pass

    async def _receive(self) -> ServerMessage | AudioFrame | None:
        """The next event, None after a close in good order."""
        while True:
            try:
                event = native.decode_server(await self._connection.recv())
                if isinstance(event, native.Error) and event.code == errors.TooLarge.code:
                    self._too_large = event
                self._draining |= isinstance(event, native.Draining)
                return event
            except errors.UnknownType:
                self._unknown_messages += 1
            except ConnectionClosed as closed:
                if self._ended or (closed.rcvd is not None and closed.rcvd.code == 1000):
                    return None
                raise self._why(closed) from None

    def _why(self, closed: ConnectionClosed) -> errors.VoicepipeError:
        """The error that the end of the connection stands for; whoever closed first says why."""
        if closed.sent is not None and not closed.rcvd_then_sent and closed.sent.code == _TOO_LARGE:
            return errors.TooLarge(f"the server sent too much at once: {closed.sent.reason}", field="frame")
        if closed.rcvd is not None and closed.rcvd.code == _TOO_LARGE:
            if self._too_large is not None:
                return _as_error(self._too_large)
            reason = f" ({closed.rcvd.reason})" if closed.rcvd.reason else ""
            return errors.TooLarge(
                f"the server closed: a frame was too large{reason}; a binary frame may have "
                f"{native.MAX_BINARY_BYTES} bytes, a text frame {native.MAX_TEXT_BYTES}",
                field="frame",
            )
        if self._draining and closed.rcvd is not None and closed.rcvd.code == _RESTART:
            return errors.ServerDrained("the server has gone away, as it had announced (1012)")
        return _lost(closed)


def _checked(start: native.SessionStart) -> native.SessionStart:
    """Our own limits on our own message: a mistake is told before anything is opened."""
    try:
        native.decode_client(native.encode_client(start))
    except errors.ClientError as error:
        raise errors.UsageError(error.message, field=error.field) from None
    return start


# --- ending ---------------------------------------------------------------------------------------


def _lost(closed: ConnectionClosed) -> errors.ConnectionLost:
    if closed.rcvd is None:
        if closed.sent is not None and closed.sent.code != 1000:
            return errors.ConnectionLost(f"connection lost: {closed.sent.code} {closed.sent.reason}")
        return errors.ConnectionLost("connection lost: 1006 without a close frame")
    text = f"{closed.rcvd.code} {closed.rcvd.reason}".rstrip()
    return errors.ConnectionLost(f"connection lost: {text}")


_BY_CODE: Final[dict[str, type[errors.ClientError]]] = {
    cls.code: cls for cls in errors.ClientError.__subclasses__()
}


def _as_refusal(refused: native.Refused, token: str | None) -> errors.VoicepipeError:
    """A page's script is told of these two by a message, because it can read no HTTP status."""
    if refused.reason == "unauthorized":
        return unauthorized("the server refuses", token)
    if refused.reason == "origin_not_allowed":
        return forbidden("the server refuses", "pages of this Origin may not connect")
    return errors.Refused(refused.reason, refused.retry_after_ms)


def _as_error(error: native.Error) -> errors.VoicepipeError:
    """The exception that the server's `error` stands for."""
    cls = _BY_CODE.get(error.code)
    if cls is None:
        return errors.ServerUnreachable(f"the server failed: {error.code}: {error.message}")
    return cls(error.message, field=error.field)
