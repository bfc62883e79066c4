"""The websocket under a `Connection`: any way of closing is a ConnectionClosed, and nothing blocks.

The library applies no time limit to a `send`, and none of its own to a `close` behind a full write
buffer; both are given one here, after which the transport is aborted.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed as WebsocketClosed
from websockets.exceptions import InvalidMessage, PayloadTooBig, TooManyFragments
from websockets.frames import Frame, Opcode

from voicepipe.connection import ConnectionClosed
from voicepipe.core.admission import Grant, Refuse
from voicepipe.gate import TurnedAway, Visit
from voicepipe.inflow import Inflow, Transport
from voicepipe.lobby import Ticket
from voicepipe.wire.doors import NATIVE, Door

SEND_BUFFER_BYTES = 16_384
"""Kernel send buffer per connection. With the system's default, a client that stops reading swallows
over a minute of speech before anybody notices."""

_CLOSE_MARGIN_S = 0.5  # beyond the library's own limit on the closing handshake
_MAX_REASON_BYTES = 123  # RFC 6455, 5.5
_POLICY = 1008
_FAULTS = {1002: "protocol", 1007: "encoding", 1009: "too_large"}
"""Close codes that we send because of what the client did, as labels of its errors."""
_SILENT = "keepalive ping timeout"
"""The library's reason for a 1011 that is no fault of ours: its pings were not answered."""


class VoiceSocket(ServerConnection):
    """A websocket that knows what was decided about it, and is listed while it is connected."""

    everyone: set[VoiceSocket]
    most: int
    unreadable: Callable[[bytes], bytes]
    too_large: Callable[[int | None, Door], bytes]
    request_within_s: float
    visit: Visit | None = None
    arrived: float | None = None
    """Loop time at which the request had been read."""
    decision: Grant | Refuse | Ticket | TurnedAway | None = None
    on_lost: Callable[[], None] | None = None
    """Called once the connection is gone."""
    _too_late: asyncio.TimerHandle | None = None
    _method: bytes | None = None
    _close_went = False
    """A close frame has been handed to the transport: no frame may follow."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._inflow = self._make_inflow()
        self.everyone.add(self)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.everyone) > self.most:
            self.transport.abort()
        self._too_late = self.loop.call_later(self.request_within_s, self._on_too_late)

    def _on_too_late(self) -> None:
        if self.request is None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._method is None:
            self._method = data.partition(b" ")[0]
        self._inflow.on_data(data)

    def _make_inflow(self) -> Inflow:
        """The library pauses and resumes the transport itself; resuming goes by way of the inflow."""
        taken = self.recv_messages
        inflow = Inflow(
            Transport(
                super().data_received,
                self.transport.pause_reading,
                self.transport.resume_reading,
                self.loop.call_later,
                lambda: taken.paused,
                time.thread_time,
            )
        )
        taken.resume = inflow.on_wanted
        return inflow

    def send_data(self) -> None:
        """The library hangs up on a request that it cannot read (one with a body is such) without a word. It
        then reads over what still comes, until the peer is done or the time for a handshake is up, so that
        the answer is not lost in a reset."""
        fault = self.protocol.handshake_exc
        if isinstance(fault, InvalidMessage) and not isinstance(fault.__cause__, EOFError) and self._method:
            self.transport.write(type(self).unreadable(self._method))
            self._method = b""  # one answer
        if self.protocol.close_sent is not None and not self._close_went:
            self._say_what_was_too_large()
            self._close_went = True
        super().send_data()

    def _say_what_was_too_large(self) -> None:
        """A message beyond the library's limits never gets to a session, which would say so: the library closes.
        Its close frame, which waits to be written, can hold no more than a code and a line."""
        door = NATIVE if self.visit is None else self.visit.door
        match self.protocol.parser_exc or self.connection_exc:
            case PayloadTooBig(size=size, current_size=before):
                told = type(self).too_large((size or 0) + (before or 0), door)
            case TooManyFragments():
                told = type(self).too_large(None, door)
            case _:
                return
        if told:
            self.transport.write(Frame(Opcode.TEXT, told).serialize(mask=False))

    def connection_lost(self, exc: Exception | None) -> None:
        self.everyone.discard(self)
        self._inflow.on_lost()
        if self._too_late is not None:
            self._too_late.cancel()
        if self.on_lost is not None:
            self.on_lost()
        super().connection_lost(exc)

    @property
    def caller(self) -> str:
        """Whom it is from, as far as is known: before there is a request, a proxy is everyone behind it."""
        return self.peer if self.visit is None else self.visit.peer

    @property
    def peer(self) -> str:
        address = self.remote_address
        return str(address[0]) if address else ""


def socket_class(
    most: int,
    unreadable: Callable[[bytes], bytes],
    too_large: Callable[[int | None, Door], bytes],
    *,
    request_within_s: float,
) -> type[VoiceSocket]:
    """A class for one server's sockets. Past `most` of them a new one is cut without an answer, so
    that connections which never send a request cannot use up the descriptors; and so is one whose request has
    not come within `request_within_s`. `unreadable` makes the
    whole answer to a request of some method that cannot be read; `too_large` the text that goes before
    the close where a message has so many bytes (at least, where its end was not seen), or, for None,
    more fragments than the library takes."""

    class Socket(VoiceSocket):
        pass

    Socket.everyone = set()
    Socket.most = most
    Socket.unreadable = staticmethod(unreadable)
    Socket.too_large = staticmethod(too_large)
    Socket.request_within_s = request_within_s
    return Socket


class WebsocketConnection:
    """`Connection` over a websocket that is open."""

    def __init__(
        self,
        ws: VoiceSocket,
        visit: Visit,
        *,
        send_timeout_s: float,
        close_timeout_s: float,
        client_error: Callable[[str], None],
    ) -> None:
        self.headers: Mapping[str, str] = visit.headers
        self.path = visit.path
        self.query: Mapping[str, str] = visit.query
        self.peer = visit.peer
        self._ws = ws
        self._send_timeout_s = send_timeout_s
        self._close_timeout_s = close_timeout_s
        self._client_error = client_error
        self._closed: ConnectionClosed | None = None

    async def recv(self) -> str | bytes:
        try:
            return await self._ws.recv()
        except WebsocketClosed as closed:
            raise self._why(closed) from None

    async def send(self, data: str | bytes) -> None:
        """Raises ConnectionClosed (1008) where the client has not read for the time limit."""
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await self._ws.send(data)
        except WebsocketClosed as closed:
            raise self._why(closed) from None
        except TimeoutError:
            self.abort()
            too_slow = ConnectionClosed(_POLICY, "reads too slowly")
            raise self._end(too_slow, "slow_reader") from None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        short = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        try:
            async with asyncio.timeout(self._close_timeout_s + _CLOSE_MARGIN_S):
                await self._ws.close(code, short)
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Let go of the socket at once. Idempotent."""
        self._ws.transport.abort()

    def _why(self, closed: WebsocketClosed) -> ConnectionClosed:
        """Whoever sent a close frame first says why; nobody did where the socket just went away."""
        ours_first = closed.sent is not None and not closed.rcvd_then_sent
        frame = closed.sent if ours_first else closed.rcvd
        if frame is None:
            return self._end(ConnectionClosed(), None)
        sent = closed.sent
        # Of a close that itself broke the rules, the peer's frame came first, and ours has another code.
        objected = sent is not None and (ours_first or sent.code != frame.code)
        fault = _FAULTS.get(sent.code) if sent is not None and objected else None
        if ours_first and frame.reason == _SILENT:
            fault = "silent"
        return self._end(ConnectionClosed(frame.code, frame.reason), fault)

    def _end(self, closed: ConnectionClosed, fault: str | None) -> ConnectionClosed:
        """The first reason holds; a client's fault is counted once."""
        if self._closed is None:
            self._closed = closed
            if fault is not None:
                self._client_error(fault)
        return self._closed
