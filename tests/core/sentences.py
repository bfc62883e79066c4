"""A clause splitter that cannot surprise: one clause per full stop."""

from __future__ import annotations

import re


class Sentences:
    def __init__(self, first: object = None) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        *whole, self._rest = re.split(r"(?<=\.)\s+", self._rest + text)
        return whole

    def cut_short(self) -> list[str]:
        words = self._rest.split()
        if len(words) < 3:
            return []
        self._rest = ""
        return [" ".join(words)]

    def flush(self) -> list[str]:
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []
