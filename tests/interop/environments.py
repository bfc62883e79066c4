"""Where the packages of others are: in the cache, apart from ours, in the versions that stand in this folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from voicepipe.models.place import default_root

HERE = Path(__file__).parent
SWITCH = "VOICEPIPE_INTEROP"
FETCH_S = 900.0


def python_with(requirements: str) -> Path:
    """An interpreter that has what that file of this folder lists."""
    listed = HERE / requirements

    def make(folder: Path) -> None:
        _run(sys.executable, "-m", "venv", str(folder))
        _run(str(folder / "bin/python"), "-m", "pip", "install", "-q", "--no-input", "-r", str(listed))

    return _made(listed, make) / "bin/python"


def node_folder(name: str) -> Path:
    """A copy of that folder of this one, and its Node packages."""
    folder = HERE / name
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        _lacking("there is no node and npm")

    def make(copy: Path) -> None:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        _run(str(npm), "ci", "--prefix", str(copy), "--no-audit", "--no-fund", "--ignore-scripts")

    return _made(folder / "package-lock.json", make)


def _made(listed: Path, make: Callable[[Path], None]) -> Path:
    """Named by what is listed: another version is another folder."""
    digest = hashlib.sha256(listed.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = default_root(os.environ) / "interop" / f"{listed.stem}-{digest}"
    complete = folder / "complete"
    if not complete.exists():
        if not os.environ.get(SWITCH):
            _lacking(f"what {listed.name} lists has not been fetched; {SWITCH}=1 fetches it")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        complete.touch()
    return folder


def _lacking(what: str) -> None:
    if os.environ.get(SWITCH):
        pytest.fail(what)
    pytest.skip(what)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    assert done.returncode == 0, f"{' '.join(command[:4])}: {done.stderr[-2000:]}"
