"""What would have become of a call that was refused, or of the others without one that was let in: the same calls
are played once more, with it and without it.

A call fits if with it no turn is late that is not late without it. A turn that is late even where its call is alone
says nothing against it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

Question = tuple[int, float]
"""Number of the call, and what tells its questions apart."""
LateOf = Callable[[Collection[int]], Collection[Question]]
"""Plays these calls, by number, and lets all of them in: which of their questions are late."""

LEAD_S = 2.0
"""Before a call: who hangs up earlier than that has no part in what becomes of it."""


class Timed(Protocol):
    """A call. Seconds since the beginning of the run."""

    @property
    def at(self) -> float: ...
    @property
    def end(self) -> float: ...


def beside(calls: Sequence[Timed], kept: Iterable[int], number: int, lead_s: float = LEAD_S) -> frozenset[int]:
    """Those of `kept`, by number, that are under way with that call or up to `lead_s` before it."""
    own = calls[number]
    return frozenset(
        other
        for other in kept
        if other != number and calls[other].at < own.end and calls[other].end > own.at - lead_s
    )


def fits(late_of: LateOf, others: Collection[int], number: int) -> bool:
    """Are all of them in time with that call too, itself among them? Whoever is late without it is so for other
    reasons."""
    late = set(late_of({*others, number}))
    if late:
        late -= set(late_of(others))
    if late:
        late -= set(late_of({number}))
    return not late
