"""Greedy decoding with Whisper: by CTranslate2 wherever it runs, or faster, on a CPU, by steps of our own.

Both decode the states of a short window as if the silence of 30 s followed it (see `whisper`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ctranslate2
import numpy as np
from numpy.typing import NDArray

from voicepipe.engines.ct2_model import Ct2Model
from voicepipe.engines.onnx_session import ERRORS, cpu_session
from voicepipe.engines.whisper_graph import Suppressed, cross_graph, decoder_weights, step_graph
from voicepipe.errors import EngineError

States = NDArray[np.float32]
"""Encoder output of a window, shape (1, positions, width), one position per 20 ms."""


@dataclass(frozen=True, slots=True)
class Decoded:
    ids: tuple[int, ...]
    """Without the end of text."""
    logprob: float
    """Mean log probability of the tokens, the end of text counted in."""
    no_speech: float
    """Probability in [0, 1] that nobody speaks."""
    steps: int
    """How many times the decoder was run."""


class Decoder(Protocol):
    def decode(self, states: States, prompt: Sequence[int], draft: Sequence[int], cap: int) -> Decoded:
        """Greedily, at most `cap` tokens. `draft` is what the text may begin with, and is likely to: the time
        depends on it. `prompt` begins with the start of transcript. Raises EngineError."""
        ...


def filled_up(states: States, silence: States) -> States:
    return np.concatenate((states, silence[:, states.shape[1] :]), axis=1)


class Ct2Decoder:
    """Knows no use for a draft."""

    def __init__(self, model: ctranslate2.models.Whisper, silence: States) -> None:
        self._model = model
        self._silence = silence

    def decode(self, states: States, prompt: Sequence[int], draft: Sequence[int], cap: int) -> Decoded:
        view = ctranslate2.StorageView.from_array(filled_up(states, self._silence))
        try:
            result = self._model.generate(
                view,
                [list(prompt)],
                beam_size=1,
                # CTranslate2 allows min(max_length // 2, max_length - prompt) new tokens.
                max_length=max(2 * cap, cap + len(prompt)),
                return_scores=True,
                return_no_speech_prob=True,
            )[0]
        except RuntimeError as error:
            raise EngineError(f"decoding failed: {error}") from error
        ids = result.sequences_ids[0]
        return Decoded(tuple(ids), result.scores[0], result.no_speech_prob, len(ids) + 1)


class DraftDecoder:
    """Checks a draft in one pass and goes on where it stops being what the model would say: speculative decoding
    with an earlier hypothesis (Leviathan et al., arXiv:2211.17192). What is said does not depend on the draft, as
    far as arithmetic is exact.

    Safe to call from several threads; they wait for each other. Raises CannotRead where the model is not one that
    we understand.
    """

    def __init__(
        self,
        model: Ct2Model,
        silence: States,
        *,
        suppressed: Suppressed,
        no_speech: int,
        end_of_text: int,
        threads: int,
    ) -> None:
        weights, self._shape = decoder_weights(model)
        self._cross = cpu_session(cross_graph(weights, self._shape).SerializeToString(), threads)
        step = step_graph(weights, self._shape, suppressed, no_speech)
        self._step = cpu_session(step.SerializeToString(), threads)
        self._end_of_text = end_of_text
        self._lock = threading.Lock()
        self._silence = self._project(silence)
        self._memory = [part.copy() for part in self._silence]
        """Keys and values of what is heard, layer by layer: of a window, and of silence behind it."""
        self._window = 0
        """So many positions of the memory are of a window."""

    def decode(self, states: States, prompt: Sequence[int], draft: Sequence[int], cap: int) -> Decoded:
        with self._lock:
            try:
                return self._decode(states, prompt, draft, min(cap, self._shape.positions - len(prompt)))
            except ERRORS as error:
                raise EngineError(f"decoding failed: {error}") from error

    def _decode(self, states: States, prompt: Sequence[int], draft: Sequence[int], cap: int) -> Decoded:
        self._remember(states)
        draft = list(draft[: cap - 1])
        run = self._run([*prompt, *draft], self._nothing(), begins=len(prompt) - 1)
        before, no_speech = len(prompt) - 1, run.no_speech
        kept = 0
        while kept < len(draft) and run.best[before + kept] == draft[kept]:
            kept += 1
        chances = [*run.chance[before : before + kept + 1]]
        ids, past = draft[:kept], run.seen(before + kept + 1)
        token, steps = int(run.best[before + kept]), 1
        while token != self._end_of_text and len(ids) + 1 < cap:
            ids.append(token)
            run = self._run([token], past)
            token, past = int(run.best[0]), run.seen()
            chances.append(run.chance[0])
            steps += 1
        if token != self._end_of_text:
            ids.append(token)
        return Decoded(tuple(ids), float(np.log(chances).mean()), no_speech, steps)

    def _remember(self, states: States) -> None:
        positions = states.shape[1]
        parts = self._project(states) if positions else ()
        old = slice(positions, self._window)  # of a longer window before
        for number, (memory, silence) in enumerate(zip(self._memory, self._silence, strict=True)):
            axis = 3 - number % 2  # keys, values, keys, values
            if parts:
                _run_of(memory, axis, slice(positions))[:] = parts[number]
            _run_of(memory, axis, old)[:] = _run_of(silence, axis, old)
        self._window = positions

    def _project(self, states: States) -> list[NDArray[np.float32]]:
        return list(self._cross.run(None, {"states": np.ascontiguousarray(states)}))

    def _nothing(self) -> list[NDArray[np.float32]]:
        nothing = np.zeros((1, self._shape.heads, 0, self._shape.head_width), np.float32)
        return [nothing] * (2 * self._shape.layers)

    def _run(self, ids: Sequence[int], past: Sequence[NDArray[np.float32]], begins: int = -1) -> _Run:
        before, count = past[0].shape[2], len(ids)
        first = np.zeros(count, np.int64)
        if begins >= 0:
            first[begins] = 1
        mask = np.triu(np.full((count, before + count), -np.inf, np.float32), k=before + 1)
        feeds: dict[str, Any] = {
            "ids": np.array([ids], np.int64),
            "positions": np.arange(before, before + count),
            "begins": first,
            "mask": mask,
        }
        for layer in range(self._shape.layers):
            feeds[f"past_keys_{layer}"], feeds[f"past_values_{layer}"] = past[2 * layer : 2 * layer + 2]
            feeds[f"keys_{layer}"], feeds[f"values_{layer}"] = self._memory[2 * layer : 2 * layer + 2]
        best, chance, no_speech, *seen = self._step.run(None, feeds)
        return _Run(best, chance, float(no_speech[0]), seen)


@dataclass(frozen=True, slots=True)
class _Run:
    """What one pass says of each of its tokens: what follows, and how likely."""

    best: NDArray[np.int64]
    chance: NDArray[np.float32]
    no_speech: float
    _seen: list[NDArray[np.float32]]

    def seen(self, tokens: int | None = None) -> list[NDArray[np.float32]]:
        """Keys and values of the first so many tokens; of all, unless told."""
        return [np.ascontiguousarray(part[:, :, :tokens]) for part in self._seen]


def _run_of(array: NDArray[np.float32], axis: int, which: slice) -> NDArray[np.float32]:
    """A view along the positions: the last axis of keys, the one before it of values."""
    return array[..., which] if axis == 3 else array[:, :, which]
