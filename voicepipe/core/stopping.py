"""Stop sequences in a text that comes in pieces: what may be shown by now, and whether it ends."""

from __future__ import annotations

from collections.abc import Sequence


class Stops:
    """The text ends before the first of `stops` that appears in it, wherever its pieces were cut; none is empty."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        assert all(stops)
        self._stops = tuple(stops)
        self._held = ""
        """May be the beginning of a stop sequence."""
        self.found = False

    def push(self, text: str) -> str:
        """What of the text so far can be shown and has not been. "" once a stop sequence was found."""
        if self.found:
            return ""
        self._held += text
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.found = True
            shown, self._held = self._held[: min(places)], ""
            return shown
        keep = self._open_end()
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def flush(self) -> str:
        """The text has ended: what was held back."""
        shown, self._held = self._held, ""
        return shown

    def _open_end(self) -> int:
        """Length of the longest end of the text with which a stop sequence begins."""
        longest = max(map(len, self._stops), default=1) - 1
        ends = range(min(longest, len(self._held)), 0, -1)
        return next((n for n in ends if any(stop.startswith(self._held[-n:]) for stop in self._stops)), 0)
