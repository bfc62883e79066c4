"""Threads for blocking calls, one call at a time each.

Not `ThreadPoolExecutor`: its threads are waited for when the interpreter exits, and a call that hangs would keep
the process from ending. These are daemons: with the process they end wherever they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Task = Callable[[], None]


class Worker(Executor):
    """One thread. What it is given runs in order; its owner gives it a call at a time, so that none waits long."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._tasks,), name=name, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as exc:  # SystemExit of a library ends neither the thread nor the process
                future.set_exception(exc)
            else:
                future.set_result(result)

        self._tasks.put(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """After what it has been given, which runs in any case. `wait` for that."""
        self._tasks.put(None)
        if wait:
            self._thread.join()


def _work(tasks: SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # or an idle thread keeps its last call, and the session that asked for it


class Crew:
    """The workers of one lane, as many as it runs chunks at a time. One that is lost in a call is replaced."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._hired = 0
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        for _ in range(size):
            self.hire()

    @property
    def first(self) -> Worker:
        """Whatever it does at present."""
        return self._workers[0]

    def take(self) -> Worker:
        """One that has nothing to do: the one that was at work last, whose caches are warm."""
        return self._idle.pop()

    def put_back(self, worker: Worker) -> None:
        self._idle.append(worker)

    def hire(self) -> None:
        worker = Worker(f"{self._name}_{self._hired}")
        self._hired += 1
        self._workers.append(worker)
        self._idle.append(worker)

    def lose(self, worker: Worker) -> None:
        """It goes when its call has ended, if that ever happens."""
        self._workers.remove(worker)
        worker.shutdown(wait=False)

    def dismiss(self) -> None:
        """All of them; returns when those have gone that had nothing to do."""
        for worker in self._workers:
            worker.shutdown(wait=worker in self._idle)
