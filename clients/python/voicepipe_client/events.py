"""What a session tells its caller: the server's messages, sound, and what becomes of the connection."""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.wire.native import AudioFrame, ServerMessage


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is lost. The turn that was going on is over, and nothing of its reply is to be heard any more.
    Told by a session that comes back by itself, and tries to from now on."""

    why: str
    close_code: int | None
    """WebSocket close code; 1006 where the server just vanished."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """There is a connection again."""

    resumed: bool
    """The conversation goes on: turns are counted on. False: the server knows nothing of it any more, and counts
    turns and epochs anew."""
    away_s: float
    """How long there was none."""
    tries: int


Event = ServerMessage | AudioFrame | Disconnected | Reconnected
