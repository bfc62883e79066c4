"""A device whose language model is one engine for voice and texts alike, with batches: the rivals M0 to
M4.

The engine computes in steps: one token for each sequence that writes, and some of the prompts of those that read,

    step = (W + H sequences + P tokens read) * ratio

with W, H and P of the same service model by which chunks of `core.scheduler` are timed: W + P n is its chunk that
reads n tokens, and W + H its token of a reply that is alone. Recognition and the voice run on the same device,
one chunk at a time, between steps: in the order in which they came, a step coming when the one before it has
ended; with `Rules.by_deadline` in the order of `core.scheduler`. Between steps of one reply nothing is lost to
hand-offs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

from voicepipe.core.events import LaneTiming, Timing, Work, WorkClass, WorkKind
from voicepipe.core.scheduler import LAPSE_S, MARGIN_S, is_stale
from voicepipe.core.turn_demand import spare_s
from voicepipe.sim.draws import Draw, drawn
from voicepipe.sim.machine import BUSY, Client, MachineSnapshot, MakeMachine, Site
from voicepipe.sim.slots import Job, Rules, Sequence, Slots, Step, Urgent
from voicepipe.sim.texts import TextJob
from voicepipe.sim.timeline import Event

MOST_WAITING = 4096
"""Chunks of sessions that may wait: as many as at the scheduler."""
LANE = "device"
TEXTS = "texts"
_THINKS = frozenset({WorkKind.WARM, WorkKind.THINK})


OnStep = Callable[[float, float, Step], None]


def shared(rules: Rules, on_step: OnStep | None = None) -> MakeMachine:
    """`on_step` is told of each step of the engine: when it began and ended, and what was computed."""
    return lambda site: SharedMachine(site, rules, on_step)


class SharedMachine:
    def __init__(self, site: Site, rules: Rules, on_step: OnStep | None = None) -> None:
        self._site, self._rules, self._timeline = site, rules, site.timeline
        self._on_step = on_step
        self._slots = Slots(rules)
        model = site.times.model
        reads, writes = model.cost(WorkKind.THINK, "prefill"), model.cost(WorkKind.THINK, "decode")
        self._step_s, self._token_s = reads.base_s, reads.per_unit_s
        self._row_s = max(0.0, writes.base_s + writes.per_unit_s - reads.base_s)
        self._ratios = {True: reads.ratios, False: writes.ratios}
        self._others: dict[int, Job] = {}
        """Chunks of recognition and of the voice that wait, by serial number."""
        self._own: dict[str, dict[int, Job]] = {}
        """The same by session."""
        self._urgent = Urgent()
        """The same, where it goes by deadlines."""
        self._sequences: dict[str, list[Sequence]] = {}
        """Of sessions, by session: those that run or wait. One that is stale may run on beside the newest."""
        self._newest: dict[str, tuple[int, int]] = {}
        self._at_device: dict[str, int] = {}
        """Chunks that run, by session."""
        self._leaving: dict[str, Callable[[], None]] = {}
        self._starts: dict[str, float] = {}
        """Announced: the latest start of each session's next chunk."""
        self._look: Event | None = None
        self._is_busy = False
        self._ready = 0.0
        """Since when the engine could take its next step."""
        self._serial = self._chunks = self._text_steps = 0
        self._background_s = 0.0
        self._busy_s: dict[tuple[str, str], float] = {}

    # what sessions ask for

    @property
    def heeds_starts(self) -> bool:
        return self._rules.by_deadline

    def submit(self, work: Work, client: Client, draw: Draw) -> None:
        now = self._timeline.now
        self._serial += 1
        job = Job(work, client, now, self._serial, draw, self._background_s)
        newest = self._newest.get(work.session)
        if newest is not None and is_stale(work, *newest):
            self._timeline.at(now, lambda: client.on_dropped(work))
        elif not (self._think(job) if work.kind in _THINKS else self._wait(job)):
            self._timeline.at(now, lambda: client.on_failed(work, BUSY))
        self._pump()

    def _wait(self, job: Job) -> bool:
        if len(self._others) >= MOST_WAITING:
            return False
        self._others[job.serial] = job
        self._own.setdefault(job.work.session, {})[job.serial] = job
        if self._rules.by_deadline:
            self._urgent.push(job)
        return True

    def _take(self, job: Job) -> None:
        """It does not wait any more."""
        session = job.work.session
        del self._others[job.serial]
        del self._own[session][job.serial]
        if not self._own[session]:
            del self._own[session]
        self._urgent.drop(job)

    def _think(self, job: Job) -> bool:
        """To the reply's slot, where it has one, else behind those that wait for one."""
        work = job.work
        for sequence in self._sequences.get(work.session, []):
            if sequence.job is None:
                sequence.take(job)
                return True
        sequence = Sequence(work.session, job.serial)
        sequence.take(job)
        if len(self._slots.waiting) >= MOST_WAITING or self._is_full(sequence.unread):
            return False
        if not self._has_step:
            self._ready = self._timeline.now
        self._sequences.setdefault(work.session, []).append(sequence)
        self._slots.waiting.append(sequence)
        return True

    def _is_full(self, tokens: int) -> bool:
        limit = self._rules.queued_tokens
        return limit is not None and self._slots.waiting_tokens + tokens > limit and bool(self._slots.waiting)

    def retire(self, session: str, epoch: int, revision: int) -> None:
        newest = self._newest[session] = max((epoch, revision), self._newest.get(session, (epoch, revision)))
        self._drop(job for job in self._waiting_of(session) if is_stale(job.work, *newest))

    def withdraw(self, work: Work) -> None:
        self._drop(job for job in self._waiting_of(work.session) if job.work.id == work.id)

    def promote(
        self, session: str, epoch: int, deadline: float | None = None, kinds: tuple[WorkKind, ...] = ()
    ) -> None:
        for job in self._waiting_of(session):
            work = job.work
            if work.epoch == epoch and work.klass > WorkClass.STARTED and work.kind in (kinds or WorkKind):
                due = work.deadline if deadline is None else deadline
                job.become(replace(work, klass=WorkClass.STARTED, deadline=due))
                if self._rules.by_deadline and job.serial in self._others:
                    self._urgent.push(job)
        self._pump()

    def reserve(self, session: str, latest_start: float) -> None:
        self._starts[session] = latest_start
        self._pump()

    def unreserve(self, session: str) -> None:
        self._starts.pop(session, None)
        self._pump()

    def leave(self, session: str, release: Callable[[], None]) -> None:
        jobs = list(self._waiting_of(session))
        for job in jobs:
            job.client = None
        self._drop(jobs)
        for sequence in self._sequences.get(session, []):
            if sequence.job is not None:
                sequence.job.client = None
        self._newest.pop(session, None)
        self._starts.pop(session, None)
        if self._at_device.get(session):
            self._leaving[session] = release
        else:
            release()
        self._pump()

    def has_waiting(self, kind: WorkKind) -> bool:
        return bool(self._others) or any(not each.is_text for each in self._slots.waiting)

    def spare_s(self, kind: WorkKind, session: str) -> float | None:
        """Only who looks at deadlines can tell."""
        if not self._rules.by_deadline:
            return None
        started = [
            job.work
            for job in self._jobs()
            if job.work.klass is WorkClass.STARTED and job.started is None and job.work.session != session
        ]
        return spare_s(started, self._timeline.now) if started else None

    # texts

    def write(self, job: TextJob) -> bool:
        waiting = sum(each.is_text for each in self._slots.waiting)
        if waiting >= self._site.texts.max_waiting or self._is_full(job.prompt_tokens):
            return False
        if not self._has_step:
            self._ready = self._timeline.now
        self._serial += 1
        text = Sequence(f"text {self._serial}", self._serial, is_text=True)
        text.unread, text.left = job.prompt_tokens, job.output_tokens
        self._slots.waiting.append(text)
        self._pump()
        return True

    def close(self) -> None:
        texts = [sequence for sequence in self._slots.running if sequence.is_text]
        for text in texts:
            self._slots.release(text)
            self._site.on_slots(-1)
        self._slots.waiting = [sequence for sequence in self._slots.waiting if not sequence.is_text]

    def snapshot(self) -> MachineSnapshot:
        queued = len(self._others) + sum(not each.is_text for each in self._slots.waiting)
        running = sum(self._at_device.values())
        return MachineSnapshot(queued, running, dict(self._busy_s), self._chunks, self._backlog_s())

    def _backlog_s(self) -> float:
        """Of what started turns wait for or have a slot for."""
        waiting = [job.work for job in self._jobs() if job.work.klass is WorkClass.STARTED]
        return sum(work.expected_s or work.bound_s for work in waiting)

    # what the device does next

    @property
    def _has_step(self) -> bool:
        return bool(self._slots.waiting or self._slots.running)

    def _pump(self) -> None:
        if self._is_busy:
            return
        now = self._timeline.now
        came, went = self._slots.admit(now)
        self._count_slots(came, went)
        other = self._next_other(now)
        step = self._next_step(now)
        if other is not None and (step is None or self._goes_first(other, step, now)):
            self._run(other)
        elif step is not None:
            self._compute(step)

    def _count_slots(self, came: Iterable[Sequence], went: Iterable[Sequence]) -> None:
        more = sum(each.is_text for each in came) - sum(each.is_text for each in went)
        for _ in range(abs(more)):
            self._site.on_slots(1 if more > 0 else -1)

    def _next_other(self, now: float) -> Job | None:
        if self._rules.by_deadline:
            return self._urgent.first(now)
        return next(iter(self._others.values()), None)

    def _goes_first(self, other: Job, step: Step, now: float) -> bool:
        if not self._rules.by_deadline:
            return other.queued <= self._ready
        jobs = [sequence.job for sequence in step.sequences if sequence.job is not None]
        return not jobs or other.urgency(now) < min(job.urgency(now) for job in jobs)

    def _next_step(self, now: float) -> Step | None:
        if not self._slots.running:
            return None
        rules = self._rules
        if not rules.by_deadline:
            return self._slots.step(rules.chunk_tokens)
        running = self._slots.running
        if not any(sequence.is_text for sequence in running):
            return self._slots.step(0, texts=False)
        room_s = self._slack_s(now) - self._step_s - self._row_s * len(running)
        if room_s < 0.0:
            return self._slots.step(0, texts=False)
        chunk = rules.chunk_tokens or 0
        free = room_s == inf or self._token_s == 0.0  # a fitted line may have tokens for nothing
        return self._slots.step(chunk if free else min(chunk, int(room_s / self._token_s)))

    def _slack_s(self, now: float) -> float:
        """How long a step may take before somebody is late: who waits, who runs, and who has announced a start."""
        announced = min(self._starts.values(), default=inf)
        if announced + LAPSE_S <= now:
            self._starts = {session: start for session, start in self._starts.items() if start + LAPSE_S > now}
            announced = min(self._starts.values(), default=inf)
        start = min((job.start for job in self._others.values()), default=inf)
        for own in self._sequences.values():
            for sequence in own:
                start = min(start, self._latest_start(sequence))
        slack_s = min(start, announced) - now - MARGIN_S
        if slack_s < 0.0 and self._starts and self._look is None:
            self._look = self._timeline.at(announced + LAPSE_S, self._look_again)
        return slack_s

    def _look_again(self) -> None:
        self._look = None
        self._pump()

    def _latest_start(self, sequence: Sequence) -> float:
        """Of what is left of its chunk, so that what the deadline is about is in time; infinite without one."""
        work = None if sequence.job is None else sequence.job.work
        if work is None or work.deadline is None:
            return inf
        reading_s = self._step_s + self._token_s * sequence.unread if sequence.unread else 0.0
        writing_s = sequence.left * (self._step_s + self._row_s)
        return work.deadline - reading_s - writing_s - work.remaining_s

    # running

    def _run(self, job: Job) -> None:
        self._take(job)
        self._is_busy = True
        self._begin(job)
        work, load, times = job.work, job.work.load, self._site.times
        assert load is not None
        started = self._timeline.now + times.begin_s(job.draw.begin)
        finished = started + times.service_s(work.kind, load, job.draw.service)
        job.started = started
        self._timeline.at(finished + times.end_s(job.draw.end), lambda: self._ran(job, finished))

    def _ran(self, job: Job, finished: float) -> None:
        assert job.started is not None
        self._count(job.work.klass, finished - job.started)
        self._end(job, finished)
        self._is_busy = False
        self._pump()

    def _compute(self, step: Step) -> None:
        self._is_busy = True
        now = self._timeline.now
        for sequence in step.sequences:
            if sequence.job is not None and sequence.job.started is None:
                self._begin(sequence.job)
                sequence.job.started = now
        tokens, rows = step.read_tokens, len(step.reads) + len(step.writes)
        service_s = self._step_s + self._row_s * len(step.writes) + self._token_s * tokens
        assert rows
        service_s *= drawn(self._ratios[bool(tokens)], self._luck(step))
        self._timeline.after(service_s, lambda: self._computed(step, service_s))

    def _luck(self, step: Step) -> float:
        """A step has that of the chunk for which a session has waited longest; of texts alone, one of its own."""
        job = next((sequence.job for sequence in step.sequences if sequence.job is not None), None)
        if job is not None:
            return job.draw.service
        self._text_steps += 1
        return self._site.draws.of(TEXTS, 0, f"step {self._text_steps}").service

    def _computed(self, step: Step, service_s: float) -> None:
        tally = self._site.tally
        for sequence, tokens in step.reads:
            sequence.unread -= tokens
            sequence.held += tokens
            tally.read_tokens += tokens * sequence.is_text
        for sequence in step.writes:
            sequence.left -= 1
            sequence.held += 1
            tally.written_tokens += sequence.is_text
        self._count_step(step, service_s)
        now = self._timeline.now
        if self._on_step is not None:
            self._on_step(now - service_s, now, step)
        self._ready = now
        for sequence in step.sequences:
            if sequence.is_done:
                self._done(sequence, now)
        self._count_slots((), self._slots.shrink())
        self._is_busy = False
        self._pump()

    def _done(self, sequence: Sequence, now: float) -> None:
        """A text is written; or a chunk of a reply is, and who has asked for it may ask for the next one."""
        if sequence.is_text:
            self._slots.release(sequence)
            self._site.tally.done += 1
            self._site.on_slots(-1)
            return
        job, sequence.job = sequence.job, None
        assert job is not None
        self._end(job, now)
        if sequence.job is None:
            self._slots.release(sequence)
            self._forget(sequence)

    def _begin(self, job: Job) -> None:
        """It cannot be taken back any more."""
        session = job.work.session
        self._at_device[session] = self._at_device.get(session, 0) + 1
        waited_s = self._timeline.now - job.queued
        job.blocked_s = min(waited_s, self._background_s - job.background_s)
        if job.client is not None:
            job.client.on_run(job.work)

    def _end(self, job: Job, finished: float) -> None:
        work = job.work
        assert job.started is not None
        timing = LaneTiming(
            job.queued,
            job.started,
            finished,
            granted=max(job.queued, min(job.started, finished)),
            blocked_s=job.blocked_s,
            background_s=job.blocked_s,
        )
        self._chunks += 1
        self._site.observe(work, timing, LANE)
        self._answer(job, timing)
        self._site.learn(work, timing.service_s, True)
        self._at_device[work.session] -= 1
        if not self._at_device[work.session]:
            del self._at_device[work.session]
            release = self._leaving.pop(work.session, None)
            if release is not None:
                release()

    def _answer(self, job: Job, timing: Timing) -> None:
        if job.client is not None:
            job.client.on_ran(job.work, timing)

    # counting

    def _count(self, klass: WorkClass, service_s: float) -> None:
        place = (LANE, klass.name.lower())
        self._busy_s[place] = self._busy_s.get(place, 0.0) + service_s

    def _count_step(self, step: Step, service_s: float) -> None:
        """Texts take of a step what it is longer for their sake."""
        classes = [sequence.job.work.klass for sequence in step.sequences if sequence.job is not None]
        if not classes:
            self._count(WorkClass.BACKGROUND, service_s)
            self._background_s += service_s
            return
        texts_s = self._row_s * sum(each.is_text for each in step.writes)
        texts_s += self._token_s * sum(tokens for each, tokens in step.reads if each.is_text)
        texts_s = min(texts_s, service_s)
        self._count(WorkClass.BACKGROUND, texts_s)
        self._count(min(classes), service_s - texts_s)
        self._background_s += texts_s

    # waiting

    def _jobs(self) -> Iterable[Job]:
        """All that are not done, but chunks of other engines that run."""
        yield from self._others.values()
        for own in self._sequences.values():
            yield from (sequence.job for sequence in own if sequence.job is not None)

    def _forget(self, sequence: Sequence) -> None:
        own = self._sequences[sequence.ident]
        own.remove(sequence)
        if not own:
            del self._sequences[sequence.ident]

    def _waiting_of(self, session: str) -> list[Job]:
        jobs = list(self._own.get(session, {}).values())
        thoughts = [sequence.job for sequence in self._sequences.get(session, [])]
        return jobs + [job for job in thoughts if job is not None and job.started is None]

    def _drop(self, jobs: Iterable[Job]) -> None:
        for job in list(jobs):
            work = job.work
            if (sequence := job.sequence) is not None:
                self._forget(sequence)
                (self._slots.waiting if sequence in self._slots.waiting else self._slots.running).remove(sequence)
            else:
                self._take(job)
            if job.client is not None:
                job.client.on_dropped(work)
