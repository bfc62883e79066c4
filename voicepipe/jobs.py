"""What the works of a session mean: turns a `Submit` of core into a call on the session's engine handles."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from voicepipe.audio import Resampler, to_pcm16
from voicepipe.core.events import Speak, Submit, Think, Work, WorkKind
from voicepipe.core.utterance import Span
from voicepipe.device import Call
from voicepipe.engines.base import (
    ChatMessage,
    Context,
    Engines,
    Generation,
    LlmSlot,
    Placement,
    Prompt,
    Role,
    Synthesis,
    TtsStep,
    Window,
)
from voicepipe.ingest import AudioRing


@dataclass(frozen=True, slots=True)
class Spoken:
    """A piece of a clause, at the session's output rate."""

    pcm: bytes
    last: bool


class Jobs:
    """The engine handles of one session. Leases a reply slot at birth (raises EngineBusy); `close` gives it
    back, and must not be called while a chunk of the session runs."""

    def __init__(self, session: str, engines: Engines, ring: AudioRing, output_rate: int | None) -> None:
        self.output_rate = output_rate or engines.tts.sample_rate_hz
        self._session = session
        self._engines = engines
        self._ring = ring
        self._slot: LlmSlot = engines.llm.open(session)
        self._asr = engines.asr.open()
        self._asr_turn = 0
        self._generation: Generation | None = None
        self._synthesis: Synthesis | None = None
        self._resampler: Resampler | None = None

    def call(self, submit: Submit, span: Span | None, now: float) -> tuple[Call, bool]:
        """(the chunk, whether it blocks)"""
        work, task = submit.work, submit.task
        ctx = self._context(work, now)
        match work.kind:
            case WorkKind.PARTIAL | WorkKind.FINAL:
                assert span is not None
                return self._hear(work, span, ctx)
            case WorkKind.WARM | WorkKind.THINK:
                if isinstance(task, Think):
                    self._begin_generation(task, ctx)
                assert self._generation is not None
                return self._generation.step, _blocks(self._engines.llm.placement)
            case WorkKind.SPEAK:
                if isinstance(task, Speak):
                    self._begin_clause(task, ctx)
                assert self._synthesis is not None and self._resampler is not None
                call = _spoken(self._synthesis, self._resampler)
                return call, _blocks(self._engines.tts.placement)
        raise AssertionError(f"{work.kind} is no work of a turn")

    def abandon_reply(self) -> None:
        """Nobody waits for the reply in the making any more."""
        if self._generation is not None:
            self._generation.cancel()
        if self._synthesis is not None:
            self._synthesis.cancel()
        self._generation = self._synthesis = None

    def close(self) -> None:
        self.abandon_reply()
        self._asr.close()
        self._slot.close()

    def _hear(self, work: Work, span: Span, ctx: Context) -> tuple[Call, bool]:
        start = span.start
        if self._asr_turn == span.turn:
            start = max(start, self._asr.window_start)
        self._asr_turn = span.turn
        start = max(start, self._ring.oldest)
        window = Window(
            span.turn,
            start,
            self._ring.read(start, self._ring.newest),
            span.speech_samples,
        )
        final = work.kind is WorkKind.FINAL
        return (
            lambda: self._asr.decode(window, final=final, ctx=ctx),
            _blocks(self._engines.asr.placement),
        )

    def _begin_generation(self, task: Think, ctx: Context) -> None:
        self.abandon_reply()
        messages = tuple(ChatMessage(cast(Role, line.role), line.text) for line in task.lines)
        self._generation = self._slot.generate(Prompt(messages, task.max_tokens), ctx)

    def _begin_clause(self, task: Speak, ctx: Context) -> None:
        self._synthesis = self._engines.tts.synthesize(task.text, ctx, first=task.first)
        self._resampler = Resampler(self._engines.tts.sample_rate_hz, self.output_rate)

    def _context(self, work: Work, now: float) -> Context:
        remaining_ms = None if work.deadline is None else 1000 * (work.deadline - now)
        return Context(self._session, work.turn, work.epoch, work.revision, remaining_ms)


def _blocks(placement: Placement) -> bool:
    return placement == "thread"


def _spoken(synthesis: Synthesis, resampler: Resampler) -> Callable[[], Any]:
    """The step, with its samples at the output rate; resampling happens where the step runs."""

    def finish(step: TtsStep) -> Spoken:
        pcm = to_pcm16(resampler.push(step.samples))
        if step.last:
            pcm += to_pcm16(resampler.flush())
        return Spoken(pcm, step.last)

    async def awaited(step: Awaitable[TtsStep]) -> Spoken:
        return finish(await step)

    def call() -> Spoken | Awaitable[Spoken]:
        step = synthesis.step()
        return awaited(step) if inspect.isawaitable(step) else finish(step)

    return call
