"""A client that plays what it gets as soon as it comes, and reports how far it is."""

from __future__ import annotations


class Playback:
    """Of one reply. Stalls where nothing is left to play, and goes on with what comes next."""

    def __init__(self, epoch: int, rate_hz: int, began: float) -> None:
        self.epoch = epoch
        self.whole: int | None = None
        """Samples of all of it, once that is known."""
        self._rate_hz = rate_hz
        self._began = began
        self._arrived = 0

    def on_audio(self, samples: int, arrived: float) -> None:
        drained = self._began + self._arrived / self._rate_hz
        if arrived > drained:
            self._began += arrived - drained
        self._arrived += samples

    def played(self, now: float) -> int:
        return min(self._arrived, max(0, int((now - self._began) * self._rate_hz + 1e-6)))

    @property
    def ends(self) -> float:
        """When it will have played all that has come so far."""
        return self._began + self._arrived / self._rate_hz

    def is_over(self, now: float) -> bool:
        return self.whole is not None and self.played(now) >= self.whole
