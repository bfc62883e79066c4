"""Where the cache of this machine lies, and what to say when it cannot be used."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from voicepipe.errors import ModelError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def default_root(environ: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """Where models belong on this platform: a cache, which can be deleted at any time.

    VOICEPIPE_CACHE, else an absolute XDG_CACHE_HOME, else the platform's folder for caches. Raises
    ModelError where the environment names no home.
    """
    if own := environ.get("VOICEPIPE_CACHE"):
        return _expand(own, environ)
    if (xdg := environ.get("XDG_CACHE_HOME", "")) and os.path.isabs(xdg):
        return Path(xdg) / "voicepipe"
    if platform == "win32" and (local := environ.get("LOCALAPPDATA")):
        return Path(local) / "voicepipe" / "cache"
    home = _home(environ)
    if platform == "darwin":
        return home / "Library" / "Caches" / "voicepipe"
    return home / ".cache" / "voicepipe"


def storage_error(error: OSError, root: Path) -> ModelError:
    """What the operating system did not allow, in words that say what to do."""
    where = error.filename or root
    if error.errno in _FULL:
        return ModelError(f"the disk is full: {where}. Free some space, or name another place in VOICEPIPE_CACHE")
    advice = ". VOICEPIPE_CACHE names another place" if error.errno in _FORBIDDEN else ""
    return ModelError(f"{where} cannot be used: {error.strerror or error}{advice}")


def _expand(path: str, environ: Mapping[str, str]) -> Path:
    if path == "~" or path.startswith("~/"):
        return _home(environ) / path[2:]
    return Path(path)


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if not home:
        raise ModelError("there is no home folder for models: set VOICEPIPE_CACHE to a folder")
    return Path(home)
