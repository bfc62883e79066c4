"""`voicepipe talk`, to a server, and `voicepipe demo`, to one of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from voicepipe.app import serving
from voicepipe.commands.engines import loader_of, model_store
from voicepipe.commands.folders import make_folder
from voicepipe.commands.options import add_clips, add_engines, add_promise, budget_ms_of, config_of, recorders_of
from voicepipe.commands.ready import ready_text
from voicepipe.conversation import Call, check_out, check_suffix, converse, load_clips, spoken_question
from voicepipe.engines.base import Engines
from voicepipe.errors import EnvironmentFailure, VoicepipeError
from voicepipe.models.place import default_root
from voicepipe.recorders import Recorders
from voicepipe.show import Display, JsonLines, Reporter
from voicepipe.signals import (
    next_one_ends,
    on_signals,
    status_of_signal,
)

DEFAULT_URL = "ws://127.0.0.1:8765"


def add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "demo",
        help="ask a spoken question over a real socket and hear the answer",
        description="Server and client in one process, over a loopback socket. Without --wav, a question is "
        "synthesised. Fetches the models that it needs and that are not here: the default ones are about 220 MB.",
    )
    add_clips(parser, out="demo/reply.wav in the cache")
    add_engines(parser)
    parser.set_defaults(run=_demo)
    return parser


def add_talk(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "talk",
        help="talk to a server from this terminal",
        description="From the microphone (needs the `mic` extra and a headset: a terminal cancels no echo) "
        "or from recordings. A token, if the server wants one: VOICEPIPE_TOKEN (status 2 where it is missing or "
        "wrong).",
    )
    parser.add_argument("--url", default=DEFAULT_URL, help=f"server (default {DEFAULT_URL})")
    add_clips(parser, out="nowhere")
    add_promise(parser, by_server=True)
    parser.set_defaults(run=_talk)
    return parser


def _demo(args: argparse.Namespace) -> int:
    reporter = _reporter(args)
    with _told_to(reporter):
        return _run_demo(args, reporter)


def _run_demo(args: argparse.Namespace, reporter: Reporter) -> int:
    clips = load_clips(args.wav or [])
    config = config_of(args)
    limits = msgspec.structs.replace(config.limits, max_sessions=1, grace_s=1.0)
    config = msgspec.structs.replace(config, host="127.0.0.1", port=0, limits=limits)
    folder = default_root(os.environ) / "demo"
    if args.out is None or not clips:
        _make_own(folder)
    out = args.out or folder / "reply.wav"
    _ready(out)

    async def run(loader: Callable[[], Engines], recorders: Recorders) -> bool:
        reporter.say("loading the engines")
        async with serving(config, loader, recorders=recorders) as served:
            reporter.say(ready_text(config, served))
            said = list(clips)
            if not said:
                said = [await spoken_question(served.engines.tts, folder, served.on_thread)]
                reporter.say(f"the question is in {folder / said[0].name}")
            call = Call(f"ws://127.0.0.1:{served.server.port}", out=out)
            return await converse(call, said, reporter)

    with recorders_of(config) as recorders:
        loader = loader_of(config, model_store())
        return _report(run(loader, recorders), reporter)


def _talk(args: argparse.Namespace) -> int:
    reporter = _reporter(args)
    with _told_to(reporter):
        return _run_talk(args, reporter)


def _run_talk(args: argparse.Namespace, reporter: Reporter) -> int:
    clips = load_clips(args.wav or [])
    if args.out is not None:
        _ready(args.out)
    call = Call(
        args.url,
        token=os.environ.get("VOICEPIPE_TOKEN"),
        budget_ms=budget_ms_of(args),
        operating_point=args.operating_point,
        enforcement=args.enforcement,
        out=args.out,
    )
    return _report(converse(call, clips, reporter), reporter)


def _make_own(folder: Path) -> None:
    """In the cache, where nobody need be told of it. Raises EnvironmentFailure."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise EnvironmentFailure(f"{folder} cannot be made: {exc.strerror}; set VOICEPIPE_CACHE") from None


def _ready(out: Path) -> None:
    """Raises ConfigError and AudioFileError."""
    check_suffix(out)
    make_folder(out, "--out")
    check_out(out)


def _reporter(args: argparse.Namespace) -> Reporter:
    return JsonLines(sys.stdout, sys.stderr) if args.json else Display(sys.stdout, sys.stderr)


@contextmanager
def _told_to(reporter: Reporter) -> Iterator[None]:
    """What comes to nothing before there is a session ends with a summary as well."""
    try:
        yield
    except VoicepipeError as exc:
        reporter.on_no_session(exc)
        raise
    except KeyboardInterrupt:
        reporter.on_no_session(None)
        raise


def _report(run: Coroutine[object, object, bool], reporter: Reporter) -> int:
    """0, or 1 where there is a recording of which came no turn in which something was said."""
    return asyncio.run(_until_told(run, reporter))


async def _until_told(run: Coroutine[object, object, bool], reporter: Reporter) -> int:
    """The first signal cancels `run`, which prints and writes what there is; a second one doesn't wait for it."""
    task = asyncio.ensure_future(run)
    told: list[int] = []

    def tell(number: int) -> None:
        told.append(number)
        task.cancel()
        next_one_ends(status_of_signal)

    with on_signals(tell):
        try:
            return 0 if await task else 1
        except asyncio.CancelledError:
            if not told:
                raise
            reporter.on_no_session(None)
            return status_of_signal(told[0])
