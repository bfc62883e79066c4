"""Who runs next on each lane: class, then latest start; what waits for slack; what is not run at all."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import floor, inf

import pytest

from voicepipe.core.events import Load, Offer, Work, WorkClass, WorkKind
from voicepipe.core.scheduler import (
    LAPSE_S,
    Discard,
    DiscardReason,
    LaneSnapshot,
    Pool,
    Reject,
    Run,
    Scheduler,
    SchedulerCommand,
    SchedulerSnapshot,
    is_stale,
)
from voicepipe.core.waiting import AGE_LIMIT_S, latest_start

PLACEMENT = dict.fromkeys(WorkKind, "main") | {WorkKind.HEAR: "ears"}


def scheduler(*, max_queued: int = 256, pool: Pool = Pool.DEDICATED) -> Scheduler:
    return Scheduler(PLACEMENT, {"main": 1, "ears": 1}, max_queued=max_queued, pool=pool)


def work(
    ident: int,
    kind: WorkKind = WorkKind.THINK,
    klass: WorkClass = WorkClass.SPECULATION,
    *,
    session: str = "a",
    epoch: int = 1,
    revision: int = 0,
    deadline: float | None = None,
    bound_s: float = 0.0,
    remaining_s: float = 0.0,
) -> Work:
    return Work(ident, session, 1, epoch, revision, kind, klass, deadline, bound_s, remaining_s)


def started(
    ident: int, deadline: float | None, bound_s: float = 0.0, *, session: str = "a", remaining_s: float = 0.0
) -> Work:
    base = work(ident, klass=WorkClass.STARTED, session=session)
    return replace(base, deadline=deadline, bound_s=bound_s, remaining_s=remaining_s)


def step(ident: int, session: str, klass: WorkClass = WorkClass.STARTED) -> Work:
    """Of a reply, that can be taken together with others."""
    return replace(
        work(ident, klass=klass, session=session, bound_s=0.03),
        load=Load("model", 4, 0, "decode", batch=3),
        expected_s=0.02,
        more_s=0.001,
    )


def test_steps_of_several_replies_are_one_chunk() -> None:
    """Whatever their class, up to as many as the engine does at once; what is left over goes next."""
    lanes = scheduler()
    lanes.on_submit(work(1, WorkKind.PARTIAL, WorkClass.ASR), 0.0)
    waits = [step(2, "b"), step(3, "c", WorkClass.AHEAD), step(4, "d", WorkClass.SPECULATION), step(5, "e")]
    for each in waits:
        assert lanes.on_submit(each, 0.0) == []
    (run,) = lanes.on_done(work(1, WorkKind.PARTIAL, WorkClass.ASR), 0.01)
    assert isinstance(run, Run)
    assert [each.work.id for each in run.all] == [2, 5, 4]
    assert run.whole.load == Load("model", 12, 0, "batch", 3)
    assert lanes.snapshot().lanes["main"] == LaneSnapshot(1, 1, 1)
    assert lanes.on_submit(step(6, "f"), 0.02) == []
    (then,) = lanes.on_done(run.work, 0.03)
    assert isinstance(then, Run) and [each.work.id for each in then.all] == [6, 3]
    assert lanes.on_done(then.work, 0.05) == []
    assert lanes.snapshot().lanes["main"] == LaneSnapshot(0, 0, 3)


def test_company_knows_what_held_it_up() -> None:
    lanes = scheduler()
    lanes.on_submit(background(1, session="t"), 0.0)
    lanes.on_submit(step(2, "b"), 0.1)
    lanes.on_submit(step(3, "c"), 0.2)
    (run,) = lanes.on_done(background(1, session="t"), 0.5)
    assert isinstance(run, Run)
    assert [round(each.background_s, 6) for each in run.all] == [0.4, 0.3]


def test_what_has_left_the_queue_goes_along_with_nobody() -> None:
    lanes = scheduler()
    lanes.on_submit(work(1), 0.0)
    lanes.on_submit(step(2, "b"), 0.0)
    lanes.on_submit(step(3, "c"), 0.0)
    lanes.on_submit(step(4, "d"), 0.0)
    lanes.on_retire("c", 1, 1, 0.0)
    lanes.on_close("d", 0.0)
    (run,) = lanes.on_done(work(1), 0.01)
    assert isinstance(run, Run) and [each.work.id for each in run.all] == [2]


def test_in_a_monolithic_pool_nothing_is_joined() -> None:
    lanes = scheduler(pool=Pool.MONOLITHIC)
    lanes.on_submit(work(1), 0.0)
    lanes.on_submit(step(2, "b"), 0.0)
    lanes.on_submit(step(3, "c"), 0.0)
    (run,) = lanes.on_done(work(1), 0.01)
    assert isinstance(run, Run) and not run.others


def background(ident: int, bound_s: float = 0.0, session: str = "bg") -> Work:
    return work(ident, klass=WorkClass.BACKGROUND, session=session, bound_s=bound_s)


def order(works: list[Work], *, submitted: float = 0.0, free_at: float = 0.0, chunk_s: float = 0.0) -> list[int]:
    """Ids as they run: all submitted behind one chunk that ends at `free_at`, each taking `chunk_s`."""
    one, running, now, ids = scheduler(), work(-1, session="first"), free_at, []
    one.on_submit(running, 0.0)
    for each in works:
        assert one.on_submit(each, submitted) == []
    while commands := one.on_done(running, now):
        (command,) = commands
        assert isinstance(command, Run)
        running = command.work
        ids.append(running.id)
        now += chunk_s
    return ids


def ahead(ident: int, deadline: float, *, session: str = "a") -> Work:
    return replace(work(ident, klass=WorkClass.AHEAD, session=session), deadline=deadline, expected_s=0.02)


def test_audio_beyond_the_frontier_waits_for_listening_and_speculation() -> None:
    works = [ahead(1, 3.0), work(2), work(3, klass=WorkClass.ASR)]
    assert order(works, free_at=1.0) == [3, 2, 1]


def test_unless_playback_is_about_to_run_dry() -> None:
    """It is a started turn's then, in the order of latest starts: 1 has to begin by 1.48, in half a second, and
    2 by 1.58."""
    works = [ahead(1, 1.5), ahead(2, 1.6, session="b"), work(3, klass=WorkClass.ASR), started(4, 1.2, session="c")]
    assert order(works, free_at=1.0) == [4, 1, 3, 2]
    assert order(works, free_at=1.09) == [4, 1, 2, 3]


def test_what_has_become_urgent_counts_as_backlog_and_can_be_withdrawn() -> None:
    one = scheduler()
    one.on_submit(work(-1, session="first"), 0.0)
    one.on_submit(ahead(1, 1.0), 0.0)
    one.on_submit(replace(started(2, 1.0, session="b"), expected_s=0.03), 0.0)
    assert one.snapshot().lanes["main"].backlog_s == pytest.approx(0.03)
    one.on_timer(0.6)
    assert one.snapshot().lanes["main"].backlog_s == pytest.approx(0.05)
    assert one.on_withdraw(ahead(1, 1.0), 0.7) == [
        Discard(replace(ahead(1, 1.0), klass=WorkClass.STARTED), DiscardReason.WITHDRAWN)
    ]
    assert one.snapshot().lanes["main"].backlog_s == pytest.approx(0.03)
    one.on_close("b", 0.8)
    assert one.snapshot().lanes["main"].backlog_s == 0.0


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
    ran, running = [], work(0)
    while commands := one.on_done(running, 1.0):
        (command,) = commands
        assert isinstance(command, Run)
        running = command.work
        ran.append(running.id)
    assert ran == [3, 6, 5, 4, 2, 1]


def test_the_latest_start_leaves_room_for_the_chunk_and_for_what_follows_it() -> None:
    """Infinite where no budget runs."""
    assert latest_start(work(1, deadline=10.0, bound_s=0.03, remaining_s=0.1)) == pytest.approx(9.87)
    assert latest_start(work(1, bound_s=0.03, remaining_s=0.1)) == inf


def test_within_a_class_the_earlier_latest_start_goes_first() -> None:
    """Not the earlier deadline: what has more to do after it must begin earlier. Without a deadline, last."""
    works = [
        started(1, None),
        started(2, 0.300),
        started(3, 0.200),
        started(4, 0.310, remaining_s=0.2),
    ]
    assert order(works) == [4, 3, 2, 1]


def test_near_ties_go_to_the_shorter_bound_and_then_to_the_earlier() -> None:
    """On one point of the 5 ms grid; an undeclared bound may be long and passes nobody."""
    works = [
        started(1, 0.2112),
        started(2, 0.2404, 0.03),
        started(3, 0.2221, 0.01),
        started(4, 0.2201, 0.01),
        started(5, 0.2599, 0.01),
    ]
    assert [round(latest_start(each), 4) for each in works] == [0.2112, 0.2104, 0.2121, 0.2101, 0.2499]
    assert order(works) == [3, 4, 2, 1, 5]


def test_a_turn_is_told_how_long_it_may_keep_the_device() -> None:
    """Until another one that waits there would be late; not itself, no guess, and nobody on another lane."""
    one = scheduler()
    one.on_submit(started(0, 0.2, session="a"), 0.0)
    assert one.spare_s(WorkKind.THINK, "a", 0.0) is None
    one.on_submit(started(1, 0.19, 0.02, session="a"), 0.0)
    one.on_submit(work(2, session="c", deadline=0.1, bound_s=0.02), 0.0)
    assert one.spare_s(WorkKind.THINK, "a", 0.0) is None
    one.on_submit(started(3, 0.2, 0.02, session="b", remaining_s=0.05), 0.0)
    assert one.spare_s(WorkKind.THINK, "a", 0.0) == pytest.approx(0.13)
    assert one.spare_s(WorkKind.THINK, "a", 0.1) == pytest.approx(0.03)
    assert one.spare_s(WorkKind.THINK, "a", 0.14) is None
    assert one.spare_s(WorkKind.HEAR, "a", 0.0) is None


def test_a_turn_may_yet_be_in_time_where_a_chunk_stays_below_its_bound() -> None:
    """Late is what is expected to be, and one chunk in a hundred reaches its bound."""
    assert latest_start(replace(work(1, deadline=0.2, bound_s=0.06), expected_s=0.02)) == pytest.approx(0.18)
    assert order([replace(started(1, 0.2, 0.06), expected_s=0.02), started(2, 0.3)], free_at=0.17) == [1, 2]


def test_ties_are_transitive() -> None:
    """Three works less than 5 ms apart, the last the shortest: in whatever order they come, they go in one."""
    works = [started(1, 0.332, 0.03), started(2, 0.326, 0.02), started(3, 0.3195, 0.01)]
    assert [floor(1000 * latest_start(each)) for each in works] == [302, 306, 309]
    assert order(works) == order(works[::-1]) == [1, 3, 2]


def test_without_deadlines_the_first_come_goes_first() -> None:
    """However long: a stream of short ones would starve it."""
    assert order([started(1, None, 0.5), started(2, None, 0.01)]) == [1, 2]


def test_what_can_no_longer_meet_its_deadline_runs_after_all_that_can() -> None:
    """Decided when the lane is free: 1 was in time when it came. It would have been first, and cost 2 its own."""
    first = started(1, 0.05, session="b")
    works = [first, started(2, 0.2), started(3, None), work(4, klass=WorkClass.ASR)]
    assert order(works, free_at=0.04) == [1, 2, 3, 4]
    assert order(works, free_at=0.06) == [2, 3, 1, 4]


def test_a_turn_that_is_late_is_not_passed_by_its_own_next_thought() -> None:
    """1, the sound of the first clause, takes 60 ms and can no longer be in time; 2, the thoughts about the second,
    takes 20 and could. Another session's work goes first as before."""
    sound, thought = started(1, 0.2, 0.06), started(2, 0.2, 0.02)
    other = started(3, 0.3, 0.02, session="b")
    assert order([sound, thought, other], free_at=0.1) == [1, 2, 3]
    assert order([sound, thought, other], free_at=0.15) == [3, 1, 2]
    assert order([thought, sound, other], free_at=0.15) == [2, 3, 1]


def test_what_waits_behind_its_own_late_work_is_in_time_again_without_it() -> None:
    """The late one was withdrawn, or has begun."""
    one = scheduler()
    running, sound, thought = started(0, None, session="b"), started(1, 0.2, 0.06), started(2, 0.3, 0.02)
    for each in (running, sound, thought):
        one.on_submit(each, 0.0)
    untimed = started(3, None, session="c")
    one.on_submit(untimed, 0.1)
    assert one.on_done(running, 0.15) == [Run(untimed, "main")]
    one.on_withdraw(sound, 0.16)
    later = started(4, 0.29, 0.0, session="d")
    one.on_submit(later, 0.16)
    assert one.on_done(untimed, 0.17) == [Run(thought, "main")]


def test_the_instant_of_the_latest_start_is_in_time() -> None:
    """Late is after it."""
    assert order([started(1, 0.25), started(2, 0.5)], free_at=0.25) == [1, 2]


def test_the_late_go_in_the_order_in_which_they_became_late() -> None:
    """From when they came, where they came late."""
    works = [started(1, 0.03), started(2, 0.01), started(3, -5.0)]
    assert order(works, free_at=0.06) == [3, 2, 1]


@pytest.mark.parametrize("deadline", [0.05, None])
def test_who_has_waited_too_long_goes_first_again(deadline: float | None) -> None:
    """Late, or without a deadline: a stream of turns in time does not starve it, and it takes one chunk."""
    one = scheduler()
    running: Work = started(0, 0.3)
    one.on_submit(running, 0.0)
    one.on_submit(started(1, deadline, session="late"), 0.0)
    now, ran = 0.0, []
    for ident in range(2, 20):
        one.on_submit(started(ident, now + 0.3), now)
        now += 0.1
        (command,) = one.on_done(running, now)
        assert isinstance(command, Run)
        running = command.work
        if running.session == "late":
            assert now == pytest.approx((deadline or 0.0) + AGE_LIMIT_S, abs=0.1)
        ran.append(running.id)
    assert ran.index(1) in (9, 10)
    assert ran[:9] == list(range(2, 11))


def test_of_those_who_have_waited_too_long_the_longest_waiter_goes_first() -> None:
    """Late since 10 ms, against no deadline since 500 ms."""
    one = scheduler()
    first, late, untimed = started(0, None), started(1, 0.01), started(2, None)
    one.on_submit(first, 0.0)
    one.on_submit(late, 0.0)
    one.on_submit(untimed, 0.5)
    assert one.on_done(first, 2.0) == [Run(late, "main")]


def test_a_late_turn_still_outranks_the_lower_classes() -> None:
    """It is behind its own class only."""
    assert order([work(1, klass=WorkClass.ASR, deadline=9.0), started(2, -1.0)]) == [2, 1]


def test_background_runs_while_nobody_is_expected() -> None:
    """With or without a declared bound."""
    assert scheduler().on_submit(background(1), 0.0) == [Run(background(1), "main")]


@pytest.mark.parametrize(("start", "runs"), [(0.0525, True), (0.0515, False), (0.01, False), (-0.2, False)])
def test_background_runs_only_where_its_bound_fits_before_who_is_expected(start: float, runs: bool) -> None:
    """50 ms of its own, 2 ms for the hand-off."""
    one = scheduler()
    assert one.on_reserve("a", start, 0.0) == []
    waiting = background(1, 0.05)
    assert one.on_submit(waiting, 0.0) == ([Run(waiting, "main")] if runs else [])


def test_background_without_a_bound_waits_until_nobody_is_expected() -> None:
    """It may take for ever."""
    one = scheduler()
    one.on_reserve("a", 1e6, 0.0)
    one.on_reserve("b", 2e6, 0.0)
    assert one.on_submit(background(1), 0.0) == []
    assert one.on_unreserve("a", 0.0) == []
    assert one.on_unreserve("b", 0.0) == [Run(background(1), "main")]
    assert one.on_unreserve("b", 0.0) == []


def test_the_earliest_of_all_who_are_expected_counts() -> None:
    """A session has one; the new one replaces it, in both directions."""
    one = scheduler()
    for session, start in (("a", 0.01), ("b", 0.2), ("a", 0.3), ("b", 0.2)):
        one.on_reserve(session, start, 0.0)
    assert one.snapshot().reserved == 2
    assert one.on_submit(background(1, 0.19), 0.0) == [Run(background(1, 0.19), "main")]
    one.on_reserve("a", 0.1, 0.0)
    assert one.on_submit(background(2, 0.15), 0.0) == []
    assert one.on_done(background(1, 0.19), 0.0) == []
    assert one.on_reserve("a", 0.9, 0.0) == [Run(background(2, 0.15), "main")]


def test_a_session_that_closes_is_expected_no_more() -> None:
    """Its background goes, another's goes on."""
    one = scheduler()
    one.on_reserve("a", 0.01, 0.0)
    mine, other = background(1, 0.05, session="a"), background(1, 0.05)
    assert one.on_submit(mine, 0.0) == one.on_submit(other, 0.0) == []
    assert one.on_close("a", 0.0) == [Discard(mine, DiscardReason.CLOSED), Run(other, "main")]


def test_a_new_revision_leaves_the_announced_start_alone() -> None:
    """The reply is made anew for the same deadline."""
    one = scheduler()
    one.on_reserve("a", 0.01, 0.0)
    one.on_retire("a", 1, 1, 0.0)
    assert one.on_submit(background(1, 0.05), 0.0) == []


def test_an_announced_start_lapses_a_while_after_it_has_passed() -> None:
    """Whoever announced it does not come: background is not held back for ever. That is the one timer."""
    one = scheduler()
    one.on_reserve("a", 0.01, 0.0)
    one.on_reserve("b", 0.02, 0.0)
    assert one.next_deadline() is None  # nobody waits for it
    one.on_submit(background(1, 0.05), 0.0)
    assert one.next_deadline() == pytest.approx(0.01 + LAPSE_S)
    assert one.on_timer(0.01 + LAPSE_S) == []
    assert one.snapshot().reserved == 1
    assert one.next_deadline() == pytest.approx(0.02 + LAPSE_S)
    assert one.on_timer(0.02 + LAPSE_S - 1e-6) == []
    assert one.on_timer(0.02 + LAPSE_S) == [Run(background(1, 0.05), "main")]
    assert one.on_timer(0.02 + LAPSE_S) == []
    assert one.next_deadline() is None


def test_behind_a_chunk_there_is_nothing_to_time() -> None:
    """Its end decides."""
    one = scheduler()
    one.on_submit(started(0, None), 0.0)
    one.on_reserve("a", 0.01, 0.0)
    one.on_submit(background(1, 0.05), 0.0)
    assert one.next_deadline() is None
    assert one.on_done(started(0, None), 0.005) == []
    assert one.next_deadline() == pytest.approx(0.01 + LAPSE_S)


def test_what_waits_for_slack_makes_nobody_else_wait() -> None:
    """The lane is free for the turn that was expected."""
    one = scheduler()
    one.on_reserve("a", 0.01, 0.0)
    one.on_submit(background(1, 0.05), 0.0)
    now = started(2, 0.2)
    assert one.on_submit(now, 0.005) == [Run(now, "main")]
    assert one.on_unreserve("a", 0.006) == []
    assert one.on_done(now, 0.05) == [Run(background(1, 0.05), "main")]


def test_background_that_is_promoted_waits_for_slack_no_more() -> None:
    """It is what was expected."""
    one = scheduler()
    one.on_reserve("a", 0.01, 0.0)
    waiting = [background(ident, 0.05, session="a") for ident in (1, 2)]
    for each in waiting:
        assert one.on_submit(each, 0.0) == []
    (command,) = one.on_promote("a", 1, 0.0)
    assert isinstance(command, Run) and command.work.klass is WorkClass.STARTED and command.work.id == 1
    # Also where a lapsed announcement lets it run in the same instant.
    two = Scheduler(PLACEMENT, {"main": 2, "ears": 1})
    two.on_reserve("a", 0.01, 0.0)
    for each in waiting:
        two.on_submit(each, 0.0)
    assert len(two.on_promote("a", 1, 5.0)) == 2


def test_a_crowd_of_one_class_does_not_keep_another_out() -> None:
    """Each class of a lane has its own limit."""
    one = scheduler(max_queued=1)
    one.on_submit(work(0), 0.0)
    one.on_submit(background(1), 0.0)
    assert one.on_submit(background(2), 0.0) == [Reject(background(2))]
    assert one.on_submit(started(3, None), 0.0) == []


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


def test_what_comes_stale_is_not_run() -> None:
    """A result that was on its way when the turn was retired may still ask for its next step."""
    one = scheduler()
    one.on_retire("a", 2, 1, 0.0)
    for old in (work(1, epoch=1), work(2, epoch=2, revision=0), work(3, WorkKind.FINAL, epoch=1)):
        assert one.on_submit(old, 0.0) == [Discard(old, DiscardReason.STALE)]
    hear = work(4, WorkKind.HEAR, epoch=0)
    assert one.on_submit(hear, 0.0) == [Run(hear, "ears")]
    assert one.on_submit(work(5, epoch=1, session="b"), 0.0) != []
    assert one.on_submit(work(6, epoch=2, revision=1), 0.0) == []


def test_what_is_stale_stays_so() -> None:
    """An older retirement takes nothing back; a session that has closed is forgotten."""
    one = scheduler()
    one.on_retire("a", 2, 1, 0.0)
    one.on_retire("a", 2, 0, 0.0)
    one.on_retire("a", 1, 7, 0.0)
    old = work(1, epoch=2, revision=0)
    assert one.on_submit(old, 0.0) == [Discard(old, DiscardReason.STALE)]
    one.on_close("a", 0.0)
    assert one.on_submit(old, 0.0) == [Run(old, "main")]


@pytest.mark.parametrize(
    ("kind", "epoch", "revision", "stale"),
    [
        (WorkKind.HEAR, 0, 0, False),
        (WorkKind.PARTIAL, 1, 3, True),
        (WorkKind.FINAL, 2, 0, False),
        (WorkKind.SECOND_PASS, 0, 0, False),
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
    """At epoch 2, revision 3: a reply depends on the text, recognition on the turn, the VAD on neither,
    nor a second pass, whose turn may have ended."""
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


def test_there_is_nothing_to_wait_for_without_background() -> None:
    """And a timer does no harm."""
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


def test_a_chunk_that_breaks_its_bound_is_counted() -> None:
    """By its measured service, or by when it was handed out; an undeclared bound cannot be broken."""
    one = scheduler()
    cases = [
        (0.05, None, 0.0625),
        (0.05, 0.04, 0.0625),
        (0.05, 0.06, 0.0625),
        (0.0, 0.06, 0.0625),
        (0.0625, None, 0.0625),
    ]
    for ident, (bound_s, service_s, passed_s) in enumerate(cases):
        each = work(ident, bound_s=bound_s)
        one.on_submit(each, 0.0)
        one.on_done(each, passed_s, service_s)
    assert one.snapshot().lanes["main"] == LaneSnapshot(running=0, queued=0, served=5, overruns=2)


def test_a_wait_behind_a_lower_class_is_told_apart() -> None:
    """Of 100 ms the first 40 went to a chunk that could not be taken back, the rest to its own class."""
    one = scheduler()
    low, first, second = work(1, klass=WorkClass.AHEAD), started(2, 0.2), started(3, 0.3)
    one.on_submit(low, 0.0)
    one.on_submit(first, 0.02)
    one.on_submit(second, 0.02)
    (one_run,) = one.on_done(low, 0.06)
    (other_run,) = one.on_done(first, 0.12)
    assert isinstance(one_run, Run) and isinstance(other_run, Run)
    assert (one_run.work, other_run.work) == (first, second)
    assert one_run.blocked_s == pytest.approx(0.04) == other_run.blocked_s
    third = started(4, 0.9)
    one.on_submit(third, 0.13)
    (last_run,) = one.on_done(second, 0.18)
    assert isinstance(last_run, Run) and last_run.blocked_s == 0.0


def test_a_chunk_that_came_to_be_of_a_lower_class_blocks_from_its_begin() -> None:
    """It went first by right, until the commit promoted what it had passed."""
    one = scheduler()
    first, ready, other = started(0, None), work(1), work(2, klass=WorkClass.ASR, session="b")
    for each in (first, ready, other):
        one.on_submit(each, 0.0)
    assert one.on_done(first, 0.5) == [Run(other, "main")]
    one.on_promote("a", 1, 0.625)
    (command,) = one.on_done(other, 0.75)
    assert isinstance(command, Run) and command.work.id == 1
    assert command.blocked_s == 0.25


def test_what_was_taken_back_leaves_nothing_behind() -> None:
    """Works withdrawn behind one long chunk and announcements cancelled: two thousand of each would be a
    megabyte."""
    one = scheduler()
    one.on_submit(work(0), 0.0)
    tracemalloc.start()
    try:
        for ident in range(1, 2000):
            each = started(ident, ident / 10)
            one.on_submit(each, 0.0)
            one.on_withdraw(each, 0.0)
            one.on_reserve(f"s{ident}", ident / 10, 0.0)
            one.on_unreserve(f"s{ident}", 0.0)
            one.on_reserve("again", ident / 10, 0.0)
        one.on_unreserve("again", 0.0)
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert one.on_done(work(0), 1.0) == []
    assert one.snapshot() == SchedulerSnapshot(
        {"main": LaneSnapshot(running=0, queued=0, served=1), "ears": LaneSnapshot(0, 0, 0)}
    )


def test_what_waits_for_a_lane_can_be_asked() -> None:
    """Not what runs, what waits for another lane, or what waits until nobody is expected."""
    one = scheduler()
    one.on_submit(work(1), 0.0)
    one.on_submit(background(2), 0.0)
    assert not one.has_waiting(WorkKind.THINK)
    one.on_submit(work(3, WorkKind.PARTIAL, WorkClass.ASR), 0.0)
    assert one.has_waiting(WorkKind.THINK) and one.has_waiting(WorkKind.FINAL)
    assert not one.has_waiting(WorkKind.HEAR)
    one.on_done(work(1), 0.1, 0.1)
    assert not one.has_waiting(WorkKind.THINK)


# --- texts


def text(ident: int, bounds_s: tuple[float, ...] = (0.01,), since: float | None = None) -> Work:
    """Of as many sizes, of 1, 2, 3 units."""
    first, *larger = [Offer(Load("m", units, 0, "decode-1"), bound_s) for units, bound_s in enumerate(bounds_s, 1)]
    base = Work(ident, "texts", 0, 0, 0, WorkKind.GENERATE, WorkClass.BACKGROUND, bound_s=first.bound_s)
    return replace(base, load=first.load, larger=tuple(larger), since=since)


def units(commands: list[SchedulerCommand]) -> list[float]:
    """Of what runs."""
    loads = [command.work.load for command in commands if isinstance(command, Run)]
    return [load.units for load in loads if load is not None]


@pytest.mark.parametrize(
    ("pool", "slack_s", "expected"),
    [
        (Pool.DEDICATED, 0.011, []),
        (Pool.DEDICATED, 0.013, [1]),
        (Pool.DEDICATED, 0.025, [2]),
        (Pool.DEDICATED, 0.05, [3]),
        (Pool.DEDICATED, None, [3]),
        (Pool.SHARED, 0.0, [3]),
        (Pool.MONOLITHIC, 0.0, [3]),
    ],
)
def test_a_text_gets_the_largest_size_that_fits_the_smallest_slack(
    pool: Pool, slack_s: float | None, expected: list[float]
) -> None:
    """Where it is not dedicated, slack does not matter."""
    one = scheduler(pool=pool)
    if slack_s is not None:
        one.on_reserve("a", 10.0 + slack_s, 10.0)
        one.on_reserve("b", 11.0, 10.0)
    assert units(one.on_submit(text(1, (0.01, 0.02, 0.04)), 10.0)) == expected


def test_the_size_that_runs_is_the_one_that_is_judged() -> None:
    """By its own bound."""
    one = scheduler()
    (run,) = one.on_submit(text(1, (0.01, 0.04)), 0.0)
    assert isinstance(run, Run) and run.work.bound_s == 0.04
    one.on_done(run.work, 0.03)
    assert one.snapshot().lanes["main"].overruns == 0


@pytest.mark.parametrize("pool", [Pool.DEDICATED, Pool.SHARED])
def test_voice_goes_before_a_text(pool: Pool) -> None:
    """At every chunk, whoever came first."""
    one = scheduler(pool=pool)
    one.on_submit(work(1), 0.0)
    one.on_submit(text(2, since=-9.0), 0.0)
    one.on_submit(work(3, klass=WorkClass.AHEAD), 1.0)
    assert one.on_done(work(1), 2.0) == [Run(work(3, klass=WorkClass.AHEAD), "main")]


def test_in_a_monolithic_pool_a_text_that_came_first_goes_on() -> None:
    """A reply waits until the older generation is done; the chunk of a newer one comes after it. What is no
    generation waits for neither."""
    one, reply = scheduler(pool=Pool.MONOLITHIC), work(10, klass=WorkClass.STARTED)
    one.on_submit(text(1, since=1.0), 1.0)
    assert one.on_submit(reply, 2.0) == []
    speak = work(11, WorkKind.SPEAK, WorkClass.AHEAD)
    one.on_submit(speak, 2.0)
    one.on_submit(text(2, since=1.0), 3.0)
    assert one.on_done(text(1), 4.0) == [Run(speak, "main")]
    assert one.on_done(speak, 5.0) == [Run(text(2), "main")]
    one.on_submit(text(3, since=2.5), 6.0)
    assert one.on_done(text(2), 7.0) == [Run(reply, "main")]


def test_in_a_monolithic_pool_later_steps_of_a_reply_keep_its_place() -> None:
    """It came before the text; a reply that is made anew has come anew."""
    one = scheduler(pool=Pool.MONOLITHIC)
    one.on_submit(work(1), 1.0)
    one.on_submit(text(2, since=2.0), 2.0)
    one.on_submit(work(3), 3.0)
    assert one.on_done(work(1), 4.0) == [Run(work(3), "main")]
    one.on_submit(work(4, revision=1), 5.0)
    assert one.on_done(work(3), 6.0) == [Run(text(2), "main")]


def test_a_promoted_reply_keeps_its_place_in_a_monolithic_pool() -> None:
    one = scheduler(pool=Pool.MONOLITHIC)
    one.on_submit(text(1, since=1.0), 1.0)
    one.on_submit(work(2), 2.0)
    one.on_submit(text(3, since=2.5), 2.5)
    one.on_promote("a", 1, 3.0)
    assert one.on_done(text(1), 4.0) == [Run(work(2, klass=WorkClass.STARTED), "main")]


@pytest.mark.parametrize(("pool", "expected"), [(Pool.DEDICATED, (0.5, 0.5)), (Pool.MONOLITHIC, (2.5, 2.5))])
def test_a_run_tells_how_long_background_held_it_up(pool: Pool, expected: tuple[float, float]) -> None:
    """The rest of the chunk that ran, and in a monolithic pool the ones that went first."""
    one, reply = scheduler(pool=pool), started(10, deadline=9.0, bound_s=0.1)
    one.on_submit(text(1, since=0.0), 0.0)
    one.on_submit(reply, 0.5)
    one.on_submit(text(2, since=0.0), 0.75)
    commands = one.on_done(text(1), 1.0)
    if pool is Pool.MONOLITHIC:
        commands = one.on_done(text(2), 3.0)
    (run,) = commands
    assert isinstance(run, Run) and run.work == reply
    assert (run.blocked_s, run.background_s) == expected


def test_a_text_that_fits_passes_background_that_does_not() -> None:
    """A second pass of 200 ms waits for more slack than a chunk of 10."""
    one = scheduler()
    one.on_reserve("a", 10.05, 10.0)
    assert one.on_submit(background(1, 0.2), 10.0) == []
    assert units(one.on_submit(text(2, (0.01,)), 10.0)) == [1]
    assert one.on_unreserve("a", 10.0) == []
    assert one.on_done(text(2), 10.01) == [Run(background(1, 0.2), "main")]


def test_a_text_that_waits_for_slack_wakes_when_a_claim_lapses() -> None:
    """As all background does."""
    one = scheduler()
    one.on_reserve("a", 10.0, 10.0)
    assert one.on_submit(text(1), 10.0) == []
    assert one.next_deadline() == 10.0 + LAPSE_S
    assert units(one.on_timer(10.0 + LAPSE_S)) == [1]
