"""Llm in process: llama.cpp through `cyllama`, one sequence of one context per session, and some for texts that
nobody waits to hear (see `texts`). No sequence can take another one's cache.

A chunk is one `step`: at most `prefill_tokens` of prompt, or `decode_tokens` decoded one after the other. An
unchanged conversation costs its newest words (see `slot`); another session's work never evicts it. A prompt that
exceeds the slot is cut (see `fit`), so that its turn is answered too.

Why cyllama and not xllamacpp: the same speed, but its calls are the steps themselves. xllamacpp gives a
server with a thread and an HTTP port of its own, through which alone tokens and templates can be reached, and
a prefill there cannot be stopped. Only calls that are equal in cyllama 0.2.18 (the newest for Python 3.11) and
0.7 (from 3.12 on) are used here; the native calls release the GIL.

llama.cpp's worker threads meet at barriers and spin there, briefly (`SPINS`): nothing else should compute on the
same cores during a chunk.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from voicepipe.engines.base import ChatMessage, Placement, TextRequest
from voicepipe.engines.chat_template import ChatTemplate
from voicepipe.engines.slot import UNFINISHED, Limits, Slot
from voicepipe.engines.steady import Steadier
from voicepipe.engines.texts import Row, Texts
from voicepipe.errors import ConfigError, EngineBusy, EngineError, ModelCorrupt, ModelMissing

SPINS = 300
"""How often OpenMP's threads look before they sleep at a barrier: some 10 us. By default they look for 9 ms: one
that waits for another which has lost its core then keeps it from getting one. Beside a process that is busy for
0.3 s of each second, steps of 12 tokens took 183 ms at 99 %, and take 92; alone 44 ms, and 44. And behind a chunk,
they took 9 ms of a core from the next engine."""

os.putenv("GOMP_SPINCOUNT", str(SPINS))  # the library reads it when it is loaded, and has no call for it
from cyllama.llama import llama_cpp as native  # noqa: E402

PARTS_KEPT = 1024
"""Pieces of prompts whose tokens are remembered: splitting a conversation anew for each reply took 5 ms per
thousand tokens."""
_TOP_K = 40
_TOP_P = 0.95
"""llama.cpp's own defaults, used where `temperature` is not 0."""


@dataclass(frozen=True, slots=True)
class _Sampling:
    temperature: float
    seed: int
    top_k: int = _TOP_K
    """0 cuts off nothing."""
    top_p: float = _TOP_P

    def sampler(self) -> Any:
        chain = native.LlamaSampler(native.LlamaSamplerChainParams())
        if self.temperature == 0.0:
            chain.add_greedy()
            return chain
        if self.top_k:
            chain.add_top_k(self.top_k)
        chain.add_top_p(self.top_p, 1)
        chain.add_temp(self.temperature)
        chain.add_dist(self.seed)
        return chain


class LlamaCpp:
    """Llm over any GGUF file with a chat template.

    Memory: the file (mapped), plus `(slots + text_slots) * context_tokens` of KV cache. `memory_tokens`: see
    `fit.Fitter`. `temperature` 0 is greedy; above it, `seed` makes replies repeatable. Raises ModelMissing,
    ModelCorrupt, ConfigError.

    The default sizes keep a chunk of SmolLM2-135M at about 50 ms on two cores (7 ms per decoded token, 3 to 5 ms
    per prompt token); splitting a prompt costs next to nothing, because its price is linear.
    """

    placement: Placement = "thread"

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        *,
        slots: int = 4,
        context_tokens: int = 2048,
        memory_tokens: int = 512,
        threads: int = 2,
        prefill_tokens: int = 12,
        decode_tokens: int = 2,
        temperature: float = 0.0,
        seed: int = 0,
        text_slots: int = 0,
    ) -> None:
        for field, value in (
            ("slots", slots),
            ("memory_tokens", memory_tokens),
            ("threads", threads),
            ("prefill_tokens", prefill_tokens),
            ("decode_tokens", decode_tokens),
        ):
            if value < 1:
                raise ConfigError(f"{field} must be at least 1", field=field)
        if context_tokens < 64:
            raise ConfigError("context_tokens must be at least 64", field="context_tokens")
        if not 0 <= text_slots <= prefill_tokens:
            raise ConfigError(f"text_slots must be 0 to {prefill_tokens}", field="text_slots")
        if temperature < 0.0:
            raise ConfigError("temperature must not be negative", field="temperature")
        path = Path(model_path)
        self.name = f"llamacpp:{path.stem}"
        self.keeps_prefix = True
        self.has_small = False
        self.slots = slots
        self._sampling = _Sampling(temperature, seed)
        limits = Limits(context_tokens, memory_tokens, prefill_tokens, decode_tokens)
        runtime = _Runtime(path, slots=slots + text_slots, threads=threads, limits=limits)
        self._runtime: _Runtime | None = runtime
        self._free = list(range(slots))
        sequences = range(slots, slots + text_slots)
        self.texts = Texts(runtime, self.name, sequences, _text_sampler) if text_slots else None
        """Slots beside those of the sessions."""

    def open(self, session: str) -> Slot:
        if self._runtime is None:
            raise EngineError(f"{self.name} is closed")
        if not self._free:
            raise EngineBusy(f"all {self.slots} slots of {self.name} are leased")
        return Slot(self._runtime, self._free.pop(0), self._sampling, self._free)

    async def aclose(self) -> None:
        """Forget the model. Its memory goes with the last slot and the last running chunk that uses it."""
        self._runtime = None
        self.texts = None


def _text_sampler(request: TextRequest) -> Any:
    """What OpenAI's parameters ask for, and nothing beside them."""
    return _Sampling(request.temperature, request.seed, top_k=0, top_p=request.top_p).sampler()


class _Runtime:
    """Model, context and vocabulary. `lock` is held for one chunk: a context is not thread-safe."""

    def __init__(self, path: Path, *, slots: int, threads: int, limits: Limits) -> None:
        if not path.is_file():
            raise ModelMissing(f"no GGUF file at {path}", field="model_path")
        native.disable_logging()
        native.ggml_backend_load_all()
        self.limits = limits
        self.lock = threading.Lock()
        try:
            self._model = native.LlamaModel(str(path), native.LlamaModelParams())
            self._context = native.LlamaContext(self._model, _context_params(slots, threads, limits))
        except (ValueError, RuntimeError, OSError) as error:
            raise ModelCorrupt(f"{path.name} cannot be loaded: {error}") from error
        self._steadier = Steadier(threads)
        self._batch = native.LlamaBatch(n_tokens=limits.prefill, embd=0, n_seq_max=1)
        self.vocab = self._model.get_vocab()
        control = (i for i in range(self.vocab.n_vocab) if self.vocab.is_control(i))
        self.template = ChatTemplate(
            self._model.get_default_chat_template() or "",
            bos=self._spelling(self.vocab.token_bos()),
            eos=self._spelling(self.vocab.token_eos()),
            control=map(self._spelling, control),
        )
        self._bos: int | None = self.vocab.token_bos() if self.vocab.get_add_bos() else None
        vocab = self.vocab  # not by way of `self`: a circle would keep the memory
        self._split_part = lru_cache(PARTS_KEPT)(lambda part: tuple(vocab.tokenize(part, False, True)))
        self.can_cut = self._cuts()

    def _spelling(self, token: int) -> str:
        return str(self.vocab.get_text(token)) if token >= 0 else ""

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        tokens = [token for part in self.template.parts(messages) for token in self._split_part(part)]
        if self._bos is not None and tokens[:1] != [self._bos]:  # templates may write it themselves
            tokens.insert(0, self._bos)
        return tokens

    def split(self, text: str) -> list[int]:
        return list(self.vocab.tokenize(text, False, False))

    def text(self, tokens: Sequence[int]) -> str:
        """Exact text of one token or more; control tokens have none.

        cyllama's `detokenize` strips white space and its `token_to_piece` breaks characters, so that the
        edges come from the one and what lies between from the other.
        """
        pieces = [str(self.vocab.token_to_piece(token, 0, False)) for token in tokens]
        if not any(UNFINISHED in piece for piece in pieces):
            return "".join(pieces)
        head, tail = pieces[0], pieces[-1]
        body = str(self.vocab.detokenize(list(tokens))).strip()
        return head[: len(head) - len(head.lstrip())] + body + tail[len(tail.rstrip()) :]

    def is_end(self, token: int) -> bool:
        return bool(self.vocab.is_eog(token))

    def keep(self, sequence: int, tokens: int) -> int:
        if self._context.memory_seq_rm(sequence, tokens, -1):
            return tokens
        self._context.memory_seq_rm(sequence, -1, -1)
        return 0

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int = 1) -> None:
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
        self.evaluate(0, 0, [0, 0])
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
