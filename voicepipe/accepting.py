"""A process that is out of file descriptors accepts no connections: that is said once, counted, and survived.

asyncio tells it with a traceback at each try, a hundred at a time, and tries again a second later. What it tells
goes through `AcceptFaults` here; everything else goes to whom it went before.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger(__name__)

OVER_S = 5.0
"""With no fault for so long, the next one is news."""
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class AcceptFaults:
    def __init__(self) -> None:
        self._last: float | None = None

    def on_fault(self, now: float) -> bool:
        """Whether it is news."""
        news = self._last is None or now - self._last > OVER_S
        self._last = now
        return news


def is_scarcity(context: dict[str, Any]) -> bool:
    """Whether a loop's context tells of a connection that could not be accepted for want of something."""
    error = context.get("exception")
    return isinstance(error, OSError) and error.errno in _SCARCE and "accept" in str(context.get("message"))


@contextmanager
def surviving_scarcity(loop: asyncio.AbstractEventLoop, count: Callable[[], None]) -> Iterator[None]:
    """While the block runs; `count` is called at each fault."""
    faults = AcceptFaults()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if is_scarcity(context):
            count()
            if faults.on_fault(loop.time()):
                log.error(
                    "connections cannot be accepted: %s. Those that are open go on; raise the limit of open files "
                    "(ulimit -n) above twice limits.max_connections, or lower that",
                    context["exception"].strerror,
                )
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)
