"""How long a Piper voice takes to its first sound, and what the cut in its graph gains.

Regime: one voice, one clause at a time, nothing else running; each figure is the median of `--runs`
runs after one that is not counted, in milliseconds unless its name says otherwise. `first_audio` is the
time until the first samples are there (phonemes, front end, first window); `whole` is the same voice
run uncut, which is what its first sound costs without the cut. `--transcribe` also gives the word error
rate of the sentences as a recogniser hears them.

Prints a table, and as its last line {"summary": {...}}.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel

from voicepipe.engines.base import Context, Samples, TtsStep
from voicepipe.engines.piper import Pacing, PiperTts
from voicepipe.engines.spoken import speakable
from voicepipe.models.place import default_root
from voicepipe.models.store import ModelStore

TEXTS = (
    "Sure.",
    "Sure, I can help with that.",
    "The weather in Paris will be mild and sunny for most of tomorrow.",
)
HEARD = (
    *TEXTS,
    "Hello there! What would you like to know?",
    "The meeting is at 3:45 p.m. on Monday, and it takes about 30 minutes.",
    "It costs $5.50, which is 10% less than last year.",
    "I do not think so, but we could ask Dr. Smith tomorrow morning.",
    "Water boils at 100°C, and light travels at 300,000 km/s.",
)
CONTEXT = Context("benchmark", turn=1, epoch=1, revision=1)
WHOLE = Pacing(earliest_frames=1_000_000, first_frames=1_000_000, frames=1_000_000, joint_phonemes=1_000_000)


@dataclass(frozen=True, slots=True)
class Row:
    text: str
    threads: int
    phonemes_ms: float
    first_audio_ms: float
    whole_ms: float
    longest_step_ms: float
    steps: int
    audio_s: float
    real_time_factor: float


def median_ms(work: Callable[[], object], runs: int) -> float:
    work()
    return statistics.median(elapsed_ms(work) for _ in range(runs))


def elapsed_ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def speak(tts: PiperTts, text: str) -> tuple[list[float], list[TtsStep]]:
    """Milliseconds of each step, and the steps."""
    synthesis = tts.synthesize(text, CONTEXT, first=True)
    times: list[float] = []
    steps: list[TtsStep] = []
    while not steps or not steps[-1].last:
        start = time.perf_counter()
        steps.append(synthesis.step())
        times.append((time.perf_counter() - start) * 1e3)
    return times, steps


def first_audio_ms(times: Sequence[float], steps: Sequence[TtsStep]) -> float:
    heard = next(i for i, step in enumerate(steps) if len(step.samples))
    return sum(times[: heard + 1])


def measure(cut: PiperTts, whole: PiperTts, text: str, threads: int, runs: int) -> Row:
    """The two voices take turns, so that whatever else the machine does hits both."""
    speak(cut, text), speak(whole, text)
    pairs = [(speak(cut, text), speak(whole, text)) for _ in range(runs)]
    steps = pairs[0][0][1]
    audio_s = sum(len(step.samples) for step in steps) / cut.sample_rate_hz
    per_step = [statistics.median(ts) for ts in zip(*(times for (times, _), _ in pairs), strict=True)]
    return Row(
        text=text,
        threads=threads,
        phonemes_ms=median_ms(lambda: cut.utterances(text), runs),
        first_audio_ms=statistics.median(first_audio_ms(*made) for made, _ in pairs),
        whole_ms=statistics.median(sum(times) for _, (times, _) in pairs),
        longest_step_ms=max(per_step),
        steps=len(steps),
        audio_s=audio_s,
        real_time_factor=sum(per_step) / 1e3 / audio_s,
    )


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """(words wrong, words said): edit distance over lower-case words and single figures.

    Both are first put as they are said, so that "100°C" equals "100 degrees Celsius".
    """
    a, b = (re.findall(r"[a-z']+|\d", speakable(text).lower()) for text in (said, heard))
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, start=1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other)),
            )
    return row[-1], len(a)


def transcribe(tts: PiperTts, recogniser: str) -> float:
    """Word error rate of HEARD."""
    model = WhisperModel(recogniser, device="cpu", compute_type="int8", cpu_threads=2)
    wrong = words = 0
    for text in HEARD:
        samples = np.concatenate([step.samples for step in speak(tts, text)[1]])
        segments, _ = model.transcribe(at_16_khz(samples, tts.sample_rate_hz), language="en")
        heard = " ".join(segment.text.strip() for segment in segments)
        errors, length = word_errors(text, heard)
        wrong, words = wrong + errors, words + length
        print(f"  {errors}/{length}  {text}  ->  {heard}")
    return wrong / words


def at_16_khz(samples: Samples, rate_hz: int) -> Samples:
    """Linear interpolation: good enough for a recogniser that hears up to 8 kHz."""
    n = len(samples) * 16_000 // rate_hz
    places = np.arange(n) * (rate_hz / 16_000)
    resampled: Samples = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return resampled


def print_table(rows: Sequence[Row]) -> None:
    print(f"{'threads':>7} {'words':>5} {'phonemes':>9} {'first audio':>12} {'whole':>7} "
          f"{'longest step':>13} {'steps':>6} {'audio s':>8} {'RTF':>6}")  # fmt: skip
    for r in rows:
        print(f"{r.threads:7} {len(r.text.split()):5} {r.phonemes_ms:9.2f} {r.first_audio_ms:12.1f} "
              f"{r.whole_ms:7.1f} {r.longest_step_ms:13.1f} {r.steps:6} {r.audio_s:8.2f} "
              f"{r.real_time_factor:6.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--voice", type=Path, help="the .onnx of a Piper voice (default: joe)")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--transcribe", metavar="MODEL", help="a faster-whisper model: size or path")
    args = parser.parse_args()
    path = args.voice or ModelStore(default_root(os.environ)).ensure("piper-en_US-joe-medium")
    rows = []
    load_ms = 0.0
    for threads in args.threads:
        start = time.perf_counter()
        cut = PiperTts(path, threads=threads)
        load_ms = (time.perf_counter() - start) * 1e3
        whole = PiperTts(path, threads=threads, pacing=WHOLE)
        rows += [measure(cut, whole, text, threads, args.runs) for text in TEXTS]
    print(f"{cut.name}, cut: {cut.whole_because or 'yes'}, loaded in {load_ms:.0f} ms")
    print_table(rows)
    wer = transcribe(cut, args.transcribe) if args.transcribe else None
    summary = {
        "voice": cut.name,
        "whole_because": cut.whole_because,
        "load_ms": round(load_ms, 1),
        "n": args.runs,
        "rows": [{k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(row).items()} for row in rows],
        "wer": wer,
    }
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
