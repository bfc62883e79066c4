"""The oracle O: as many turns in time as somebody can have who knows beforehand what everything will take.

O is hindsight, not a policy. It knows the calls that will come and, because what a piece of work takes hangs on the
piece alone (`sim.draws`), the true times of all arms. It may refuse single questions, which no policy of admission
can, and a question that it refuses costs nothing; it writes no texts. It chooses between the two ways to run a
device, one chunk at a time (`core.scheduler`) and batches by deadlines (M4), and plays the same calls again and
again:

1. with every question; where far too many turns are late, with those that fit by the earliest deadline on a device
   that can be interrupted anywhere, each with the need that it has when nobody else is there, the longest given up
   first;
2. of every group of turns that meet, the first late one is given up, until nobody is late;
3. questions that were given up are put again, those that are far from each other at once, and stay where nobody is
   late for it.

What it reaches it has reached in a run like any other, with all turns it took in time: it is a lower bound of what
is possible. That it is an upper bound of what the arms reach is not proved, because which schedule is best is
a hard question; the tests let all arms try, and one turn of forty is the most that one has had more. The bound that
nothing can pass is the number of questions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from msgspec.structs import replace as struct_replace

from voicepipe.core.events import Stage, WorkKind
from voicepipe.sim.arms import EVERYBODY, TUNED
from voicepipe.sim.caller import Call
from voicepipe.sim.machine import MakeMachine, SchedulerMachine
from voicepipe.sim.played import Asked, Played
from voicepipe.sim.scene import Scene, calls_of, play
from voicepipe.sim.shared import shared

Question = tuple[int, int]
"""Number of the call, and of the question in it, from 0."""
APART_S = 2.0
"""Turns further apart than this do not meet."""
MEET_S = 0.5
"""Late turns that end so near to each other are late because of each other, as a rule."""
WINDOW_S = 5.0
FULL = 0.9
"""Of the device's time: what its queues bear."""
TOO_MANY = 0.1
"""Share of late turns from which on it begins with what fits, and not with all."""
NEAR = 0.98
"""Of the better device's turns in time, with which the other one is gone on with as well."""
GIVES_UP, PUTS_AGAIN = 12, 4
"""Rounds, at most."""
ALONE = 10_000
"""Chunks at a time on a device on which nobody waits."""
_WORKED = (Stage.ASR, Stage.LLM, Stage.TTS)


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """Of one turn, after its speech end. Scheduler time."""

    ready: float
    due: float
    service_s: float
    question: Question


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
    """Turns that fit together: each in time, and no more in any `WINDOW_S` than the device has time for."""

    def __init__(self, work_s: float = 0.0) -> None:
        """`work_s`: all that a turn asks of the device, listening and the rest of the answer included."""
        self._needs: list[Need] = []
        self._most = FULL * 2.0 * WINDOW_S / work_s if work_s > 0.0 else inf

    @property
    def questions(self) -> set[Question]:
        return {need.question for need in self._needs}

    def put(self, need: Need) -> None:
        """Beside the others, or instead of a longer one, or not at all. Only those near by are asked."""
        if len(self._near(need, WINDOW_S)) >= self._most:
            return
        near = self._near(need, APART_S)
        if in_time([*near, need]):
            insort(self._needs, need)
            return
        longest = max(near, key=lambda other: other.service_s, default=need)
        if longest.service_s > need.service_s:
            near.remove(longest)
            if in_time([*near, need]):
                self._needs.remove(longest)
                insort(self._needs, need)

    def _near(self, need: Need, within_s: float) -> list[Need]:
        low = bisect_left(self._needs, need.ready - within_s, key=_ready)
        high = bisect_right(self._needs, need.due + within_s, key=_ready)
        return self._needs[low:high]


def _ready(need: Need) -> float:
    return need.ready


def needs_of(scene: Scene) -> tuple[list[Need], float]:
    """(of every question, in the order in which they are ready; what a turn asks of the device in all): on a device
    on which nobody waits, all calls at once. What is late even there needs nothing, because it will not be
    taken."""
    service = struct_replace(scene.service, lanes=dict.fromkeys(scene.service.lanes, ALONE))
    played = play(replace(scene, service=service))
    device = service.lane_of()[WorkKind.SPEAK]
    work_s = sum(busy_s for (lane, _), busy_s in played.busy_s.items() if lane == device) / max(1, played.turns)
    found = []
    for asked in played.asked:
        record = asked.record
        if record is None or record.deadline is None or record.instants.speech_end is None or not asked.kept:
            continue
        service_s = sum(record.stages[stage].service_s for stage in _WORKED if stage in record.stages)
        ready = min(record.instants.asr_final or record.deadline, record.deadline) - service_s
        ready = max(record.instants.speech_end, min(ready, record.deadline - service_s))
        found.append(Need(ready, record.deadline, service_s, (asked.call, asked.number)))
    return sorted(found), work_s


def planned(scene: Scene) -> Scene:
    """The scene as O has it: its device, and the questions that are not put. The same for the same scene."""
    calls = calls_of(scene)
    alone = replace(scene, calls=calls, admission=EVERYBODY, texts=None, machine=SchedulerMachine)
    plans = [_Plan(replace(alone, machine=machine), calls) for machine in _MACHINES]
    tried = [plan.start(()) for plan in plans]
    if min(_late_share(played) for played in tried) > TOO_MANY:
        needs, work_s = needs_of(alone)
        fitting = Fitting(work_s)
        for need in needs:
            fitting.put(need)
        every = {(call, number) for call in range(len(calls)) for number in range(len(calls[call].said))}
        tried = [plan.start(every - fitting.questions) for plan in plans]
    best = max(_worth(played) for played in tried)[0]
    near = [plan for plan, played in zip(plans, tried, strict=True) if _worth(played)[0] >= NEAR * best]
    return max((plan.improved() for plan in near), key=lambda improved: improved[1])[0]


_MACHINES: tuple[MakeMachine, ...] = (SchedulerMachine, shared(TUNED["M4"]))


class _Plan:
    """On one device. `spared` are the questions that are not put."""

    def __init__(self, scene: Scene, calls: Sequence[Call]) -> None:
        self._scene, self._calls = scene, calls
        self._spared: frozenset[Question] = frozenset()
        self._played: Played | None = None

    def start(self, spared: Iterable[Question]) -> Played:
        self._spared = frozenset(spared)
        self._played = self._play(self._spared)
        return self._played

    def improved(self) -> tuple[Scene, tuple[int, int]]:
        """And what it is worth."""
        assert self._played is not None
        self._give_up(self._played)
        self._put_again(self._played)
        return self._with(self._spared), _worth(self._played)

    def _give_up(self, played: Played) -> None:
        """Until nobody is late."""
        spared = self._spared
        for _ in range(GIVES_UP):
            late = _first_late(played)
            if not late:
                return
            spared |= late
            played = self._play(spared)
            self._keep(spared, played)

    def _put_again(self, played: Played) -> None:
        given_up = sorted(self._spared, key=self._end_of)
        for _ in range(PUTS_AGAIN):
            again, given_up = self._apart(given_up)
            if not again:
                return
            late = [asked.end for asked in _late(self._play(self._spared - again))]
            stay = {one for one in again if all(abs(self._end_of(one) - end) > APART_S for end in late)}
            if stay:
                spared = self._spared - stay
                self._keep(spared, self._play(spared))

    def _keep(self, spared: frozenset[Question], played: Played) -> None:
        """If it is better: more turns in time, or as many and fewer late."""
        assert self._played is not None
        if _worth(played) > _worth(self._played):
            self._spared, self._played = spared, played

    def _apart(self, questions: Sequence[Question]) -> tuple[frozenset[Question], list[Question]]:
        """(those that do not meet each other, the others)"""
        chosen, others, last = set(), [], -inf
        for question in questions:
            if self._end_of(question) >= last + 2.0 * APART_S:
                chosen.add(question)
                last = self._end_of(question)
            else:
                others.append(question)
        return frozenset(chosen), others

    def _end_of(self, question: Question) -> float:
        call, number = question
        return self._calls[call].said[number].end

    def _play(self, spared: frozenset[Question]) -> Played:
        return play(self._with(spared))

    def _with(self, spared: frozenset[Question]) -> Scene:
        by_call: dict[int, set[int]] = {}
        for call, number in spared:
            by_call.setdefault(call, set()).add(number)
        calls = (replace(call, unasked=frozenset(by_call.get(at, ()))) for at, call in enumerate(self._calls))
        return replace(self._scene, calls=tuple(calls))


def _late(played: Played) -> list[Asked]:
    return [asked for asked in played.asked if asked.counts and not asked.kept]


def _worth(played: Played) -> tuple[int, int]:
    return sum(asked.counts and asked.kept for asked in played.asked), -len(_late(played))


def _late_share(played: Played) -> float:
    return len(_late(played)) / max(1, sum(asked.counts for asked in played.asked))


def _first_late(played: Played) -> frozenset[Question]:
    """Of every group of turns that meet, the one that ends first."""
    found, last = set(), -inf
    for asked in sorted(_late(played), key=lambda each: each.end):
        if asked.end >= last + MEET_S:
            found.add((asked.call, asked.number))
            last = asked.end
    return frozenset(found)
