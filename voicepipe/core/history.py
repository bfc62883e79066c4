"""The conversation so far, as the model will read it: what was said, and of replies what was heard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from math import inf

from voicepipe.core.events import Line

FIRST = ""
"""As what a line comes after: it becomes the first one."""
ENTRY_BYTES = 256
"""What a line takes beside its text."""


@dataclass(frozen=True, slots=True)
class Entry:
    line: Line
    name: str
    """By which others than its owner know it; "" where nobody does."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a conversation whose session is over: enough for another session to go on with it."""

    entries: tuple[Entry, ...]
    turn: int
    """Number of its newest turn."""
    epoch: int
    """The newest one; whatever is said from now on has a later one."""

    @property
    def n_bytes(self) -> int:
        """About what it takes to keep."""
        return ENTRY_BYTES * (1 + len(self.entries)) + sum(
            len(text.encode(errors="replace"))
            for entry in self.entries
            for text in (entry.line.text, entry.line.call_id, entry.line.name, entry.name)
        )


class History:
    """Lines are told apart by identity: the same words may be said twice."""

    def __init__(self, max_lines: int, max_chars: float = inf) -> None:
        """The newest line is kept however long it is."""
        self._max_lines = max_lines
        self._max_chars = max_chars
        self._entries: list[Entry] = []

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(entry.line for entry in self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def restore(self, entries: Iterable[Entry]) -> None:
        """In the place of what is here; the oldest go where there are too many."""
        self._entries = list(entries)[-self._max_lines :]

    def has(self, name: str) -> bool:
        return self._index(name) is not None

    def add(self, line: Line, name: str = "", after: str | None = None) -> None:
        """The oldest one goes where there are too many. `after`: name of the line that it comes behind, or `FIRST`;
        behind the last one where there is no such line (any more), or None is given."""
        index = None if after is None else 0 if after == FIRST else self._index(after, 1)
        self._entries.insert(len(self._entries) if index is None else index, Entry(line, name))
        del self._entries[: -self._max_lines]
        self._shorten()

    def remove(self, line: Line | None) -> None:
        """One that is not here (any more) is no error."""
        self._entries = [entry for entry in self._entries if entry.line is not line]

    def replace(self, wrong: Line, right: Line) -> bool:
        """Whether `wrong` was still here."""
        here = any(entry.line is wrong for entry in self._entries)
        self._entries = [Entry(right, e.name) if e.line is wrong else e for e in self._entries]
        self._shorten()
        return here

    def change(self, name: str, text: str) -> None:
        """Put other words in the line's place. One that is not here (any more) is no error."""
        index = self._index(name)
        if index is not None:
            self._entries[index] = Entry(dataclass_replace(self._entries[index].line, text=text), name)
            self._shorten()

    def delete(self, name: str) -> None:
        """One that is not here (any more) is no error."""
        index = self._index(name)
        if index is not None:
            del self._entries[index]

    def _shorten(self) -> None:
        sizes = [len(entry.line.text) for entry in self._entries]
        over = sum(sizes) - self._max_chars
        gone = 0
        while over > 0 and gone < len(sizes) - 1:
            over -= sizes[gone]
            gone += 1
        del self._entries[:gone]

    def _index(self, name: str, behind: int = 0) -> int | None:
        found = (index for index, entry in enumerate(self._entries) if name and entry.name == name)
        index = next(found, None)
        return None if index is None else index + behind
