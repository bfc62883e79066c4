"""Files written beside the turns: whole entries in order, a typed error once, and nobody waits."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from voicepipe import filing
from voicepipe.errors import ConfigError, EnvironmentFailure
from voicepipe.filing import EntryFile


def test_entries_come_in_order_between_head_and_tail(tmp_path: Path) -> None:
    """More than fit into one write."""
    path = tmp_path / "f"
    file = EntryFile(path, "--trace", b"<", b">")
    entries = [f"{n};".encode() for n in range(3 * filing.MAX_BATCH)]
    for entry in entries:
        file.put(lambda entry=entry: entry)  # type: ignore[misc]
    file.close()
    assert path.read_bytes() == b"<" + b"".join(entries) + b">"
    assert (file.error, file.lost) == (None, 0)


@pytest.mark.parametrize("option", ["--ledger", "--trace"])
def test_a_file_that_cannot_be_opened_is_refused_at_once(tmp_path: Path, option: str) -> None:
    """No folder of that name, or a folder in its place; the message says which option it was."""
    for path in (tmp_path / "nowhere" / "f", tmp_path):
        with pytest.raises(ConfigError, match=f"{option} {path}: ") as caught:
            EntryFile(path, option, b"", b"")
        assert caught.value.field == option


@pytest.fixture
def open_umask() -> Iterator[None]:
    """New files are anybody's, unless whoever makes them sees to it."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("old_mode", [None, 0o666, 0o640])
def test_a_file_is_its_owners_alone(tmp_path: Path, old_mode: int | None, open_umask: None) -> None:
    """Before anything is written; one that was there and is replaced, too."""
    path = tmp_path / "f"
    if old_mode is not None:
        path.write_bytes(b"old")
        path.chmod(old_mode)
    file = EntryFile(path, "--record", b"head", b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.close()
    assert path.read_bytes() == b"head"


def test_a_file_that_cannot_be_made_private_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's, say, that everybody may write to."""

    def not_mine(descriptor: int, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    path = tmp_path / "f"
    path.write_bytes(b"theirs")
    monkeypatch.setattr(os, "fchmod", not_mine)
    with pytest.raises(ConfigError, match=r"--record .*: Operation not permitted"):
        EntryFile(path, "--record", b"", b"")
    assert path.read_bytes() == b"theirs"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A typed error, one line in the log, everything later counted as lost."""
    with caplog.at_level(logging.ERROR):
        file = EntryFile(Path("/dev/full"), "--ledger", b"head", b"")
        for _ in range(10):
            file.put(lambda: b"x")
        file.close()
        file.put(lambda: b"x")
    assert isinstance(file.error, EnvironmentFailure)
    assert "--ledger /dev/full: No space left" in file.error.message
    assert [record.message for record in caplog.records] == [file.error.message]
    assert file.lost == 13  # head and tail among them


def test_an_error_leaves_no_half_an_entry(tmp_path: Path) -> None:
    """The disk takes a part of a write, and then no more: the file ends with the last whole one."""
    path = tmp_path / "f"
    file = EntryFile(path, "--ledger", b"head;", b"tail")
    heads = threading.Event()
    file.put(lambda: heads.set() or b"one;")  # type: ignore[func-returns-value]
    assert heads.wait(10)
    gate = threading.Event()
    file.put(lambda: gate.wait(10) and b"")  # type: ignore[arg-type, return-value]
    raw = file._file

    class Filling:
        def write(self, data: memoryview) -> int:
            if len(data) > 3:
                return raw.write(data[:3])
            raise OSError(28, "No space left on device")

        def fileno(self) -> int:
            return raw.fileno()

    file._file = Filling()  # type: ignore[assignment]
    file.put(lambda: b"two;three;")
    gate.set()
    file.close()
    assert path.read_bytes() == b"head;one;"
    assert file.error is not None


def test_who_is_too_fast_loses_entries_and_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer is bounded; what is lost is counted, what was taken is written."""
    monkeypatch.setattr(filing, "MAX_WAITING", 4)
    path = tmp_path / "f"
    file = EntryFile(path, "--trace", b"", b"")
    busy, gate = threading.Event(), threading.Event()

    def slow() -> bytes:
        busy.set()
        assert gate.wait(10)
        return b"slow;"

    file.put(slow)
    assert busy.wait(10)
    for _ in range(7):
        file.put(lambda: b"x")
    assert file.lost == 3
    gate.set()
    file.close()
    assert path.read_bytes() == b"slow;xxxx"


def test_closing_twice_closes_once(tmp_path: Path) -> None:
    """What comes afterwards is lost, and counted."""
    file = EntryFile(tmp_path / "f", "--trace", b"<", b">")
    file.close()
    file.close()
    file.put(lambda: b"late")
    assert (tmp_path / "f").read_bytes() == b"<>"
    assert file.lost == 1


def test_a_disk_that_hangs_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a full buffer in front of it, the file goes without its end."""
    monkeypatch.setattr(filing, "MAX_WAITING", 1)
    monkeypatch.setattr(filing, "CLOSE_S", 0.01)
    file = EntryFile(tmp_path / "f", "--trace", b"", b"")
    busy, gate = threading.Event(), threading.Event()
    file._queue.put(lambda: busy.set() or (gate.wait(10) and b"") or b"")  # type: ignore[func-returns-value]
    assert busy.wait(10)
    file.put(lambda: b"waits;")
    file.close()
    assert "the disk hangs" in caplog.text
    gate.set()


def test_a_device_is_a_file_too() -> None:
    """The null device takes everything."""
    file = EntryFile(Path(os.devnull), "--trace", b"x", b"y")
    file.close()
    assert file.error is None
