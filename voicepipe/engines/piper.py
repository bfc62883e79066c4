"""Piper voices (VITS in ONNX Runtime): the first samples before the clause is finished.

A voice is run in two parts: the front end once per utterance, then the decoder over a few frames at
a time (voicepipe.engines.vits_graph says why that loses nothing). The first sound then costs the
front end and a quarter of a second of audio, not the whole clause. A voice that cannot be cut is run
whole; `whole_because` says why.

This is the one file that imports piper-tts (GPL-3.0-or-later), onnx and ONNX Runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray
from piper.config import PiperConfig
from piper.voice import PiperVoice

from voicepipe.engines import vits_graph
from voicepipe.engines.base import Context, Placement, Samples, StepSize, TtsStep
from voicepipe.engines.onnx_session import Session, cpu_session
from voicepipe.engines.silence import SilenceGate
from voicepipe.engines.spoken import speakable
from voicepipe.errors import ConfigError, ModelCorrupt, ModelMissing

SENTENCE_END = ".?!…。？！"
CLAUSE_END = ",;:—–"
PAUSE_S = {**dict.fromkeys(SENTENCE_END, 0.15), **dict.fromkeys(CLAUSE_END, 0.07)}
"""Silence after an utterance, by the punctuation that ends it."""
PAUSE_ELSE_S = 0.03
"""Silence after an utterance that ends without punctuation: it goes on in the next clause."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """How much is done in one step. One frame of a 22,050 Hz voice is 11.6 ms of audio.

    With two threads the decoder takes about 0.32 ms per frame, context included, and the front end
    10 ms and 0.55 ms per phoneme; with one thread 0.57 ms, and 10 ms and 0.9 ms per phoneme (voice joe,
    medium, on two x86-64 cores).
    """

    earliest_frames: int = 24
    """Frames in the first window of a reply's first clause."""
    first_frames: int = 40
    """Frames in the first window of any other clause."""
    frames: int = 100
    """Most frames in one window; windows double up to it."""
    phonemes: int = 90
    """Most phonemes in one utterance; a longer sentence is cut at its commas or words."""
    joint_phonemes: int = 45
    """Most phonemes for which the front end and the first window are one step."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What goes through the voice at once: a sentence, or a part of a long one."""

    ids: tuple[int, ...]
    phonemes: int
    pause_s: float


class PiperTts:
    """A voice from `model_path` (.onnx) and the .onnx.json beside it. Loading takes about 0.6 s.

    Raises ModelMissing, ModelCorrupt, and ConfigError for a speaker or a scale that it cannot have.
    """

    placement: Placement = "thread"

    def __init__(
        self,
        model_path: Path,
        *,
        threads: int = 2,
        length_scale: float | None = None,
        speaker: int | None = None,
        seed: int = 0,
        pacing: Pacing | None = None,
    ) -> None:
        """`length_scale` stretches time: 0.8 is fast, 1.2 is slow, None is the voice's own.

        `speaker` chooses one of a voice of many, None is its default. `seed` fixes the voice's
        randomness: the same text has the same samples.
        """
        config = _load_config(model_path)
        model = _load_model(model_path)
        vits_graph.fix_noise(model, seed)
        self.name = f"piper:{model_path.stem}"
        self.sample_rate_hz: int = config.sample_rate
        self.whole_because: str | None = None
        """Why the voice is run whole; None if its first audio comes early."""
        self._pacing = pacing or Pacing()
        self._constants = _constant_inputs(config, length_scale, speaker)
        self._graph: _CutGraph | _WholeGraph
        try:
            cut = vits_graph.cut(model)
        except vits_graph.CannotCut as error:
            self.whole_because = str(error)
            self._graph = _WholeGraph(cpu_session(model.SerializeToString(), threads))
        else:
            self._graph = _CutGraph(
                cpu_session(cut.front.SerializeToString(), threads),
                cpu_session(cut.decoder.SerializeToString(), threads),
                cut,
            )
        self._voice = PiperVoice(session=self._graph.front, config=config)

    def synthesize(self, text: str, ctx: Context, *, first: bool) -> PiperSynthesis:
        pacing = self._pacing
        steps = self._run(text, pacing.earliest_frames if first else pacing.first_frames)
        return PiperSynthesis(steps, StepSize("first", len(text)))

    def utterances(self, text: str) -> list[Utterance]:
        """What will be said, in order; [] if `text` holds nothing that can be spoken."""
        language = self._voice.config.espeak_voice
        sentences = self._voice.phonemize(speakable(text, language=language))
        return [
            self._utterance(part)
            for sentence in sentences
            for part in split_phonemes(sentence, self._pacing.phonemes)
            if self._is_spoken(part)
        ]

    def _is_spoken(self, phonemes: Sequence[str]) -> bool:
        known = self._voice.config.phoneme_id_map
        return any(p in known and p.isalnum() for p in phonemes)

    def _utterance(self, phonemes: list[str]) -> Utterance:
        end = "".join(phonemes).rstrip()[-1]
        ids = tuple(self._voice.phonemes_to_ids(phonemes))
        return Utterance(ids, len(phonemes), PAUSE_S.get(end, PAUSE_ELSE_S))

    def _run(self, text: str, first_frames: int) -> Iterator[tuple[TtsStep, StepSize]]:
        """The steps of a clause, each with the size of the next. The last window of an utterance carries the pause
        after it."""
        utterances = self.utterances(text)
        if not utterances:
            yield TtsStep(_NOTHING, last=True), StepSize("later", 0)
        for serial, utterance in enumerate(utterances, start=1):
            gate = SilenceGate(self.sample_rate_hz)
            # The next utterance's front end; phonemes stand for its characters.
            following = StepSize("first", utterances[serial].phonemes if serial < len(utterances) else 0)
            for window, samples_next in self._windows(utterance, first_frames):
                samples = gate.push(np.clip(window.samples, -1.0, 1.0))
                if window.last:
                    rest = gate.finish(round(utterance.pause_s * self.sample_rate_hz))
                    samples = np.concatenate((samples, rest))
                size = following if window.last else StepSize("later", samples_next)
                yield TtsStep(samples, last=window.last and serial == len(utterances)), size
            first_frames = self._pacing.first_frames

    def _windows(self, utterance: Utterance, first_frames: int) -> Iterator[tuple[TtsStep, int]]:
        """The utterance's audio as the voice gives it, each piece with the samples of the next."""
        feed = self._constants | {
            "input": np.array([utterance.ids], np.int64),
            "input_lengths": np.array([len(utterance.ids)], np.int64),
        }
        state = self._graph.read(feed)
        plan = plan_windows(self._graph.frames(state), first_frames, self._pacing.frames, self._graph.reach_frames)
        sizes = [(stop - start) * self._graph.hop_samples for start, stop in plan]
        if utterance.phonemes > self._pacing.joint_phonemes:
            yield TtsStep(_NOTHING, last=False), [*sizes, 0][0]
        for (start, stop), size_next in zip(plan, [*sizes, 0][1:], strict=True):
            piece = self._graph.decode(state, start, stop)
            yield TtsStep(piece, last=stop == self._graph.frames(state)), size_next


class PiperSynthesis:
    """One clause. `cancel` may be called by any thread; a running step still ends at its bound."""

    def __init__(self, steps: Iterator[tuple[TtsStep, StepSize]], first: StepSize) -> None:
        """`steps`: each with the size of the next; `first`: of the first one."""
        self._steps = steps
        self._next_size = first
        self._cancelled = False

    def next_size(self) -> StepSize:
        return self._next_size

    def step(self) -> TtsStep:
        """The next chunk of audio. After `cancel`, or after the last one, an empty last one."""
        if self._cancelled:
            return TtsStep(_NOTHING, last=True, cut=True)
        step, self._next_size = next(self._steps, (TtsStep(_NOTHING, last=True), self._next_size))
        return step

    def cancel(self) -> None:
        self._cancelled = True


_NOTHING: Samples = np.zeros(0, np.float32)
Feed = dict[str, NDArray[Any]]


class _CutGraph:
    """A voice in two sessions."""

    def __init__(
        self,
        front: Session,
        decoder: Session,
        cut: vits_graph.Cut,
    ) -> None:
        self.front = front
        self.reach_frames = cut.reach_frames
        self.hop_samples = cut.hop_samples
        self._decoder = decoder
        self._cut = cut

    def read(self, feed: Feed) -> Feed:
        """The latent, shape (1, channels, frames), and what else the decoder reads."""
        names = [self._cut.latent, *self._cut.conditions]
        return dict(zip(names, self.front.run(names, feed), strict=True))

    def frames(self, state: Feed) -> int:
        return int(state[self._cut.latent].shape[-1])

    def decode(self, state: Feed, start: int, stop: int) -> Samples:
        """The samples of frames [start, stop), as the whole would have them."""
        latent = state[self._cut.latent]
        left = max(0, start - self.reach_frames)
        window = latent[:, :, left : stop + self.reach_frames]
        (audio,) = self._decoder.run(None, state | {self._cut.latent: window})
        hop = self._cut.hop_samples
        return np.asarray(audio, np.float32).ravel()[(start - left) * hop : (stop - left) * hop]


class _WholeGraph:
    """A voice in one session: all of its audio is one frame, and `read` makes it."""

    reach_frames = 0
    hop_samples = 0

    def __init__(self, session: Session) -> None:
        self.front = session

    def read(self, feed: Feed) -> Feed:
        return {"audio": self.front.run(None, feed)[0]}

    def frames(self, state: Feed) -> int:
        return 1

    def decode(self, state: Feed, start: int, stop: int) -> Samples:
        return np.asarray(state["audio"], np.float32).ravel()


def plan_windows(frames: int, first: int, most: int, reach: int) -> list[tuple[int, int]]:
    """Frames [0, frames) in a row of windows that double from `first` up to `most`.

    A rest shorter than the context that a window costs anyway is joined to the window before it.
    """
    windows: list[tuple[int, int]] = []
    start, size = 0, min(first, most)
    while start < frames:
        stop = start + size if frames - start - size > reach else frames
        windows.append((start, stop))
        start, size = stop, min(2 * size, most)
    return windows


def split_phonemes(phonemes: Sequence[str], most: int) -> list[list[str]]:
    """Parts of at most `most` phonemes, cut after a comma in their second half, else at a space."""
    parts: list[list[str]] = []
    rest = list(phonemes)
    while len(rest) > most:
        head = rest[:most]
        spaces = [i for i, p in enumerate(head) if p == " " and i > 0]
        commas = [i for i in spaces if head[i - 1] in CLAUSE_END and i >= most // 2]
        end = (commas or spaces or [most - 1])[-1] + 1
        parts.append(rest[:end])
        rest = rest[end:]
    return [*parts, rest] if rest else parts


def _load_config(model_path: Path) -> PiperConfig:
    path = model_path.with_name(f"{model_path.name}.json")
    if not path.is_file():
        raise ModelMissing(f"the voice's description {path} is not there")
    try:
        return PiperConfig.from_dict(json.loads(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelCorrupt(f"{path} does not describe a Piper voice: {error!r}") from error


def _load_model(model_path: Path) -> vits_graph.Model:
    if not model_path.is_file():
        raise ModelMissing(f"the voice {model_path} is not there")
    try:
        model = onnx.load_model(str(model_path))
    except DecodeError as error:
        raise ModelCorrupt(f"{model_path} is not an ONNX model") from error
    if not model.graph.node or not model.graph.output:
        raise ModelCorrupt(f"{model_path} holds no graph")
    return model


def _constant_inputs(config: PiperConfig, length_scale: float | None, speaker: int | None) -> Feed:
    """The graph's inputs that are the same for every utterance."""
    stretch = config.length_scale if length_scale is None else length_scale
    if not 0.25 <= stretch <= 4.0:
        raise ConfigError("the length scale of a voice is from 0.25 to 4", field="length_scale")
    scales = [config.noise_scale, stretch, config.noise_w_scale]
    feed: Feed = {"scales": np.array(scales, np.float32)}
    who = config.default_speaker_id if speaker is None else speaker
    if not 0 <= who < max(1, config.num_speakers):
        raise ConfigError(
            f"the voice's speakers are numbered from 0 to {max(1, config.num_speakers) - 1}",
            field="speaker",
        )
    if config.num_speakers > 1:
        feed[vits_graph.SPEAKER_INPUT] = np.array([who], np.int64)
    return feed
