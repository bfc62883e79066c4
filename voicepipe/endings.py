"""How a session that ended with an error is closed, and what may be said about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from voicepipe.connection import ConnectionClosed
from voicepipe.errors import ClientError, VoicepipeError, type_and_place


@dataclass(frozen=True, slots=True)
class Ending:
    code: int
    """WebSocket close code."""
    reason: str
    client_error: str | None = None
    """Code of the client's fault, if that was it."""
    bugs: tuple[str, ...] = ()
    """Type and place of each fault of our own, fit for a log."""


GOOD = Ending(1000, "")
BUG = Ending(1011, "internal error")


def ending_of(error: Exception) -> Ending:
    """A bug outweighs an error, an error outweighs a peer that is gone, which is a good end."""
    causes = list(_leaves(error))
    known = (VoicepipeError, ConnectionClosed)
    bugs = tuple(type_and_place(cause) for cause in causes if not isinstance(cause, known))
    if bugs:
        return Ending(BUG.code, BUG.reason, bugs=bugs)
    for cause in causes:
        if isinstance(cause, VoicepipeError):
            fault = cause.code if isinstance(cause, ClientError) else None
            return Ending(cause.close_code, cause.code, fault)
    return GOOD


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """A task group's errors, one by one."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
