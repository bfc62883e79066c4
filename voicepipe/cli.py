"""The command line: reads argv, runs a command, and tells how it ended."""

from __future__ import annotations

import argparse
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
    args = _parser().parse_args(argv)
    status_of = serve_status if args.run is run_serve else status_of_signal
    try:
        with sigterm_raises(status_of):
            return _run(args)
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
        print(f"voicepipe: {_told(exc)}", file=sys.stderr)
        return exc.exit_status
    except BrokenPipeError:
        return _nobody_reads()
    except ExceptionGroup as several:
        if several.split(BrokenPipeError)[1] is not None:
            raise
        return _nobody_reads()


def _told(error: VoicepipeError) -> str:
    """With the cause of an engine's failure. Nobody has said anything yet when one ends a command: the failures
    of turns, whose causes might hold what was said, stay in their sessions."""
    cause = error.__cause__
    if not isinstance(error, EngineError) or cause is None or str(cause) in error.message:
        return error.message
    return f"{error.message} ({type(cause).__name__}: {' '.join(str(cause).split())})"


def _nobody_reads() -> int:
    """Whoever read our output has gone; the interpreter must not try to flush it once more."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    return 1


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
