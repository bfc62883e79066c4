"""Streaming recognition over short windows against the ordinary 30 s decode: accuracy and cost.

Every clip is streamed in hops of 0.3 s of media time, one partial per hop and a final at its end, as fast as
the engine goes; then `WhisperModel.transcribe` hears the whole clip with its own defaults. Times are of this
process alone on this machine; compare them with one another only.

Clips: two recordings of read speech (44 and 10 s), each whole and cut into phrases at its pauses, and a few
questions spoken by the default voice. `--wavs DIR` replaces them by NAME.wav with NAME.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel
from numpy.typing import NDArray
from wer import Wer, corpus_wer

from voicepipe.audio import read_wav, resample
from voicepipe.engines.base import Context, Samples, Window
from voicepipe.engines.piper import PiperTts
from voicepipe.engines.whisper import WhisperAsr
from voicepipe.models.place import default_root
from voicepipe.models.store import ModelStore

RATE_HZ = 16_000
HOP_S = 0.3
PRE_ROLL_S = 0.3
LEAST_PAUSE_S = 0.3
FRAME_SAMPLES = 160
CONTEXT = Context(session="benchmark", turn=1, epoch=0, revision=0)

TWO_CITIES = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of
darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing
before us, we were all going direct to heaven, we were all going direct the other way. In short, the period
was so far like the present period, that some of its noisiest authorities insisted on its being received, for
good or for evil, in the superlative degree of comparison only.
"""
"""Charles Dickens, 1859."""
BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
QUESTIONS = [
    "What is the capital of France?",
    "Tell me a joke about cats.",
    "How far away is the moon from the earth?",
    "Can you set a timer for ten minutes?",
    "What's the weather like tomorrow morning in Berlin?",
    "Who wrote Pride and Prejudice?",
    "Please turn off the lights in the living room.",
    "Why is the sky blue during the day and red in the evening?",
    "I would like to book a table for four people on Friday night, somewhere near the station.",
    "How do I cook rice without it sticking to the pan?",
    "My phone number is five five five, one two three four.",
    "What time does the next train to London leave?",
]


@dataclass(frozen=True, slots=True)
class Clip:
    name: str
    samples: Samples
    reference: str


@dataclass(frozen=True, slots=True)
class Run:
    """One clip, streamed."""

    text: str
    final_s: float
    partial_s: list[float]
    rejected: list[str]


def load(path: Path) -> Samples:
    samples, rate_hz = read_wav(path, max_seconds=600)
    return resample(samples, rate_hz, RATE_HZ)


def voiced(samples: Samples) -> NDArray[np.bool_]:
    """Per 10 ms: louder than 33 dB below the loudest. Good enough for clean recordings."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    power = np.mean(frames**2, axis=1)
    return np.asarray(power > power.max(initial=0.0) * 10**-3.3)


def phrases(samples: Samples) -> list[Samples]:
    """Stretches between pauses, with a little of the pause on both sides."""
    loud = np.flatnonzero(voiced(samples))
    breaks = np.flatnonzero(np.diff(loud) > LEAST_PAUSE_S * 100)
    starts = loud[np.concatenate(([0], breaks + 1))]
    ends = loud[np.concatenate((breaks, [len(loud) - 1]))]
    margin = int(PRE_ROLL_S * RATE_HZ)
    return [
        samples[max(0, start * FRAME_SAMPLES - margin) : (end + 5) * FRAME_SAMPLES]
        for start, end in zip(starts, ends, strict=True)
        if end - start >= 50
    ]


def default_clips(store: ModelStore) -> Iterator[Clip]:
    recordings = store.ensure("speech-samples")
    for name, reference in (("two_cities", TWO_CITIES), ("beckett", BECKETT)):
        yield Clip(name, load(recordings / f"{name}.wav"), reference)
    voice = PiperTts(store.ensure("piper-en_US-joe-medium"))
    for number, question in enumerate(QUESTIONS):
        synthesis = voice.synthesize(question, CONTEXT, first=False)
        pieces = [np.zeros(int(PRE_ROLL_S * voice.sample_rate_hz), np.float32)]
        last = False
        while not last:
            step = synthesis.step()
            pieces.append(step.samples)
            last = step.last
        spoken = resample(np.concatenate(pieces), voice.sample_rate_hz, RATE_HZ)
        loud = np.flatnonzero(voiced(spoken))
        yield Clip(f"question_{number:02}", spoken[: (loud[-1] + 2) * FRAME_SAMPLES], question)


def own_clips(folder: Path) -> Iterator[Clip]:
    for path in sorted(folder.glob("*.wav")):
        yield Clip(path.stem, load(path), path.with_suffix(".txt").read_text("utf-8"))


def with_phrases(clips: list[Clip], model: WhisperModel) -> list[Clip]:
    """Long recordings also phrase by phrase. What is said in a phrase is what the 30 s decode hears in it."""
    short = [
        Clip(f"{clip.name}[{number}]", phrase, transcribe(model, phrase)[0])
        for clip in clips
        if len(clip.samples) > 8 * RATE_HZ
        for number, phrase in enumerate(phrases(clip.samples))
        if len(phrase) > RATE_HZ
    ]
    return [*clips, *short]


def transcribe(model: WhisperModel, samples: Samples) -> tuple[str, float]:
    """Text and seconds of the ordinary decode."""
    began = time.perf_counter()
    segments, _ = model.transcribe(samples, language="en")
    text = "".join(segment.text for segment in segments)
    return text, time.perf_counter() - began


def stream(asr: WhisperAsr, samples: Samples) -> Run:
    speech = np.cumsum(np.repeat(voiced(samples), FRAME_SAMPLES))
    recognition = asr.open()
    hop = int(HOP_S * RATE_HZ)
    partial_s: list[float] = []
    rejected: list[str] = []
    for now in [*range(hop, len(samples), hop), len(samples)]:
        start = min(recognition.window_start, now)
        heard = int(speech[min(now, len(speech)) - 1])
        window = Window(1, start, samples[start:now], heard)
        final = now == len(samples)
        began = time.perf_counter()
        transcript = recognition.decode(window, final=final, ctx=CONTEXT)
        took_s = time.perf_counter() - began
        if transcript.rejected:
            rejected.append(transcript.rejected)
        if final:
            return Run(transcript.text, took_s, partial_s, rejected)
        if transcript.encoded_s:
            partial_s.append(took_s)
    raise AssertionError("a clip without samples")


def row(name: str, length_s: float, run: Run, whole_s: float, streamed: Wer, whole: Wer) -> str:
    partial_ms = 1e3 * float(np.median(run.partial_s)) if run.partial_s else 0.0
    most_ms = 1e3 * max(run.partial_s, default=0.0)
    return (
        f"{name:18} {length_s:6.1f} {whole.words:5} {streamed.errors:6} {whole.errors:7} {partial_ms:8.0f} "
        f"{most_ms:8.0f} {1e3 * run.final_s:8.0f} {1e3 * whole_s:8.0f}  {','.join(run.rejected)}"
    )


TITLES = ("clip", "s", "words", "errors", "30s err", "partial", "max", "final", "30s ms")
HEAD = "{:18} {:>6} {:>5} {:>6} {:>7} {:>8} {:>8} {:>8} {:>8}  guards".format(*TITLES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a Whisper model: directory, size or hub id")
    parser.add_argument("--wavs", type=Path, help="directory of NAME.wav with NAME.txt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print what was heard where it differs")
    args = parser.parse_args()

    store = ModelStore(default_root(os.environ))
    model_path = args.model or store.ensure("whisper-tiny.en")
    asr = WhisperAsr(model_path, threads=args.threads, language="en")
    ordinary = WhisperModel(str(model_path), device="cpu", compute_type="int8", cpu_threads=args.threads)
    clips = list(own_clips(args.wavs) if args.wavs else default_clips(store))
    clips = clips if args.wavs else with_phrases(clips, ordinary)

    stream(asr, clips[0].samples[: 3 * RATE_HZ])  # the first calls pay for page faults
    print(HEAD)
    runs: list[Run] = []
    texts: list[tuple[str, str, str]] = []
    whole_s: list[float] = []
    for clip in clips:
        run = stream(asr, clip.samples)
        text, took_s = transcribe(ordinary, clip.samples)
        runs.append(run)
        whole_s.append(took_s)
        texts.append((clip.reference, run.text, text))
        streamed, whole = corpus_wer([(clip.reference, run.text)]), corpus_wer([(clip.reference, text)])
        print(row(clip.name, len(clip.samples) / RATE_HZ, run, took_s, streamed, whole), flush=True)
        if args.verbose and streamed.errors:
            print(f"    said     {clip.reference.strip()}\n    streamed {run.text}\n    30 s     {text.strip()}")
    print(json.dumps({"summary": summary(runs, texts, whole_s, asr)}))


def summary(
    runs: list[Run], texts: list[tuple[str, str, str]], whole_s: list[float], asr: WhisperAsr
) -> dict[str, object]:
    streamed = corpus_wer([(reference, text) for reference, text, _ in texts])
    whole = corpus_wer([(reference, text) for reference, _, text in texts])
    finals_ms = [1e3 * run.final_s for run in runs]
    partials_ms = [1e3 * took_s for run in runs for took_s in run.partial_s]
    return {
        "n": len(runs),
        "words": streamed.words,
        "wer": round(streamed.rate, 4),
        "wer_30s": round(whole.rate, 4),
        "final_ms": percentiles(finals_ms),
        "partial_ms": percentiles(partials_ms),
        "whole_ms": percentiles([1e3 * took_s for took_s in whole_s]),
        "guards": dict(asr.guards),
    }


def percentiles(values_ms: list[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.median(values_ms)), 1),
        "p95": round(float(np.percentile(values_ms, 95)), 1),
        "max": round(max(values_ms), 1),
    }


if __name__ == "__main__":
    main()
