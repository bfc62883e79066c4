"""The simulated voice: clauses in pieces of silence, which take as long to be heard as speech would.

First clauses of replies that were made anew, and begin with the same words, are shared: what has been made of one
is not made twice (as `voicepipe.jobs` has it).
"""

from __future__ import annotations

from functools import cache

from voicepipe.core.events import Load, Speak
from voicepipe.core.playout import BYTES_PER_SAMPLE
from voicepipe.sim.service import MADE, Manner

MAX_OPENINGS = 8
"""First clauses that are kept."""
NAME = "voice"


@cache
def silence(samples: int) -> bytes:
    """One object for each length."""
    return bytes(BYTES_PER_SAMPLE * samples)


class Clause:
    def __init__(self, text: str, manner: Manner) -> None:
        self.text = text
        self.made = 0
        """Pieces of it."""
        samples = round((text.count(" ") + 1) * manner.second_per_word * manner.rate_hz)
        first, later = (max(1, round(s * manner.rate_hz)) for s in (manner.first_piece_s, manner.piece_s))
        self.pieces = [min(first, samples)]
        while (left := samples - sum(self.pieces)) > 0:
            self.pieces.append(min(later, left))

    def load(self, number: int) -> Load:
        """Of making that piece: nothing where it has been made."""
        if number < self.made:
            return Load(NAME, 0, variant=MADE)
        if number == 0:
            return Load(NAME, len(self.text), variant="first")
        return Load(NAME, self.pieces[number], variant="later")


class Piece:
    """One that is wanted."""

    __slots__ = ("clause", "number")

    def __init__(self, clause: Clause, number: int) -> None:
        self.clause = clause
        self.number = number

    def make(self) -> tuple[bytes, bool]:
        """(its sound, whether it is the clause's last)"""
        clause, number = self.clause, self.number
        clause.made = max(clause.made, number + 1)
        return silence(clause.pieces[number]), number == len(clause.pieces) - 1


class Voice:
    """One session's."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._openings: dict[str, Clause] = {}
        """First clauses of replies that were begun, the last used last."""
        self._clause: Clause | None = None
        self._next = 0

    def begin(self, task: Speak) -> None:
        known = self._openings.pop(task.text, None) if task.first else None
        self._clause, self._next = known or Clause(task.text, self._manner), 0
        if task.first:
            while len(self._openings) >= MAX_OPENINGS:
                self._openings.pop(next(iter(self._openings)))
            self._openings[task.text] = self._clause

    def next_piece(self) -> tuple[Piece, Load]:
        assert self._clause is not None
        number, self._next = self._next, self._next + 1
        return Piece(self._clause, number), self._clause.load(number)
