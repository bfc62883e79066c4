"""The command line: reads argv, runs a command, and tells how it ended."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence

from voicepipe import __version__
from voicepipe.commands.config import add_config
from voicepipe.commands.dashboards import add_dashboards
from voicepipe.commands.models import add_models
from voicepipe.commands.replay import add_replay
from voicepipe.commands.serve import add_serve, run_serve
from voicepipe.commands.simulate import add_simulate
from voicepipe.commands.talk import add_demo, add_talk
from voicepipe.commands.top import add_top
from voicepipe.errors import EngineError, VoicepipeError
from voicepipe.signals import (
    Terminated,
    serve_status,
    sigterm_raises,
    status_of_signal,
)

COMMANDS = (
    add_demo,
    add_serve,
    add_talk,
    add_top,
    add_config,
    add_dashboards,
    add_models,
    add_replay,
    add_simulate,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 for a failure, 2 for wrong usage (a token that is missing or wrong is that too), 130 for
    Ctrl-C, 143 for SIGTERM; SIGTERM ends `serve` with 0 at any time."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as ended:  # also of --help and --version, which have written
        raise SystemExit(_flushed(int(ended.code or 0))) from None
    status_of = serve_status if args.run is run_serve else status_of_signal
    try:
        with sigterm_raises(status_of):
            return _flushed(_run(args))
    except Terminated:
        return status_of(signal.SIGTERM)
    except KeyboardInterrupt:
        return status_of(signal.SIGINT)


def _run(args: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    try:
        status: int = args.run(args)
        return status
    except VoicepipeError as exc:
        print(f"voicepipe: {_plain(_told(exc))}", file=sys.stderr)
        return exc.exit_status
    except OSError as exc:
        if not _is_output(exc):
            raise
        return _not_written(exc)
    except ExceptionGroup as several:
        ours, others = several.split(lambda exc: isinstance(exc, OSError) and _is_output(exc))
        if ours is None or others is not None:
            raise
        return _not_written(_first(ours))


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def _is_output(error: OSError) -> bool:
    """Nobody reads what we write, or it does not go there any more. What goes to a file of a given name has been
    told as that file's error before it gets here."""
    return isinstance(error, BrokenPipeError) or error.errno in _NO_ROOM


def _first(group: BaseExceptionGroup[BaseException]) -> OSError:
    inner = group.exceptions[0]
    if isinstance(inner, BaseExceptionGroup):
        return _first(inner)
    assert isinstance(inner, OSError)
    return inner


def _flushed(status: int) -> int:
    """What is still in the buffer of stdout is written now: at the interpreter's end nobody could say why not."""
    if sys.stdout is not None and not sys.stdout.closed:
        try:
            sys.stdout.flush()
        except OSError as exc:
            return _not_written(exc)
    return status


def _not_written(error: OSError) -> int:
    """Whoever read our output has gone, and needs no word; or there is no room for it."""
    if not isinstance(error, BrokenPipeError):
        print(f"voicepipe: the output could not be written: {error.strerror}", file=sys.stderr)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter must not try to flush it once more
    return 1


def _plain(message: str) -> str:
    """Names out of files may hold anything, and are shown to a terminal."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in message)


def _told(error: VoicepipeError) -> str:
    """With the cause of an engine's failure. Nobody has said anything yet when one ends a command: the failures
    of turns, whose causes might hold what was said, stay in their sessions."""
    cause = error.__cause__
    if not isinstance(error, EngineError) or cause is None or str(cause) in error.message:
        return error.message
    return f"{error.message} ({type(cause).__name__}: {' '.join(str(cause).split())})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="voicepipe",
        description="A realtime voice pipeline whose every turn has a budget, by default 200 ms from the end of "
        "speech to the answer, and says how it kept it.",
        epilog="Start with: voicepipe demo",
    )
    parser.add_argument("--version", action="version", version=f"voicepipe {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(commands).add_argument("--verbose", action="store_true", help="log what happens (no words)")
    return parser
