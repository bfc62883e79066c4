"""Steps of a Llama on ONNX Runtime: what llama.cpp's context is to `llamacpp`, and faster on a CPU.

A sequence has arrays of its own for what is remembered, and a step writes into them; memory that was never written
costs nothing. To forget the end of a sequence is to write over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voicepipe.engines.llama_graph import read_llama, step_graph
from voicepipe.engines.onnx_session import ERRORS, cpu_session, in_place
from voicepipe.engines.slot import Row
from voicepipe.errors import EngineError

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Chance:
    """How to choose among the likely tokens; the same names and order as llama.cpp's samplers."""

    temperature: float
    seed: int
    top_k: int
    """0 cuts off nothing."""
    top_p: float


class Sampler:
    """Of one reply. Temperature 0 takes the likeliest."""

    def __init__(self, chance: Chance) -> None:
        self.greedy = chance.temperature == 0.0
        self._chance = chance
        self._random = np.random.default_rng(chance.seed)

    def pick(self, logits: Logits) -> int:
        """Of one row of logits."""
        kept = self._kept(logits)
        values = logits if kept is None else logits[kept]
        up_to = np.cumsum(_softmax(values.astype(np.float64) / self._chance.temperature))
        # What rounding has left of 1 belongs to the last one.
        index = min(int(np.searchsorted(up_to, self._random.random(), side="right")), len(values) - 1)
        return index if kept is None else int(kept[index])

    def _kept(self, logits: Logits) -> NDArray[np.intp] | None:
        """The tokens to draw from, the likeliest first: `top_k`, and of those the fewest that make up `top_p`.
        None: all. To sort a whole vocabulary takes half as long as to compute a token: only what may be kept is."""
        chance = self._chance
        best = _likeliest(logits, chance.top_k) if 0 < chance.top_k < len(logits) else None
        if chance.top_p >= 1.0:
            return best
        values = logits if best is None else logits[best]
        total, count = _log_sum(values), min(LIKELY, len(values))
        while True:
            first = _likeliest(values, count)
            up_to = np.cumsum(np.exp(values[first].astype(np.float64) - total))
            enough = int(np.searchsorted(up_to, chance.top_p)) + 1
            if enough <= count or count == len(values):
                return first[:enough] if best is None else best[first[:enough]]
            count = min(len(values), 16 * count)


LIKELY = 256
"""Tokens that mostly make up `top_p`."""


class LlamaSteps:
    """Evaluates tokens of any sequence; outputs are those of the last call. Raises CannotStep where the model is
    not one that we understand."""

    can_cut = True

    def __init__(self, path: Path, *, sequences: int, context_tokens: int, threads: int) -> None:
        weights, shape = read_llama(path)
        self._session = cpu_session(step_graph(weights, shape, context_tokens).SerializeToString(), threads)
        self._context_tokens = context_tokens
        size = (shape.key_value_heads, context_tokens, shape.head_width)
        names = [f"{what}_{layer}" for layer in range(shape.layers) for what in ("keys", "values")]
        # Zeros that are not written to are not in memory.
        self._memory = {name: np.zeros((sequences, *size), np.float32) for name in names}
        self._bindings: dict[tuple[int, int], Any] = {}
        """Of sequences that stand in a row: the first, and the one behind the last."""
        self._lengths = [0] * sequences
        self._best: list[int] = []
        self._logits: list[Logits] = []
        self._first = 0
        """The evaluated token that the first output is of."""

    def sampler(self, chance: Chance) -> Sampler:
        return Sampler(chance)

    def keep(self, sequence: int, tokens: int) -> int:
        self._lengths[sequence] = tokens
        return tokens

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None:
        """Compute `tokens` at `position` of the sequence, with outputs of the last `wanted`. Raises EngineError."""
        last = [position + len(tokens) - 1]
        best, logits = self._run(self._bound(sequence, sequence + 1), [tokens], last, wanted)
        self._best, self._logits, self._first = list(best[0]), list(logits[0]), len(tokens) - wanted
        self._lengths[sequence] = position + len(tokens)

    def evaluate_rows(self, rows: Sequence[Row]) -> None:
        """One token of each sequence, and of those between them. Raises EngineError."""
        sequences = [sequence for sequence, _, _ in rows]
        first, end = min(sequences), max(sequences) + 1
        # One that is not asked for gets a token too, where its next one will be written over it: no prompt is so
        # long that a reply could go on behind the last position.
        tokens = [0] * (end - first)
        last = [min(at, self._context_tokens - 1) for at in self._lengths[first:end]]
        for sequence, position, token in rows:
            tokens[sequence - first], last[sequence - first] = token, position
        best, logits = self._run(self._bound(first, end), [[token] for token in tokens], last, 1)
        asked = [sequence - first for sequence in sequences]
        self._best, self._logits, self._first = (
            [int(best[row][0]) for row in asked],
            [logits[row][0] for row in asked],
            0,
        )
        for sequence, position, _ in rows:
            self._lengths[sequence] = position + 1

    def sample(self, sampler: Sampler, index: int) -> int:
        row = index - self._first
        return int(self._best[row]) if sampler.greedy else sampler.pick(self._logits[row])

    def _bound(self, first: int, end: int) -> Any:
        binding = self._bindings.get((first, end))
        if binding is None:
            binding = self._bindings[first, end] = self._session.io_binding()
            for name, values in self._memory.items():
                here = in_place(values[first:end])
                binding.bind_ortvalue_input(name, here)
                binding.bind_ortvalue_output(f"seen_{name}", here)
        return binding

    def _run(
        self, binding: Any, tokens: Sequence[Sequence[int]], last: Sequence[int], wanted: int
    ) -> tuple[Any, Any]:
        count = len(tokens[0])
        binding.bind_cpu_input("ids", np.array(tokens, np.int64))
        binding.bind_cpu_input("last", np.array(last, np.int32))
        binding.bind_cpu_input("total", np.array(max(last) + 1, np.int32))
        binding.bind_cpu_input("wanted", np.arange(count - wanted, count))
        for name in ("best", "logits"):
            binding.bind_output(name)
        try:
            self._session.run_with_iobinding(binding)
        except ERRORS as error:
            raise EngineError(f"{count} tokens could not be evaluated: {error}") from error
        *_, best, logits = binding.get_outputs()  # in the order in which they were bound
        return best.numpy(), logits.numpy()


def _likeliest(logits: Logits, count: int) -> NDArray[np.intp]:
    """So many, the likeliest first."""
    found = np.argpartition(-logits, count - 1)[:count] if count < len(logits) else np.arange(len(logits))
    return found[np.argsort(-logits[found], kind="stable")]


def _log_sum(logits: Logits) -> float:
    """log of the sum of exp."""
    most = float(logits.max())
    return most + float(np.log(np.exp(logits.astype(np.float64) - most).sum()))


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.exp(values - values.max())
    return np.asarray(shares / shares.sum())
