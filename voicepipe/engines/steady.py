"""How many threads an engine's next step gets: all of them, unless somebody else is using the cores.

llama.cpp's threads meet at hundreds of barriers per token. Where another process holds one of the cores, each may
have to wait for the scheduler's next time slice, and steps take several times as long. One thread is about 1.8
times slower when the machine is free, and hardly slower than that when it is not. Sans-I/O: durations come in.
"""

from __future__ import annotations

STALLED = 4.0
"""A step that took so many times the quickest of its size had to wait for a core. Beside a process that is always
busy, steps of 12 tokens then take 82 ms at the median and 92 at 99 % (at 3: 73 and 90; on two threads 136 and
144; alone 44). Beside one that is busy for 0.3 s of each second they stay on two threads (46 and 90 ms; at 3: 71
and 93)."""
CALM_STEPS = 24
"""So many steps on one thread before all are tried again: a third of a second of decoding."""


class Steadier:
    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._quickest: dict[int, float] = {}
        """Seconds, by the number of tokens in a step, in powers of two."""
        self._calm_left = 0

    @property
    def threads(self) -> int:
        return 1 if self._calm_left else self._threads

    def on_step(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long on `threads`."""
        if self._calm_left:
            self._calm_left -= 1
            return
        size = tokens.bit_length()
        quickest = self._quickest.setdefault(size, seconds)
        self._quickest[size] = min(quickest, seconds)
        if seconds > STALLED * quickest:
            self._calm_left = CALM_STEPS
