"""The conversation so far, as the model will read it: what was said, and of replies what was heard."""

from __future__ import annotations

from voicepipe.core.events import Line


class History:
    """Lines are told apart by identity: the same words may be said twice."""

    def __init__(self, max_lines: int) -> None:
        self._max_lines = max_lines
        self._lines: list[Line] = []

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(self._lines)

    def add(self, line: Line) -> None:
        """The oldest one goes where there are too many."""
        self._lines.append(line)
        del self._lines[: -self._max_lines]

    def remove(self, line: Line | None) -> None:
        """One that is not here (any more) is no error."""
        self._lines = [other for other in self._lines if other is not line]

    def replace(self, wrong: Line, right: Line) -> bool:
        """Whether `wrong` was still here."""
        here = any(line is wrong for line in self._lines)
        self._lines = [right if line is wrong else line for line in self._lines]
        return here
