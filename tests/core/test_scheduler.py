"""Who runs next on each lane: class, then time; every work is answered once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.events import Work, WorkClass, WorkKind
from voicepipe.core.scheduler import (
    Discard,
    DiscardReason,
    LaneSnapshot,
    Reject,
    Run,
    Scheduler,
    SchedulerCommand,
    SchedulerSnapshot,
    is_stale,
)

PLACEMENT = dict.fromkeys(WorkKind, "main") | {WorkKind.HEAR: "ears"}


def scheduler(**more: int) -> Scheduler:
    return Scheduler(PLACEMENT, {"main": 1, "ears": 1}, **more)


def work(
    ident: int,
    kind: WorkKind = WorkKind.THINK,
    klass: WorkClass = WorkClass.SPECULATION,
    *,
    session: str = "a",
    epoch: int = 1,
    revision: int = 0,
) -> Work:
    return Work(ident, session, 1, epoch, revision, kind, klass)


def test_a_work_on_an_idle_lane_runs_at_once() -> None:
    """Nothing to wait for."""
    assert scheduler().on_submit(work(1), 0.0) == [Run(work(1), "main")]


def test_a_busy_lane_lets_it_wait_until_the_chunk_is_done() -> None:
    """Chunks are never taken back."""
    one = scheduler()
    one.on_submit(work(1), 0.0)
    assert one.on_submit(work(2), 0.0) == []
    assert one.on_done(work(1), 1.0) == [Run(work(2), "main")]
    assert one.on_done(work(2), 2.0) == []


def test_lanes_do_not_wait_for_each_other() -> None:
    """The ears hear while the main lane decodes."""
    one = scheduler()
    one.on_submit(work(1), 0.0)
    hear = work(2, WorkKind.HEAR, WorkClass.ASR)
    assert one.on_submit(hear, 0.0) == [Run(hear, "ears")]


def test_a_lane_runs_as_many_chunks_as_it_has_room_for() -> None:
    """A lane of two: the third waits."""
    one = Scheduler(PLACEMENT, {"main": 2, "ears": 1})
    runs = [one.on_submit(work(ident), 0.0) for ident in (1, 2, 3)]
    assert [len(commands) for commands in runs] == [1, 1, 0]
    assert one.snapshot().lanes["main"] == LaneSnapshot(running=2, queued=1, served=0)


def test_the_more_urgent_class_goes_first_and_within_it_the_earlier() -> None:
    """STARTED before ASR before SPECULATION before AHEAD before BACKGROUND."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    classes = [
        WorkClass.BACKGROUND,
        WorkClass.AHEAD,
        WorkClass.STARTED,
        WorkClass.SPECULATION,
        WorkClass.ASR,
        WorkClass.STARTED,
    ]
    for ident, klass in enumerate(classes, 1):
        one.on_submit(work(ident, klass=klass), 0.0)
    order, running = [], work(0)
    while commands := one.on_done(running, 1.0):
        (command,) = commands
        assert isinstance(command, Run)
        running = command.work
        order.append(running.id)
    assert order == [3, 6, 5, 4, 2, 1]


def test_a_full_queue_rejects() -> None:
    """The engine never sees the excess, and whoever asked is told at once."""
    one = scheduler(max_queued=1)
    one.on_submit(work(1), 0.0)
    one.on_submit(work(2), 0.0)
    assert one.on_submit(work(3), 0.0) == [Reject(work(3))]
    assert one.on_done(work(1), 1.0) == [Run(work(2), "main")]


def test_promotion_lets_a_waiting_speculation_go_first() -> None:
    """What the commit made current passes what came before it, and keeps its own order."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    other = work(1, klass=WorkClass.ASR, session="b")
    ready = [work(2, epoch=5), work(3, epoch=5)]
    for waiting in (other, *ready):
        one.on_submit(waiting, 0.0)
    assert one.on_promote("a", 5, 0.0) == []
    first, second = one.on_done(work(0), 1.0), None
    assert isinstance(first[0], Run) and first[0].work.id == 2
    assert first[0].work.klass is WorkClass.STARTED
    second = one.on_done(first[0].work, 2.0)
    assert isinstance(second[0], Run) and second[0].work.id == 3
    assert one.on_done(second[0].work, 3.0) == [Run(other, "main")]


def test_promotion_leaves_other_epochs_and_sessions_alone() -> None:
    """Only what belongs to the committed turn."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    waiting = [work(1, epoch=4), work(2, epoch=5, session="b")]
    for each in waiting:
        one.on_submit(each, 0.0)
    one.on_promote("a", 5, 0.0)
    assert one.on_done(work(0), 1.0) == [Run(waiting[0], "main")]
    assert one.on_done(waiting[0], 1.0) == [Run(waiting[1], "main")]


def test_retiring_discards_what_is_stale_and_nothing_else() -> None:
    """Older epochs, and reply work of an older revision; not recognition, not the VAD, not other sessions."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    old_epoch = work(1, epoch=1)
    old_revision = work(2, WorkKind.SPEAK, epoch=2, revision=0)
    current = [
        work(3, WorkKind.FINAL, epoch=2, revision=0),
        work(4, WorkKind.SPEAK, epoch=2, revision=1),
        work(5, epoch=1, session="b"),
    ]
    for each in (old_epoch, old_revision, *current):
        one.on_submit(each, 0.0)
    assert one.on_retire("a", 2, 1, 1.0) == [
        Discard(old_epoch, DiscardReason.STALE),
        Discard(old_revision, DiscardReason.STALE),
    ]
    assert one.snapshot().lanes["main"].queued == len(current)


@pytest.mark.parametrize(
    ("kind", "epoch", "revision", "stale"),
    [
        (WorkKind.HEAR, 0, 0, False),
        (WorkKind.PARTIAL, 1, 3, True),
        (WorkKind.FINAL, 2, 0, False),
        (WorkKind.THINK, 2, 2, True),
        (WorkKind.THINK, 2, 3, False),
        (WorkKind.SPEAK, 2, 4, False),
        (WorkKind.SPEAK, 3, 0, False),
        (WorkKind.THINK, 1, 9, True),
    ],
)
def test_staleness_depends_on_what_the_work_is_made_from(
    kind: WorkKind, epoch: int, revision: int, stale: bool
) -> None:
    """At epoch 2, revision 3: a reply depends on the text, recognition on the turn, the VAD on neither."""
    assert is_stale(work(1, kind, epoch=epoch, revision=revision), 2, 3) is stale


def test_withdrawing_takes_back_one_waiting_work() -> None:
    """A partial that nobody needs any more; the same id of another session stays."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    mine, other = work(1), work(1, session="b")
    one.on_submit(mine, 0.0)
    one.on_submit(other, 0.0)
    assert one.on_withdraw(mine, 0.0) == [Discard(mine, DiscardReason.WITHDRAWN)]
    assert one.on_done(work(0), 1.0) == [Run(other, "main")]


def test_withdrawing_what_runs_or_is_unknown_does_nothing() -> None:
    """A running chunk is never taken back."""
    one = scheduler()
    one.on_submit(work(1), 0.0)
    assert one.on_withdraw(work(1), 0.0) == []
    assert one.on_withdraw(work(9), 0.0) == []


def test_closing_discards_all_that_waits_for_the_session() -> None:
    """On every lane, the VAD's too; what runs goes on to its end."""
    one = scheduler()
    hears = [work(i, WorkKind.HEAR, WorkClass.ASR) for i in (1, 2)]
    thinks = [work(i) for i in (3, 4)]
    for each in (*hears, *thinks, work(5, session="b")):
        one.on_submit(each, 0.0)
    discarded = one.on_close("a", 1.0)
    assert sorted(d.work.id for d in discarded if isinstance(d, Discard)) == [2, 4]
    assert {d.reason for d in discarded if isinstance(d, Discard)} == {DiscardReason.CLOSED}
    assert one.on_done(thinks[0], 2.0) == [Run(work(5, session="b"), "main")]


def test_finishing_what_does_not_run_is_a_bug() -> None:
    """Only our own driver can do that."""
    with pytest.raises(KeyError):
        scheduler().on_done(work(1), 0.0)


def test_a_placement_on_a_lane_that_does_not_exist_is_a_bug() -> None:
    """Found at birth, not at the first work."""
    with pytest.raises(AssertionError):
        Scheduler(PLACEMENT, {"main": 1})


def test_there_is_nothing_to_wait_for() -> None:
    """The scheduler has no timer, and a timer does it no harm."""
    one = scheduler()
    one.on_submit(work(1), 0.0)
    assert one.next_deadline() is None
    assert one.on_timer(1e9) == []


def test_the_snapshot_counts_what_runs_waits_and_was_served() -> None:
    """Per lane, as a value."""
    one = scheduler()
    for ident in (1, 2):
        one.on_submit(work(ident), 0.0)
    one.on_done(work(1), 1.0)
    assert one.snapshot() == SchedulerSnapshot(
        {"main": LaneSnapshot(running=1, queued=0, served=1), "ears": LaneSnapshot(0, 0, 0)}
    )


class Model:
    """What the scheduler must do, said plainly: a list per lane, searched for the first."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.capacity = capacity
        self.waiting: dict[str, list[Work]] = {lane: [] for lane in capacity}
        self.running: dict[str, list[Work]] = {lane: [] for lane in capacity}
        self.answers: dict[tuple[str, int], int] = {}

    def take(self, commands: list[SchedulerCommand]) -> None:
        for command in commands:
            key = command.work.key
            self.answers[key] = self.answers.get(key, 0) + 1
            lane = PLACEMENT[command.work.kind]
            if isinstance(command, Reject):
                continue
            found = next(w for w in self.waiting[lane] if w.key == key)
            if isinstance(command, Run):
                assert command.lane == lane
                # min() keeps the first of equals: the earlier one.
                assert found is min(self.waiting[lane], key=lambda w: w.klass)
                assert command.work == found
                self.running[lane].append(found)
            self.waiting[lane].remove(found)
        for lane, capacity in self.capacity.items():
            assert len(self.running[lane]) <= capacity
            assert not self.waiting[lane] or len(self.running[lane]) == capacity, "an idle lane"

    def promote(self, session: str, epoch: int) -> None:
        for lane, works in self.waiting.items():
            self.waiting[lane] = [
                Work(w.id, w.session, w.turn, w.epoch, w.revision, w.kind, WorkClass.STARTED)
                if (w.session, w.epoch) == (session, epoch)
                else w
                for w in works
            ]


steps = st.lists(
    st.tuples(
        st.sampled_from(["submit"] * 6 + ["done"] * 4 + ["retire", "withdraw", "promote", "close"]),
        st.sampled_from("ab"),
        st.sampled_from(list(WorkKind)),
        st.sampled_from(list(WorkClass)),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=120,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(steps, st.integers(1, 3), st.integers(1, 8))
def test_every_work_is_answered_once_in_order_and_within_capacity(
    script: list[tuple[str, str, WorkKind, WorkClass, int, int]], room: int, max_queued: int
) -> None:
    """Against the plain model, over random submissions, ends, retirements, withdrawals and closes."""
    capacity = {"main": room, "ears": 1}
    one, model, submitted = Scheduler(PLACEMENT, capacity, max_queued=max_queued), Model(capacity), 0
    for ident, (action, session, kind, klass, epoch, revision) in enumerate(script):
        match action:
            case "submit":
                submitted += 1
                new = work(ident, kind, klass, session=session, epoch=epoch, revision=revision)
                commands = one.on_submit(new, 0.0)
                if commands != [Reject(new)]:
                    model.waiting[PLACEMENT[kind]].append(new)
                else:
                    assert len(model.waiting[PLACEMENT[kind]]) >= max_queued
                model.take(commands)
            case "done":
                busy = [w for works in model.running.values() for w in works]
                if busy:
                    done = busy[epoch % len(busy)]
                    model.running[PLACEMENT[done.kind]].remove(done)
                    model.take(one.on_done(done, 0.0))
            case "retire":
                model.take(one.on_retire(session, epoch, revision, 0.0))
                left = [w for works in model.waiting.values() for w in works if w.session == session]
                assert not [w for w in left if is_stale(w, epoch, revision)]
            case "withdraw":
                waiting = [w for works in model.waiting.values() for w in works]
                if waiting:
                    model.take(one.on_withdraw(waiting[epoch % len(waiting)], 0.0))
            case "promote":
                one.on_promote(session, epoch, 0.0)
                model.promote(session, epoch)
            case "close":
                model.take(one.on_close(session, 0.0))
                left = [w for works in model.waiting.values() for w in works]
                assert not [w for w in left if w.session == session]
    while any(model.running.values()):
        for works in list(model.running.values()):
            for done in list(works):
                works.remove(done)
                model.take(one.on_done(done, 0.0))
    assert len(model.answers) == submitted
    assert set(model.answers.values()) <= {1}
