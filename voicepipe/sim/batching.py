"""An engine that batches continuously, in virtual time: sequences join and leave between steps.

A step continues every sequence by a token, and what is left of its tokens goes to prompts, oldest first. The step
that ends a prompt gives the first token. Where memory runs out, whoever began last is put back and computed again.

Steps in which nothing begins or ends are not events of their own: so many are one event, whose length is the sum of
theirs (`Gpu.steps_s`). Who comes in the middle is seen at the end of the step that runs then, as if each had been
one: `Rules(run_steps=1)` makes them so, and gives the same instants.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt

from voicepipe.sim.gpu import Gpu
from voicepipe.sim.kv import KvPool, blocks_of
from voicepipe.sim.requests import Refusal, Request
from voicepipe.sim.running import Decoding, Sequence
from voicepipe.sim.timeline import Event, Timeline


@dataclass(frozen=True, slots=True)
class Rules:
    queued: int = 10_000
    """Requests that may wait; more are refused."""
    reserve: bool = False
    """Begin only what fits in memory with all of its tokens: nobody is put back, and fewer run at once."""
    run_steps: int = 1_000_000
    """Steps in one event, at most."""


@dataclass(slots=True)
class Totals:
    """What a device has done, in seconds and tokens."""

    prefill_s: float = 0.0
    """Of steps, what prompts needed, and W where nothing else ran."""
    decode_s: float = 0.0
    memory_block_s: float = 0.0
    """Blocks of memory that were not to be had, times how long."""
    prefill_tokens: int = 0
    preempted: int = 0
    refused: int = 0
    ended: int = 0


@dataclass(slots=True)
class _Step:
    """The event that is under way: a run of equal steps, or one with prompts."""

    began_s: float
    steps: int
    event: Event
    prompts: list[tuple[Sequence, int]] = field(default_factory=list)


class Engine:
    def __init__(
        self, timeline: Timeline, gpu: Gpu, ended: Callable[[Request], None], rules: Rules | None = None
    ) -> None:
        """`ended` is told of each request once: when its last token is there, or when it is refused."""
        self._timeline = timeline
        self._gpu = gpu
        self._ended = ended
        self._rules = rules if rules is not None else Rules()
        self.pool = KvPool(gpu.kv_blocks)
        self.totals = Totals()
        self._waiting: deque[Request] = deque()
        """In the order of priority, and within one of arrival."""
        self._prompts: list[Sequence] = []
        """Sequences whose prompt is being computed."""
        self._decoding = Decoding()
        self._order: list[Sequence] = []
        """All that have begun, in that order."""
        self._step: _Step | None = None
        self._between = False
        """What a step has done is being seen to; the next one comes after that."""
        self._reserved = 0
        self.waiting_tokens = 0
        """Of prompts that have not begun, cached or not."""
        self.slot_s = 0.0
        """How long a request has had a slot, in the mean of those that have ended."""
        self._used = 0
        self._used_since_s = 0.0

    @property
    def outstanding(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + len(self._order)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def unread_tokens(self) -> int:
        """Of prompts, those still to be computed, all of those that wait among them."""
        return self.waiting_tokens + sum(sequence.prompt_left for sequence in self._prompts)

    def submit(self, request: Request) -> None:
        request.submitted_s = self._timeline.now
        if (refusal := self._refusal(request)) is not None:
            request.refused = refusal
            self.totals.refused += 1
            self._ended(request)
            return
        self._enqueue(request)
        if self._step is None:
            self.look_again()
        elif len(self._order) < self._gpu.slots and self._waiting[0] is request:
            self._cut()

    def look_again(self) -> None:
        """There may be more memory than before, or more to do."""
        if self._step is not None:
            self._cut()
        elif not self._between:
            self._next()

    def _refusal(self, request: Request) -> Refusal | None:
        if len(self._waiting) >= self._rules.queued:
            return "queue"
        private = blocks_of(request.private_tokens + request.output_tokens)
        return "memory" if blocks_of(request.prefix_tokens) + private > self.pool.blocks else None

    def _enqueue(self, request: Request) -> None:
        """Who was put back comes before those that have not begun."""
        self.waiting_tokens += request.prompt_tokens
        if not self._waiting or (request.priority >= self._waiting[-1].priority and not request.preempted):
            self._waiting.append(request)
            return
        waiting = list(self._waiting)
        insort(waiting, request, key=lambda one: (one.priority, not one.preempted, one.submitted_s))
        self._waiting = deque(waiting)

    # ---- steps

    def _cut(self) -> None:
        """A run of equal steps ends with the one that runs now."""
        step = self._step
        if step is None or step.prompts or step.steps == 1:
            return
        steps = self._steps_by(self._timeline.now - step.began_s, step.steps)
        if steps < step.steps:
            step.event.cancel()
            self._begin(steps, [], step.began_s)

    def _steps_by(self, elapsed_s: float, most: int) -> int:
        """The fewest steps, from the beginning of the run, that last so long: k (W + h S) + h n k (k - 1) / 2."""
        gpu, decoding = self._gpu, self._decoding
        half = gpu.context_token_s * decoding.count / 2
        linear = gpu.step_s + gpu.context_token_s * decoding.context_tokens - half
        steps = int(2 * elapsed_s / (linear + sqrt(linear**2 + 4 * half * elapsed_s)))  # about; also without h
        steps = max(1, min(most, steps))
        while steps < most and self._run_s(steps) < elapsed_s:
            steps += 1
        while steps > 1 and self._run_s(steps - 1) >= elapsed_s:
            steps -= 1
        return steps

    def _run_s(self, steps: int) -> float:
        return self._gpu.steps_s(steps, self._decoding.count, self._decoding.context_tokens)

    def _next(self) -> None:
        """Decides what the next step is; nothing, if there is nothing to do."""
        now = self._timeline.now
        self._make_room(now)
        prompts = self._prompt_chunks(now)
        while not self._order and self._waiting and self.pool.break_pin(now):
            prompts = self._prompt_chunks(now)
        self._note_memory(now)
        if prompts:
            self._begin(1, prompts, now)
        elif self._decoding.count:
            most = min(self._decoding.steps_to_event(), self._rules.run_steps)
            if (pinned_s := self.pool.next_pin_s()) is not None:
                # What grows before a pin ends may not evict what it holds, and what grows after it may.
                most = max(1, self._steps_by(pinned_s - now, most) - 1)
            self._begin(self._decoding.steps_within(self.pool.available(now), most), [], now)

    def _begin(self, steps: int, prompts: list[tuple[Sequence, int]], began_s: float) -> None:
        seconds = self._gpu.prefill_s(sum(tokens for _, tokens in prompts))
        seconds += self._run_s(steps) if self._decoding.count else self._gpu.step_s
        event = self._timeline.at(began_s + seconds, self._done)
        self._step = _Step(began_s, steps, event, prompts)

    def _done(self) -> None:
        step, now = self._step, self._timeline.now
        assert step is not None
        self._step, self._between = None, True
        self._account(step, now)
        self.pool.take(self._decoding.growth(step.steps), now)
        self._note_memory(now)
        for sequence in self._decoding.advance(step.steps):
            self._reached(sequence, now)
        for sequence, tokens in step.prompts:
            sequence.prompt_left -= tokens
            if not sequence.prompt_left:
                self._prompt_done(sequence, now)
        self._between = False
        self._next()

    def _account(self, step: _Step, now: float) -> None:
        tokens = sum(tokens for _, tokens in step.prompts)
        prefill_s = self._gpu.prefill_s(tokens) if self._decoding.count else now - step.began_s
        self.totals.prefill_s += prefill_s
        self.totals.decode_s += now - step.began_s - prefill_s
        self.totals.prefill_tokens += tokens

    def _note_memory(self, now: float) -> None:
        """Between two steps it has gone evenly from what it was to what it is."""
        used = self.pool.used
        self.totals.memory_block_s += (self._used + used) / 2 * (now - self._used_since_s)
        self._used, self._used_since_s = used, now

    # ---- sequences

    def _prompt_chunks(self, now: float) -> list[tuple[Sequence, int]]:
        """What the tokens of the next step that are left over are for; begins who has a slot and memory."""
        left = self._gpu.chunk_tokens - self._decoding.count
        chunks = list[tuple[Sequence, int]]()
        for sequence in self._prompts:
            if left <= 0:
                return chunks
            chunks.append((sequence, min(left, sequence.prompt_left)))
            left -= chunks[-1][1]
        while left > 0 and self._waiting and len(self._order) < self._gpu.slots:
            if not self._fits(self._waiting[0], now):
                break
            sequence = self._start(self._waiting.popleft(), now)
            chunks.append((sequence, min(left, sequence.prompt_left)))
            left -= chunks[-1][1]
        return chunks

    def _fits(self, request: Request, now: float) -> bool:
        pool = self.pool
        available = pool.available(now) + pool.pinned(request.session)
        shared = pool.share_blocks(request.prefix, request.prefix_tokens)
        if not self._rules.reserve:
            growing = self._decoding.growth(1)
            tokens = request.private_tokens + (request.output_tokens - self._left(request))
            return shared + blocks_of(tokens) + growing <= available
        growing = self._reserved - pool.running
        return shared + blocks_of(request.private_tokens + request.output_tokens) + growing <= available

    @staticmethod
    def _left(request: Request) -> int:
        return request.tokens_left if request.tokens_left is not None else request.output_tokens

    def _start(self, request: Request, now: float) -> Sequence:
        """Memory for its whole prompt is taken at once."""
        pool = self.pool
        self.waiting_tokens -= request.prompt_tokens
        left = self._left(request)
        private = request.private_tokens + (request.output_tokens - left)
        needed = blocks_of(private)
        tokens, blocks = pool.claim(request.session, now)
        pool.give(max(0, blocks - needed))
        found = pool.share(request.prefix, request.prefix_tokens, now) if request.prefix else 0
        if found < request.prefix_tokens:
            tokens = 0  # what comes after a gap is of no use
        pool.take(max(0, needed - blocks), now)
        cached = found + min(tokens, private)
        prompt_left = max(1, request.prefix_tokens + private - cached)
        sequence = Sequence(request, private, left, prompt_left)
        if request.started_s is None:
            request.started_s = now
            request.cached_tokens = request.prompt_tokens - prompt_left
        request.prefilled_tokens += prompt_left
        self._reserved += blocks_of(request.private_tokens + request.output_tokens)
        self._prompts.append(sequence)
        self._order.append(sequence)
        return sequence

    def _prompt_done(self, sequence: Sequence, now: float) -> None:
        self._prompts.remove(sequence)
        request = sequence.request
        if request.prefix:
            self.pool.brought(request.prefix)
        if request.first_s is None:
            request.first_s = now
        self._decoding.add(sequence)
        self._reached(sequence, now)

    def _reached(self, sequence: Sequence, now: float) -> None:
        """A clause or the end, if it is there; then what comes next is noted."""
        request = sequence.request
        produced = request.output_tokens - self._decoding.left(sequence)
        clause = request.thinking_tokens + request.clause_tokens
        if request.clause_s is None and produced >= clause:
            request.clause_s = now
        if produced < request.output_tokens:
            goal = clause if produced < clause else request.output_tokens
            self._decoding.wake(sequence, goal - produced)
            return
        self._decoding.remove(sequence)
        self._release(sequence, now, request.keep_s)
        request.ended_s = now
        self.totals.ended += 1
        assert request.started_s is not None
        self.slot_s += (now - request.started_s - self.slot_s) / self.totals.ended
        self._ended(request)

    def _release(self, sequence: Sequence, now: float, keep_s: float | None) -> None:
        request, pool = sequence.request, self.pool
        self._order.remove(sequence)
        self._reserved -= blocks_of(request.private_tokens + request.output_tokens)
        held = blocks_of(sequence.private_tokens)
        if keep_s is not None and request.session:
            tokens = min(request.reusable_tokens, sequence.private_tokens)
            pool.keep(request.session, tokens, held, now, now + keep_s)
            held -= blocks_of(tokens)
        pool.give(held)
        if request.prefix:
            pool.leave(request.prefix, now)
            pool.touch(request.prefix)

    def _make_room(self, now: float) -> None:
        """For the next step, at least."""
        while self._decoding.growth(1) > self.pool.available(now):
            if len(self._order) == 1 and self.pool.break_pin(now):
                continue
            worst = max(reversed(self._order), key=lambda one: one.request.priority)
            self._put_back(worst, now)

    def _put_back(self, sequence: Sequence, now: float) -> None:
        request = sequence.request
        if sequence in self._prompts:
            self._prompts.remove(sequence)
            request.prefilled_tokens -= sequence.prompt_left
            request.tokens_left = sequence.tokens_left
        else:
            request.tokens_left = self._decoding.left(sequence)
            self._decoding.remove(sequence)
        self._release(sequence, now, None)
        request.preempted += 1
        self.totals.preempted += 1
        self._enqueue(request)
