"""Steps of a model by llama.cpp itself, through `cyllama`: one sequence of one context each.

llama.cpp's worker threads meet at barriers and spin there, briefly (`SPINS`): nothing else should compute on the
same cores during a chunk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from voicepipe.engines.llama_steps import Chance
from voicepipe.engines.slot import Limits, Row
from voicepipe.engines.steady import Steadier
from voicepipe.errors import EngineError

SPINS = 300
"""How often OpenMP's threads look before they sleep at a barrier: some 10 us. By default they look for 9 ms: one
that waits for another which has lost its core then keeps it from getting one. Beside a process that is busy for
0.3 s of each second, steps of 12 tokens took 175 ms at 99 %, and take 90; alone 47 ms, and 51. And behind a chunk,
they took 9 ms of a core from the next engine."""

os.putenv("GOMP_SPINCOUNT", str(SPINS))  # the library reads it when it is loaded, and has no call for it
from cyllama.llama import llama_cpp as native  # noqa: E402

__all__ = ["NativeSteps", "native"]


class NativeSteps:
    def __init__(self, model: Any, slots: int, threads: int, limits: Limits) -> None:
        self._context = native.LlamaContext(model, _context_params(slots, threads, limits))
        self._steadier = Steadier(threads)
        self._batch = native.LlamaBatch(n_tokens=limits.prefill, embd=0, n_seq_max=1)
        self.can_cut = self._cuts()

    def sampler(self, chance: Chance) -> Any:
        chain = native.LlamaSampler(native.LlamaSamplerChainParams())
        if chance.temperature == 0.0:
            chain.add_greedy()
            return chain
        if chance.top_k:
            chain.add_top_k(chance.top_k)
        chain.add_top_p(chance.top_p, 1)
        chain.add_temp(chance.temperature)
        chain.add_dist(chance.seed)
        return chain

    def keep(self, sequence: int, tokens: int) -> int:
        if self._context.memory_seq_rm(sequence, tokens, -1):
            return tokens
        self._context.memory_seq_rm(sequence, -1, -1)
        return 0

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None:
        self._batch.reset()
        silent = len(tokens) - wanted
        for i, token in enumerate(tokens):
            self._batch.add(token, position + i, [sequence], i >= silent)
        self._compute(len(tokens))

    def evaluate_rows(self, rows: Sequence[Row]) -> None:
        self._batch.reset()
        for sequence, position, token in rows:
            self._batch.add(token, position, [sequence], True)
        self._compute(len(rows))

    def _compute(self, tokens: int) -> None:
        """The batch."""
        threads = self._steadier.threads
        self._context.set_n_threads(threads, threads)
        begun = time.perf_counter()
        try:
            self._context.decode(self._batch)
        except (ValueError, RuntimeError) as error:
            raise EngineError(f"llama.cpp could not evaluate {tokens} tokens: {error}") from error
        self._steadier.on_step(tokens, time.perf_counter() - begun)

    def sample(self, sampler: Any, index: int) -> int:
        return int(sampler.sample(self._context, index))

    def _cuts(self) -> bool:
        """Whether tokens can be taken back; the state of a recurrent model is all of them at once."""
        self.evaluate(0, 0, [0, 0], 1)
        kept = self.keep(0, 1)
        self._context.memory_seq_rm(0, -1, -1)
        return kept == 1


def _context_params(slots: int, threads: int, limits: Limits) -> Any:
    params = native.LlamaContextParams()
    params.n_ctx = slots * limits.context
    params.n_seq_max = slots
    params.kv_unified = False  # every slot has a cache of its own, so its length does not slow others
    params.n_batch = params.n_ubatch = limits.prefill
    params.n_threads = params.n_threads_batch = threads
    params.no_perf = True
    return params
