"""What a fuzzer needs to know of a decoder, and what has to hold of it for every input."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import Mutator
from voicepipe.errors import VoicepipeError

CORPUS = Path(__file__).parent / "corpus"
CPU_S, CPU_S_PER_BYTE = 0.25, 20e-6
"""Of one input. A decoder whose time grows faster than its input does not stay below that."""
MEMORY_BYTES, MEMORY_PER_BYTE = 24 << 20, 64
"""Of one input, at its worst, beside what was there before."""


class Broken(AssertionError):
    """A decoder did not keep what is promised of it."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    read: Callable[[bytes], object]
    """Decodes it, and encodes and decodes it again where there is a way back; raises Broken where that is not the
    same. Returns something that is equal for an equal input."""
    typed: tuple[type[VoicepipeError], ...]
    """What it may raise."""
    named: tuple[type[VoicepipeError], ...]
    """Of these, what names a field."""
    mutator: Mutator
    nameless: tuple[type[VoicepipeError], ...] = ()
    """Of those, what names none: about how things stand, and not about the frame."""

    def seeds(self) -> list[bytes]:
        """The corpus, in an order that does not change."""
        return [path.read_bytes() for path in sorted((CORPUS / self.name).iterdir())]

    def mutate(self, seed: int) -> bytes:
        return self.mutator.mutate(self.seeds(), seed)

    def check(self, data: bytes) -> str:
        """Raises Broken. Returns "taken", or the code of the error."""
        began = time.thread_time()
        told = self._told(data)
        took_s, most_s = time.thread_time() - began, CPU_S + CPU_S_PER_BYTE * len(data)
        if took_s > most_s:
            raise Broken(f"{took_s:.2f} s of CPU time for {len(data)} bytes, and {most_s:.2f} s at most")
        return told

    def check_memory(self, data: bytes) -> int:
        """The same input at its worst moment, in bytes. Raises Broken."""
        tracemalloc.start()
        try:
            self._told(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        most = MEMORY_BYTES + MEMORY_PER_BYTE * len(data)
        if peak > most:
            raise Broken(f"{peak} bytes of memory for {len(data)} bytes, and {most} at most")
        return peak

    def _told(self, data: bytes) -> str:
        try:
            self.read(data)
        except Broken:
            raise
        except self.typed as error:
            self._check_error(error)
            return error.code
        except Exception as error:
            raise Broken(f"raises {type(error).__name__}: {str(error)[:200]}") from error
        return "taken"

    def _check_error(self, error: VoicepipeError) -> None:
        if not error.message or len(error.message) > 2_000:
            raise Broken(f"{error.code} says {error.message[:80]!r}, of {len(error.message)} characters")
        if isinstance(error, self.named) and not isinstance(error, self.nameless) and error.field is None:
            raise Broken(f"{error.code} names no field: {error.message}")
        if error.code == "too_large" and not any(letter.isdigit() for letter in error.message):
            raise Broken(f"{error.code} names no limit: {error.message}")
