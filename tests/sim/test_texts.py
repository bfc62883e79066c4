"""Texts in slack: read and written to their end, and counted."""

from __future__ import annotations

from random import Random

from voicepipe.core.background import TextSettings
from voicepipe.core.events import Load, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.scheduler import Pool
from voicepipe.sim.draws import Draw, Draws
from voicepipe.sim.machine import SchedulerMachine, Site
from voicepipe.sim.service import MODEL, Times, load_service
from voicepipe.sim.texts import Tally, TextJob
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.warm import warm_up

GPU = load_service("gpu")


class House:
    def __init__(self, slots: int = 2, max_waiting: int = 1) -> None:
        self.timeline, self.tally, self.slots = Timeline(), Tally(), 0
        self.ran: list[Work] = []
        forecaster = Forecaster()
        forecaster.seed(warm_up(GPU, slots, Random(1)).chunks)
        manner = GPU.manner
        self.machine = SchedulerMachine(
            Site(
                timeline=self.timeline,
                times=Times(GPU),
                draws=Draws("a seed"),
                placement=GPU.lane_of(),
                lanes=GPU.lanes,
                pool=Pool.DEDICATED,
                forecaster=forecaster,
                observe=lambda work, timing, lane: self.ran.append(work),
                learn=lambda work, service_s, whole: forecaster.on_chunk(work, service_s, whole=whole),
                texts=TextSettings(
                    MODEL, slots, max_waiting, manner.text_reading, manner.text_writing, start_reading=64
                ),
                tally=self.tally,
                on_slots=self.on_slots,
            )
        )

    def on_slots(self, more: int) -> None:
        self.slots += more


def test_texts_are_read_and_written_to_their_end() -> None:
    house = House()
    assert house.machine.write(TextJob(700, 50)) and house.machine.write(TextJob(100, 30))
    assert house.slots == 2
    house.timeline.run()
    tally = house.tally
    assert (tally.done, tally.read_tokens, tally.written_tokens, house.slots) == (2, 800, 80, 0)
    assert {work.load.variant for work in house.ran if work.load} >= {"split", "prefill", "decode-1", "decode-2"}


def test_a_text_without_a_prompt_is_written_at_once() -> None:
    house = House()
    house.machine.write(TextJob(0, 10))
    house.timeline.run()
    assert (house.tally.done, house.tally.read_tokens, house.tally.written_tokens) == (1, 0, 10)


def test_others_wait_for_a_slot_and_too_many_are_refused() -> None:
    house = House(slots=1, max_waiting=1)
    assert house.machine.write(TextJob(100, 10)) and house.machine.write(TextJob(100, 10))
    assert not house.machine.write(TextJob(100, 10))
    assert house.slots == 1
    house.timeline.run()
    assert house.tally.done == 2 and house.slots == 0


def test_they_keep_out_of_the_way_of_what_is_to_come() -> None:
    """While a turn has announced a start, only chunks that fit before it are begun; without one, as large ones as
    there are."""
    house = House()
    house.machine.write(TextJob(4000, 10))
    house.timeline.run(0.5)
    assert max(work.load.units for work in house.ran if work.load and work.load.variant == "prefill") == 256
    began = len(house.ran)
    while house.timeline.now < 1.5:  # a start 10 ms ahead, all the time
        house.machine.reserve("s1", house.timeline.now + 0.010)
        house.timeline.run(house.timeline.now + 0.005)
    sizes = {work.load.units for work in house.ran[began + 1 :] if work.load and work.load.variant == "prefill"}
    assert sizes == set() or max(sizes) <= 32
    house.machine.unreserve("s1")
    house.timeline.run()
    assert house.tally.done == 1


def test_when_the_run_is_over_slots_come_back() -> None:
    """That of a text at work with the end of its chunk."""
    house = House(slots=1)
    house.machine.write(TextJob(4000, 100))
    house.machine.write(TextJob(4000, 100))
    house.timeline.run(0.1)
    house.machine.close()
    house.timeline.run()
    assert house.slots == 0 and house.tally.done == 0
    assert house.machine.snapshot().queued == 0


def test_voice_goes_first() -> None:
    house = House()
    house.machine.write(TextJob(4000, 100))
    house.timeline.run(0.1)

    class Once:
        started = 0.0

        def on_run(self, work: Work) -> None:
            self.started = house.timeline.now

        def on_ran(self, *_: object) -> None:
            """It has run."""

        def on_dropped(self, *_: object) -> None:
            raise AssertionError

        def on_failed(self, *_: object) -> None:
            raise AssertionError

    voice = Once()
    work = Work(1, "s1", 1, 1, 0, WorkKind.FINAL, WorkClass.ASR, load=Load("recogniser", 1.0))
    house.machine.submit(work, voice, Draw(0.5, 0.5, 0.5))
    house.timeline.run(0.2)
    assert 0.1 <= voice.started <= 0.15
