"""Server-sent events, sans I/O: bytes in, the `data` of whole events out.

Only what chat endpoints use: event names, ids and retry times are read over, and so are comments (keep-alives).
"""

from __future__ import annotations

import re

from voicepipe.errors import EngineUnavailable

EVENT_BYTES_MAX = 1 << 20
"""An event of a chat stream is a few hundred bytes; more than this is a peer that cannot be trusted."""

_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
"""A lone CR ends a line too, but at the end of the bytes it may still be half of a CRLF."""


class SseParser:
    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._size = 0
        self._first = True

    def feed(self, chunk: bytes) -> list[str]:
        """Data of the events that `chunk` completes. Raises EngineUnavailable if one is too long."""
        *lines, self._tail = _LINE_END.split(self._tail + chunk)
        events: list[str] = []
        for line in lines:
            if self._first:
                line = line.removeprefix(b"\xef\xbb\xbf")
                self._first = False
            event = self._line(line)
            if event is not None:
                events.append(event)
        if self._size + len(self._tail) > EVENT_BYTES_MAX:
            raise EngineUnavailable(f"the endpoint sent an event of over {EVENT_BYTES_MAX} bytes")
        return events

    def _line(self, line: bytes) -> str | None:
        if not line:
            data, self._data, self._size = self._data, [], 0
            return b"\n".join(data).decode("utf-8", "replace") if data else None
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
        return None
