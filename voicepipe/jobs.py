"""What the works of a session mean: turns a `Submit` of core into a call on the session's engine handles."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from voicepipe.audio import Resampler
from voicepipe.chunk import Chunk, Together
from voicepipe.clause import Clause, Reading, Spoken
from voicepipe.core.events import Line, Load, Rehear, Speak, Submit, Think, Tools, Work, WorkKind
from voicepipe.core.utterance import RATE_HZ, Span
from voicepipe.engines.base import (
    TURN_MODEL_S,
    AsrStream,
    ChatMessage,
    Context,
    Engines,
    Generation,
    LlmSlot,
    LlmStep,
    MaybeAwaitable,
    Placement,
    Prompt,
    Role,
    StepSize,
    ToolOffer,
    ToolUse,
    Transcript,
    Window,
)
from voicepipe.engines.unread import tokens_of
from voicepipe.errors import EngineBusy, EngineError, EngineUnavailable
from voicepipe.ingest import AudioRing
from voicepipe.meter import load_of
from voicepipe.rehearing import Rehearing


@dataclass(frozen=True, slots=True)
class Decoded:
    heard: Transcript
    upto: int
    """What was said up to this sample is in it; 0 where the decode's own hypothesis was not believed."""


def nobody_counts(slots: int) -> None:
    """The leases."""


def is_whole(result: object) -> bool:
    """Did the chunk do all that its load says?"""
    return not (isinstance(result, LlmStep | Spoken) and result.cut)


_SLOT_LOST = "the session's slot is lost in a call that does not end"
_SMALL = " (small)"
"""Behind the name of a model whose smaller one makes the reply: it has costs of its own."""
MAX_OPENINGS = 8
"""First clauses kept for a reply that begins like one before it: half a second of sound or so each."""


class _LostGeneration:
    """In the place of one whose slot is lost, or could not be had."""

    def __init__(self, error: EngineError) -> None:
        self._error = error

    def next_size(self) -> StepSize:
        return StepSize("prefill", 0)

    def step(self) -> LlmStep:
        raise self._error

    def cancel(self) -> None:
        """Nothing is held."""


class Jobs:
    """The engine handles of one session. Leases a reply slot at birth (raises EngineBusy); `close` gives it
    back, and must not be called while a chunk of the session runs, unless it was told that its call is lost."""

    def __init__(
        self,
        session: str,
        engines: Engines,
        ring: AudioRing,
        output_rate: int | None,
        on_lease: Callable[[int], None] = nobody_counts,
    ) -> None:
        """`on_lease` is told by how many the leased reply slots have changed."""
        self.output_rate = output_rate or engines.tts.sample_rate_hz
        self._session = session
        self._engines = engines
        self._ring = ring
        self._on_lease = on_lease
        self._slot: LlmSlot | None = self._lease()
        """None: it was lost in a call that does not end, and another one is needed."""
        self._asr = engines.asr.open()
        self._asr_turn = 0
        second = engines.asr_second
        self._rehearing = None if second is None else Rehearing(second, ring)
        self._generation: Generation | None = None
        self.prompt_tokens = 0.0
        """Of the newest generation's prompt, about."""
        self.tools = Tools()
        """At hand for the newest generation."""
        self._small = False
        """By the smaller model."""
        self._speech: Reading | None = None
        self._openings: dict[str, Clause] = {}
        """First clauses of replies that were begun, the last used last."""

    def call(self, submit: Submit, span: Span | None, now: float) -> Chunk:
        work, task = submit.work, submit.task
        ctx = self._context(work, now)
        match work.kind:
            case WorkKind.PARTIAL | WorkKind.FINAL:
                assert span is not None
                return self._hear(work, span, ctx)
            case WorkKind.SECOND_PASS:
                assert self._rehearing is not None
                if isinstance(task, Rehear):
                    self._rehearing.begin(task, work.id)
                second = self._engines.asr_second
                assert second is not None
                call, blocks, sound_s = self._rehearing.call(ctx)
                on_lost = partial(self._lose_rehearing, self._rehearing)
                return Chunk(call, blocks, Load(second.name, sound_s), on_lost=on_lost)
            case WorkKind.JUDGE:
                assert span is not None
                return self._judge(span, ctx)
            case WorkKind.WARM | WorkKind.THINK:
                if isinstance(task, Think):
                    self._begin_generation(task, ctx)
                return self._take_step()
            case WorkKind.SPEAK:
                if isinstance(task, Speak):
                    self._begin_clause(task, ctx)
                assert self._speech is not None
                return self._speech.chunk(self._engines.tts, partial(self._lose_clause, self._speech.clause))
        raise AssertionError(f"{work.kind} is no work of a turn")

    def abandon_reply(self) -> None:
        """Nobody waits for the reply in the making any more."""
        if self._generation is not None:
            self._generation.cancel()
        if self._speech is not None and self._speech.clause not in self._openings.values():
            self._speech.clause.cancel()
        self._generation = self._speech = None

    def close(self) -> None:
        self.abandon_reply()
        self._forget_openings(0)
        self._asr.close()
        if self._rehearing is not None:
            self._rehearing.close()
        if self._slot is not None:
            self._give_back(self._slot)

    def _lease(self) -> LlmSlot:
        slot = self._engines.llm.open(self._session)
        self._on_lease(1)
        return slot

    def _give_back(self, slot: LlmSlot) -> None:
        slot.close()
        self._on_lease(-1)

    # calls that do not end: what they use is given back when they do, be the session there or not

    def _lose_slot(self, slot: LlmSlot | None, still: asyncio.Future[Any]) -> None:
        if slot is not None and slot is self._slot:
            self._slot = None
            self._generation = _LostGeneration(EngineUnavailable(_SLOT_LOST))
            still.add_done_callback(lambda _: self._give_back(slot))

    def _lose_ears(self, stream: AsrStream, still: asyncio.Future[Any]) -> None:
        """The next decode hears the turn from its beginning."""
        if stream is self._asr:
            self._asr, self._asr_turn = self._engines.asr.open(), 0
            still.add_done_callback(lambda _: stream.close())

    def _lose_rehearing(self, rehearing: Rehearing, still: asyncio.Future[Any]) -> None:
        second = self._engines.asr_second
        if second is not None and rehearing is self._rehearing:
            self._rehearing = Rehearing(second, self._ring)
            still.add_done_callback(lambda _: rehearing.close())

    def _lose_clause(self, clause: Clause, still: asyncio.Future[Any]) -> None:
        self._openings = {text: one for text, one in self._openings.items() if one is not clause}

    # inner

    def _hear(self, work: Work, span: Span, ctx: Context) -> Chunk:
        """It hears what has been said by the time at which it runs, which may be a good while after this."""
        final = work.kind is WorkKind.FINAL
        window, stream = self._window(span), self._asr

        def listen() -> None:
            nonlocal window, stream
            window, stream = self._window(span), self._asr
            self._asr_turn = span.turn

        def decode() -> Decoded | Awaitable[Decoded]:
            transcript, upto = stream.decode(window, final=final, ctx=ctx), window.start + len(window.samples)
            if inspect.isawaitable(transcript):
                return _decoded_later(transcript, upto)
            return _decoded(transcript, upto)

        load = load_of(self._engines.asr.name, self._asr.next_size(window, final=final))
        return Chunk(
            decode,
            _blocks(self._engines.asr.placement),
            load,
            listen,
            on_lost=lambda still: self._lose_ears(stream, still),
        )

    def _window(self, span: Span) -> Window:
        start = span.start
        if self._asr_turn == span.turn:
            start = max(start, self._asr.window_start)
        start = max(start, self._ring.oldest)
        return Window(span.turn, start, self._ring.read(start, self._ring.newest), span.speech_samples)

    def _judge(self, span: Span, ctx: Context) -> Chunk:
        """The end of the turn's sound, the silence included that it is asked in."""
        model = self._engines.turn_model
        assert model is not None, "nobody asks without one"
        newest = self._ring.newest
        start = max(span.start, newest - round(TURN_MODEL_S * RATE_HZ), self._ring.oldest)
        audio = self._ring.read(start, newest)
        load = Load(model.name, len(audio) / RATE_HZ)
        return Chunk(lambda: model.completeness(audio, ctx), _blocks(model.placement), load)

    def _begin_generation(self, task: Think, ctx: Context) -> None:
        self.abandon_reply()
        messages = tuple(map(_message if self._engines.llm.calls_tools else _plain_message, task.lines))
        tools = tuple(ToolOffer(tool.name, tool.description, tool.parameters) for tool in task.tools.those)
        prompt = Prompt(messages, task.max_tokens, task.small, tools, task.tools.choice)
        self._generation = self._generate(prompt, ctx)
        self.prompt_tokens = tokens_of(messages)
        self.tools = task.tools
        self._small = task.small

    def _generate(self, prompt: Prompt, ctx: Context) -> Generation:
        try:
            if self._slot is None:
                self._slot = self._lease()
        except EngineBusy as exc:
            return _LostGeneration(exc)
        return self._slot.generate(prompt, ctx)

    def _take_step(self) -> Chunk:
        """The generation's next one."""
        generation, llm = self._generation, self._engines.llm
        assert generation is not None
        load = load_of(f"{llm.name}{_SMALL * self._small}", generation.next_size())
        together = None if llm.step_together is None else Together(llm.step_together, generation)
        slot = self._slot

        def step() -> MaybeAwaitable[LlmStep]:
            if self._slot is not slot:
                raise EngineUnavailable(_SLOT_LOST)
            return generation.step()

        return Chunk(
            step,
            _blocks(llm.placement),
            load,
            together=together,
            on_lost=lambda still: self._lose_slot(slot, still),
        )

    def _begin_clause(self, task: Speak, ctx: Context) -> None:
        known = self._openings.pop(task.text, None) if task.first else None
        if known is None or not known.can_be_shared:
            known = Clause(
                self._engines.tts.synthesize(task.text, ctx, first=task.first),
                Resampler(self._engines.tts.sample_rate_hz, self.output_rate),
            )
            if task.first:
                self._forget_openings(MAX_OPENINGS - 1)
        if task.first:
            self._openings[task.text] = known
        self._speech = Reading(known)

    def _forget_openings(self, left: int) -> None:
        while len(self._openings) > left:
            self._openings.pop(next(iter(self._openings))).cancel()

    def _context(self, work: Work, now: float) -> Context:
        remaining_ms = None if work.deadline is None else 1000 * (work.deadline - now)
        return Context(self._session, work.turn, work.epoch, work.revision, remaining_ms)


def _message(line: Line) -> ChatMessage:
    if line.role == "call":
        return ChatMessage("assistant", "", (ToolUse(line.call_id, line.name, line.text),))
    return ChatMessage(cast(Role, line.role), line.text, call_id=line.call_id)


def _plain_message(line: Line) -> ChatMessage:
    """For a model that knows no tools: what others have called, and what came of it, as if it had been said."""
    match line.role:
        case "call":
            return ChatMessage("assistant", f"[{line.name} {line.text}]")
        case "tool":
            return ChatMessage("user", f"[{line.text}]")
    return ChatMessage(cast(Role, line.role), line.text)


def _decoded(heard: Transcript, upto: int) -> Decoded:
    return Decoded(heard, 0 if heard.rejected else upto)


async def _decoded_later(heard: Awaitable[Transcript], upto: int) -> Decoded:
    return _decoded(await heard, upto)


def _blocks(placement: Placement) -> bool:
    return placement == "thread"
