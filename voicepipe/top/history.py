"""The readings of the last while: what the present one is compared with, and how the gap went."""

from __future__ import annotations

from collections import deque

from voicepipe.top.figures import Figures, figures
from voicepipe.top.scrape import Scrape

TREND = 120
"""Readings of which the mean gap is kept."""


class History:
    def __init__(self, window_s: float) -> None:
        """`window_s`: how far the counts that are shown go back."""
        self._window_s = window_s
        self._kept: deque[Scrape] = deque()
        self._trend_ms: deque[float | None] = deque(maxlen=TREND)

    @property
    def trend_ms(self) -> list[float | None]:
        """Mean felt gap of the turns that ended between one reading and the next, oldest first; None: none did."""
        return list(self._trend_ms)

    def add(self, scrape: Scrape, uptime_s: float | None) -> Figures:
        """Readings come in order. One of a server that was started anew begins a new history."""
        kept = self._kept
        if kept and _is_another(kept[-1], scrape):
            kept.clear()
        if kept:
            gap_s = scrape.since(kept[-1]).mean("voicepipe_felt_gap_seconds")
            self._trend_ms.append(None if gap_s is None else 1000 * gap_s)
        while len(kept) > 1 and scrape.at - kept[1].at >= self._window_s:
            kept.popleft()
        before = kept[0] if kept else None
        kept.append(scrape)
        return figures(scrape, before, uptime_s)


def _is_another(before: Scrape, now: Scrape) -> bool:
    start = "process_start_time_seconds"
    is_less = now.total("voicepipe_turns_total") < before.total("voicepipe_turns_total")
    return is_less or now.value(start) != before.value(start)
