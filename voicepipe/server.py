"""The door: HTTP and websockets in, sessions handed to a handler, leases back, a drain.

    request -> gate -> handshake checked -> lease -> 101 -> handler(connection, grant) -> close
                                         -> ticket -> 101 -> waiting ... -> lease, or refused
                                         -> ticket ... -> lease -> 101, or refused

A lease belongs to the task that the connection runs in, handshake included, and goes back when that
task is done, by one callback: there is no path on which a task does not end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from voicepipe.connection import Connection, ConnectionClosed
from voicepipe.core.admission import Admission, Grant, Refuse, SessionRequest
from voicepipe.endings import GOOD, Ending, ending_of
from voicepipe.errors import EnvironmentFailure, PortInUse
from voicepipe.gallery import GALLERY_PATH, Gallery
from voicepipe.gate import (
    DRAIN_RETRY_MS,
    AccessRules,
    Crowd,
    Gate,
    TurnedAway,
    Visit,
    refusal_reply,
    session_request,
)
from voicepipe.handshake import hardened, headers_of, response_of, select_subprotocol, too_large, unreadable
from voicepipe.lag import LagProbe
from voicepipe.lobby import Lobby, Ticket
from voicepipe.metrics import Metrics
from voicepipe.pages import Pages, Readiness
from voicepipe.transport import VoiceSocket, WebsocketConnection, socket_class
from voicepipe.webfiles import Reply, load_web_files
from voicepipe.wire.doors import DOORS, NATIVE
from voicepipe.wire.native import Refused, Waiting, encode_server

_log = logging.getLogger(__name__)
_transport_log = logging.getLogger("voicepipe.transport")
_transport_log.setLevel(logging.WARNING)
# At DEBUG the library logs payloads and headers, people's words and tokens: also where somebody asks for all logs.
_transport_log.addFilter(lambda record: record.levelno > logging.DEBUG)

_MAX_QUEUE_FRAMES = 8
"""This and one more, times what is read of a frame (`Door.read_bytes`), is what a peer can make a connection hold.
Beyond that size the library reads no more: the client is told by the socket, and closed with 1009."""
_WRITE_LIMIT_BYTES = (8_192, 2_048)
_LONGEST_HELD_S = max(door.held_s or 0.0 for door in DOORS.values())
_PING_INTERVAL_S = 5.0
_PING_TIMEOUT_S = 10.0
_NOT_READY_RETRY_MS = 1_000
_LAST_WORDS_S = 0.5
"""For sessions whose time is over to end what runs, and to say so."""
_POLICY = 1008
_RESTART = 1012
_TRY_AGAIN_LATER = 1013

Handler = Callable[[Connection, Grant], Awaitable[None]]
"""One session, from its admission on. When it returns the connection is closed with 1000."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8765
    """0 takes any free one."""
    access: AccessRules = field(default_factory=AccessRules)
    web_files: Path | None = None
    """Folder of the browser client."""
    pictures: Path | None = None
    """Folder that is shown at /experiments."""
    tls: ssl.SSLContext | None = None
    handshake_s: float = 5.0
    """For a request to come; an upgrade that is held takes longer."""
    send_timeout_s: float = 5.0
    """A client that does not take a message for so long is let go."""
    grace_s: float = 10.0
    """How long a drain lets running sessions go on."""
    close_timeout_s: float = 2.0
    """For the closing handshake, and for a cancelled session to end."""


class VoiceServer:
    """`async with VoiceServer(...)`: listening inside, drained and gone after it.

    Leaving the block normally drains for `grace_s`; leaving it by an exception does not wait.
    """

    def __init__(
        self,
        settings: ServerSettings,
        handler: Handler,
        *,
        admission: Admission,
        metrics: Metrics,
        ready: Callable[[], Readiness],
        jitter: Callable[[], float] = lambda: 1.0,
        on_lag: Callable[[float], None] = lambda lag_s: None,
    ) -> None:
        """`jitter` is a factor around 1 that spreads the times at which refused clients come back; `on_lag` is told
        each lag of the event loop, in seconds."""

        def lagged(lag_s: float) -> None:
            metrics.loop_lagged(lag_s)
            on_lag(lag_s)

        self._steps_back = False
        self.draining = asyncio.Event()
        """Set when no more sessions are taken; the running ones should come to an end."""
        self.ending = asyncio.Event()
        """Set when the time of a drain is over: a session says its last words, and goes."""
        self.drain_deadline: float | None = None
        """Loop time at which a drain closes what still runs."""
        self.port = settings.port
        """The port that is really listened on, once it is."""
        self.lag = LagProbe(lagged)
        self.lobby = Lobby(admission, metrics, jitter)
        self._settings = settings
        self._handler = handler
        self._metrics = metrics
        self._ready = ready
        self._gate = Gate(settings.access)
        self._socket_class = socket_class(
            2 * settings.access.max_connections, unreadable, too_large, request_within_s=settings.handshake_s
        )
        self._gallery = Gallery(settings.pictures)
        self._pages: Pages | None = None
        self._sessions: dict[asyncio.Task[None], VoiceSocket] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._stopped = asyncio.Event()
        self._grace: asyncio.Timeout | None = None
        self._server: Server | None = None

    # --- life

    async def __aenter__(self) -> Self:
        """Raises PortInUse, or EnvironmentFailure where the address cannot be listened on."""
        settings = self._settings
        self._pages = Pages(
            load_web_files(settings.web_files),
            gallery=self._gallery,
            gate=self._gate,
            metrics=self._metrics,
            lag=self.lag,
            readiness=self.readiness,
        )
        try:
            self._server = await serve(
                self._serve_session,
                settings.host,
                settings.port,
                ssl=settings.tls,
                process_request=self._process_request,
                process_response=self._process_response,
                select_subprotocol=select_subprotocol,
                create_connection=self._socket_class,
                compression=None,
                server_header=None,
                open_timeout=settings.handshake_s + _LONGEST_HELD_S,
                ssl_handshake_timeout=settings.handshake_s if settings.tls else None,
                ping_interval=_PING_INTERVAL_S,
                ping_timeout=_PING_TIMEOUT_S,
                close_timeout=settings.close_timeout_s,
                max_size=NATIVE.read_bytes,
                max_queue=_MAX_QUEUE_FRAMES,
                write_limit=_WRITE_LIMIT_BYTES,
                logger=_transport_log,
            )
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.lag.start(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.stop(self._settings.grace_s if exc_type is None else 0.0)

    def readiness(self) -> Readiness:
        """What others are told."""
        return Readiness(False, "draining") if self._steps_back else self._lets_in()

    def _lets_in(self) -> Readiness:
        return Readiness(False, "draining") if self.draining.is_set() else self._ready()

    def step_back(self) -> None:
        """Say that it is not ready, and let sessions in as before, until `stop`: who sends them here may take its
        time to notice."""
        self._steps_back = True

    @property
    def connections(self) -> int:
        """Open sockets, sessions or not."""
        return len(self._socket_class.everyone)

    async def stop(self, grace_s: float) -> None:
        """Take no more sessions, give those that run `grace_s`, then close them with 1012.

        A second call while the first one waits ends its grace after `grace_s` from now, if that is
        sooner. Returns when everything has ended; a task that ignores its cancellation is counted
        and left behind.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        if self.drain_deadline is not None:
            if self._grace is not None and deadline < self.drain_deadline:
                self.drain_deadline = deadline
                self._grace.reschedule(deadline)
            await self._stopped.wait()
            return
        self.drain_deadline = deadline
        self.draining.set()
        self.lobby.empty(Refuse("draining", DRAIN_RETRY_MS))
        try:
            await self._let_end(deadline)
        finally:
            try:
                await self._end_all()
            finally:
                self.lag.stop()
                self.lobby.stop()
                self._stopped.set()

    async def _let_end(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline) as self._grace:
                await self._empty.wait()
        except TimeoutError:
            _log.info("drain: %d sessions are closed", len(self._sessions))
            self.ending.set()
            await _settle(self._sessions, _LAST_WORDS_S)
        finally:
            self._grace = None

    async def _end_all(self) -> None:
        assert self._server is not None, "the server is not running"
        server, limit_s = self._server, self._settings.close_timeout_s
        server.close(close_connections=False)
        async with asyncio.TaskGroup() as group:
            for ws in self._sessions.values():
                group.create_task(self._connection(ws).close(_RESTART, "the server goes away"))
        await _settle(self._sessions, limit_s)
        for task in self._sessions:
            task.cancel()
        for ws in set(self._socket_class.everyone):
            ws.transport.abort()
        await _settle(server.handler_tasks, limit_s)
        for task in server.handler_tasks:
            self._metrics.task_abandoned()
            _log.error("a session ignores its cancellation and is left behind: %s", task.get_name())
        if not server.handler_tasks:
            await server.wait_closed()

    # --- requests

    async def _process_request(self, ws: ServerConnection, request: Request) -> Response | None:
        assert isinstance(ws, VoiceSocket) and self._pages is not None
        visit = ws.visit = self._gate.visit(request.method, request.path, headers_of(request), ws.peer)
        ws.arrived = asyncio.get_running_loop().time()
        if visit.path.startswith(GALLERY_PATH):
            await self._gallery.refresh()
        ws.protocol.max_message_size = visit.door.read_bytes
        reply = self._pages.answer(visit)
        if reply is None:
            turned_away = self._gate.check(visit, self._crowd(ws), port=self.port, draining=self.draining.is_set())
            if turned_away is None:
                return None
            self._metrics.refused(turned_away.reason)
            _log_refusal(turned_away.reason, visit)
            if turned_away.is_final and visit.is_page:
                ws.decision = turned_away
                return None
            reply = turned_away.reply
            self._metrics.refusal_took(self._since_arrival(ws))
        return response_of(reply, head=visit.method == "HEAD")

    def _crowd(self, ws: VoiceSocket) -> Crowd:
        everyone = self._socket_class.everyone
        return Crowd(len(everyone), sum(other.caller == ws.caller for other in everyone))

    # --- admission

    async def _process_response(
        self, ws: ServerConnection, request: Request, response: Response
    ) -> Response | None:
        """The handshake is in order and about to be answered: the last moment for a lease."""
        assert isinstance(ws, VoiceSocket)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return hardened(response)
        if ws.decision is not None:
            return None
        visit = ws.visit
        assert visit is not None, "the request has been looked at"
        wish = session_request(visit, self._gate.token_name(visit) or "")
        if isinstance(wish, Reply):
            return response_of(wish)
        decision: Grant | Refuse | Ticket | None = self._decide(ws, wish)
        if isinstance(decision, Ticket) and visit.door.held_s is not None:
            decision = await self._hold_answer(ws, decision)
        ws.decision = decision
        if not isinstance(decision, Refuse):
            return None
        _log_refusal(decision.reason, visit, wish.token)
        if visit.can_read_refusal:
            return None
        self._metrics.refusal_took(self._since_arrival(ws))
        return response_of(refusal_reply(decision))

    def _decide(self, ws: VoiceSocket, wish: SessionRequest) -> Grant | Refuse | Ticket:
        state = self._lets_in()
        if not state.ready:
            refuse = Refuse(state.reason or "not_ready", _NOT_READY_RETRY_MS)
            self._metrics.refused(refuse.reason)
            return refuse
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None, "the library shakes hands in the connection's task"
        decision = self.lobby.ask(wish, lambda grant: self._hold(task, ws, grant))
        if isinstance(decision, Ticket):
            ws.on_lost = partial(self.lobby.leave, decision)
            task.add_done_callback(lambda _: self.lobby.leave(decision))
        return decision

    async def _hold_answer(self, ws: VoiceSocket, ticket: Ticket) -> Grant | Refuse | None:
        """The client waits for its upgrade. None: it has gone, and nobody answers."""
        while isinstance(news := await ticket.news(), int):
            pass
        ws.arrived = asyncio.get_running_loop().time()  # a refusal is quick from here on
        return news

    def _hold(self, task: asyncio.Task[None], ws: VoiceSocket, grant: Grant) -> None:
        self._sessions[task] = ws
        self._empty.clear()
        self._metrics.lease_taken("session")
        self._metrics.session_started()

        def give_back(_: asyncio.Task[None]) -> None:
            del self._sessions[task]
            if not self._sessions:
                self._empty.set()
            self._metrics.session_ended()
            self._metrics.lease_returned("session")
            self.lobby.give_back(grant)

        task.add_done_callback(give_back)

    # --- sessions

    async def _serve_session(self, ws: ServerConnection) -> None:
        assert isinstance(ws, VoiceSocket) and ws.decision is not None
        connection = self._connection(ws)
        match ws.decision:
            case Grant() as grant:
                ending = await self._run(connection, grant)
            case Ticket() as ticket:
                ending = await self._wait(ws, connection, ticket)
            case Refuse(reason, retry_after_ms):
                ending = await self._refuse(connection, Refused(reason, retry_after_ms), _TRY_AGAIN_LATER)
                self._metrics.refusal_took(self._since_arrival(ws))
            case TurnedAway(reason):
                ending = await self._refuse(connection, Refused(reason, 0), _POLICY)
                self._metrics.refusal_took(self._since_arrival(ws))
        await connection.close(ending.code, ending.reason)

    def _since_arrival(self, ws: VoiceSocket) -> float:
        assert ws.arrived is not None, "the request has been looked at"
        return asyncio.get_running_loop().time() - ws.arrived

    async def _wait(self, ws: VoiceSocket, connection: Connection, ticket: Ticket) -> Ending:
        """What the client sends meanwhile stays in the queue, which is short, for its session to read."""
        while True:
            match await ticket.news():
                case int() as position:
                    try:
                        await connection.send(encode_server(Waiting(position)))
                    except ConnectionClosed:
                        self.lobby.leave(ticket)
                        return GOOD
                case Grant() as grant:
                    return await self._run(connection, grant)
                case Refuse(reason, retry_after_ms):
                    assert ws.visit is not None, "the request has been looked at"
                    _log_refusal(reason, ws.visit, self._gate.token_name(ws.visit) or "")
                    return await self._refuse(connection, Refused(reason, retry_after_ms), _TRY_AGAIN_LATER)
                case None:
                    return GOOD

    async def _refuse(self, connection: Connection, refused: Refused, code: int) -> Ending:
        """Reads nothing of what the peer sends."""
        try:
            for frame in DOORS[connection.path].refused(refused):
                await connection.send(frame)
        except ConnectionClosed:
            return GOOD
        return Ending(code, refused.reason)

    async def _run(self, connection: Connection, grant: Grant) -> Ending:
        """The connection boundary: whatever becomes of this session, no other one notices."""
        _log.info("session %d opened: peer %s", grant.lease_id, connection.peer)
        try:
            await self._handler(connection, grant)
            ending = GOOD
        except Exception as error:
            ending = ending_of(error)
        if ending.client_error is not None:
            self._metrics.client_error(ending.client_error)
        if ending.bugs:
            self._metrics.session_failed()
        for bug in ending.bugs:
            _log.error("session %d failed: %s", grant.lease_id, bug)
        _log.info("session %d ended: %d %s", grant.lease_id, ending.code, ending.reason)
        return ending

    def _connection(self, ws: VoiceSocket) -> WebsocketConnection:
        assert ws.visit is not None, "the request has been looked at"
        return WebsocketConnection(
            ws,
            ws.visit,
            send_timeout_s=self._settings.send_timeout_s,
            close_timeout_s=self._settings.close_timeout_s,
            client_error=self._metrics.client_error,
        )


def _log_refusal(reason: str, visit: Visit, token_name: str = "") -> None:
    """`token_name`: the configured name of the token that was shown, whose quota it may be about."""
    origin = visit.headers.get("origin", "")[:100]
    _log.warning("refused, %s: peer %s, origin %r, token %r", reason, visit.peer, origin, token_name)


def _cannot_listen(settings: ServerSettings, error: OSError) -> EnvironmentFailure:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return PortInUse(f"{where} is in use; stop what listens there, or choose another port")
    return EnvironmentFailure(f"cannot listen on {where}: {error.strerror or error}")


async def _settle(tasks: Iterable[asyncio.Task[None]], limit_s: float) -> None:
    """Wait until they are done, for so long at most."""
    waiting = set(tasks)
    if waiting:
        await asyncio.wait(waiting, timeout=limit_s)
