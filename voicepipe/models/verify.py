"""Is a file what its hash says? Asked before the first load in a process, answered without
rehashing.

A verdict is remembered with the file's size, modification time and inode, in the process and in a
sidecar. A file that changed in any of them is hashed again. This guards against truncation, bit rot
and mix-ups; who can write the model can also write the sidecar.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from voicepipe.errors import ModelCorrupt, ModelMissing
from voicepipe.models.catalog import Model, ModelFile

_BLOCK_BYTES = 1 << 20

OnBytes = Callable[[int], None]
"""Told how many bytes are done, of all of the model's files."""

Verdict = dict[str, int | str]


def hash_model(model: Model, folder: Path, on_bytes: OnBytes) -> dict[str, Verdict]:
    """Read every file of `model` in `folder`. Raises ModelMissing, ModelCorrupt, OSError."""
    verdicts: dict[str, Verdict] = {}
    before = 0

    def on_file_bytes(done: int) -> None:
        on_bytes(before + done)

    for file in model.files:
        verdicts[file.path] = _hash_file(model, file, folder, on_file_bytes)
        before += file.size_bytes
    return verdicts


class Verifier:
    """Remembers what has been hashed. `sidecars` is a folder, one small file per model."""

    def __init__(self, sidecars: Path) -> None:
        self._sidecars = sidecars
        self._known: dict[str, dict[str, Verdict]] = {}

    def check(self, model: Model, folder: Path, on_bytes: OnBytes) -> bool:
        """Raise ModelMissing or ModelCorrupt, or return; True if the files had to be read."""
        now = {file.path: _verdict(file, _stat(model, file, folder)) for file in model.files}
        if self._known.get(model.name) == now:
            return False
        if self._read(model.name) == now:
            self._known[model.name] = now
            return False
        self.remember(model, hash_model(model, folder, on_bytes))
        return True

    def remember(self, model: Model, verdicts: dict[str, Verdict]) -> None:
        """Keep what `hash_model` returned for the files where they now lie."""
        self._known[model.name] = verdicts
        sidecar = self._sidecar(model.name)
        draft = sidecar.with_name(f"{sidecar.name}.{os.getpid()}")
        # A cache that may only be read still serves its models; they are then hashed once per
        # process.
        with contextlib.suppress(OSError):
            self._sidecars.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(verdicts, indent=1), encoding="utf-8")
            os.replace(draft, sidecar)

    def _read(self, name: str) -> object:
        """The sidecar's content, None where it cannot be read: the files are then hashed."""
        try:
            content: object = json.loads(self._sidecar(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content

    def _sidecar(self, name: str) -> Path:
        return self._sidecars / f"{name}.json"


def _stat(model: Model, file: ModelFile, folder: Path) -> os.stat_result:
    try:
        found = (folder / file.path).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelMissing(f"{model.name}: {folder / file.path} is not there") from error
    if found.st_size != file.size_bytes:
        raise ModelCorrupt(
            f"{model.name}: {folder / file.path} has {found.st_size} bytes instead of {file.size_bytes}"
        )
    return found


def _verdict(file: ModelFile, stat: os.stat_result) -> Verdict:
    return {
        "size_bytes": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "inode": stat.st_ino,
        "sha256": file.sha256,
    }


def _hash_file(model: Model, file: ModelFile, folder: Path, on_bytes: OnBytes) -> Verdict:
    verdict = _verdict(file, _stat(model, file, folder))
    digest = hashlib.sha256()
    done = 0
    with (folder / file.path).open("rb") as handle:
        while block := handle.read(_BLOCK_BYTES):
            digest.update(block)
            done += len(block)
            on_bytes(done)
    if digest.hexdigest() != file.sha256:
        raise ModelCorrupt(
            f"{model.name}: {folder / file.path} has SHA-256 {digest.hexdigest()} instead of {file.sha256}"
        )
    return verdict
