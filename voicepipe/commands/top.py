"""`voicepipe top`: a live view of a server."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from voicepipe.commands.secrets import shown_metrics_token
from voicepipe.errors import ServerUnreachable, VoicepipeError
from voicepipe.signals import on_signals, status_of_signal
from voicepipe.top.draw import Row, away, frame, screen
from voicepipe.top.fetch import EXAMPLE, fetch, metrics_url
from voicepipe.top.figures import Figures
from voicepipe.top.history import History
from voicepipe.top.scrape import Scrape, read

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Of the terminal's second screen, without a cursor."""
HOME, TO_LINE_END, TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
WIDTH, UNCUT = 100, 10_000
"""Columns that are drawn for, and that a line may have, where the output is no terminal."""


def add_top(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "top",
        help="watch a server live",
        description="The gap against the budget, verdicts, blame, who got in and who was refused, the device, and "
        "the server's own lag, from its /metrics. Where the server is away that is said, and it is shown again as "
        "soon as it answers. Its token, where it has one for metrics: VOICEPIPE_METRICS_TOKEN. With NO_COLOR set "
        "there is no colour.",
        epilog="Exit status: 0, also for Ctrl-C; 1, nobody answers (with --once: else it is waited for); 2, wrong "
        "usage, or the server does not show its metrics to this caller; 143, SIGTERM.",
    )
    parser.add_argument("url", nargs="?", default=EXAMPLE, metavar="URL", help=f"server (default {EXAMPLE})")
    parser.add_argument("--once", action="store_true", help="one frame, of all since the server's start")
    parser.add_argument(
        "--json",
        action="store_true",
        help="a JSON object per frame, on a line of its own; {summary: {error}} where there is none to come",
    )
    parser.add_argument("--interval", type=_seconds(0.2, 60.0), default=2.0, metavar="S", help="between frames (2)")
    parser.add_argument("--window", type=_seconds(1.0, 3600.0), default=60.0, metavar="S", help="that counts (60)")
    parser.set_defaults(run=_top)
    return parser


def _seconds(least: float, most: float) -> Callable[[str], float]:
    """A converter for argparse."""

    def convert(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", text) or not least <= float(text) <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected seconds from {least:g} to {most:g}")
        return float(text)

    return convert


def _top(args: argparse.Namespace) -> int:
    try:
        return _watch(args)
    except VoicepipeError as error:
        if args.json:
            told = {"summary": {"error": {"code": error.code, "message": error.message}}}
            print(msgspec.json.encode(told).decode(), flush=True)
        raise


def _watch(args: argparse.Namespace) -> int:
    url, token = metrics_url(args.url), shown_metrics_token(os.environ)
    view = View(
        sys.stdout, url, as_json=args.json, colour="NO_COLOR" not in os.environ, term=os.environ.get("TERM")
    )
    if args.once:
        scrape = read(fetch(url, token), 0.0)
        view.show(History(args.window).add(scrape, uptime_s(scrape)), [])
        return 0
    return asyncio.run(watch(url, token, view, History(args.window), args.interval))


def uptime_s(scrape: Scrape) -> float | None:
    """By the clocks of both machines; never negative."""
    began = scrape.value("process_start_time_seconds")
    return None if began is None else max(0.0, datetime.now(UTC).timestamp() - began)


class View:
    """Where frames are shown: a terminal, which is drawn over, or anything else, one below the other."""

    def __init__(self, out: TextIO, url: str, *, as_json: bool, colour: bool, term: str | None) -> None:
        self._out = out
        self._url = url
        self._as_json = as_json
        self._colour = colour
        self.is_terminal = not as_json and out.isatty() and term not in (None, "", "dumb")
        self._rows: Sequence[Row] = ()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Of a live view: a terminal is given back as it was."""
        if not self.is_terminal:
            yield
            return
        self._put(ENTER)
        try:
            yield
        finally:
            self._put(LEAVE)

    def show(self, seen: Figures, trend_ms: Sequence[float | None], *, live: bool = False) -> None:
        if self._as_json:
            self._put(msgspec.json.encode({"server": self._url, **msgspec.to_builtins(seen)}).decode() + "\n")
        else:
            self._draw(frame(seen, trend_ms, self._url, self._size()[0]), live=live)

    def show_away(self, why: str, away_s: float) -> None:
        if self._as_json:
            self._put(msgspec.json.encode({"server": self._url, "away": why, "away_s": away_s}).decode() + "\n")
        else:
            self._draw(away(self._url, why, away_s, self._size()[0]), live=True)

    def redraw(self) -> None:
        """The same, to the size that the terminal has now."""
        if self.is_terminal:
            self._draw(self._rows, live=True)

    def _draw(self, rows: Sequence[Row], *, live: bool) -> None:
        self._rows = rows
        width, height = self._size()
        if not (live and self.is_terminal):
            whole = width if self.is_terminal else UNCUT
            lines = screen(rows, whole, len(rows), colour=self._colour and self.is_terminal)
            self._put("\n".join(lines) + ("\n\n" if live else "\n"))
            return
        lines = screen(rows, width, height, colour=self._colour)
        self._put(HOME + "\r\n".join(line + TO_LINE_END for line in lines) + TO_SCREEN_END)

    def _size(self) -> tuple[int, int]:
        if not self._out.isatty():
            return WIDTH, 0
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def _put(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


async def watch(url: str, token: str, view: View, history: History, interval_s: float) -> int:
    """Until a signal: the exit status. Raises Unauthorized and Forbidden, which do not pass."""
    clock = asyncio.get_running_loop().time
    told: list[int] = []
    stop = asyncio.Event()

    def tell(number: int) -> None:
        told.append(number)
        stop.set()

    with on_signals(tell), _on_resize(view), view.open():
        since: float | None = None
        while not stop.is_set():
            began = clock()
            try:
                text = await _fetched(url, token, stop)
                if text is None:
                    break
                scrape = read(text, clock())
            except ServerUnreachable as error:
                since = began if since is None else since
                view.show_away(error.message, clock() - since)
            else:
                since = None
                view.show(history.add(scrape, uptime_s(scrape)), history.trend_ms, live=True)
            await _until(stop, began + interval_s - clock())
    return 0 if told[0] == signal.SIGINT else status_of_signal(told[0])


async def _fetched(url: str, token: str, stop: asyncio.Event) -> str | None:
    """None where `stop` came before. A call that hangs is left to a thread that keeps nobody."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str | VoicepipeError] = loop.create_future()

    def tell(result: str | VoicepipeError) -> None:
        if not answer.done():
            answer.set_result(result)

    def work() -> None:
        result: str | VoicepipeError
        try:
            result = fetch(url, token)
        except VoicepipeError as error:
            result = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(tell, result)

    threading.Thread(target=work, name="fetch metrics", daemon=True).start()
    stopped = asyncio.ensure_future(stop.wait())
    try:
        first: list[asyncio.Future[Any]] = [answer, stopped]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    if stop.is_set():
        return None
    result = answer.result()
    if isinstance(result, VoicepipeError):
        raise result
    return result


async def _until(stop: asyncio.Event, wait_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, wait_s)):
            await stop.wait()


@contextmanager
def _on_resize(view: View) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(signal.SIGWINCH, view.redraw)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
