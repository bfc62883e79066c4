"""The labelled set of `dialogues.py`, spoken: by the default voice with the readings beside it, or by a tone.

The tone stands in where there are no models: 60 ms a character, silent for 150 ms behind each comma. It has
the same labels, and nothing in it can be understood.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from clips import Labelled
from dialogues import RATE_HZ, Half, LabelledTurn, dialogues

from voicepipe.audio import Samples, read_wav, resample, silence
from voicepipe.engines.base import Context, Tts
from voicepipe.models.store import ModelStore

RECORDINGS = ("two_cities", "beckett")
TONE_HZ = 220.0
TONE_LEVEL = 0.2
"""Of full scale: -17 dBFS."""
CHARACTER_S = 0.06
COMMA_S = 0.15
_CONTEXT = Context(session="benchmark", turn=1, epoch=1, revision=0)


@dataclass
class Voice:
    """The default voice at any stretch; each is loaded when it is first asked for."""

    folder: Path
    seed: int
    _loaded: dict[float, Tts] = field(default_factory=dict)

    def __call__(self, text: str, stretch: float) -> Samples:
        if stretch not in self._loaded:
            from voicepipe.engines.piper import PiperTts  # as in the engine table: the tone needs no extra

            self._loaded[stretch] = PiperTts(self.folder, length_scale=stretch, seed=self.seed)
        return whole(self._loaded[stretch], text)


def whole(tts: Tts, text: str) -> Samples:
    """All of the text, at `RATE_HZ`."""
    synthesis, pieces, last = tts.synthesize(text, _CONTEXT, first=False), [], False
    while not last:
        step = synthesis.step()
        assert not hasattr(step, "__await__"), "a voice of this process answers at once"
        pieces.append(step.samples)
        last = step.last
    return resample(np.concatenate(pieces), tts.sample_rate_hz, RATE_HZ)


def tone(text: str, stretch: float) -> Samples:
    parts = []
    for piece in text.split(","):
        n = round(CHARACTER_S * (len(piece) + 1) * stretch * RATE_HZ)
        parts.append((TONE_LEVEL * np.sin(np.arange(n) * 2 * np.pi * TONE_HZ / RATE_HZ)).astype(np.float32))
        parts.append(silence(round(COMMA_S * RATE_HZ)))
    return np.concatenate(parts)


def spoken_turns(store: ModelStore, *, half: Half | None, takes: int, seed: int) -> list[LabelledTurn]:
    """With the default voice and the readings; None is both halves. Fetches what is missing."""
    voice = Voice(store.ensure("piper-en_US-joe-medium"), seed)
    folder, recordings = store.ensure("speech-samples"), {}
    for name in RECORDINGS:
        samples, rate_hz = read_wav(folder / f"{name}.wav", max_seconds=120)
        recordings[name] = resample(samples, rate_hz, RATE_HZ)
    return _of(half, dialogues(voice, recordings, takes=takes, seed=seed))


def toned_turns(*, half: Half | None, takes: int, seed: int) -> list[LabelledTurn]:
    """With the tone, which needs no model."""
    return _of(half, dialogues(tone, {}, takes=takes, seed=seed))


def _of(half: Half | None, turns: Iterable[LabelledTurn]) -> list[LabelledTurn]:
    return [turn for turn in turns if half in (None, turn.half)]


def even_sample(turns: Sequence[LabelledTurn], count: int, seed: int) -> list[LabelledTurn]:
    """`count` of them, or all where there are not so many, in an order drawn with `seed`.

    Turns with and without pauses, every kind of place, and long pauses and short ones are as frequent in the
    sample as in the set: it takes every n-th of the turns in the order of these three.
    """
    ordered = sorted(turns, key=lambda turn: (bool(turn.pauses), turn.kind, _longest(turn), turn.name))
    taken = min(count, len(ordered))
    sample = [ordered[int((number + 0.5) * len(ordered) / taken)] for number in range(taken)]
    random.Random(seed).shuffle(sample)
    return sample


def _longest(turn: LabelledTurn) -> int:
    return max((end - start for start, end in turn.pauses), default=0)


def as_clip(turn: LabelledTurn, *, understood: bool = True) -> Labelled:
    """`understood`: what is heard can be compared with what was said."""
    text = turn.text if understood else None
    return Labelled(turn.name, turn.samples, text, turn.speech_end, turn.pauses, turn.kind)
