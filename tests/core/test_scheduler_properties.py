"""What holds for the scheduler in every order of events, against a plain model of it.

The model is a list per lane that is searched for the first; it shares no data structure with what it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import floor, inf

from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.events import URGENT_S, Work, WorkClass, WorkKind
from voicepipe.core.scheduler import (
    LAPSE_S,
    MARGIN_S,
    Discard,
    DiscardReason,
    Reject,
    Run,
    Scheduler,
    SchedulerCommand,
    is_stale,
)
from voicepipe.core.waiting import AGE_LIMIT_S, GRID_S

PLACEMENT = dict.fromkeys(WorkKind, "main") | {WorkKind.HEAR: "ears"}


@dataclass(frozen=True)
class Waiter:
    work: Work
    queued: float

    @property
    def is_text(self) -> bool:
        """Has a line of its own behind all classes: first come, first served."""
        return self.work.kind is WorkKind.GENERATE and self.work.klass is WorkClass.BACKGROUND

    @property
    def latest_start(self) -> float:
        work = self.work
        if self.is_text or work.deadline is None:
            return inf
        return work.deadline - work.remaining_s - (work.expected_s or work.bound_s)

    def waits_since(self, now: float) -> float | None:
        """From when its patience counts; None while it can meet a deadline."""
        if self.latest_start == inf:
            return self.queued
        return max(self.queued, self.latest_start) if self.latest_start < now else None

    def rank(self, now: float) -> tuple[float, ...]:
        """Smaller goes first; equals in the order in which they came."""
        work, since = self.work, self.waits_since(now)
        if since is None:
            return work.klass, 1, floor(self.latest_start / GRID_S), work.bound_s or inf
        if since + AGE_LIMIT_S <= now:
            return work.klass, 0, since
        return work.klass, 2 if self.latest_start == inf else 3, since


class Model:
    def __init__(self, capacity: dict[str, int], make_scheduler: Callable[..., Scheduler] = Scheduler) -> None:
        self.scheduler = make_scheduler(PLACEMENT, capacity, max_queued=6)
        self.capacity = capacity
        self.now = 0.0
        self.waiting: dict[str, list[Waiter]] = {lane: [] for lane in capacity}
        self.running: dict[str, list[Work]] = {lane: [] for lane in capacity}
        self.starts: dict[str, float] = {}
        self.newest: dict[str, tuple[int, int]] = {}
        self.submitted = 0
        self.answers: Counter[tuple[str, int]] = Counter()

    # what may run

    def allowed(self, work: Work) -> bool:
        starts = [start for start in self.starts.values() if start + LAPSE_S > self.now]
        if work.klass is not WorkClass.BACKGROUND or not starts:
            return True
        return min(starts) - self.now >= (work.bound_s or inf) + MARGIN_S

    def passes_its_own(self, one: Waiter, lane: str) -> bool:
        """It is in time, and an earlier work of its session and class is not."""
        if one.latest_start == inf or one.latest_start < self.now:
            return False
        before = self.waiting[lane][: self.waiting[lane].index(one)]
        own = [w for w in before if w.work.session == one.work.session and self.are_peers(w, one)]
        return any(waiter.latest_start < self.now for waiter in own)

    def first(self, lane: str) -> Waiter | None:
        # min() keeps the first of equals, and the list is in order of arrival.
        orderly = [waiter for waiter in self.waiting[lane] if not self.passes_its_own(waiter, lane)]
        for is_text in (False, True):
            own = [waiter for waiter in orderly if waiter.is_text is is_text]
            first = min(own, key=lambda waiter: waiter.rank(self.now), default=None)
            if first is not None and self.allowed(first.work):
                return first
        return None

    @staticmethod
    def are_peers(one: Waiter, other: Waiter) -> bool:
        """They wait in the same queue."""
        return (one.work.klass, one.is_text) == (other.work.klass, other.is_text)

    def has_room(self, lane: str) -> bool:
        return len(self.running[lane]) < self.capacity[lane]

    def start_urgent(self, *lanes: str) -> None:
        """What makes sound beyond the frontier is a started turn's, half a second before it has to begin."""
        for lane in lanes or self.capacity:
            self.waiting[lane] = [
                replace(waiter, work=replace(waiter.work, klass=WorkClass.STARTED))
                if waiter.work.klass is WorkClass.AHEAD and waiter.latest_start < self.now + URGENT_S
                else waiter
                for waiter in self.waiting[lane]
            ]

    # what was answered

    def take(self, commands: list[SchedulerCommand]) -> None:
        for command in commands:
            work = command.work
            self.answers[work.key] += 1
            if isinstance(command, Reject):
                continue
            lane = PLACEMENT[work.kind]
            found = next(waiter for waiter in self.waiting[lane] if waiter.work.key == work.key)
            if isinstance(command, Run):
                assert command.lane == lane
                self.check_run(found, lane)
                assert work == found.work
                self.running[lane].append(found.work)
            self.waiting[lane].remove(found)
        for lane in self.capacity:
            assert not self.has_room(lane) or self.first(lane) is None, "an idle lane"

    def check_run(self, one: Waiter, lane: str) -> None:
        """The promises one by one, and then the whole order."""
        assert self.has_room(lane)
        assert not is_stale(one.work, *self.newest.get(one.work.session, (-1, -1)))
        others = [waiter for waiter in self.waiting[lane] if waiter is not one]
        # Whoever starts waits behind a lower class for no more than the chunk that was running when it came.
        assert not [waiter for waiter in others if waiter.work.klass < one.work.klass]
        assert self.allowed(one.work)
        assert not self.passes_its_own(one, lane)
        peers = [w for w in others if self.are_peers(w, one) and not self.passes_its_own(w, lane)]
        in_time = [waiter.latest_start for waiter in peers if self.now <= waiter.latest_start < inf]
        since = one.waits_since(self.now)
        if since is None:
            assert not [start for start in in_time if start <= one.latest_start - GRID_S]
        else:
            assert not in_time or since + AGE_LIMIT_S <= self.now
        assert one is self.first(lane)

    # what happens

    def submit(self, work: Work) -> None:
        self.submitted += 1
        lane = PLACEMENT[work.kind]
        peers = [waiter for waiter in self.waiting[lane] if self.are_peers(waiter, Waiter(work, self.now))]
        commands = self.scheduler.on_submit(work, self.now)
        stale = is_stale(work, *self.newest.get(work.session, (-1, -1)))
        assert (commands == [Discard(work, DiscardReason.STALE)]) == stale
        assert (commands == [Reject(work)]) == (not stale and len(peers) >= 6)
        if commands != [Reject(work)]:
            self.waiting[lane].append(Waiter(work, self.now))
            if not stale:
                self.start_urgent(lane)
        self.take(commands)

    def done(self, which: int) -> None:
        busy = [work for works in self.running.values() for work in works]
        if busy:
            done = busy[which % len(busy)]
            self.running[PLACEMENT[done.kind]].remove(done)
            self.start_urgent(PLACEMENT[done.kind])
            self.take(self.scheduler.on_done(done, self.now))

    def retire(self, session: str, epoch: int, revision: int) -> None:
        self.newest[session] = max((epoch, revision), self.newest.get(session, (-1, -1)))
        self.take(self.scheduler.on_retire(session, epoch, revision, self.now))
        assert not [w for w in self.of(session) if is_stale(w.work, epoch, revision)]

    def withdraw(self, which: int) -> None:
        waiting = [waiter.work for waiters in self.waiting.values() for waiter in waiters]
        if waiting:
            self.take(self.scheduler.on_withdraw(waiting[which % len(waiting)], self.now))

    def promote(self, session: str, epoch: int) -> None:
        for lane, waiters in self.waiting.items():
            self.waiting[lane] = [
                replace(waiter, work=replace(waiter.work, klass=WorkClass.STARTED))
                if (waiter.work.session, waiter.work.epoch) == (session, epoch)
                else waiter
                for waiter in waiters
            ]
        self.start_urgent()
        self.take(self.scheduler.on_promote(session, epoch, self.now))

    def close(self, session: str) -> None:
        self.newest.pop(session, None)
        self.starts.pop(session, None)
        closed = self.scheduler.on_close(session, self.now)
        self.start_urgent()
        self.take(closed)
        assert not self.of(session)

    def reserve(self, session: str, start: float) -> None:
        self.starts[session] = start
        self.start_urgent()
        self.take(self.scheduler.on_reserve(session, start, self.now))

    def unreserve(self, session: str) -> None:
        self.starts.pop(session, None)
        self.start_urgent()
        self.take(self.scheduler.on_unreserve(session, self.now))

    def of(self, session: str) -> list[Waiter]:
        return [w for waiters in self.waiting.values() for w in waiters if w.work.session == session]

    def pass_time(self, seconds: float) -> None:
        """A driver fires the timer when it is due, sometimes early."""
        until = self.now + seconds
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= until:
            assert deadline > self.now, "a timer that does nothing"
            self.now = deadline
            self.start_urgent()
            self.take(self.scheduler.on_timer(self.now))
        self.now = until
        self.start_urgent()
        self.take(self.scheduler.on_timer(self.now))

    def finish(self) -> None:
        """Nothing more comes: all that waits runs in the end."""
        while any(self.running.values()) or any(self.waiting.values()):
            self.done(0)
            self.pass_time(0.03)
        assert self.scheduler.next_deadline() is None
        assert len(self.answers) == self.submitted
        assert set(self.answers.values()) <= {1}


@dataclass(frozen=True)
class Step:
    action: str
    session: str
    kind: WorkKind
    klass: WorkClass
    epoch: int
    revision: int
    in_ms: int | None
    """A deadline or a start, from now."""
    bound_ms: int
    remaining_ms: int


ACTIONS = ["submit"] * 8 + ["done"] * 4 + ["pass"] * 3
ACTIONS += ["retire", "withdraw", "promote", "close", "reserve", "reserve", "unreserve"]
steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(ACTIONS),
        st.sampled_from("abc"),
        st.sampled_from(list(WorkKind)),
        st.sampled_from(list(WorkClass)),
        st.integers(0, 3),
        st.integers(0, 2),
        st.none() | st.integers(-50, 300),
        st.sampled_from([0, 1, 20, 50]),
        st.sampled_from([0, 0, 30]),
    ),
    max_size=120,
)


def play(model: Model, ident: int, step: Step) -> None:
    session, epoch, revision = step.session, step.epoch, step.revision
    then = None if step.in_ms is None else model.now + step.in_ms / 1000
    match step.action:
        case "submit":
            bound_s, remaining_s = step.bound_ms / 1000, step.remaining_ms / 1000
            work = Work(ident, session, 1, epoch, revision, step.kind, step.klass, then, bound_s, remaining_s)
            model.submit(replace(work, expected_s=bound_s / 2) if ident % 2 else work)
        case "done":
            model.done(epoch)
        case "pass":  # mostly a chunk's length, now and then beyond the age limit
            model.pass_time(0.4 if step.bound_ms == 0 else step.bound_ms / 1000)
        case "retire":
            model.retire(session, epoch, revision)
        case "withdraw":
            model.withdraw(epoch)
        case "promote":
            model.promote(session, epoch)
        case "close":
            model.close(session)
        case "reserve":
            model.reserve(session, model.now if then is None else then)
        case "unreserve":
            model.unreserve(session)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(steps, st.integers(1, 3))
def test_the_scheduler_is_the_plain_model(script: list[Step], room: int) -> None:
    """Never more chunks than a lane has room for; nothing stale; every work answered once; background with slack
    only; no lower class before a higher; by latest start within a class; no lane idle without a reason."""
    model = Model({"main": room, "ears": 1})
    for ident, step in enumerate(script):
        play(model, ident, step)
    model.finish()
