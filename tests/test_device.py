"""The owner of the lanes: every work answered once, whatever becomes of its chunk, its session or the device."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests import virtual
from voicepipe.chunk import Done, Dropped, Failed, Outcome, Together
from voicepipe.core.breaker import BreakerSettings
from voicepipe.core.engine_health import HealthSettings
from voicepipe.core.events import LaneTiming, Load, Stage, Work, WorkClass, WorkKind
from voicepipe.core.scheduler import LAPSE_S, LaneSnapshot
from voicepipe.device import Device
from voicepipe.errors import (
    EngineBusy,
    EngineError,
    EngineThrottled,
    EngineTimeout,
    EngineUnavailable,
    PromptRefused,
)

PLACEMENT = dict.fromkeys(WorkKind, "main")


def work(
    ident: int,
    *,
    session: str = "a",
    klass: WorkClass = WorkClass.ASR,
    epoch: int = 1,
    deadline: float | None = None,
    bound_s: float = 0.0,
) -> Work:
    return Work(ident, session, 1, epoch, 0, WorkKind.THINK, klass, deadline, bound_s)


def takes(seconds: float, value: Any = None) -> Callable[[], Awaitable[Any]]:
    async def chunk() -> Any:
        await asyncio.sleep(seconds)
        return value

    return chunk


class Bench:
    """A device, and all the answers that it gave with their virtual times."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.answers: list[tuple[float, Outcome]] = []
        self.began = asyncio.get_running_loop().time()
        self._answered = asyncio.Semaphore(0)

    @property
    def now(self) -> float:
        return round(asyncio.get_running_loop().time() - self.began, 6)

    def submit(self, one: Work, call: Callable[[], Any], *, blocking: bool = False) -> None:
        def answer(outcome: Outcome) -> None:
            self.answers.append((self.now, outcome))
            self._answered.release()

        self.device.submit(one, call, blocking=blocking, answer=answer)

    async def answered(self) -> None:
        """Wait for the next answer that has not been waited for."""
        await self._answered.acquire()

    def told(self) -> list[tuple[float, str, int]]:
        """(when, kind of outcome, work id)"""
        return [(at, type(outcome).__name__, outcome.work.id) for at, outcome in self.answers]


@asynccontextmanager
async def bench(lanes: dict[str, int] | None = None, **more: Any) -> AsyncIterator[Bench]:
    async with Device(PLACEMENT, lanes or {"main": 1}, **more) as device:
        yield Bench(device)


def played(story: Callable[[Bench], Awaitable[None]], **more: Any) -> Bench:
    """Run the story on a bench in virtual time; the device is closed after it."""

    async def main() -> Bench:
        async with bench(**more) as one:
            await story(one)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return one

    return virtual.run(main())


def test_chunks_of_a_lane_run_one_after_the_other() -> None:
    """With their value, and with when they were queued, began and ended."""

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(0.5, "x"))
        one.submit(work(2), takes(0.25, "y"))
        await asyncio.sleep(2)

    one = played(story)
    assert one.told() == [(0.5, "Done", 1), (0.75, "Done", 2)]
    first, second = (outcome for _, outcome in one.answers)
    assert isinstance(first, Done) and isinstance(second, Done)
    assert (first.result, second.result) == ("x", "y")
    assert second.timing.wait_s == pytest.approx(0.5)
    assert second.timing.service_s == pytest.approx(0.25)


def test_a_wider_lane_runs_them_side_by_side() -> None:
    """As many as it has room for."""

    async def story(one: Bench) -> None:
        for ident in (1, 2, 3):
            one.submit(work(ident), takes(1.0))
        await asyncio.sleep(3)

    assert played(story, lanes={"main": 2}).told() == [(1.0, "Done", 1), (1.0, "Done", 2), (2.0, "Done", 3)]


def test_the_more_urgent_work_overtakes() -> None:
    """What runs is not taken back."""

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(1.0))
        one.submit(work(2, klass=WorkClass.AHEAD), takes(1.0))
        one.submit(work(3, klass=WorkClass.STARTED), takes(1.0))
        await asyncio.sleep(5)

    assert [ident for _, _, ident in played(story).told()] == [1, 3, 2]


def test_promotion_reaches_what_waits() -> None:
    """A commit makes its speculation urgent."""

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(1.0))
        one.submit(work(2, klass=WorkClass.ASR, epoch=0), takes(1.0))
        one.submit(work(3, klass=WorkClass.SPECULATION, epoch=7), takes(1.0))
        one.device.promote("a", 7)
        await asyncio.sleep(5)

    assert [ident for _, _, ident in played(story).told()] == [1, 3, 2]


def test_what_is_retired_or_withdrawn_is_dropped_without_running() -> None:
    """The answer comes at once; what runs goes on to its end."""

    async def story(one: Bench) -> None:
        ran: list[int] = []
        for ident in (1, 2, 3):
            one.submit(work(ident, epoch=ident), partial(ran.append, ident))
        one.device.withdraw(work(3, epoch=3))
        one.device.retire("a", 3, 0)
        await asyncio.sleep(1)
        assert ran == [1]

    assert played(story).told() == [(0.0, "Dropped", 3), (0.0, "Dropped", 2), (0.0, "Done", 1)]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_chunk_that_raises_fails_and_the_lane_goes_on(blocking: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever an engine raises costs its own turn only; its text, which may hold words, stays out of the error and
    of the log."""

    async def story(one: Bench) -> None:
        def broken() -> None:
            raise ValueError("-".join(("secret", "words")))  # so that the source line does not hold them

        one.submit(work(1), broken, blocking=blocking)
        one.submit(work(2), takes(0.5))
        await asyncio.sleep(1)

    one = played(story)
    assert one.told() == [(0.0, "Failed", 1), (0.5, "Done", 2)]
    _, failed = one.answers[0]
    assert isinstance(failed, Failed)
    assert failed.error.code == "engine_failed"
    assert "ValueError" in failed.error.message and "secret-words" not in failed.error.message
    assert "think chunk failed: ValueError" in caplog.text and "in broken" in caplog.text
    assert "secret-words" not in caplog.text


def test_an_engines_own_error_is_passed_on_as_it_is() -> None:
    """It has a code that the client is told."""

    async def story(one: Bench) -> None:
        async def broken() -> None:
            raise EngineTimeout("no answer")

        one.submit(work(1), broken)
        await asyncio.sleep(1)

    ((_, failed),) = played(story).answers
    assert isinstance(failed, Failed) and failed.error.code == "engine_timeout"


def test_a_chunk_that_is_cancelled_from_within_is_dropped() -> None:
    """An engine's own cancellation frees its lane like any other end."""

    async def story(one: Bench) -> None:
        async def cancelled() -> None:
            raise asyncio.CancelledError

        one.submit(work(1), cancelled)
        one.submit(work(2), takes(0.5))
        await asyncio.sleep(1)

    assert played(story).told() == [(0.0, "Dropped", 1), (0.5, "Done", 2)]


def test_excess_work_is_refused_after_the_submitter_has_finished() -> None:
    """The engine never sees it, and nobody is called back in the middle of a submission."""

    async def story(one: Bench) -> None:
        for ident in range(4100):
            one.submit(work(ident), takes(0.0001))
        assert one.answers == []
        await asyncio.sleep(1)

    one = played(story)
    assert len({ident for _, _, ident in one.told()}) == len(one.answers) == 4100
    failed = [outcome for _, outcome in one.answers if isinstance(outcome, Failed)]
    assert {type(outcome.error) for outcome in failed} == {EngineBusy}
    assert len(failed) == 4100 - 1 - 4096


def test_every_finished_chunk_is_observed() -> None:
    """For the metrics: the work, its times, its lane; failures are not service."""
    seen: list[tuple[int, float, str]] = []

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(0.5))
        one.submit(work(2), lambda: 1 / 0)
        await asyncio.sleep(1)

    def observe(one: Work, timing: LaneTiming, lane: str) -> None:
        seen.append((one.id, round(timing.service_s, 6), lane))

    played(story, observe=observe)
    assert seen == [(1, 0.5, "main")]


def test_of_every_chunk_that_ran_somebody_may_learn() -> None:
    """Also of those that failed, did not do all that they were to do, or were cancelled: the time is the least that
    they would have taken. What never ran teaches nothing."""
    learnt: list[tuple[int, float, bool]] = []

    async def fails() -> None:
        await asyncio.sleep(0.25)
        raise ZeroDivisionError

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(0.5))
        one.submit(work(2), fails)
        one.device.submit(
            work(3), takes(0.125, "half"), blocking=False, answer=lambda _: None, is_whole=lambda r: r != "half"
        )
        one.submit(work(4, session="b"), takes(9.0))
        one.submit(work(5, session="c"), takes(9.0))
        await asyncio.sleep(1.0)

    def learn(one: Work, service_s: float, whole: bool) -> None:
        learnt.append((one.id, round(service_s, 6), whole))

    played(story, learn=learn)
    assert learnt == [(1, 0.5, True), (2, 0.25, False), (3, 0.125, False), (4, 0.125, False)]


def test_a_wait_is_split_into_others_a_lower_class_and_the_hand_off() -> None:
    """Work 3 waits half a second for what may not be taken back, and two for its own class; nothing is lost."""
    seen: dict[int, LaneTiming] = {}

    async def story(one: Bench) -> None:
        one.submit(work(1, klass=WorkClass.AHEAD), takes(1.0))
        await asyncio.sleep(0.5)
        one.submit(work(2, klass=WorkClass.STARTED), takes(2.0))
        one.submit(work(3, klass=WorkClass.STARTED), takes(0.25))
        await asyncio.sleep(5)

    def observe(one: Work, timing: LaneTiming, lane: str) -> None:
        seen[one.id] = timing

    played(story, observe=observe)
    split = [(t.waits.lower_s, t.waits.others_s, t.waits.hand_off_s) for t in seen.values()]
    assert np.allclose(split, [(0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.5, 2.0, 0.0)])


async def test_the_hand_off_is_measured_from_the_end_of_the_chunk_before() -> None:
    """Also what the loop was doing in between: it was deaf for 0.3 s when the chunk ended. That breaks no
    bound of the chunk, and is no wait of what its answer submits later. (Real time.)"""
    seen: dict[int, LaneTiming] = {}
    ended, go_on, over = threading.Event(), threading.Event(), asyncio.Event()

    def first() -> None:
        go_on.wait(10)
        ended.set()

    def busy() -> None:
        go_on.set()
        assert ended.wait(10)
        stop = time.monotonic() + 0.3
        while time.monotonic() < stop:
            pass

    def go_on_with_3(outcome: Outcome) -> None:
        one.device.submit(work(3), lambda: None, blocking=True, answer=lambda outcome: over.set())

    async with bench(observe=lambda one, timing, lane: seen.update({one.id: timing})) as one:
        one.submit(work(1, bound_s=0.25), first, blocking=True)
        one.device.submit(work(2), lambda: None, blocking=True, answer=go_on_with_3)
        asyncio.get_running_loop().call_later(0.01, busy)
        await over.wait()
    assert one.device.snapshot().lanes["main"].overruns == 0
    assert seen[3].waits.others_s == 0.0 < seen[3].waits.hand_off_s
    hand_off_s = seen[2].waits.hand_off_s
    assert 0.299 < hand_off_s < seen[2].wait_s
    assert seen[2].started - seen[1].finished == pytest.approx(hand_off_s)


def test_the_next_step_of_a_started_turn_is_not_overtaken_by_what_waits() -> None:
    """It is submitted by the answer to the step before, and the lane is given out after that."""

    async def story(one: Bench) -> None:
        def go_on(outcome: Outcome) -> None:
            one.answers.append((one.now, outcome))
            if outcome.work.id < 3:
                successor = work(outcome.work.id + 1, klass=WorkClass.STARTED)
                one.device.submit(successor, takes(1.0), blocking=False, answer=go_on)

        one.device.submit(work(1, klass=WorkClass.STARTED), takes(1.0), blocking=False, answer=go_on)
        one.submit(work(9, session="b", klass=WorkClass.SPECULATION), takes(1.0))
        await asyncio.sleep(5)

    assert [ident for _, _, ident in played(story).told()] == [1, 2, 3, 9]


def test_an_answer_that_raises_gives_the_lane_back() -> None:
    """It is a bug of ours, and ends the device; what holds a lease is still released."""
    released: list[str] = []

    async def main() -> None:
        async with bench() as one:

            def broken(outcome: Outcome) -> None:
                one.device.leave("a", lambda: released.append("a"))
                raise LookupError("mine")

            one.device.submit(work(1), takes(1.0), blocking=False, answer=broken)
            await asyncio.sleep(5)

    with pytest.raises(BaseExceptionGroup) as raised:
        virtual.run(main())
    assert raised.group_contains(LookupError, match="mine")
    assert released == ["a"]


def test_a_chunk_that_breaks_its_bound_is_counted() -> None:
    """Also one that failed in the end."""

    async def story(one: Bench) -> None:
        async def fails() -> None:
            await asyncio.sleep(1.0)
            raise EngineTimeout("no answer")

        one.submit(work(1, bound_s=0.5), takes(1.0))
        one.submit(work(2, bound_s=1.5), takes(1.0))
        one.submit(work(3, bound_s=0.5), fails)
        await asyncio.sleep(5)

    assert played(story).device.snapshot().lanes == {"main": LaneSnapshot(0, 0, served=3, overruns=2)}


def test_background_waits_while_a_turn_is_expected() -> None:
    """Until the turn is expected no more, or fits after it."""

    async def story(one: Bench) -> None:
        began = asyncio.get_running_loop().time()
        one.device.reserve("b", began + 0.1)
        one.submit(work(1, klass=WorkClass.BACKGROUND, bound_s=0.2), takes(0.2))
        await asyncio.sleep(0.5)
        assert one.answers == []
        one.device.unreserve("b")
        await asyncio.sleep(0.5)
        one.device.reserve("b", began + 1.5)
        one.submit(work(2, klass=WorkClass.BACKGROUND, bound_s=0.2), takes(0.2))
        await asyncio.sleep(1)

    assert played(story).told() == [(0.7, "Done", 1), (1.2, "Done", 2)]


def test_a_turn_that_was_expected_and_never_came_is_forgotten() -> None:
    """The scheduler's timer is armed, and armed anew when what it is set to changes."""

    async def story(one: Bench) -> None:
        began = asyncio.get_running_loop().time()
        one.device.reserve("b", began + 0.2)
        one.submit(work(1, klass=WorkClass.BACKGROUND, bound_s=0.5), takes(0.25))
        one.device.reserve("b", began + 0.1)
        await asyncio.sleep(5)

    assert played(story).told() == [(0.1 + LAPSE_S + 0.25, "Done", 1)]


def test_closing_the_device_forgets_what_was_held_back() -> None:
    """Its timer too."""

    async def story(one: Bench) -> None:
        one.device.reserve("b", asyncio.get_running_loop().time() + 0.1)
        one.submit(work(1, klass=WorkClass.BACKGROUND, bound_s=0.5), takes(0.25))

    one = played(story)
    assert one.told() == []
    assert one.device.snapshot().lanes == {"main": LaneSnapshot(running=0, queued=0, served=0)}


def test_stale_work_is_dropped_after_the_submitter_has_finished() -> None:
    """Like excess work."""

    async def story(one: Bench) -> None:
        one.device.retire("a", 2, 0)
        one.submit(work(1, epoch=1), takes(1.0))
        assert one.answers == []
        await asyncio.sleep(1)

    assert played(story).told() == [(0.0, "Dropped", 1)]


def test_a_session_that_leaves_is_answered_no_more() -> None:
    """What waits is dropped in silence; its handles are given back once its running chunk has ended."""

    async def story(one: Bench) -> None:
        released: list[float] = []
        one.submit(work(1), takes(1.0))
        one.submit(work(2), takes(1.0))
        one.submit(work(3, session="b"), takes(1.0))
        one.device.leave("a", lambda: released.append(one.now))
        assert released == []
        await asyncio.sleep(5)
        assert released == [1.0]

    assert played(story).told() == [(2.0, "Done", 3)]


def test_a_session_with_nothing_running_leaves_at_once() -> None:
    """There is nothing to wait for."""

    async def story(one: Bench) -> None:
        released: list[float] = []
        one.submit(work(1, session="b"), takes(1.0))
        one.submit(work(2), takes(1.0))
        one.device.leave("a", lambda: released.append(one.now))
        assert released == [0.0]

    assert played(story).told() == []


def test_excess_work_of_a_session_that_left_meanwhile_is_nobodys() -> None:
    """The refusal was on its way when the session went."""

    async def story(one: Bench) -> None:
        for ident in range(300):
            one.submit(work(ident), takes(0.001))
        one.device.leave("a", lambda: None)
        await asyncio.sleep(1)

    assert played(story).told() == []


def test_closing_the_device_cancels_what_is_awaited_and_drops_what_waits() -> None:
    """A remote engine that hangs does not hold the process up."""

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(1e9))
        one.submit(work(2), takes(1.0))
        await asyncio.sleep(0.5)

    one = played(story)
    assert one.told() == []
    assert one.device.snapshot().lanes == {"main": LaneSnapshot(running=0, queued=0, served=1)}


@pytest.mark.parametrize("begun", [True, False])
def test_closing_the_device_gives_back_what_a_leaving_session_holds(begun: bool) -> None:
    """Once, and whether or not its chunk had come to run."""
    released: list[str] = []

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(1e9))
        if begun:
            await asyncio.sleep(0.5)
        one.device.leave("a", lambda: released.append("a"))
        assert released == []

    played(story)
    assert released == ["a"]


def test_an_error_of_the_block_passes_through_as_it_is() -> None:
    """Not wrapped in a group."""

    async def main() -> None:
        async with bench() as one:
            one.submit(work(1), takes(1e9))
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        virtual.run(main())


async def test_closing_the_device_waits_for_a_blocking_chunk() -> None:
    """A thread cannot be stopped: what it uses is given back when it is done, and not before. (Real time.)"""
    running, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def chunk() -> None:
        running.set()
        go_on.wait(10)
        order.append("chunk")

    async with bench() as one:
        one.submit(work(1), chunk, blocking=True)
        await asyncio.to_thread(running.wait, 10)
        one.device.leave("a", lambda: order.append("released"))
        asyncio.get_running_loop().call_later(0.01, go_on.set)
    assert order == ["chunk", "released"]


async def test_blocking_chunks_run_on_the_lanes_own_thread() -> None:
    """Named after the lane; the loop's thread stays free. (Real time.)"""
    names: list[str] = []

    async with bench() as one:
        done = asyncio.Event()
        one.device.submit(
            work(1),
            lambda: names.append(threading.current_thread().name),
            blocking=True,
            answer=lambda outcome: done.set(),
        )
        await done.wait()
    assert names[0].startswith("lane-main")


def test_an_answer_that_was_dropped_is_told_as_such() -> None:
    """`Dropped` is neither a result nor a failure."""

    async def story(one: Bench) -> None:
        one.submit(work(1), takes(1.0))
        one.submit(work(2), takes(1.0))
        one.device.withdraw(work(2))

    ((_, outcome),) = played(story).answers
    assert outcome == Dropped(work(2))


# --- several works in one chunk


def step(ident: int, session: str) -> Work:
    load = Load("model", 1, 0, "decode", batch=4)
    return Work(
        ident, session, 1, 1, 0, WorkKind.THINK, WorkClass.STARTED, load=load, expected_s=0.02, more_s=0.001
    )


def joint(members: list[list[str]], error: Exception | None = None) -> Callable[[Any], Awaitable[list[str]]]:
    """Takes a tenth of a second for all, and notes whom it was for."""

    async def call(names: list[str]) -> list[str]:
        members.append(list(names))
        await asyncio.sleep(0.1)
        if error is not None:
            raise error
        return [name.upper() for name in names]

    return call


def submit_steps(bench: Bench, call: Callable[[Any], Any], names: str = "bcd") -> None:
    bench.submit(work(1), takes(0.1))
    for ident, name in enumerate(names, 2):
        bench.device.submit(
            step(ident, name),
            takes(0.1, name.upper()),
            blocking=False,
            answer=lambda outcome: bench.answers.append((bench.now, outcome)),
            together=Together(call, name),
        )


def test_one_call_answers_each_of_a_batch() -> None:
    members: list[list[str]] = []
    learnt: list[tuple[Work, float]] = []

    async def story(bench: Bench) -> None:
        submit_steps(bench, joint(members))
        await asyncio.sleep(0.3)

    played_bench = played(story, learn=lambda work, service_s, whole: learnt.append((work, round(service_s, 6))))
    assert members == [["b", "c", "d"]]
    done = [outcome for _, outcome in played_bench.answers[1:]]
    assert [(each.work.id, each.result) for each in done if isinstance(each, Done)] == [
        (2, "B"),
        (3, "C"),
        (4, "D"),
    ]
    timings = [each.timing for each in done if isinstance(each, Done)]
    assert {(timing.batch, round(timing.service_s, 6)) for timing in timings} == {(3, 0.1)}
    assert sum(timing.share_s for timing in timings) == pytest.approx(0.1)
    (_, (whole, service_s)) = learnt
    assert whole.load == Load("model", 3, 0, "batch", 3) and service_s == 0.1


def test_what_a_batch_dies_of_all_of_it_dies_of() -> None:
    async def story(bench: Bench) -> None:
        submit_steps(bench, joint([], EngineTimeout("too long")))
        await asyncio.sleep(0.3)
        bench.submit(work(9), takes(0.1))
        await asyncio.sleep(0.2)

    told = played(story).told()
    assert [kind for _, kind, _ in told] == ["Done", "Failed", "Failed", "Failed", "Done"]


def test_who_leaves_a_batch_is_told_nothing_and_lets_go_when_it_ends() -> None:
    released: list[float] = []

    async def story(bench: Bench) -> None:
        submit_steps(bench, joint([]))
        await asyncio.sleep(0.15)
        bench.device.leave("c", lambda: released.append(bench.now))
        assert released == []
        await asyncio.sleep(0.2)

    bench = played(story)
    assert [ident for _, _, ident in bench.told()] == [1, 2, 4]
    assert released == [0.2]


# --- calls that do not end ---------------------------------------------------------------------------------


def test_a_chunk_that_hangs_fails_at_its_limit_and_its_lane_goes_on() -> None:
    """It costs its own session, once; others wait until then and no longer."""
    settings = HealthSettings(floor_s=5.0, bounds=5.0)

    async def story(one: Bench) -> None:
        one.submit(work(1, bound_s=0.5), takes(1e9))
        one.submit(work(2, session="b"), takes(1.0))
        await asyncio.sleep(20)
        assert one.device.health().overdue == {Stage.LLM: 1}

    one = played(story, health=settings)
    assert one.told() == [(5.0, "Failed", 1), (6.0, "Done", 2)]
    failed = one.answers[0][1]
    assert isinstance(failed, Failed) and failed.error.code == "engine_timeout"


async def test_a_session_that_left_in_a_call_is_released_when_its_thread_ends() -> None:
    """And not when the chunk fails: what the call uses is still in use. (Real time.)"""
    go_on, began, released = threading.Event(), threading.Event(), asyncio.Event()

    def hangs() -> None:
        began.set()
        go_on.wait(30)

    async with bench(health=HealthSettings(0.05, 1.0, 0.05)) as one:
        one.submit(work(1), hangs, blocking=True)
        await asyncio.to_thread(began.wait, 10)
        one.device.leave("a", released.set)
        one.submit(work(2, session="b"), lambda: 7, blocking=True)
        await one.answered()
        assert not released.is_set()
        assert one.device.health().abandoned == {"main": 1}
        go_on.set()
        await released.wait()
        assert one.device.health().abandoned == {"main": 0}
    assert isinstance(one.answers[0][1], Done)


async def test_a_session_that_was_told_of_a_lost_call_is_released_without_it() -> None:
    """It has parted what the call uses from the rest, so that the rest need not wait. (Real time.)"""
    go_on, released = threading.Event(), []
    async with bench(health=HealthSettings(0.05, 1.0, 0.05)) as one:
        one.submit(work(1), lambda: go_on.wait(30), blocking=True)
        await one.answered()
        one.device.leave("a", lambda: released.append("a"))
        assert released == ["a"]
        failed = one.answers[0][1]
        assert isinstance(failed, Failed) and failed.still is not None and not failed.still.done()
        go_on.set()
        await failed.still


async def test_beyond_the_bearable_number_a_lane_is_held_until_the_thread_ends() -> None:
    """The server knows: it is stuck, and no more. (Real time.)"""
    go_on = threading.Event()
    async with bench(health=HealthSettings(0.05, 1.0, 0.05, abandoned=0)) as one:
        one.submit(work(1), lambda: go_on.wait(30), blocking=True)
        one.submit(work(2, session="b"), lambda: 7, blocking=True)
        await one.answered()
        assert one.device.health().stuck
        await asyncio.sleep(0.05)
        assert len(one.answers) == 1
        go_on.set()
        await one.answered()
        assert not one.device.health().stuck
    assert isinstance(one.answers[1][1], Done)


async def test_closing_the_device_does_not_wait_for_a_lost_call() -> None:
    """Who left in it is not released meanwhile: the call may still use what that holds. (Real time.)"""
    go_on, began, released = threading.Event(), threading.Event(), asyncio.Event()

    def hangs() -> None:
        began.set()
        go_on.wait(30)

    async with bench(health=HealthSettings(0.05, 1.0, 0.05)) as one:
        one.submit(work(1), hangs, blocking=True)
        await asyncio.to_thread(began.wait, 10)
        one.device.leave("a", released.set)
    assert not released.is_set()
    go_on.set()
    await released.wait()


def test_an_engine_that_is_not_asked_fails_at_once() -> None:
    """A typed error that says for how long, where that is known."""
    breakers = {WorkKind.THINK: ("llm", BreakerSettings(failures=2))}

    async def down() -> None:
        raise EngineUnavailable("nobody answers")

    async def story(one: Bench) -> None:
        for ident in (1, 2, 3):
            opens = replace(work(ident), load=Load("m", 1, variant="prefill"))
            one.submit(opens, down)
            await asyncio.sleep(0.1)

    one = played(story, health=HealthSettings(breakers=breakers))
    errors = [outcome.error.message for _, outcome in one.answers if isinstance(outcome, Failed)]
    assert errors[:2] == ["nobody answers"] * 2
    assert "failed several times in a row; next try in 0.9 s" in errors[2]


@pytest.mark.parametrize("error", [EngineThrottled("later"), EngineBusy("full"), PromptRefused("no")])
def test_what_is_one_sessions_affair_opens_no_breaker(error: EngineError) -> None:
    """A provider that slows one session down leaves the others their endpoint."""
    breakers = {WorkKind.THINK: ("llm", BreakerSettings(failures=1))}

    async def fails() -> None:
        raise error

    async def story(one: Bench) -> None:
        for ident in (1, 2, 3):
            one.submit(replace(work(ident), load=Load("m", 1, variant="prefill")), fails)
        await asyncio.sleep(1)
        assert one.device.health().breakers["llm"].opened == 0

    played(story, health=HealthSettings(breakers=breakers))


def test_an_engine_that_returns_too_little_for_a_batch_costs_those_turns_only() -> None:
    """It is not what an engine promises, and no reason to end the server."""

    async def story(one: Bench) -> None:
        one.submit(work(1, session="b"), takes(0.5))
        for ident, session in ((2, "c"), (3, "d")):
            load = Load("m", 1, variant="decode", batch=4)
            like = replace(work(ident, session=session), load=load, expected_s=0.1, more_s=0.01)
            one.device.submit(
                like,
                takes(0.1),
                blocking=False,
                answer=lambda outcome: one.answers.append((one.now, outcome)),
                together=Together(lambda members: [1], object()),
            )
        await asyncio.sleep(1)
        one.submit(work(4), takes(0.5))
        await asyncio.sleep(1)

    assert [kind for _, kind, _ in played(story).told()] == ["Done", "Failed", "Failed", "Done"]
