"""Warm the engines with a turn of their own, and measure what a turn takes on this machine.

The voice speaks a question, the recogniser hears it, the model answers, the voice speaks the answer's first
clause. First inferences are slow (memory, kernels, caches): the second round counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from voicepipe.audio import Samples, resample
from voicepipe.core.clauses import ClauseSplitter
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.engines.base import (
    AsrStream,
    ChatMessage,
    Context,
    Engines,
    LlmSlot,
    MaybeAwaitable,
    Prompt,
    Tts,
    Window,
)

QUESTION = "What can you tell me about the weather today?"
ROUNDS = 2
_SESSION = "warm-up"
_SYSTEM = ChatMessage("system", "Answer in one short sentence.")
_MAX_TOKENS = 24

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

    @property
    def total_s(self) -> float:
        return self.final_s + self.clause_s + self.audio_s


async def warm_up(engines: Engines, clock: Callable[[], float]) -> WarmUp:
    """Blocks the caller's thread where the engines do. Raises EngineError where one does not work."""
    question = resample(await speak(engines.tts, QUESTION), engines.tts.sample_rate_hz, RATE_HZ)
    stream, slot = engines.asr.open(), engines.llm.open(_SESSION)
    try:
        for _ in range(ROUNDS):
            measured = await _turn(engines.tts, stream, slot, question, clock)
    finally:
        stream.close()
        slot.close()
    return measured


async def _turn(
    tts: Tts, stream: AsrStream, slot: LlmSlot, question: Samples, clock: Callable[[], float]
) -> WarmUp:
    ctx = Context(_SESSION, 1, 1, 0)
    begun = clock()
    window = Window(1, 0, question, len(question))
    heard = await _awaited(stream.decode(window, final=True, ctx=ctx))
    decoded = clock()
    prompt = Prompt((_SYSTEM, ChatMessage("user", heard.text or QUESTION)), _MAX_TOKENS)
    generation, splitter = slot.generate(prompt, ctx), ClauseSplitter()
    clauses: list[str] = []
    while not clauses:
        step = await _awaited(generation.step())
        clauses = splitter.feed(step.text)
        if step.finish is not None:
            clauses += splitter.flush() or ["Sure."]
    generation.cancel()
    thought = clock()
    await _awaited(tts.synthesize(clauses[0], ctx, first=True).step())
    return WarmUp(decoded - begun, thought - decoded, clock() - thought)


async def speak(tts: Tts, text: str) -> Samples:
    """The whole text, at the voice's own rate."""
    ctx = Context(_SESSION, 1, 1, 0)
    synthesis, pieces = tts.synthesize(text, ctx, first=False), []
    while True:
        step = await _awaited(synthesis.step())
        pieces.append(step.samples)
        if step.last:
            return np.concatenate(pieces)


async def _awaited(value: MaybeAwaitable[T]) -> T:
    if inspect.isawaitable(value):
        return await _typed(value)
    return value


async def _typed(value: Awaitable[T]) -> T:
    return await value
