"""The folders of files that a command is asked to write: one alike for all options."""

from __future__ import annotations

import os
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


def check_file(path: Path, option: str) -> None:
    """Whether the file could be written after `make_folder`; makes and opens nothing. Raises ConfigError."""
    folder = path.parent
    wrong = None
    if path.is_dir():
        wrong = "is a folder"
    elif os.path.lexists(path):
        wrong = None if os.access(path, os.W_OK) else "may not be written"
    elif folder.is_dir():
        wrong = None if os.access(folder, os.W_OK | os.X_OK) else f"nothing may be made in {folder}"
    elif os.path.lexists(folder):
        wrong = f"{folder} is no folder"
    elif not folder.parent.is_dir():
        wrong = f"there is no folder {folder.parent}"
    elif not os.access(folder.parent, os.W_OK | os.X_OK):
        wrong = f"there is no folder {folder}, and it may not be made"
    if wrong is not None:
        raise ConfigError(f"{option} {path}: {wrong}", field=option)
