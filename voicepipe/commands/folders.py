"""The folders of files that a command is asked to write: one alike for all options."""

from __future__ import annotations

import sys
from pathlib import Path

from voicepipe.errors import ConfigError


def make_folder(path: Path, option: str) -> None:
    """The folder that the file `path` is to lie in. Where it alone is missing it is made, and that is told on
    stderr; where the way to it is missing too, that is more likely a slip in the name. Raises ConfigError."""
    folder = path.parent
    try:
        if folder.is_dir():
            return
        if folder.parent.is_dir():
            folder.mkdir()
            print(f"voicepipe: {option}: made the folder {folder}", file=sys.stderr, flush=True)
            return
    except OSError as exc:
        raise ConfigError(f"{option} {path}: {folder}: {exc.strerror}", field=option) from None
    wanted = "make it first, or check the name"
    raise ConfigError(f"{option} {path}: there is no folder {folder.parent}; {wanted}", field=option)
