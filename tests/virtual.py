"""An event loop whose time jumps to the next timer: minutes of a session in milliseconds, and no sleeping.

Executor jobs run inline, so that nothing depends on a real thread's pace. One that says so by `burn` takes time all
the same: its result comes that much later.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: hands the wait over to the loop's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.advance: Callable[[float], None] = lambda seconds: None

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("deadlock: nothing is ready and no timer is set")
            self.advance(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _JumpingSelector()
        super().__init__(selector)
        self._now = 1000.0
        self._burnt_s = 0.0
        selector.advance = self.advance

    def advance(self, seconds: float) -> None:
        """Time passes, and the loop stands still."""
        self._now += seconds

    def burn(self, seconds: float) -> None:
        """The executor's job that runs takes so long; infinity is for ever."""
        self._burnt_s += seconds

    def time(self) -> float:
        return self._now + self._burnt_s

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:
        future = self.create_future()
        try:
            result, error = func(*args), None
        except Exception as exc:
            result, error = None, exc
        took_s, self._burnt_s = self._burnt_s, 0.0

        def settle() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        if took_s == 0.0:
            settle()
        elif took_s < inf:
            self.call_later(took_s, settle)
        return future


def run(main: Coroutine[Any, Any, T], *, limit_s: float = 3600.0) -> T:
    """Run to the end in virtual time; a session that hangs fails after `limit_s` virtual seconds."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(limited())
