"""An event loop of virtual time that draws in which order things happen, and a hash of all that did."""

from __future__ import annotations

import asyncio
import hashlib
import random
import struct
from collections.abc import Callable, Coroutine
from typing import Any

LAG_S = 0.002
"""How late timers are, at most."""
BEGIN_S = 1000.0


class Deadlock(AssertionError):
    """Nothing is ready, and no timer is set: somebody waits for what never comes."""


class Trace:
    """What has happened, as a hash; and as text, where somebody wants to read it."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=12)
        self._show = show
        self.steps = 0

    def step(self, now: float, ready: int) -> None:
        self.steps += 1
        self._hash.update(struct.pack("<dI", now, ready))

    def note(self, now: float, what: str) -> None:
        self._hash.update(what.encode())
        if self._show is not None:
            self._show(f"{now - BEGIN_S:10.4f}  {what}")

    def digest(self) -> str:
        return self._hash.hexdigest()


class _Task(asyncio.Task[Any]):
    """Sets of tasks have the same order in every process: by when they were made, not by where they lie."""

    serial = 0

    def __new__(cls, *args: Any, loop: SeededLoop, **kwargs: Any) -> _Task:
        task: _Task = super().__new__(cls)
        loop.tasks += 1
        task.serial = loop.tasks
        return task

    def __hash__(self) -> int:
        return self.serial


class SeededLoop(asyncio.BaseEventLoop):
    """Each step shuffles what is ready; waiting is a jump to the next timer. A blocking call runs at once, and
    takes as long as it says by `burn`."""

    def __init__(self, seed: object, trace: Trace) -> None:
        super().__init__()
        self.random = random.Random(f"{seed}/loop")
        self.trace = trace
        self.tasks = 0
        self.check: Callable[[], None] = lambda: None
        """Called after each step."""
        self._now = BEGIN_S
        self._burnt_s = 0.0
        self._selector = self
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now + self._burnt_s

    def jump(self, seconds: float) -> None:
        """The machine stands still for so long."""
        self._now += seconds

    def burn(self, seconds: float) -> None:
        """The blocking call that runs takes so long; infinity is for ever."""
        self._burnt_s += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            result, error = func(*args), None
        except BaseException as exc:
            result, error = None, exc
        took_s, self._burnt_s = self._burnt_s, 0.0

        def settle() -> None:
            if not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        if took_s < float("inf"):
            self.call_later(took_s + self.random.random() * LAG_S, settle)
        return future

    # what the base class asks of a loop

    def select(self, timeout: float | None = None) -> tuple[()]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        if timeout > 0.0:
            self._now += timeout + self.random.random() * LAG_S
        return ()

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody is on another thread."""

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[has-type]
        if len(ready) > 1:
            mixed = list(ready)
            self.random.shuffle(mixed)
            ready.clear()
            ready.extend(mixed)
        super()._run_once()  # type: ignore[misc]
        self.trace.step(self._now, len(ready))
        self.check()


def _make_task(loop: Any, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> _Task:
    return _Task(coro, loop=loop, **kwargs)
