"""What chunks of every size take on this machine, measured before anybody is served: the cost model's first
samples.

Sizes are those of conversations: batches of frames, windows of 0.6 to 3 s, questions on a prefix that has been
read, clauses of one word and more. The first round takes what it takes, later ones stop once `SWEEP_S` is over. A
model behind a URL is asked nothing here: its requests may cost money, and the warm-up's own have told what one
takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from voicepipe.audio import Samples
from voicepipe.core.background import text_variant
from voicepipe.core.batches import BATCH
from voicepipe.core.clauses import ClauseSplitter
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Load, Way, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.engines.base import (
    Asr,
    ChatMessage,
    Context,
    Engines,
    Generation,
    Llm,
    Prompt,
    Text,
    TextPool,
    TextRequest,
    Tts,
    Vad,
    VadStream,
    Window,
)
from voicepipe.meter import Meter, OnThread, load_of

SWEEP_S = 2.5
ROUNDS = 3
BATCHES = (1, 2, 4, 8, 16)
"""Frames."""
WINDOWS_S = (0.6, 1.2, 2.0, 3.0)
SYSTEM = ChatMessage("system", "You are a voice assistant. Answer in one short sentence.")
QUESTIONS = ("What is the capital of France?", "How long should I boil an egg?", "Why is the sky blue?")
BEHIND_S = 0.1
"""So much more has been heard by a final that comes right behind a partial."""
LONG_QUESTION = "Why is the sky blue during the day and red in the evening? Explain it to a child, step by step."
"""Long enough to be read in chunks of several sizes, and to be answered at some length."""
READING, WRITING = (4, 8, 16, 2), (1, 2, 4)
"""Tokens of a chunk."""
LONG_TEXT = " ".join([LONG_QUESTION] * 10)
"""Some two hundred tokens: what a long context costs can only be told with one."""
CLAUSES = ("Sure.", "That is a good question.", "It takes about eight minutes in boiling water.")
MAX_TOKENS = 16
MAX_PIECES = 3
TOGETHER = 4
"""Replies in one chunk."""
_SESSION = "sweep"
_CONTEXT = Context(_SESSION, 1, 1, 0)


@dataclass(frozen=True, slots=True)
class Sweep:
    chunks: tuple[Measured, ...]
    ways: tuple[Way, ...]
    """Of replies to a question that follows what has been read already."""


async def sweep(
    engines: Engines,
    question: Samples,
    clock: Callable[[], float],
    on_thread: OnThread,
    on_ears: OnThread,
) -> Sweep:
    """`question`: speech at 16 kHz. `on_ears`: where the Vad's chunks run. Raises EngineError."""
    meter, ears = Meter(clock, on_thread), Meter(clock, on_ears)
    ways: list[Way] = []
    longest = round(max(WINDOWS_S) * RATE_HZ)
    speech = np.tile(question, -(-longest // len(question)))
    until = clock() + SWEEP_S
    for number in range(ROUNDS):
        parts = [
            partial(_listen, ears, engines.vad, speech),
            partial(_recognise, meter, engines.asr, speech, question),
            partial(_think, meter, engines.llm, ways),
            partial(_think_together, meter, engines.llm),
            partial(_speak, meter, engines.tts),
        ]
        if engines.texts is not None:
            parts += [partial(_write_texts, meter, engines.texts, first) for first in (LONG_QUESTION, LONG_TEXT)]
        for part in parts:
            if number == 0 or clock() < until:
                await part()
    return Sweep((*ears.chunks, *meter.chunks), tuple(ways))


async def _listen(meter: Meter, vad: Vad, speech: Samples) -> None:
    stream = vad.open()
    size = stream.frame_samples
    for batch in BATCHES:
        frames = list(speech[: batch * size].reshape(batch, size))
        call = _awaited_frames if vad.placement == "loop" else _frames
        await meter.run(WorkKind.HEAR, Load(vad.name, batch), vad.placement, partial(call, stream, frames))


def _frames(stream: VadStream, frames: Sequence[Samples]) -> list[Any]:
    return [stream.probability(frame) for frame in frames]


async def _awaited_frames(stream: VadStream, frames: Sequence[Samples]) -> list[Any]:
    values = [stream.probability(frame) for frame in frames]
    return [await value if inspect.isawaitable(value) else value for value in values]


async def _recognise(meter: Meter, asr: Asr, speech: Samples, question: Samples) -> None:
    """Each window as an utterance of its own; then finals that come right behind a partial: of a question that has
    been heard to its end, and of one that goes on otherwise, so that what was heard before does not hold."""
    stream, utterances = asr.open(), count(1)

    async def decode(kind: WorkKind, utterance: int, samples: Samples) -> None:
        window, final = Window(utterance, 0, samples, len(samples)), kind is WorkKind.FINAL
        load = load_of(asr.name, stream.next_size(window, final=final))
        await meter.run(kind, load, asr.placement, partial(stream.decode, window, final=final, ctx=_CONTEXT))

    try:
        for window_s in WINDOWS_S:
            for kind in (WorkKind.PARTIAL, WorkKind.FINAL):
                await decode(kind, next(utterances), speech[: round(window_s * RATE_HZ)])
        for goes_on in (question, np.roll(question, len(question) // 2)):
            utterance = next(utterances)
            await decode(WorkKind.PARTIAL, utterance, question)
            await decode(WorkKind.FINAL, utterance, np.pad(goes_on, (0, round(BEHIND_S * RATE_HZ))))
    finally:
        stream.close()


async def _think(meter: Meter, llm: Llm, ways: list[Way]) -> None:
    if not llm.keeps_prefix:
        return
    slot = llm.open(_SESSION)
    try:
        for number, question in enumerate(QUESTIONS):
            prompt = Prompt((SYSTEM, ChatMessage("user", question)), MAX_TOKENS)
            way = await way_to_clause(meter, llm, slot.generate(prompt, _CONTEXT))
            if number:  # the first one has read the instructions too
                ways.append(way[0])
    finally:
        slot.close()


async def _think_together(meter: Meter, llm: Llm) -> None:
    """Every number of replies that may be made at once, up to `TOGETHER`."""
    if llm.step_together is None or not llm.keeps_prefix:
        return
    slots = [llm.open(f"{_SESSION} {number}") for number in range(min(TOGETHER, llm.slots))]
    try:
        prompt = Prompt((SYSTEM, ChatMessage("user", LONG_QUESTION)), 4 * MAX_TOKENS)
        replies: list[Generation] = []
        for slot in slots:
            replies.append(reply := slot.generate(prompt, _CONTEXT))
            await _read_whole(meter, llm, reply)
            loads = [load_of(llm.name, each.next_size()) for each in replies]
            if 1 < len(replies) <= min(load.batch for load in loads):
                units, context = sum(load.units for load in loads), sum(load.context for load in loads)
                load = Load(llm.name, units, context, BATCH, len(replies))
                together = partial(llm.step_together, tuple(replies))
                steps, _ = await meter.run(WorkKind.THINK, load, llm.placement, together)
                if any(step.finish for step in steps):
                    meter.chunks.pop()  # it had less to do
                    return
    finally:
        for slot in slots:
            slot.close()


async def _read_whole(meter: Meter, llm: Llm, generation: Generation) -> None:
    """Its prompt, and a guess about how it begins."""
    while (size := generation.next_size()).variant == "prefill" or size.batch < 2:
        step, _ = await meter.run(WorkKind.THINK, load_of(llm.name, size), llm.placement, generation.step)
        if step.finish:
            return


async def way_to_clause(meter: Meter, llm: Llm, generation: Generation) -> tuple[Way, str]:
    """Run a generation up to its first clause; (what that took, the clause). "" where it has nothing to say."""
    splitter, way = ClauseSplitter(), Way()
    clauses: list[str] = []
    finished = False
    while not clauses and not finished:
        load = load_of(llm.name, generation.next_size())
        step, service_s = await meter.run(WorkKind.THINK, load, llm.placement, generation.step)
        if step.finish == "stop" and load.variant == "decode":
            meter.chunks.pop()  # it had less to do than it was to: as a sample, a long context would look cheap
        way, finished = way.after(service_s), step.finish is not None
        way = replace(way, has_token=way.has_token or finished or bool(step.text))
        clauses = splitter.feed(step.text)
    clauses += splitter.flush() if finished else []
    generation.cancel()
    return way, clauses[0] if clauses else ""


async def _write_texts(meter: Meter, pool: TextPool, first: str) -> None:
    """Every number of texts that may be written at once, each in several sizes; `first` is asked of the first."""
    texts: list[Text] = []
    try:
        for _ in range(pool.slots):
            told = LONG_QUESTION if texts else first
            request = TextRequest((SYSTEM, ChatMessage("user", told)), 4 * sum(WRITING) * pool.slots)
            text = pool.open(request)
            texts.append(text)
            while (size := text.next_size()).variant != "decode":
                chunk = max(READING) if told == LONG_TEXT else READING[len(texts) % len(READING)]
                units = chunk if size.variant == "prefill" else size.units
                load = Load(pool.name, min(units, size.units), size.context, size.variant)
                step = partial(pool.step, (text,), round(load.units))
                await meter.run(WorkKind.GENERATE, load, pool.placement, step)
            await _write_rows(meter, pool, texts)
    finally:
        for text in texts:
            text.close()


async def _write_rows(meter: Meter, pool: TextPool, texts: Sequence[Text]) -> None:
    for units in WRITING:
        context = sum(text.next_size().context for text in texts)
        load = Load(pool.name, units, units * context, text_variant(len(texts)))
        steps, _ = await meter.run(WorkKind.GENERATE, load, pool.placement, partial(pool.step, tuple(texts), units))
        if any(step.finish for step in steps):
            meter.chunks.pop()  # it had less to do
            return


async def _speak(meter: Meter, tts: Tts) -> None:
    for text in CLAUSES:
        synthesis, last, pieces = tts.synthesize(text, _CONTEXT, first=True), False, 0
        while not last and pieces < MAX_PIECES:
            load = load_of(tts.name, synthesis.next_size())
            step, _ = await meter.run(WorkKind.SPEAK, load, tts.placement, synthesis.step)
            last, pieces = step.last, pieces + 1
        synthesis.cancel()
