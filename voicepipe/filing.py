"""Files that are written while turns run: by a thread of their own, in whole entries.

What is observed is formatted and written on that thread: a slow disk or a full one costs entries, never a turn.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Full, Queue

from voicepipe.errors import ConfigError, EnvironmentFailure

log = logging.getLogger(__name__)

MAX_WAITING = 16_384
"""Entries: a minute of chunks of a few sessions, some MiB. What comes on top of them is lost, and counted."""
MAX_BATCH = 256
"""Entries per write."""
CLOSE_S = 5.0
"""A disk that hangs keeps nobody longer."""

PRIVATE = 0o600
"""Mode of the files."""

Format = Callable[[], bytes]


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _private(path: str, flags: int) -> int:
    """An opener: what is written tells what people said, or when they spoke. A device or a pipe stays as it is."""
    descriptor = os.open(path, flags & ~os.O_TRUNC, PRIVATE)
    try:
        if _is_regular(descriptor):
            os.fchmod(descriptor, PRIVATE)
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class EntryFile:
    """Writes whole entries, in order, on its own thread, and stops for good at the first error."""

    def __init__(self, path: Path, option: str, head: bytes, tail: bytes) -> None:
        """Readable and writable by its owner alone, be it a new file or one that was there. Raises ConfigError
        where it cannot be opened, or not be made so."""
        try:
            self._file = open(path, "wb", buffering=0, opener=_private)  # noqa: SIM115 - closed by `_work`
        except OSError as exc:
            raise ConfigError(f"{option} {path}: {exc.strerror}", field=option) from None
        self._path, self._option, self._tail = path, option, tail
        self._regular = _is_regular(self._file.fileno())
        self._whole_bytes = 0
        self._closed = False
        self.error: EnvironmentFailure | None = None
        self._turned_away = 0
        self._unwritten = 0  # counted on the writer's thread
        self._queue: Queue[Format | None] = Queue(MAX_WAITING)
        self._queue.put(lambda: head)
        self._thread = threading.Thread(target=self._work, name=f"writer{option}", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Entries that are not in the file: they came too fast, too late, or where it could not be written."""
        return self._turned_away + self._unwritten

    def put(self, entry: Format) -> None:
        """Never waits. `entry` is called on the writer's thread."""
        if self._closed or self.error is not None:
            self._turned_away += 1
            return
        try:
            self._queue.put_nowait(entry)
        except Full:
            self._turned_away += 1

    def close(self) -> None:
        """Write what waits; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            self._queue.put(lambda: self._tail, timeout=CLOSE_S)
            self._queue.put(None, timeout=CLOSE_S)
        except Full:
            log.error("%s %s: the disk hangs, the file lacks its end", self._option, self._path)
            return
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        with self._file:
            going_on = True
            while going_on:
                batch, going_on = self._batch()
                if batch and self.error is None:
                    self._write(b"".join(entry() for entry in batch))
                if self.error is not None:
                    self._unwritten += len(batch)

    def _batch(self) -> tuple[list[Format], bool]:
        """What waits, or the next to come; whether more may come."""
        batch: list[Format] = []
        try:
            entry = self._queue.get()
            while entry is not None:
                batch.append(entry)
                if len(batch) == MAX_BATCH:
                    return batch, True
                entry = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            self._whole_bytes += len(data)
        except OSError as exc:
            self.error = EnvironmentFailure(
                f"{self._option} {self._path}: {exc.strerror}; nothing more is written to it", field=self._option
            )
            log.error("%s", self.error.message)
            if self._regular:  # no half an entry at its end
                os.ftruncate(self._file.fileno(), self._whole_bytes)


class Writer:
    """What the writers of one file each have in common."""

    def __init__(self, path: Path, option: str, head: bytes = b"", tail: bytes = b"") -> None:
        self._file = EntryFile(path, option, head, tail)

    @property
    def error(self) -> EnvironmentFailure | None:
        """Why nothing is written any more; logged once, when it happened."""
        return self._file.error

    @property
    def lost(self) -> int:
        """Entries that did not get into the file."""
        return self._file.lost

    def close(self) -> None:
        """Write what waits, and end the file. What is observed later is lost."""
        self._file.close()
