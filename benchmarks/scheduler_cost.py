"""What the scheduler costs: the time of one decision, and the hand-off from one chunk to the next.

Regime of the decisions: the scheduler alone, one thread, virtual time, no engine. Every session always has a
work waiting on one lane, so that as many wait as there are sessions. Each step ends the running chunk (`done`,
which picks the next), lets the session that was served submit its next work, and for some random session raises
the revision, promotes, withdraws or (un)announces a start. Classes, deadlines (some already late) and bounds are
drawn with a fixed seed. Every call of a verb is one decision, timed by itself, garbage collection included;
microseconds.

Regime of the hand-off: a real device, one lane and thread, chunks that sleep 2 ms, every session with one
waiting. From the end of a chunk in its thread, through the loop, the answer and the decision, to the first
instruction of the next; microseconds. Not for comparing machines: it depends on the operating system's way of
waking threads.

Prints a table, and as its last line {"summary": {...}}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from random import Random

from voicepipe.chunk import Outcome
from voicepipe.core.events import LaneTiming, Work, WorkClass, WorkKind
from voicepipe.core.scheduler import Reject, Run, Scheduler, SchedulerCommand
from voicepipe.device import Device

SESSIONS = (16, 64, 256, 512)
BUDGET_US = 100.0
"""What the 99th percentile of a decision may take."""
CHUNK_S = 0.002
PLACEMENT = dict.fromkeys(WorkKind, "main")
KINDS = (WorkKind.PARTIAL, WorkKind.FINAL, WorkKind.THINK, WorkKind.SPEAK)
CLASSES = (*WorkClass, WorkClass.STARTED, WorkClass.STARTED)


@dataclass(frozen=True, slots=True)
class Quantiles:
    n: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Point:
    sessions: int
    decision_us: Quantiles
    hand_off_us: Quantiles
    by_verb_us: dict[str, Quantiles]


def quantiles(values: list[float]) -> Quantiles:
    ordered = sorted(values)
    last = len(ordered) - 1
    return Quantiles(len(ordered), *(round(ordered[round(q * last)], 1) for q in (0.5, 0.99, 1.0)))


class Load:
    """Drives a scheduler, and times each verb."""

    def __init__(self, sessions: int, seed: int) -> None:
        self._random = Random(seed)
        self._sessions = [f"s{number}" for number in range(sessions)]
        self._revision = dict.fromkeys(self._sessions, 0)
        self._scheduler = Scheduler(PLACEMENT, {"main": 1}, max_queued=2 * sessions)
        self._serial = count()
        self._now = 0.0
        self._waiting: dict[str, Work] = {}
        self._running: Work | None = None
        self.took_us: dict[str, list[float]] = defaultdict(list)
        for session in self._sessions:
            self._submit(session)

    def step(self) -> None:
        self._now += self._random.uniform(0.001, 0.03)
        running, self._running = self._running, None
        if running is None:  # background alone, and no slack for it
            self._timed("timer", self._scheduler.on_timer)
        else:
            self._timed("done", partial(self._scheduler.on_done, running))
        self._interfere(self._random.choice(self._sessions))
        for session in self._sessions:
            if session not in self._waiting:
                self._submit(session)

    def _interfere(self, session: str) -> None:
        match self._random.randrange(6):
            case 0:
                self._revision[session] += 1
                self._timed("retire", partial(self._scheduler.on_retire, session, 1, self._revision[session]))
            case 1:
                self._timed("promote", partial(self._scheduler.on_promote, session, 1))
            case 2 if session in self._waiting:
                self._timed("withdraw", partial(self._scheduler.on_withdraw, self._waiting[session]))
            case 3:
                start = self._now + self._random.uniform(0.0, 0.3)
                self._timed("reserve", partial(self._scheduler.on_reserve, session, start))
            case 4:
                self._timed("unreserve", partial(self._scheduler.on_unreserve, session))

    def _submit(self, session: str) -> None:
        pick = self._random
        deadline = None if pick.random() < 0.3 else self._now + pick.uniform(-0.05, 0.5)
        work = Work(
            id=next(self._serial),
            session=session,
            turn=1,
            epoch=1,
            revision=self._revision[session],
            kind=pick.choice(KINDS),
            klass=pick.choice(CLASSES),
            deadline=deadline,
            bound_s=pick.uniform(0.001, 0.05),
            remaining_s=pick.uniform(0.0, 0.1),
        )
        self._waiting[session] = work
        self._timed("submit", partial(self._scheduler.on_submit, work))

    def _timed(self, verb: str, call: Callable[[float], list[SchedulerCommand]]) -> None:
        began = time.perf_counter_ns()
        commands = call(self._now)
        self.took_us[verb].append((time.perf_counter_ns() - began) / 1e3)
        for command in commands:
            assert not isinstance(command, Reject)
            del self._waiting[command.work.session]
            if isinstance(command, Run):
                assert self._running is None
                self._running = command.work


def decisions(sessions: int, steps: int, seed: int) -> dict[str, list[float]]:
    load = Load(sessions, seed)
    load.took_us.clear()  # the filling was not under load
    for _ in range(steps):
        load.step()
    return load.took_us


async def hand_offs(sessions: int, chunks: int) -> list[float]:
    """Microseconds between one chunk and the next."""
    took_us: list[float] = []
    serial, enough = count(), asyncio.Event()

    def observe(work: Work, timing: LaneTiming, lane: str) -> None:
        took_us.append(timing.waits.hand_off_s * 1e6)

    async with Device(PLACEMENT, {"main": 1}, observe=observe) as device:

        def submit(session: str) -> None:
            work = Work(next(serial), session, 1, 1, 0, WorkKind.THINK, WorkClass.SPECULATION)
            device.submit(work, lambda: time.sleep(CHUNK_S), blocking=True, answer=again)

        def again(outcome: Outcome) -> None:
            if len(took_us) >= chunks:
                enough.set()
            else:
                submit(outcome.work.session)

        for number in range(min(sessions, 256)):  # as many as may wait in one class
            submit(f"s{number}")
        await enough.wait()
    return took_us[1:]  # the first found the lane free


def measure(sessions: int, steps: int, chunks: int, seed: int) -> Point:
    took_us = decisions(sessions, steps, seed)
    every = [value for values in took_us.values() for value in values]
    hand_off_us = quantiles(asyncio.run(hand_offs(sessions, chunks)))
    by_verb = {verb: quantiles(values) for verb, values in sorted(took_us.items())}
    return Point(sessions, quantiles(every), hand_off_us, by_verb)


def show(points: list[Point]) -> None:
    print(f"{'sessions':>8} {'what':<10} {'n':>7} {'p50':>8} {'p99':>8} {'max':>8}  (microseconds)")
    for point in points:
        rows = {"decision": point.decision_us, **point.by_verb_us, "hand-off": point.hand_off_us}
        for what, row in rows.items():
            print(f"{point.sessions:>8} {what:<10} {row.n:>7} {row.p50:>8.1f} {row.p99:>8.1f} {row.max:>8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SESSIONS))
    parser.add_argument("--steps", type=int, default=20_000, help="chunks per size, in virtual time")
    parser.add_argument("--chunks", type=int, default=1_000, help="chunks per size, on a real device")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    points = [measure(sessions, options.steps, options.chunks, options.seed) for sessions in options.sessions]
    show(points)
    met = all(point.decision_us.p99 < BUDGET_US for point in points)
    summary = {"budget_us": BUDGET_US, "met": met, "points": [asdict(point) for point in points]}
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
