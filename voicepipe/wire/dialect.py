"""The seam between a session and what its client speaks: a dialect translates, sans-I/O, and decides nothing.

    client -- frame --> receive() -- messages --> session -- messages --> tell() -- frames --> client

The session speaks `wire.messages` and nothing else. A dialect is made for one connection and is told everything in
order: what the client sends, what the session answers. It may keep what its client must be able to name (items,
responses), and may hold a wish back until the session can grant it; it has no clock, no socket and no task.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from voicepipe.errors import ClientError, VoicepipeError
from voicepipe.wire.messages import AudioFrame, ClientMessage, SessionStart, Told

Frame = str | bytes
"""What goes to the client: a text frame or a binary one."""
Step = ClientMessage | AudioFrame | Frame
"""What a client's frame comes to: something for the session, or an answer to the client."""


class Dialect(Protocol):
    max_backlog_s: float
    """How much sound may wait to be listened to before the oldest is passed over. Small where a client sends as it
    records, large where it may send a recording at once."""
    least_burst_s: float
    """How much sound its clients may send at once in any case."""

    def opening(self) -> SessionStart | None:
        """What begins the session; None: the client's first message does."""
        ...

    def receive(self, data: Frame) -> Iterable[Step]:
        """Translate one frame of the client. Steps are taken one by one: where the session refuses one, the rest is
        not asked for. Raises ClientError, whatever comes in."""
        ...

    def tell(self, told: Told) -> Iterable[Frame]:
        """Translate what the session says. Sound that is out of date by the time at which it would go out is
        dropped behind this, so that one `AudioFrame` comes to frames that can be left out together."""
        ...

    def wishes(self) -> Iterable[ClientMessage]:
        """What was held back, and can be granted by now. Asked after everything that has happened."""
        ...

    def fault(self, error: VoicepipeError) -> Iterable[Frame]:
        """Say what was wrong with the last frame, or with the session."""
        ...

    def is_fatal(self, error: ClientError) -> bool:
        """Whether it ends the session."""
        ...
