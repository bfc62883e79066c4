"""Warm the engines with a turn of their own, and measure what a turn takes on this machine.

The voice speaks a question, the recogniser hears it, the model answers, the voice speaks the answer's first
clause. First inferences are slow (memory, kernels, caches): the second round counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from voicepipe.audio import Samples, resample
from voicepipe.core.clauses import ClauseSplitter
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.engines.base import (
    Asr,
    AsrStream,
    ChatMessage,
    Context,
    Engines,
    LlmSlot,
    MaybeAwaitable,
    Placement,
    Prompt,
    Tts,
    TurnModel,
    Window,
)

QUESTION = "What can you tell me about the weather today?"
ROUNDS = 2
_SESSION = "warm-up"
_CONTEXT = Context(_SESSION, 1, 1, 0)
_SYSTEM = ChatMessage("system", "Answer in one short sentence.")
_MAX_TOKENS = 24
_ANYTHING = "Sure."
"""Spoken where the model had nothing to say: the voice is to be measured all the same."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Service times of the critical path after speech has ended, without any speculation. Seconds."""

    final_s: float
    """The final decode of a question of some three seconds."""
    clause_s: float
    """To the reply's first clause."""
    audio_s: float
    """To that clause's first piece of audio."""
    judge_s: float = 0.0
    """One question to the turn model; 0 without one. Not in every turn, and not in the total."""

    @property
    def total_s(self) -> float:
        return self.final_s + self.clause_s + self.audio_s


class OnThread(Protocol):
    """Runs a blocking call where it holds nobody up."""

    async def __call__(self, call: Callable[[], T]) -> T: ...


async def warm_up(engines: Engines, clock: Callable[[], float], on_thread: OnThread) -> WarmUp:
    """Raises EngineError where an engine does not work."""
    spoken = await speak(engines.tts, QUESTION, on_thread)
    question = resample(spoken, engines.tts.sample_rate_hz, RATE_HZ)
    stream, slot = engines.asr.open(), engines.llm.open(_SESSION)
    try:
        for _ in range(ROUNDS):
            measured = await _turn(engines, stream, slot, question, clock, on_thread)
    finally:
        stream.close()
        slot.close()
    if engines.asr_second is not None:
        await _hear(engines.asr_second, question, on_thread)
    return measured


async def _hear(asr: Asr, question: Samples, on_thread: OnThread) -> None:
    """The first decode of a recogniser that is not measured: nobody waits for it."""
    stream = asr.open()
    try:
        window = Window(1, 0, question, len(question))
        await _chunk(on_thread, asr.placement, lambda: stream.decode(window, final=True, ctx=_CONTEXT))
    finally:
        stream.close()


async def speak(tts: Tts, text: str, on_thread: OnThread) -> Samples:
    """The whole text, at the voice's own rate."""
    synthesis, pieces = tts.synthesize(text, _CONTEXT, first=False), []
    while True:
        step = await _chunk(on_thread, tts.placement, synthesis.step)
        pieces.append(step.samples)
        if step.last:
            return np.concatenate(pieces)


async def _turn(
    engines: Engines,
    stream: AsrStream,
    slot: LlmSlot,
    question: Samples,
    clock: Callable[[], float],
    on_thread: OnThread,
) -> WarmUp:
    asr, llm, tts = engines.asr.placement, engines.llm.placement, engines.tts.placement
    begun = clock()
    window = Window(1, 0, question, len(question))
    heard = await _chunk(on_thread, asr, lambda: stream.decode(window, final=True, ctx=_CONTEXT))
    decoded = clock()
    prompt = Prompt((_SYSTEM, ChatMessage("user", heard.text or QUESTION)), _MAX_TOKENS)
    generation, splitter = slot.generate(prompt, _CONTEXT), ClauseSplitter()
    clauses: list[str] = []
    while not clauses:
        step = await _chunk(on_thread, llm, generation.step)
        clauses = splitter.feed(step.text)
        if step.finish is not None:
            clauses += splitter.flush() or [_ANYTHING]
    generation.cancel()
    thought = clock()
    await _chunk(on_thread, tts, engines.tts.synthesize(clauses[0], _CONTEXT, first=True).step)
    spoken = clock()
    judge_s = await _question(engines.turn_model, question, clock, on_thread)
    return WarmUp(decoded - begun, thought - decoded, spoken - thought, judge_s)


async def _question(
    model: TurnModel | None, audio: Samples, clock: Callable[[], float], on_thread: OnThread
) -> float:
    """What the turn model takes for one. Seconds."""
    if model is None:
        return 0.0
    asked = clock()
    await _chunk(on_thread, model.placement, lambda: model.completeness(audio, _CONTEXT))
    return clock() - asked


async def _chunk(on_thread: OnThread, placement: Placement, call: Callable[[], MaybeAwaitable[T]]) -> T:
    value = await on_thread(call) if placement == "thread" else call()
    if inspect.isawaitable(value):
        return await _typed(value)
    return value


async def _typed(value: Awaitable[T]) -> T:
    return await value
