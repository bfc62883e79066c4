"""`voicepipe config`: a commented configuration file, with every option at its default."""

from __future__ import annotations

import argparse
from pathlib import Path

from voicepipe.commands.folders import make_folder
from voicepipe.commands.options import FLAG_OF, path_of
from voicepipe.config.write import as_markdown, as_toml
from voicepipe.errors import ConfigError


def add_config(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "config",
        help="write a commented configuration file",
        description="Every option with its default, its unit and what it means, as a file for `voicepipe serve "
        "--config`: to stdout, or to a file.",
        epilog="Exit status: 0; 1, something failed; 2, the file is there already, or cannot be written.",
    )
    parser.add_argument("--output", type=path_of, metavar="F", help="write it there (default stdout)")
    parser.add_argument("--force", action="store_true", help="also over a file that is there")
    parser.add_argument("--markdown", action="store_true", help="as a page of documentation instead")
    parser.set_defaults(run=_config)
    return parser


def _config(args: argparse.Namespace) -> int:
    text = as_markdown(FLAG_OF) if args.markdown else as_toml()
    if args.output is None:
        print(text, end="")
        return 0
    make_folder(args.output, "--output")
    write_file(args.output, text, force=args.force)
    print(args.output)
    return 0


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Raises ConfigError where it cannot be written, or is there and `force` is not said."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"--output {path}: is there already; --force writes over it", field="--output") from None
    except OSError as exc:
        raise ConfigError(f"--output {path}: {exc.strerror}", field="--output") from None
