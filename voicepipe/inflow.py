"""How fast one connection's bytes are parsed: by pieces, and within its share of the event loop.

A quarter of a megabyte may come in one read. As frames of one byte that is a third of a second of parsing, in which
nobody else is served. So a read is parsed by pieces, with a turn of the loop for the others between them; and who
makes the parser work for long waits nine times as long before more of it is read. Sound as it is spoken, and
messages as large as they may be, stay far below that.

Knows no sockets: what it does is done by the calls that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PIECE_BYTES = 2_048
FREE_S = 0.0002
"""A piece that is parsed within so much of the processor's time costs no waiting."""
REST = 9.0
"""So many times as long is waited after one that took longer: a tenth of the loop, for each connection."""
MAX_REST_S = 0.25
BETWEEN_S = 0.0005
"""Between pieces of one read, for what is made of them to be done: megabytes a second, a hundred times speech."""


@dataclass(frozen=True, slots=True)
class Transport:
    """What an inflow asks for."""

    feed: Callable[[bytes], None]
    """Parse this."""
    pause: Callable[[], None]
    resume: Callable[[], None]
    """Read no more; read on."""
    later: Callable[[float, Callable[[], None]], object]
    """Call this in so many seconds."""
    is_full: Callable[[], bool]
    """So much has been parsed and not been taken that more has to wait."""
    used_s: Callable[[], float]
    """Processor time of this thread."""


class Inflow:
    """`on_data` with what was read, `on_wanted` when what was full is so no more, `on_lost` at the end."""

    def __init__(self, transport: Transport) -> None:
        self._do = transport
        self._rest = b""
        self._is_waiting = False
        """For a timer, which is armed."""
        self._is_lost = False

    @property
    def held_bytes(self) -> int:
        """Read, and not parsed: no more than one read, for none follows before these are gone."""
        return len(self._rest)

    def on_data(self, data: bytes) -> None:
        self._rest += data
        if self._is_waiting or self._do.is_full():
            self._do.pause()
        else:
            self._parse()

    def on_wanted(self) -> None:
        if not self._is_waiting:
            self._wait(0.0)

    def on_lost(self) -> None:
        self._is_lost, self._rest = True, b""

    def _parse(self) -> None:
        piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
        began_s = self._do.used_s()
        self._do.feed(piece)
        took_s = self._do.used_s() - began_s
        rest_s = min(REST * took_s, MAX_REST_S) if took_s > FREE_S else 0.0
        if self._rest:
            rest_s = max(rest_s, BETWEEN_S)
        if not self._is_lost and rest_s:
            self._do.pause()
            self._wait(rest_s)

    def _wait(self, seconds: float) -> None:
        self._is_waiting = True
        self._do.later(seconds, self._on_waited)

    def _on_waited(self) -> None:
        self._is_waiting = False
        if self._is_lost or self._do.is_full():
            return
        if self._rest:
            self._parse()
        if not self._is_waiting and not self._is_lost and not self._do.is_full():
            self._do.resume()
