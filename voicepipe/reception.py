"""Before and after a session: its first message, what it is set to, and how a connection is let go."""

from __future__ import annotations

import asyncio
import logging

from voicepipe.config import Config
from voicepipe.connection import Connection, ConnectionClosed
from voicepipe.core.parking import Parked
from voicepipe.errors import (
    BadField,
    BadStart,
    ClientError,
    EngineBusy,
    EngineExhausted,
    OutOfOrder,
    ResumeUnknown,
    SessionLimit,
    VoicepipeError,
)
from voicepipe.resumption import owner_of
from voicepipe.services import Services
from voicepipe.session import Session
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Dialect, Step
from voicepipe.wire.doors import door_at
from voicepipe.wire.native import parse_budget_ms

log = logging.getLogger(__name__)

MAX_BEFORE_START = 128
"""Frames that say nothing to a session, before one begins."""
MAX_PASSED_OVER = 1024
"""Of sound that was meant for a session that there is not: twice as many as ten seconds of 20 ms make."""


async def serve_session(connection: Connection, services: Services, ident: str) -> None:
    """Run a session to its end; `ident` is unique in the process. Closes the connection. Raises nothing of
    the client's making."""
    dialect = door_at(connection.path).dialect(connection.headers, connection.query)
    try:
        code, reason = await _serve(connection, dialect, services, ident)
    except ConnectionClosed:
        return
    except ClientError as exc:
        services.observer.client_error(exc.code)
        await _tell(connection, dialect, services, exc)
        code, reason = exc.close_code, exc.code
    except EngineExhausted as exc:
        log.warning("ended, %s: peer %s", exc.code, connection.peer)
        await _tell(connection, dialect, services, exc)
        code, reason = exc.close_code, exc.code
    except EngineBusy as exc:
        services.observer.refused(exc.code)
        log.warning("refused, %s: peer %s", exc.code, connection.peer)
        await _tell(connection, dialect, services, exc)
        code, reason = 1013, exc.code
    await connection.close(code, reason)


async def _serve(connection: Connection, dialect: Dialect, services: Services, ident: str) -> tuple[int, str]:
    budget_ms = _budget_ms(connection, services.config)
    start = dialect.opening() or await _first_message(connection, dialect, services.config.limits.start_s)
    if not start.resume:
        return await Session(connection, dialect, services, ident, start, budget_ms).run()
    owner = owner_of(door_at(connection.path).shown(connection.headers))
    start, parked = await _resumed(connection, dialect, services, start, owner)
    try:
        session = Session(connection, dialect, services, ident, start, budget_ms)
    except VoicepipeError:
        if parked is not None:
            services.resumption.give_back(parked)
        raise
    return await session.run(services.resumption.begin(ident, owner, parked) if start.resume else None)


async def _resumed(
    connection: Connection, dialect: Dialect, services: Services, start: wire.SessionStart, owner: str
) -> tuple[wire.SessionStart, Parked | None]:
    """What the session begins with, and goes on with. A client whose token leads nowhere is told so, keeps its
    place, and begins afresh. Raises ResumeUnknown the second time."""
    if not isinstance(start.resume, str):
        return start, None
    try:
        return start, await services.resumption.redeem(start.resume, owner)
    except ResumeUnknown as exc:
        services.observer.client_error(exc.code)
        await _tell(connection, dialect, services, exc)
        afresh = await _first_message(connection, dialect, services.config.limits.start_s, passes_over=True)
        if isinstance(afresh.resume, str):
            raise
        return afresh, None


async def _first_message(
    connection: Connection, dialect: Dialect, limit_s: float, *, passes_over: bool = False
) -> wire.SessionStart:
    """Of a client that begins. A little that says nothing to the session may go before it; anything may, with
    `passes_over`: it was sent for a session that there is not."""
    message: Step | None = None
    try:
        async with asyncio.timeout(limit_s):
            for _ in range(MAX_PASSED_OVER if passes_over else MAX_BEFORE_START):
                message = _first_of(dialect, await connection.recv())
                if isinstance(message, wire.SessionStart) or (message is not None and not passes_over):
                    break
    except TimeoutError:
        raise SessionLimit(f"no session.start within {limit_s:g} s") from None
    if isinstance(message, wire.SessionStart):
        return message
    raise OutOfOrder("the first message must be session.start")


def _first_of(dialect: Dialect, data: str | bytes) -> Step | None:
    try:
        return next(iter(dialect.receive(data)), None)
    except BadField as exc:
        raise BadStart(exc.message, field=exc.field) from None


async def _tell(connection: Connection, dialect: Dialect, services: Services, exc: VoicepipeError) -> None:
    try:
        async with asyncio.timeout(services.config.limits.send_timeout_s):
            for frame in dialect.fault(exc):
                await connection.send(frame)
    except (ConnectionClosed, TimeoutError):
        log.debug("the client could not be told %s", exc.code)


def _budget_ms(connection: Connection, config: Config) -> float:
    text = connection.query.get("budget_ms")
    if text is None:
        return config.budget_ms
    try:
        return parse_budget_ms(text)
    except BadField as exc:
        raise BadStart(exc.message, field=exc.field) from None
