"""A scheduler's machine: one chunk at a time, each answered once, times that add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from voicepipe.core.background import TextSettings
from voicepipe.core.events import LaneTiming, Load, Timing, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.scheduler import LAPSE_S, Pool
from voicepipe.sim.draws import Draw, Draws
from voicepipe.sim.machine import BUSY, SchedulerMachine, Site
from voicepipe.sim.service import Cost, ServiceModel, Times
from voicepipe.sim.texts import Tally
from voicepipe.sim.timeline import Timeline

MODEL = ServiceModel(
    name="a tenth of a second for each unit",
    costs=tuple(Cost(kind=kind, per_unit_s=0.1) for kind in WorkKind if kind is not WorkKind.HEAR),
    lanes={"device": 1},
    begin_s=(0.01,),
    end_s=(0.02,),
)


MIDDLE = Draw(0.5, 0.5, 0.5)


@dataclass
class Book:
    """A client that writes down what it is told."""

    timeline: Timeline
    told: list[tuple[str, int, float]] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    def on_run(self, work: Work) -> None:
        self.told.append(("run", work.id, round(self.timeline.now, 6)))

    def on_ran(self, work: Work, timing: Timing) -> None:
        self.told.append(("ran", work.id, round(self.timeline.now, 6)))
        self.timings.append(timing)

    def on_dropped(self, work: Work) -> None:
        self.told.append(("dropped", work.id, round(self.timeline.now, 6)))

    def on_failed(self, work: Work, code: str) -> None:
        self.told.append((code, work.id, round(self.timeline.now, 6)))


def machine(
    timeline: Timeline, *, pool: Pool = Pool.DEDICATED, learnt: list[float] | None = None
) -> SchedulerMachine:
    return SchedulerMachine(
        Site(
            timeline=timeline,
            times=Times(MODEL),
            draws=Draws("a seed"),
            placement=MODEL.lane_of(),
            lanes=MODEL.lanes,
            pool=pool,
            forecaster=Forecaster(),
            observe=lambda work, timing, lane: None,
            learn=lambda work, service_s, whole: learnt.append(service_s) if learnt is not None else None,
            texts=TextSettings("model"),
            tally=Tally(),
            on_slots=lambda more: None,
        )
    )


def works(klass: WorkClass = WorkClass.ASR, session: str = "s1", units: float = 1.0) -> Iterable[Work]:
    for number in count(1):
        yield Work(number, session, 1, 1, 0, WorkKind.FINAL, klass, load=Load("", units))


def test_chunks_run_one_after_the_other_and_take_what_the_model_says() -> None:
    """Granted when the one before it has ended, begun a hand-off later, and learnt of a hand-off after its end."""
    timeline, learnt = Timeline(), list[float]()
    device, book = machine(timeline, learnt=learnt), Book(timeline)
    one, two = (work for work, _ in zip(works(), range(2), strict=False))
    device.submit(one, book, MIDDLE)
    device.submit(two, book, MIDDLE)
    timeline.run()
    assert book.told == [("run", 1, 0.0), ("ran", 1, 0.13), ("run", 2, 0.13), ("ran", 2, 0.26)]
    first, second = book.timings
    assert isinstance(second, LaneTiming)
    assert [round(value, 6) for value in (first.started, first.finished, second.granted, second.started)] == [
        0.01,
        0.11,
        0.11,
        0.14,
    ]
    assert [round(value, 6) for value in learnt] == [0.1, 0.1]
    snapshot = device.snapshot()
    assert (snapshot.queued, snapshot.running, snapshot.chunks) == (0, 0, 2)
    assert round(snapshot.busy_s["device", "asr"], 6) == 0.2


def test_what_an_answer_submits_competes_with_what_waits() -> None:
    """The next step of a started turn goes before what came earlier."""
    timeline = Timeline()
    device = machine(timeline)
    urgent = Work(9, "s2", 1, 1, 0, WorkKind.FINAL, WorkClass.STARTED, load=Load("", 1.0))

    class Again(Book):
        def on_ran(self, work: Work, timing: Timing) -> None:
            super().on_ran(work, timing)
            if work.id == 1:
                device.submit(urgent, self, MIDDLE)

    book = Again(timeline)
    for work, _ in zip(works(), range(2), strict=False):
        device.submit(work, book, MIDDLE)
    timeline.run()
    assert [number for what, number, _ in book.told if what == "run"] == [1, 9, 2]


def test_what_is_taken_back_or_stale_is_answered_once_and_not_at_once() -> None:
    timeline = Timeline()
    device, book = machine(timeline), Book(timeline)
    one, two, three, four = (work for work, _ in zip(works(), range(4), strict=False))
    for work in (one, two, three):
        device.submit(work, book, MIDDLE)
    device.withdraw(two)
    device.retire("s1", 2, 0)
    assert book.told == [("run", 1, 0.0), ("dropped", 2, 0.0), ("dropped", 3, 0.0)]
    device.submit(four, book, MIDDLE)
    assert len(book.told) == 3  # whoever submits is in the middle of something
    timeline.run()
    assert book.told[3:] == [("dropped", 4, 0.0), ("ran", 1, 0.13)]


def test_too_much_is_turned_away() -> None:
    timeline = Timeline()
    device, book = machine(timeline), Book(timeline)
    for work, _ in zip(works(), range(4098), strict=False):
        device.submit(work, book, MIDDLE)
    timeline.run(0.0)
    assert book.told == [("run", 1, 0.0), (BUSY, 4098, 0.0)]


def test_who_has_left_hears_nothing_more_and_is_released_when_its_chunk_has_ended() -> None:
    timeline, released = Timeline(), list[float]()
    device, book = machine(timeline), Book(timeline)
    for work, _ in zip(works(), range(2), strict=False):
        device.submit(work, book, MIDDLE)
    device.leave("s1", lambda: released.append(timeline.now))
    assert released == []
    timeline.run()
    assert book.told == [("run", 1, 0.0)] and [round(at, 6) for at in released] == [0.13]
    device.leave("s1", lambda: released.append(timeline.now))
    assert len(released) == 2


def test_background_waits_for_slack_until_the_claim_lapses() -> None:
    timeline = Timeline()
    device, book = machine(timeline), Book(timeline)
    device.reserve("s2", 0.05)
    (work,) = (work for work, _ in zip(works(WorkClass.BACKGROUND), range(1), strict=False))
    device.submit(work, book, MIDDLE)
    timeline.run()
    assert book.told[0] == ("run", 1, 0.05 + LAPSE_S)
