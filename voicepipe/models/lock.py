"""One process at a time: an advisory lock on a file, where the platform and the file system have
one.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock for the body; True where it is held, False where there are no locks here.

    `on_wait` is called once if somebody else holds it; the wait ends with the other process,
    however that ends. The file stays: removing it would let two processes lock two files of one
    name.
    """
    if sys.platform == "win32":
        yield False
    else:
        with path.open("a") as handle:
            yield _lock(handle.fileno(), on_wait)


if sys.platform != "win32":

    def _lock(descriptor: int, on_wait: Callable[[], None]) -> bool:
        """Wait for the lock; it goes with the descriptor. False where there are none."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        return True
