"""Ten minutes of speech without an end: are the recogniser's step time and memory flat?

A real reading is repeated without a pause to the given length and decoded in the hops that a session would ask
for, faster than real time, as one utterance. Printed per minute: step time, length of the window, resident
memory. The slopes are least-squares fits after the first minute.

    python benchmarks/monologue.py [--minutes 10] [--hop-ms 480]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from voicepipe.audio import read_wav, resample
from voicepipe.engines.base import Context, Window
from voicepipe.engines.whisper import WhisperAsr
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore

RATE_HZ = 16_000


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope_per_minute(minutes: list[float], values: list[float]) -> float:
    kept = [(m, v) for m, v in zip(minutes, values, strict=True) if m >= 1]
    return float(np.polyfit(*zip(*kept, strict=True), 1)[0]) if len(kept) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--hop-ms", type=int, default=480)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    reading, rate_hz = read_wav(store.ensure("speech-samples") / "two_cities.wav", max_seconds=120)
    piece = resample(reading, rate_hz, RATE_HZ)
    speech = np.resize(piece, int(args.minutes * 60 * RATE_HZ))
    stream = WhisperAsr(store.ensure("whisper-tiny.en"), threads=args.threads).open()
    hop, ctx = args.hop_ms * RATE_HZ // 1000, Context("monologue", 1, 1, 0)

    times_ms: list[float] = []
    at_min: list[float] = []
    memory: list[float] = []
    windows_s: list[float] = []
    print(f"{'minute':>6}{'steps':>7}{'median':>9}{'p95':>7}{'max':>7} ms  {'window':>7} s {'memory':>8} MB")
    words, minute, first = 0, 0, 0
    for end in range(hop, len(speech), hop):
        start = stream.window_start
        begun = time.perf_counter()
        heard = stream.decode(Window(1, start, speech[start:end], end), final=False, ctx=ctx)
        times_ms.append(1000 * (time.perf_counter() - begun))
        at_min.append(end / RATE_HZ / 60)
        memory.append(resident_mb())
        windows_s.append((end - start) / RATE_HZ)
        words = len(heard.text.split())
        if at_min[-1] >= minute + 1 or end + hop >= len(speech):
            chunk = sorted(times_ms[first:])
            print(
                f"{minute + 1:>6}{len(chunk):>7}{statistics.median(chunk):>9.0f}"
                f"{chunk[int(0.95 * (len(chunk) - 1))]:>7.0f}{chunk[-1]:>7.0f}"
                f"     {max(windows_s[first:]):>7.1f}   {memory[-1]:>8.0f}"
            )
            minute, first = minute + 1, len(times_ms)
    result = {
        "steps": len(times_ms),
        "step_ms": {"p50": round(statistics.median(times_ms), 1), "max": round(max(times_ms), 1)},
        "step_slope_ms_per_minute": round(slope_per_minute(at_min, times_ms), 3),
        "memory_slope_mb_per_minute": round(slope_per_minute(at_min, memory), 3),
        "longest_window_s": round(max(windows_s), 2),
        "words": words,
        "words_expected": round(len(speech) / len(piece) * 119),
    }
    print(json.dumps({"summary": result}))


if __name__ == "__main__":
    main()
