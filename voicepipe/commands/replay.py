"""`voicepipe replay`: a recorded run, decided anew."""

from __future__ import annotations

import argparse

import msgspec

from voicepipe.commands.options import path_of
from voicepipe.errors import RecordingError
from voicepipe.replay import as_dict, as_lines, replay


def add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "replay",
        help="decide a recorded run anew, and compare",
        description="Tells fresh turns and a fresh scheduler, offline, what a file of --record holds, and compares "
        "the commands one by one. A recording that breaks off is replayed up to its last whole line.",
        epilog="Exit status: 0, all that is recorded is decided the same again, be it nothing (which is said); 1, "
        "one command differs (it is shown, with its words), or there is a gap: entries that came too fast for the "
        "disk, behind which nothing can be replayed; 2, no recording of this version, or wrong usage.",
    )
    parser.add_argument("file", type=path_of, metavar="F", help="a recording of `demo` or `serve`")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_replay)
    return parser


def _replay(args: argparse.Namespace) -> int:
    try:
        with args.file.open("rb") as file:
            report = replay(file, str(args.file))
    except OSError as exc:
        raise RecordingError(f"{args.file}: {exc.strerror}", field="file") from None
    lines = [msgspec.json.encode({"summary": as_dict(report)}).decode()] if args.json else as_lines(report)
    print("\n".join(lines))
    return 0 if report.agreed else 1
