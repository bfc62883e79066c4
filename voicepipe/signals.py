"""What SIGTERM and Ctrl-C do to a command: the first one lets it end in order, the next one does not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPPERS = (signal.SIGTERM, signal.SIGINT)


class Terminated(KeyboardInterrupt):
    """SIGTERM: what undoes itself on Ctrl-C does so on this as well."""


StatusOf = Callable[[int], int]
"""Of a signal: the exit status that it ends the command with."""


def status_of_signal(number: int) -> int:
    return 128 + number


def serve_status(number: int) -> int:
    return 0 if number == signal.SIGTERM else status_of_signal(number)


@contextmanager
def sigterm_raises(status_of: StatusOf) -> Iterator[None]:
    """SIGTERM raises Terminated where it finds the main thread, a second one ends the process at once. While a loop
    runs, `on_signals` replaces that."""

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(number, _end_now(status_of))
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # handlers cannot be set there; the embedding program has its own
        return
    before = signal.signal(signal.SIGTERM, on_signal)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt where it finds the main thread, so that what is done can be told; the second
    one ends the process at once, with 130. Where Ctrl-C is ignored, or somebody else's, it stays so."""

    def on_signal(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(number, _end_now(status_of_signal))
        raise KeyboardInterrupt

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def on_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Inside a running loop: both signals call `tell` on it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in STOPPERS}
    for number in STOPPERS:
        loop.add_signal_handler(number, tell, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def next_one_ends(status_of: StatusOf) -> None:
    """From now on a signal does not wait for the loop, which may wait for an engine itself."""
    for number in STOPPERS:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, _end_now(status_of))


def _end_now(status_of: StatusOf) -> Callable[[int, FrameType | None], NoReturn]:
    return lambda number, frame: os._exit(status_of(number))
