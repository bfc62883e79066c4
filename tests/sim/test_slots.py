"""Who gets a slot, who loses one, and what a step does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from voicepipe.core.events import Load, Work, WorkClass, WorkKind
from voicepipe.sim.draws import Draw
from voicepipe.sim.slots import Job, Rules, Sequence, Slots, Urgent


def text(serial: int, unread: int = 100, left: int = 10) -> Sequence:
    return Sequence(f"text {serial}", serial, is_text=True, unread=unread, left=left)


def reply(serial: int, units: int = 20, variant: str = "prefill", deadline: float | None = None) -> Sequence:
    load = Load("model", units, variant=variant)
    work = Work(serial, f"s{serial}", 1, 1, 0, WorkKind.THINK, WorkClass.STARTED, deadline, load=load)
    sequence = Sequence(work.session, serial)
    sequence.take(Job(work, None, 0.0, serial, Draw(0.5, 0.5, 0.5), 0.0))
    return sequence


def test_first_come_first_served() -> None:
    """Voice waits behind texts, and the first in line blocks those behind it."""
    slots = Slots(Rules(slots=2), waiting=[text(1), text(2), reply(3)])
    assert [each.serial for each in slots.admit(0.0)[0]] == [1, 2]
    assert [each.serial for each in slots.waiting] == [3]


def test_priority_is_one_of_the_queue() -> None:
    """A text that has a slot keeps it."""
    slots = Slots(Rules(slots=2, priority=True), waiting=[text(1), text(2), reply(3)])
    assert {each.serial for each in slots.admit(0.0)[0]} == {1, 3}
    slots.waiting.append(reply(4))
    assert slots.admit(0.0) == ([], [])


def test_preemption_takes_the_slot_of_the_newest_text() -> None:
    """What it had read and written is read again."""
    slots = Slots(Rules(slots=2, priority=True, preempts=True), waiting=[text(1), text(2)])
    slots.admit(0.0)
    newest = slots.running[1]
    newest.unread, newest.held, newest.left = 0, 105, 5
    slots.waiting.append(reply(3))
    came, went = slots.admit(0.0)
    assert [each.serial for each in came] == [3] and went == [newest]
    assert (newest.unread, newest.held, newest.left) == (105, 0, 5)
    assert slots.preempted == 1


def test_memory_is_taken_for_voice_only() -> None:
    """With priority; and whoever is alone may have more than there is."""
    slots = Slots(Rules(slots=4, priority=True, pool_tokens=150), waiting=[text(1)])
    slots.admit(0.0)
    slots.running[0].held = 100
    slots.waiting += [reply(2, 100), text(3)]
    came, went = slots.admit(0.0)
    assert [each.serial for each in came] == [2] and [each.serial for each in went] == [1]
    alone = Slots(Rules(pool_tokens=50), waiting=[text(1)])
    assert len(alone.admit(0.0)[0]) == 1


def test_a_step_writes_for_all_and_reads_so_much() -> None:
    """Whole prompts without a limit; with one, voice's first where it has priority."""
    slots = Slots(Rules(slots=4), running=[text(1, 0), text(2, 300), reply(3, 50)])
    whole = slots.step(None)
    assert whole is not None and whole.read_tokens == 350 and [each.serial for each in whole.writes] == [1]
    slots.rules = Rules(slots=4, priority=True)
    chunk = slots.step(64)
    assert chunk is not None and [(each.serial, tokens) for each, tokens in chunk.reads] == [(3, 50), (2, 14)]


def test_by_deadline_texts_can_be_left_out() -> None:
    """Then a step is voice's alone, whose prompts are read whole."""
    slots = Slots(Rules(by_deadline=True), running=[text(1, 0), reply(2, 50)])
    step = slots.step(0, texts=False)
    assert step is not None and not step.writes and step.read_tokens == 50


def test_the_earliest_deadline_gets_the_slot() -> None:
    """Of replies; texts come last."""
    rules = Rules(slots=1, by_deadline=True, priority=True)
    slots = Slots(rules, waiting=[text(1), reply(2, deadline=3.0), reply(3, deadline=2.0)])
    assert [each.serial for each in slots.admit(0.0)[0]] == [3]


def test_the_most_urgent_is_found_as_by_looking_at_all() -> None:
    """300 random jobs that come, become more urgent, run and are taken back, while time passes."""
    chance, now, urgent = Random(2), 0.0, Urgent()
    waiting: list[Job] = []
    for serial in range(300):
        now += chance.expovariate(10.0)
        deadline = None if chance.random() < 0.2 else now + chance.uniform(0.0, 1.0)
        klass = chance.choice(list(WorkClass))
        work = Work(serial, "s", 1, 1, 0, WorkKind.FINAL, klass, deadline, load=Load("", 1.0), expected_s=0.05)
        job = Job(work, None, now, serial, Draw(0.5, 0.5, 0.5), 0.0)
        waiting.append(job)
        urgent.push(job)
        if chance.random() < 0.3:
            more = chance.choice(waiting)
            more.become(replace(more.work, klass=WorkClass.STARTED, deadline=now + 0.2))
            urgent.push(more)
        if chance.random() < 0.4:
            gone = chance.choice(waiting)
            waiting.remove(gone)
            urgent.drop(gone)
        found = urgent.first(now)
        assert found is min(waiting, key=lambda each: each.urgency(now), default=None)
        if found is not None and chance.random() < 0.5:
            waiting.remove(found)
            urgent.drop(found)
