"""Threads of a lane: in order, replaced when lost, and never in the way of the process's end. (Real time.)"""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref

import pytest

from voicepipe.worker import Crew, Worker


def test_a_worker_does_one_call_after_the_other() -> None:
    """On one thread, which has its name."""
    worker = Worker("lane-x")
    names = [worker.submit(lambda: threading.current_thread().name) for _ in range(3)]
    assert [name.result(5) for name in names] == ["lane-x"] * 3
    worker.shutdown()
    assert "lane-x" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), StopIteration()])
def test_whatever_a_call_raises_is_in_its_future_and_the_worker_goes_on(error: BaseException) -> None:
    """A library that calls `sys.exit` ends nothing."""

    def fails() -> None:
        raise error

    worker = Worker("lane-x")
    assert worker.submit(fails).exception(5) is error
    assert worker.submit(lambda: 7).result(5) == 7
    worker.shutdown()


def test_a_call_that_was_taken_back_does_not_run() -> None:
    """While another one is at work."""
    go_on, ran = threading.Event(), []
    worker = Worker("lane-x")
    worker.submit(go_on.wait, 5)
    second = worker.submit(lambda: ran.append(2))
    assert second.cancel()
    go_on.set()
    worker.shutdown()
    assert ran == []


def test_a_crew_gives_the_one_that_worked_last_and_replaces_who_is_lost() -> None:
    """The lost one goes when its call has ended."""
    crew, go_on = Crew("lane-x", 2), threading.Event()
    first = crew.first
    one, other = crew.take(), crew.take()
    crew.put_back(one)
    assert crew.take() is one
    hung = other.submit(go_on.wait, 5)
    crew.lose(other)
    crew.hire()
    fresh = crew.take()
    assert fresh is not other and fresh.submit(lambda: 1).result(5) == 1
    assert first in (one, other)
    go_on.set()
    assert hung.result(5)
    crew.put_back(one)
    crew.put_back(fresh)
    crew.dismiss()


def test_a_call_that_hangs_does_not_keep_the_process_from_ending() -> None:
    """As a thread of a pool would: the interpreter waits for those."""
    code = (
        "import threading, time; from voicepipe.worker import Worker\n"
        "began = threading.Event()\n"
        "Worker('x').submit(lambda: (began.set(), time.sleep(60)))\n"
        "assert began.wait(10)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


def test_an_idle_worker_lets_go_of_its_last_call() -> None:
    """A call holds the session that asked for it, and that a minute of sound."""

    class Held:
        pass

    held = Held()
    gone = threading.Event()
    weakref.finalize(held, gone.set)
    worker = Worker("w")
    worker.submit(lambda held=held: repr(held)).result()  # type: ignore[misc]
    del held
    assert gone.wait(5.0)
    worker.shutdown()
