"""Warm the engines with a turn of their own, and measure what a turn and its chunks take on this machine.

The voice speaks a question, the recogniser hears it, the model answers, the voice speaks the answer's first
clause. First inferences are slow (memory, kernels, caches): the second round counts. A sweep over the sizes that
chunks have in conversations follows (`voicepipe.sweep`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from voicepipe.audio import Samples, resample
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Load, Way, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.engines.base import (
    Asr,
    AsrStream,
    ChatMessage,
    Context,
    Engines,
    LlmSlot,
    Prompt,
    Tts,
    TurnModel,
    Window,
)
from voicepipe.meter import Meter, OnThread, load_of
from voicepipe.sweep import sweep, way_to_clause

QUESTION = "What can you tell me about the weather today?"
ROUNDS = 2
_SESSION = "warm-up"
_CONTEXT = Context(_SESSION, 1, 1, 0)
_SYSTEM = ChatMessage("system", "Answer in one short sentence.")
_MAX_TOKENS = 24
_ANYTHING = "Sure."
"""Spoken where the model had nothing to say: the voice is to be measured all the same."""


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
    chunks: tuple[Measured, ...] = field(default=(), repr=False)
    """Every chunk from the second round on, those of the sweep included."""
    ways: tuple[Way, ...] = ()

    @property
    def total_s(self) -> float:
        return self.final_s + self.clause_s + self.audio_s


async def warm_up(
    engines: Engines, clock: Callable[[], float], on_thread: OnThread, on_ears: OnThread | None = None
) -> WarmUp:
    """`on_ears`: where the Vad's chunks run, if elsewhere. Raises EngineError where an engine does not work."""
    spoken = await speak(engines.tts, QUESTION, on_thread)
    question = resample(spoken, engines.tts.sample_rate_hz, RATE_HZ)
    stream, slot = engines.asr.open(), engines.llm.open(_SESSION)
    try:
        for number in range(1, ROUNDS + 1):  # each an utterance of its own, or the second has been heard already
            meter = Meter(clock, on_thread)
            window = Window(number, 0, question, len(question))
            final_s, way, audio_s = await _turn(engines, stream, slot, window, meter)
            judge_s = await _question(engines.turn_model, question, meter)
    finally:
        stream.close()
        slot.close()
    swept = await sweep(engines, question, clock, on_thread, on_ears or on_thread)
    if engines.asr_second is not None:
        await _hear(engines.asr_second, question, Meter(clock, on_thread))
    return WarmUp(
        final_s,
        way.read_s + way.thought_s,
        audio_s,
        judge_s,
        (*meter.chunks, *swept.chunks),
        swept.ways or (way,),
    )


async def _hear(asr: Asr, question: Samples, meter: Meter) -> None:
    """The first decode of a recogniser that is not measured: nobody waits for it."""
    stream = asr.open()
    try:
        window = Window(1, 0, question, len(question))
        load = Load(asr.name, len(question) / RATE_HZ)
        decode = partial(stream.decode, window, final=True, ctx=_CONTEXT)
        await meter.run(WorkKind.SECOND_PASS, load, asr.placement, decode)
    finally:
        stream.close()


async def _question(model: TurnModel | None, audio: Samples, meter: Meter) -> float:
    """What the turn model takes for one. Seconds."""
    if model is None:
        return 0.0
    load = Load(model.name, len(audio) / RATE_HZ)
    _, judge_s = await meter.run(WorkKind.JUDGE, load, model.placement, lambda: model.completeness(audio, _CONTEXT))
    return judge_s


async def speak(tts: Tts, text: str, on_thread: OnThread) -> Samples:
    """The whole text, at the voice's own rate."""
    meter = Meter(lambda: 0.0, on_thread)
    synthesis, pieces = tts.synthesize(text, _CONTEXT, first=False), []
    while True:
        load = load_of(tts.name, synthesis.next_size())
        step, _ = await meter.run(WorkKind.SPEAK, load, tts.placement, synthesis.step)
        pieces.append(step.samples)
        if step.last:
            return np.concatenate(pieces)


async def _turn(
    engines: Engines, stream: AsrStream, slot: LlmSlot, window: Window, meter: Meter
) -> tuple[float, Way, float]:
    """(service of the final decode, the way to the first clause, service of its first audio)"""
    asr, llm, tts = engines.asr, engines.llm, engines.tts
    load = load_of(asr.name, stream.next_size(window, final=True))
    heard, final_s = await meter.run(
        WorkKind.FINAL, load, asr.placement, lambda: stream.decode(window, final=True, ctx=_CONTEXT)
    )
    prompt = Prompt((_SYSTEM, ChatMessage("user", heard.text or QUESTION)), _MAX_TOKENS)
    way, clause = await way_to_clause(meter, llm, slot.generate(prompt, _CONTEXT))
    synthesis = tts.synthesize(clause or _ANYTHING, _CONTEXT, first=True)
    load = load_of(tts.name, synthesis.next_size())
    _, audio_s = await meter.run(WorkKind.SPEAK, load, tts.placement, synthesis.step)
    return final_s, way, audio_s
