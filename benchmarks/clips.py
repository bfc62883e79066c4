"""Spoken questions with known ends: synthesised ones, and phrases cut out of a real reading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voicepipe.audio import Samples, first_audible, last_audible, read_wav, resample
from voicepipe.engines.base import Tts
from voicepipe.meter import OnThread
from voicepipe.warmup import speak

RATE_HZ = 16_000
MIN_PAUSE_S = 0.2
"""Gaps within speech from this length on are pauses at which a turn could wrongly be ended."""
PAUSE_DBFS = -50.0

QUESTIONS = (
    "What is the capital city of France, and how many people live there?",
    "What time does the sun rise in the summer?",
    "How long should I boil an egg?",
    "Can you tell me a short joke about cats?",
    "Who wrote the play about Romeo and Juliet?",
    "Why is the sky blue during the day?",
    "Please give me a simple recipe for pancakes.",
    "What is the largest animal in the ocean?",
    "How do I get a stain out of a white shirt?",
    "Tell me something interesting about the moon.",
)
READINGS = (
    # seconds into the reading of "A Tale of Two Cities", and what is said there
    (17.5, 20.55, "It was the spring of hope, it was the winter of despair."),
    (21.2, 24.4, "We had everything before us, we had nothing before us."),
)


@dataclass(frozen=True, slots=True)
class Labelled:
    name: str
    samples: Samples
    """16 kHz mono."""
    text: str | None
    speech_end: int
    """One past the last sample of speech."""
    pauses: tuple[tuple[int, int], ...]
    """[start, end) of the gaps of 200 ms and more inside the speech, ascending."""
    kind: str = "question"


def label(name: str, samples: Samples, text: str | None) -> Labelled:
    """Trim to the audible part: first to last 10 ms window above -50 dBFS."""
    first, last = first_audible(samples, RATE_HZ), last_audible(samples, RATE_HZ)
    if first is None or last is None:
        raise SystemExit(f"{name}: there is no speech in it")
    speech = samples[first:last]
    return Labelled(name, speech, text, len(speech), find_pauses(speech))


def find_pauses(samples: Samples) -> tuple[tuple[int, int], ...]:
    """[start, end) of every stretch of `MIN_PAUSE_S` and more without a 10 ms window above `PAUSE_DBFS`."""
    window = RATE_HZ // 100
    frames = samples[: len(samples) // window * window].reshape(-1, window)
    loud = np.sqrt((frames**2).mean(axis=1)) > 10 ** (PAUSE_DBFS / 20)
    edges = np.flatnonzero(np.diff(np.concatenate([[1], loud.astype(np.int8), [1]])))
    pairs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return tuple((start * window, end * window) for start, end in pairs if end - start >= MIN_PAUSE_S * 100)


async def default_clips(tts: Tts, speech_dir: Path | None, on_thread: OnThread) -> list[Labelled]:
    """The questions in the voice of `tts`, and the readings where real speech is at hand."""
    clips = []
    for number, text in enumerate(QUESTIONS, 1):
        spoken = resample(await speak(tts, text, on_thread), tts.sample_rate_hz, RATE_HZ)
        clips.append(label(f"q{number}", spoken, text))
    if speech_dir is not None:
        reading, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=120)
        for number, (start_s, end_s, text) in enumerate(READINGS, 1):
            piece = reading[int(start_s * rate_hz) : int(end_s * rate_hz)]
            clips.append(label(f"h{number}", resample(piece, rate_hz, RATE_HZ), text))
    return clips


def load_clips(folder: Path) -> list[Labelled]:
    """Every WAV of the folder; a .txt of the same name holds what is said."""
    clips = []
    for path in sorted(folder.glob("*.wav")):
        samples, rate_hz = read_wav(path, max_seconds=600)
        text = path.with_suffix(".txt")
        words = text.read_text() if text.exists() else None
        clips.append(label(path.stem, resample(samples, rate_hz, RATE_HZ), words))
    if not clips:
        raise SystemExit(f"{folder} holds no WAV file")
    return clips
