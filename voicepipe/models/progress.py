"""How far a fetch has got: a value, a line of text for it, and a reporter for terminals and log
files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TextIO

Stage = Literal["wait", "fetch", "unpack", "verify", "done"]

_VERBS: dict[Stage, str] = {
    "wait": "waiting",
    "fetch": "fetching",
    "unpack": "unpacking",
    "verify": "verifying",
    "done": "ready",
}
_SPARSE_STEP = 0.25
"""Without a terminal, a fetch writes a line each time it has passed another such fraction."""
_NO_TTY_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of one model. A fetch starts with `done_bytes` 0, and so tells its size."""

    model: str
    stage: Stage
    """`wait`: another process fetches this model. `done`: it can be loaded."""
    done_bytes: int
    """From 0 to `total_bytes`, never falling within a stage of one source."""
    total_bytes: int
    note: str = ""
    """Where it comes from, or what is waited for."""

    @property
    def fraction(self) -> float:
        return self.done_bytes / self.total_bytes if self.total_bytes else 1.0


Report = Callable[[Progress], None]


def size_text(size_bytes: int) -> str:
    """Decimal, as package indexes count: `71 MB`, `28 kB`, `12 B`."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}" if unit == "GB" else f"{size_bytes / scale:.0f} {unit}"
    return f"{size_bytes} B"


def render(progress: Progress, width: int) -> str:
    """One line of at most `width` columns, plain ASCII apart from the model's name and the note.

    The bar gives way first, then the byte counts, then the end of the line.
    """
    head = f"{progress.model}: {_VERBS[progress.stage]}"
    if progress.stage in ("wait", "done"):
        tail = size_text(progress.total_bytes) if progress.stage == "done" else progress.note
        return f"{head} {tail}".rstrip()[:width]
    percent = f"{int(100 * progress.fraction):3d}%"
    counts = f"{progress.done_bytes / 1e6:.1f}/{progress.total_bytes / 1e6:.1f} MB"
    room = width - len(f"{head} [] {percent} {counts}")
    if room >= 5:
        filled = int(room * progress.fraction)
        return f"{head} [{'#' * filled}{'.' * (room - filled)}] {percent} {counts}"
    line = f"{head} {percent} {counts}"
    return line if len(line) <= width else f"{head} {percent}"[:width]


class TerminalReporter:
    """A `Report` that writes to `stream`: one line that redraws itself on a terminal, sparse lines
    elsewhere.

    `width` is asked of the terminal unless it is given. Call `finish` when a fetch ends early, so
    that what is printed next starts on its own line.
    """

    def __init__(self, stream: TextIO, *, width: int | None = None) -> None:
        self._stream = stream
        self._tty = stream.isatty()
        self._width = width
        self._drawn = 0  # columns of the open line, 0 while none is open
        self._announced: tuple[str, str] | None = None  # (model, note) of the last heading
        self._step = 0  # sparse steps already written

    def __call__(self, progress: Progress) -> None:
        if progress.stage == "fetch" and self._announced != (progress.model, progress.note):
            self._announced = (progress.model, progress.note)
            self._step = 0
            origin = f" ({progress.note})" if progress.note else ""
            self._line(f"{progress.model}: {size_text(progress.total_bytes)} to fetch{origin}")
        if self._tty:
            self._draw(progress)
        else:
            self._log(progress)

    def finish(self) -> None:
        """Close the line that is being redrawn, if there is one."""
        if self._drawn:
            self._stream.write("\n")
            self._drawn = 0
        self._stream.flush()

    def _line(self, text: str) -> None:
        self.finish()
        self._stream.write(text + "\n")
        self._stream.flush()

    def _draw(self, progress: Progress) -> None:
        text = render(progress, self._columns() - 1)
        self._stream.write("\r" + text.ljust(self._drawn))
        self._drawn = len(text)
        self._stream.flush()
        if progress.stage == "done":
            self.finish()

    def _log(self, progress: Progress) -> None:
        if progress.stage == "fetch":
            step = int(progress.fraction / _SPARSE_STEP)
            if step <= self._step:
                return
            self._step = step
        elif progress.stage in ("unpack", "verify"):
            return
        self._line(render(progress, _NO_TTY_WIDTH))

    def _columns(self) -> int:
        if self._width is not None:
            return self._width
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:  # a terminal without a size, or a stream without a descriptor
            return 80
