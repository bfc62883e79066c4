"""Slots of a shared engine with continuous batching: which sequences run, what the next step does, who has to go.

Replies of voice sessions and texts that nobody waits to hear are sequences alike. A sequence waits for one of a
fixed number of slots, and for room in the memory of keys and values; while it has them, each step reads some of
what it has not read, or writes one token. These are the rules of the rivals M0 to M4 (`voicepipe.sim.arms`); who
may go first, and at whose cost, is what they differ in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from voicepipe.core.events import Work, WorkClass
from voicepipe.core.waiting import latest_start
from voicepipe.sim.draws import Draw
from voicepipe.sim.machine import Client


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one rival."""

    slots: int = 16
    """Sequences that run at a time (vLLM: `max_num_seqs`)."""
    chunk_tokens: int | None = None
    """Tokens of prompts that one step reads at most; None: prompts are read whole."""
    priority: bool = False
    """Voice goes before texts, in the queue for slots and when prompts are read."""
    preempts: bool = False
    """Voice takes the slot of a text where all are taken; what the text had read and written is read again."""
    by_deadline: bool = False
    """The next chunk of the device is the one that must start earliest, and texts take only what slack there is."""
    pool_tokens: int = 64_000
    """Room for keys and values. With `priority` a text loses its own where voice needs it."""
    queued_tokens: int | None = None
    """Tokens of prompts that may wait; what comes beyond is refused. None: no limit."""


@dataclass(slots=True, eq=False)
class Job:
    """A chunk that a session has asked for."""

    work: Work
    client: Client | None
    """None: it has left."""
    queued: float
    serial: int
    draw: Draw
    background_s: float
    """How long texts had kept the device when it came."""
    started: float | None = None
    blocked_s: float = 0.0
    start: float = field(init=False)
    """The latest."""
    sequence: Sequence | None = field(default=None, init=False)
    """Of the model, that it is the present chunk of."""

    def __post_init__(self) -> None:
        self.start = latest_start(self.work)

    def urgency(self, now: float) -> tuple[WorkClass, bool, float, int]:
        """As `core.scheduler` orders: the class, whether it is late, the latest start."""
        start = self.start
        return self.work.klass, start < now, start, self.serial

    def become(self, work: Work) -> None:
        """It is more urgent by now."""
        self.work, self.start = work, latest_start(work)


class Urgent:
    """Jobs that wait, and which of them goes first. What is taken out, or has become more urgent, leaves a dead
    entry behind, which is dropped when it comes to the top."""

    def __init__(self) -> None:
        self._in_time: dict[WorkClass, list[tuple[float, int, Job]]] = {klass: [] for klass in WorkClass}
        self._late: dict[WorkClass, list[tuple[float, int, Job]]] = {klass: [] for klass in WorkClass}
        self._alive: dict[int, float] = {}
        """By serial number, the latest start that its living entry has."""

    def push(self, job: Job) -> None:
        self._alive[job.serial] = job.start
        heappush(self._in_time[job.work.klass], (job.start, job.serial, job))

    def drop(self, job: Job) -> None:
        self._alive.pop(job.serial, None)

    def first(self, now: float) -> Job | None:
        for klass, in_time in self._in_time.items():
            late = self._late[klass]
            while self._has(in_time, klass):
                if in_time[0][0] >= now:
                    return in_time[0][-1]
                heappush(late, heappop(in_time))
            if self._has(late, klass):
                return late[0][-1]
        return None

    def _has(self, heap: list[tuple[float, int, Job]], klass: WorkClass) -> bool:
        while heap:
            start, serial, job = heap[0]
            if self._alive.get(serial) == start and job.work.klass is klass:
                return True
            heappop(heap)
        return False


@dataclass(slots=True, eq=False)
class Sequence:
    ident: str
    serial: int
    job: Job | None = None
    """The chunk of a reply that is at hand; None of a text."""
    is_text: bool = False
    unread: int = 0
    left: int = 0
    """Tokens to write: of the chunk, or of the text."""
    held: int = 0
    """Tokens whose keys and values it has in memory."""

    def take(self, job: Job) -> None:
        """The next chunk of the reply."""
        load = job.work.load
        assert load is not None
        self.job, job.sequence = job, self
        units = round(load.units)
        self.unread, self.left = (units, 0) if load.variant == "prefill" else (0, units)
        self.held = round(load.context)

    @property
    def is_done(self) -> bool:
        return not self.unread and not self.left


@dataclass(frozen=True, slots=True)
class Step:
    """What is computed together."""

    reads: tuple[tuple[Sequence, int], ...]
    writes: tuple[Sequence, ...]

    @property
    def sequences(self) -> Iterator[Sequence]:
        yield from (sequence for sequence, _ in self.reads)
        yield from self.writes

    @property
    def read_tokens(self) -> int:
        return sum(tokens for _, tokens in self.reads)


@dataclass(slots=True)
class Slots:
    rules: Rules
    waiting: list[Sequence] = field(default_factory=list)
    running: list[Sequence] = field(default_factory=list)
    preempted: int = 0

    def admit(self, now: float) -> tuple[list[Sequence], list[Sequence]]:
        """(sequences that have got a slot, texts that have lost theirs). The first in line blocks those behind it,
        as in the engines that this stands for."""
        came: list[Sequence] = []
        went: list[Sequence] = []
        while self.waiting and not self._is_taken:
            first = min(self.waiting, key=lambda sequence: self._place(sequence, now))
            needs = first.held + first.unread + first.left
            while self._lacks(needs):
                victim = self._victim() if self._may_push(first) else None
                if victim is None:
                    return came, went
                self._preempt(victim)
                went.append(victim)
            self.waiting.remove(first)
            self.running.append(first)
            came.append(first)
        return came, went

    def shrink(self) -> list[Sequence]:
        """Texts that have lost their slots because what runs has outgrown the memory. One sequence always stays."""
        went = []
        while (
            self.held > self.rules.pool_tokens and len(self.running) > 1 and (victim := self._victim()) is not None
        ):
            self._preempt(victim)
            went.append(victim)
        return went

    @property
    def held(self) -> int:
        return sum(sequence.held for sequence in self.running)

    @property
    def waiting_tokens(self) -> int:
        return sum(sequence.unread for sequence in self.waiting)

    def step(self, chunk_tokens: int | None, *, texts: bool = True) -> Step | None:
        """Every sequence that has read its prompt writes a token, and prompts are read, up to `chunk_tokens`. With
        `by_deadline` that limit is for texts alone; without `texts` they are left out."""
        chosen = [sequence for sequence in self.running if texts or not sequence.is_text]
        writes = tuple(sequence for sequence in chosen if not sequence.unread and sequence.left)
        reads: list[tuple[Sequence, int]] = []
        room = chunk_tokens
        for sequence in sorted((each for each in chosen if each.unread), key=self._reading_place):
            is_free = room is None or (self.rules.by_deadline and not sequence.is_text)
            tokens = sequence.unread if is_free else min(sequence.unread, room or 0)
            if not is_free and room is not None:
                room -= tokens
            if tokens:
                reads.append((sequence, tokens))
        return Step(tuple(reads), writes) if reads or writes else None

    def release(self, sequence: Sequence) -> None:
        self.running.remove(sequence)

    # inner

    def _place(self, sequence: Sequence, now: float) -> tuple[object, ...]:
        if self.rules.by_deadline and sequence.job is not None:
            return (False, *sequence.job.urgency(now))
        return (self.rules.priority and sequence.is_text, sequence.serial)

    def _reading_place(self, sequence: Sequence) -> tuple[bool, int]:
        return self.rules.priority and sequence.is_text, sequence.serial

    def _lacks(self, tokens: int) -> bool:
        """An engine in which nothing runs takes whatever comes."""
        if not self.running:
            return False
        return len(self.running) >= self.rules.slots or self.held + tokens > self.rules.pool_tokens

    @property
    def _is_taken(self) -> bool:
        """Whoever is first in line, there is no slot for it."""
        if len(self.running) < self.rules.slots:
            return False
        return not self.rules.preempts or not any(sequence.is_text for sequence in self.running)

    def _may_push(self, sequence: Sequence) -> bool:
        if sequence.is_text or not self.rules.priority:
            return False
        return self.rules.preempts or len(self.running) < self.rules.slots

    def _victim(self) -> Sequence | None:
        """The text that came last."""
        texts = [sequence for sequence in self.running if sequence.is_text]
        return max(texts, key=lambda sequence: sequence.serial, default=None)

    def _preempt(self, victim: Sequence) -> None:
        self.running.remove(victim)
        victim.unread, victim.held = victim.unread + victim.held, 0
        self.waiting.append(victim)
        self.preempted += 1
