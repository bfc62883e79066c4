"""How far a long command is, on stderr: a bar for a terminal, now and then a line for a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 10.0
"""At most one line in that many seconds, and none of what is over sooner."""
_BAR = 30

Show = Callable[[int, int], None]
"""(runs that are done, runs in all)."""


@contextmanager
def shown(name: str) -> Iterator[Show]:
    """Told how far it is, by calls of what it gives, as often as one likes."""
    if not sys.stderr.isatty():
        lines = Lines(name, time.monotonic())
        yield lambda done, of: _written(lines.line(done, of, time.monotonic()))
        return
    try:
        yield lambda done, of: print(f"\r{bar(name, done, of)}", end="", file=sys.stderr, flush=True)
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _written(line: str | None) -> None:
    if line is not None:
        print(f"voicepipe: {line}", file=sys.stderr, flush=True)


def bar(name: str, done: int, of: int) -> str:
    full = _BAR * done // max(1, of)
    return f"{name} [{'#' * full}{'.' * (_BAR - full)}] {done}/{of} runs"


class Lines:
    def __init__(self, name: str, now: float) -> None:
        self._name = name
        self._began = self._last = now

    def line(self, done: int, of: int, now: float) -> str | None:
        """What is to be written at `now`, monotonic seconds; None where the last line is recent, or all is done.
        The estimate takes the runs that are left for as long as those before."""
        if done >= of or now - self._last < EVERY_S:
            return None
        self._last = now
        passed_s = now - self._began
        left = f"about {passed_s * (of - done) / done:.0f} s left" if done else "no estimate before the first"
        return f"{self._name}: {done}/{of} runs after {passed_s:.0f} s; {left}"
