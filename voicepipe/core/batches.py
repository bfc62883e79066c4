"""Which works one chunk does together, and what that takes.

A step of a language model for several sessions takes little longer than for one, because its weights are read
once (W + H n: some 4 ms and 0.25 ms a sequence of a model with eight billion parameters on one GPU; 6.6 and 1.1 of
one with 135 million on two cores). So the work that goes first takes its like from the queues along: replies and
what is begun ahead, the most urgent first, as many as the engine can do at once (`Load.batch`), as long as none of
them that would be in time is late for it, and only where it is known what that costs (`Work.more_s`). A batch is
one chunk: it runs at the class of its first work, and what waits for the lane waits for all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from voicepipe.core.events import Load, Stage, Work
from voicepipe.core.waiting import Waiting, chunk_s, latest_start

BATCH = "batch"
"""Variant of a chunk that does several works. Its size is the sum of theirs."""

Like = tuple[Stage, str]
"""Stage and model: what works of one chunk have in common."""


def like(work: Work) -> Like | None:
    """None: it is done by itself."""
    load = work.load
    return None if load is None or load.batch < 2 else (work.kind.stage, load.model)


def joined(works: Sequence[Work]) -> Work:
    """Several, the first of them before the others, as the one chunk that they are."""
    first, *others = works
    if not others:
        return first
    loads = [work.load for work in works if work.load is not None]
    units, context = sum(load.units for load in loads), sum(load.context for load in loads)
    longer = 1.0 + sum(other.more_s for other in others) / chunk_s(first) if chunk_s(first) else 0.0
    return replace(
        first,
        load=Load(loads[0].model, units, context, BATCH, len(works)),
        bound_s=longer * first.bound_s,
        expected_s=longer * first.expected_s,
    )


def companions(first: Work, waiting: Iterable[Waiting], now: float) -> list[Waiting]:
    """Of works like the first one, those that go with it."""
    assert first.load is not None
    members, takes_s = [first], chunk_s(first)
    chosen: list[Waiting] = []
    for other in sorted(waiting, key=_urgency):
        if len(members) == first.load.batch:
            break
        work = other.work
        if not 0.0 < work.more_s < work.expected_s or any(work.session == one.session for one in members):
            continue
        longer_s = takes_s + work.more_s
        if any(_would_be_late(one, takes_s, longer_s, now) for one in members):
            continue
        members.append(work)
        chosen.append(other)
        takes_s = longer_s
    return chosen


def _urgency(waiting: Waiting) -> tuple[int, float, int]:
    return waiting.work.klass, latest_start(waiting.work), waiting.serial


def _would_be_late(work: Work, takes_s: float, longer_s: float, now: float) -> bool:
    """By the longer chunk, and not by the shorter one."""
    if work.deadline is None:
        return False
    slack_s = work.deadline - work.remaining_s - now
    return takes_s <= slack_s < longer_s
