"""Does the cost model's bound hold on real engines? Prediction before each chunk, observation after it.

Regime: the default engines on one thread of one idle machine, one chunk at a time, no server and no sessions. A
calibration of `--calibration` chunks per key seeds the model as a server's warm-up does; then every chunk is
predicted, run, compared and learnt from, until each key of a kind has had `--chunks` of them. Listening is cut
into batches of 1 to 16 frames, recognition into windows of 0.6 to 3 s (partials in hops of 0.3 s, finals of any
length), replies start from an empty slot. How many tokens a chunk reads and how many samples a piece has is
planned by the engine; here a rehearsal tells.

"coverage": share of chunks within their bound; wanted are 99 %. "later": the same of the chunks whose tail was
known (1,000 of the key had been seen), and how many they were. "bound": bound / actual at the median, the price
of the coverage. "error": |mean / actual - 1| at the median.

    python benchmarks/cost_coverage.py [--chunks 1000] [--kinds hear partial final think speak]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from clips import QUESTIONS, RATE_HZ, Labelled, default_clips

from voicepipe.config import EnginesConfig
from voicepipe.core.cost import MISS_RATE, CostKey, CostModel, Sample, Size
from voicepipe.core.events import WorkKind
from voicepipe.engines.base import (
    Asr,
    ChatMessage,
    Context,
    Engines,
    Llm,
    LlmStep,
    Prompt,
    Samples,
    Tts,
    TtsStep,
    Vad,
    VadStream,
    Window,
)
from voicepipe.engines.table import find_models, load
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore

CONTEXT = Context("benchmark", 1, 1, 0)
DEVICE = "cpu"
KINDS = (WorkKind.HEAR, WorkKind.PARTIAL, WorkKind.FINAL, WorkKind.THINK, WorkKind.SPEAK)
"""A WARM is a THINK's prefill."""
SYSTEM = "You are a helpful voice assistant. Answer in one short sentence of plain spoken English."
MAX_TOKENS = 13
HOP_S = 0.3
KNOWN_AFTER = 1000
WINDOW_S = (0.6, 3.0)
"""Shortest and longest; a partial of less than half a second of speech is not decoded at all."""
BATCH_FRAMES = 16
CLAUSES = (
    *("Sure.", "Sure, I can help with that.", "Paris is the capital of France.", "That is a good question."),
    *("Let me think.", "The moon is about four hundred thousand kilometres away,", "Yes, of course.", "I see."),
    *("It rises at about five in the morning.", "Eight minutes for a hard one,", "William Shakespeare wrote it."),
    *("because air scatters blue light more than red.", "Try cold water and a little soap.", "Well,"),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    key: CostKey
    size: Size
    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Observation:
    mean_s: float
    bound_s: float
    actual_s: float
    known: bool
    """The key's tail had been seen often enough."""

    @property
    def kept(self) -> bool:
        return self.actual_s <= self.bound_s


def key(kind: WorkKind, model: str, variant: str = "") -> CostKey:
    return CostKey(kind, model, DEVICE, variant)


def listening(vad: Vad, clips: Sequence[Labelled], rng: random.Random) -> Iterator[Chunk]:
    """For ever."""
    while True:
        stream, samples, at = vad.open(), rng.choice(clips).samples, 0
        while at < len(samples):
            stop = at + stream.frame_samples * rng.randint(1, BATCH_FRAMES)
            starts = range(at, min(stop, len(samples) - stream.frame_samples + 1), stream.frame_samples)
            frames = [samples[start : start + stream.frame_samples] for start in starts]
            if frames:
                yield Chunk(key(WorkKind.HEAR, vad.name), Size(len(frames)), partial(hear, stream, frames))
            at = stop


def hear(stream: VadStream, frames: Sequence[Samples]) -> None:
    for frame in frames:
        stream.probability(frame)


def partials(asr: Asr, clips: Sequence[Labelled], rng: random.Random) -> Iterator[Chunk]:
    """Clip after clip, as somebody would say them."""
    while True:
        stream, samples = asr.open(), rng.choice(clips).samples[: int(WINDOW_S[1] * RATE_HZ)]
        for end in range(int(WINDOW_S[0] * RATE_HZ), len(samples), int(HOP_S * RATE_HZ)):
            window = Window(1, stream.window_start, samples[stream.window_start : end], end)
            yield recognition(asr, stream.decode, window, final=False)
        stream.close()


def finals(asr: Asr, clips: Sequence[Labelled], rng: random.Random) -> Iterator[Chunk]:
    """Each of an utterance of its own."""
    while True:
        stream, samples = asr.open(), rng.choice(clips).samples
        samples = samples[: int(rng.uniform(*WINDOW_S) * RATE_HZ)]
        yield recognition(asr, stream.decode, Window(1, 0, samples, len(samples)), final=True)
        stream.close()


def recognition(asr: Asr, decode: Callable[..., object], window: Window, *, final: bool) -> Chunk:
    kind = WorkKind.FINAL if final else WorkKind.PARTIAL
    size = Size(len(window.samples) / RATE_HZ)
    return Chunk(key(kind, asr.name), size, partial(decode, window, final=final, ctx=CONTEXT))


def thinking(llm: Llm, questions: Sequence[str], rng: random.Random) -> Iterator[Chunk]:
    prompts = [Prompt((ChatMessage("system", SYSTEM), ChatMessage("user", q)), MAX_TOKENS) for q in questions]
    plans = [rehearse_reply(llm, prompt) for prompt in prompts]
    while True:
        number, context = rng.randrange(len(prompts)), 0
        slot = llm.open("benchmark")
        generation = slot.generate(prompts[number], CONTEXT)
        for variant, tokens in plans[number]:
            yield Chunk(key(WorkKind.THINK, llm.name, variant), Size(tokens, context), generation.step)
            context += tokens
        slot.close()


def rehearse_reply(llm: Llm, prompt: Prompt) -> list[tuple[str, int]]:
    """(variant, tokens to compute) of each step. A decode that meets the reply's end early could not know."""
    slot = llm.open("benchmark")
    generation, plan, most = slot.generate(prompt, CONTEXT), [], 1
    while True:
        step = generation.step()
        assert isinstance(step, LlmStep)
        most = max(most, step.tokens)
        plan.append(("prefill", step.prefilled) if step.prefilled else ("decode", most))
        if step.finish is not None:
            slot.close()
            return plan


def speaking(tts: Tts, texts: Sequence[str], rng: random.Random) -> Iterator[Chunk]:
    plans = {text: rehearse_clause(tts, text) for text in texts}
    while True:
        text = rng.choice(texts)
        synthesis = tts.synthesize(text, CONTEXT, first=True)
        yield Chunk(key(WorkKind.SPEAK, tts.name, "first"), Size(len(text)), synthesis.step)
        for samples in plans[text][1:]:
            yield Chunk(key(WorkKind.SPEAK, tts.name, "later"), Size(samples), synthesis.step)


def rehearse_clause(tts: Tts, text: str) -> list[int]:
    """Samples of each piece."""
    synthesis, plan = tts.synthesize(text, CONTEXT, first=True), []
    while True:
        step = synthesis.step()
        assert isinstance(step, TtsStep)
        plan.append(len(step.samples))
        if step.last:
            return plan


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def observe(model: CostModel, chunk: Chunk) -> Observation:
    mean_s, bound_s = model.mean_s(chunk.key, chunk.size), model.bound_s(chunk.key, chunk.size)
    assert mean_s is not None and bound_s is not None, f"{chunk.key} was not calibrated"
    known = model.snapshot().keys[chunk.key].n >= KNOWN_AFTER
    actual_s = timed(chunk.call)
    model.on_chunk(chunk.key, chunk.size, actual_s)
    return Observation(mean_s, bound_s, actual_s, known)


def enough(chunks: Iterator[Chunk], keys: int, least: int) -> Iterator[Chunk]:
    """Until each of `keys` keys has had `least`."""
    seen: dict[CostKey, int] = {}
    while len(seen) < keys or min(seen.values()) < least:
        chunk = next(chunks)
        seen[chunk.key] = seen.get(chunk.key, 0) + 1
        yield chunk


def measure(
    chunks: Iterator[Chunk], keys: int, args: argparse.Namespace, model: CostModel
) -> dict[CostKey, list[Observation]]:
    """Calibrate, then observe; the first chunks pay for page faults and count nowhere."""
    for chunk in islice(chunks, 5 * keys):
        chunk.call()
    model.seed([Sample(c.key, c.size, timed(c.call)) for c in enough(chunks, keys, args.calibration)])
    observed: dict[CostKey, list[Observation]] = {}
    for chunk in enough(chunks, keys, args.chunks):
        observed.setdefault(chunk.key, []).append(observe(model, chunk))
    return observed


def coverage(observations: Sequence[Observation]) -> float | None:
    return round(statistics.mean(o.kept for o in observations), 4) if observations else None


def row(cost: CostKey, observations: Sequence[Observation], model: CostModel) -> dict[str, object]:
    later = [o for o in observations if o.known]
    return {
        "stage": str(cost.kind.stage),
        "kind": "/".join(part for part in (str(cost.kind), cost.variant) if part),
        "model": cost.model,
        "n": len(observations),
        "actual_ms": round(1e3 * statistics.median(o.actual_s for o in observations), 2),
        "longest_ms": round(1e3 * max(o.actual_s for o in observations), 2),
        "coverage": coverage(observations),
        "later": coverage(later),
        "later_n": len(later),
        "bound": round(statistics.median(o.bound_s / o.actual_s for o in observations), 2),
        "error": round(statistics.median(abs(o.mean_s / o.actual_s - 1) for o in observations), 3),
        "widened": model.snapshot().keys[cost].widened,
    }


def source(kind: WorkKind, engines: Engines, clips: Sequence[Labelled]) -> tuple[Iterator[Chunk], int]:
    """(endless chunks, how many keys they have)"""
    rng = random.Random(0)
    match kind:
        case WorkKind.HEAR:
            return listening(engines.vad, clips, rng), 1
        case WorkKind.PARTIAL:
            return partials(engines.asr, clips, rng), 1
        case WorkKind.FINAL:
            return finals(engines.asr, clips, rng), 1
        case WorkKind.THINK:
            return thinking(engines.llm, QUESTIONS, rng), 2
        case WorkKind.SPEAK:
            return speaking(engines.tts, CLAUSES, rng), 2
    raise AssertionError(f"{kind} is not measured")


async def spoken(tts: Tts, store: ModelStore) -> list[Labelled]:
    async def here(call):  # type: ignore[no-untyped-def]
        return call()

    return await default_clips(tts, store.ensure("speech-samples"), here)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1000, help="observed chunks per key, at least")
    parser.add_argument("--calibration", type=int, default=60, help="chunks per key before that")
    parser.add_argument("--kinds", nargs="+", type=WorkKind, choices=KINDS, default=KINDS)
    args = parser.parse_args()
    config = EnginesConfig()
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    # One thread loads, warms and runs: a native engine keeps a team of workers for each thread that calls it.
    engines = load(config, find_models(config, store.resolve), sessions=1, api_key=None)
    clips = asyncio.run(spoken(engines.tts, store))
    model, rows, began = CostModel(), [], time.perf_counter()
    for kind in args.kinds:
        for cost, observations in measure(*source(kind, engines, clips), args, model).items():
            rows.append(row(cost, observations, model))
            if len(rows) == 1:
                print("".join(f"{name:>16}" for name in rows[0]))
            print("".join(f"{value!s:>16.15}" for value in rows[-1].values()), flush=True)
    print(
        json.dumps(
            {"summary": {"wanted": 1 - MISS_RATE, "keys": rows, "took_s": round(time.perf_counter() - began)}}
        )
    )


if __name__ == "__main__":
    main()
