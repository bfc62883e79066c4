"""The oracle O: who knows beforehand what every turn will take lets in exactly those calls whose turns fit.

A call alone on the device shows what it costs: for each of its turns, when the work after its speech end could
begin, how long it takes, and when it was due. Calls are looked at in the order in which they come. One is let
in if, served by the earliest deadline together with all that have been let in, every turn ends in time, its own
and theirs; turns that even an idle device makes late bind nobody. What is found is then played on the real
scheduler, like any other arm.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from voicepipe.core.events import Timing, Work, WorkClass, WorkKind
from voicepipe.sim.arms import EVERYBODY
from voicepipe.sim.caller import Call
from voicepipe.sim.scene import Scene, play

APART_S = 2.0
"""Turns further apart than this do not meet."""


BLOCKED_S = 0.03
"""A chunk of a lower class that cannot be taken back: a piece of audio."""


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """Of one turn, after its speech end. Scheduler time."""

    ready: float
    due: float
    service_s: float
    call: int

    @property
    def end(self) -> float:
        return self.ready + self.service_s


def in_time(needs: Collection[Need]) -> bool:
    """Does every one of them meet its deadline, on one device, served by the earliest deadline and interrupted by
    more urgent ones?"""
    coming = sorted(needs)
    waiting: list[tuple[float, int, float]] = []
    now, at = 0.0, 0
    while waiting or at < len(coming):
        if not waiting:
            now = max(now, coming[at].ready)
        while at < len(coming) and coming[at].ready <= now:
            heappush(waiting, (coming[at].due, at, coming[at].service_s))
            at += 1
        due, place, left_s = heappop(waiting)
        until = coming[at].ready if at < len(coming) else now + left_s
        if now + left_s <= until:
            now += left_s
            if now > due:
                return False
        else:
            heappush(waiting, (due, place, left_s - (until - now)))
            now = until
    return True


class Fitting:
    """Turns that have been let in."""

    def __init__(self) -> None:
        self._needs: list[Need] = []

    def fits(self, needs: Sequence[Need]) -> bool:
        """Beside them. Only those near by are asked."""
        near: set[Need] = set(needs)
        for need in needs:
            low = bisect_left(self._needs, need.ready - APART_S, key=lambda other: other.ready)
            for other in self._needs[low:]:
                if other.ready > need.due + APART_S:
                    break
                near.add(other)
        return in_time(near)

    def take(self, needs: Sequence[Need]) -> None:
        for need in needs:
            insort(self._needs, need)


def needs_of(scene: Scene, calls: Sequence[Call]) -> Mapping[int, tuple[Need, ...]]:
    """By number of the call. Each is alone: they are played one after the other."""
    apart, at = [], 0.0
    for call in calls:
        apart.append((at - call.at, call))
        at += call.end - call.at + 10.0
    moved = tuple(_moved(call, by) for by, call in apart)
    alone = replace(scene, calls=moved, begin_s=0.0, seconds=at, texts=None, admission=EVERYBODY, keeps_chunks=True)
    played = play(alone)
    by_turn: dict[tuple[str, int], list[tuple[Work, Timing]]] = {}
    for work, timing, _ in played.chunks:
        if work.kind is not WorkKind.HEAR and work.klass is not WorkClass.BACKGROUND:
            by_turn.setdefault((work.session, work.turn), []).append((work, timing))
    found: dict[int, tuple[Need, ...]] = {}
    for asked in played.asked:
        record = asked.record
        if record is None or record.deadline is None or not asked.kept:
            continue
        speech_end, sent = record.instants.speech_end, record.instants.sent
        if speech_end is None or sent is None:
            continue
        own = [timing for _, timing in by_turn.get((f"s{asked.call}", record.turn), [])]
        spans = [(max(t.started, speech_end), min(t.finished, sent)) for t in own]
        spans = [(begin, end) for begin, end in spans if end > begin]
        if spans:
            off = -apart[asked.call][0]
            service_s = sum(end - begin for begin, end in spans)
            ready, last = min(begin for begin, _ in spans), max(end for _, end in spans)
            due = max(record.deadline - (sent - last) - BLOCKED_S, ready + service_s + 1e-9)
            need = Need(ready + off, due + off, service_s, asked.call)
            found[asked.call] = (*found.get(asked.call, ()), need)
    return found


def _moved(call: Call, by: float) -> Call:
    said = tuple(
        replace(
            each,
            begin=each.begin + by,
            end=each.end + by,
            ends=tuple(end + by for end in each.ends),
            gaps=tuple(replace(gap, begin=gap.begin + by, end=gap.end + by) for gap in each.gaps),
        )
        for each in call.said
    )
    return replace(call, at=call.at + by, end=call.end + by, said=said)


def let_in(scene: Scene, calls: Sequence[Call]) -> frozenset[int]:
    """Numbers of the calls that O takes."""
    needs, fitting = needs_of(scene, calls), Fitting()
    taken = set()
    for number in range(len(calls)):
        own = needs.get(number, ())
        if fitting.fits(own):
            fitting.take(own)
            taken.add(number)
    return frozenset(taken)
