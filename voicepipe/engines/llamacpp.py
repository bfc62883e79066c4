"""Llm in process: llama.cpp through `cyllama`, one sequence of one context per session, and some for texts that
nobody waits to hear (see `texts`). No sequence can take another one's cache.

A chunk is one `step`: at most `prefill_tokens` of prompt, or `decode_tokens` decoded one after the other. An
unchanged conversation costs its newest words (see `slot`); another session's work never evicts it. A prompt that
exceeds the slot is cut (see `fit`), so that its turn is answered too.

Why cyllama and not xllamacpp: the same speed, but its calls are the steps themselves. xllamacpp gives a
server with a thread and an HTTP port of its own, through which alone tokens and templates can be reached, and
a prefill there cannot be stopped. Only calls that are equal in cyllama 0.2.18 (the newest for Python 3.11) and
0.7 (from 3.12 on) are used here; the native calls release the GIL.

On a CPU the steps themselves are our own where the model is a Llama (see `llama_steps`), and llama.cpp does the
rest: it splits texts into tokens and knows the template.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from voicepipe.engines.base import ChatMessage, LlmStep, Placement, StepTogether, TextRequest
from voicepipe.engines.chat_template import ChatTemplate
from voicepipe.engines.llama_graph import CannotStep
from voicepipe.engines.llama_steps import Chance, LlamaSteps
from voicepipe.engines.native_steps import NativeSteps, native
from voicepipe.engines.slot import UNFINISHED, Generation, Limits, Row, Slot, decode_together
from voicepipe.engines.texts import Texts
from voicepipe.errors import ConfigError, EngineBusy, EngineError, ModelCorrupt, ModelMissing

log = logging.getLogger(__name__)

PARTS_KEPT = 1024
"""Pieces of prompts whose tokens are remembered: splitting a conversation anew for each reply took 5 ms per
thousand tokens."""
_TOP_K = 40
_TOP_P = 0.95
"""llama.cpp's own defaults, used where `temperature` is not 0."""


class Steps(Protocol):
    """What computes: see `slot.Runtime`."""

    can_cut: bool

    def sampler(self, chance: Chance) -> Any: ...

    def keep(self, sequence: int, tokens: int) -> int: ...

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int) -> None: ...

    def evaluate_rows(self, rows: Sequence[Row]) -> None: ...

    def sample(self, sampler: Any, index: int) -> int: ...


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Makes a sampler for each reply."""

    steps: Steps
    chance: Chance

    def sampler(self) -> Any:
        return self.steps.sampler(self.chance)


class LlamaCpp:
    """Llm over any GGUF file with a chat template.

    Memory: the file (mapped), or its weights in 8 bits and a table in 16; plus, as far as they are used,
    `(slots + text_slots) * context_tokens` of KV cache. `memory_tokens`: see
    `fit.Fitter`. `temperature` 0 is greedy; above it, `seed` makes replies repeatable where they are
    computed in the same steps. Raises ModelMissing, ModelCorrupt, ConfigError.

    The default sizes keep a chunk of SmolLM2-135M below 50 ms on two cores (6 ms per decoded token, 1.5 ms per
    prompt token); splitting a prompt costs next to nothing, because its price is linear.
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
        prefill_tokens: int = 24,
        decode_tokens: int = 3,
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
        self.calls_tools = False
        self.slots = slots
        together = min(slots, prefill_tokens)
        limits = Limits(context_tokens, memory_tokens, prefill_tokens, decode_tokens, together)
        runtime = _Runtime(path, slots=slots + text_slots, threads=threads, limits=limits)
        self._runtime: _Runtime | None = runtime
        self.step_together: StepTogether | None = self._step_together if together > 1 else None
        self._sampling = _Sampling(runtime.steps, Chance(temperature, seed, _TOP_K, _TOP_P))
        self._free = list(range(slots))
        sequences = range(slots, slots + text_slots)
        self.texts = Texts(runtime, self.name, sequences, _text_sampler(runtime.steps)) if text_slots else None
        """Slots beside those of the sessions."""

    def open(self, session: str) -> Slot:
        if self._runtime is None:
            raise EngineError(f"{self.name} is closed")
        if not self._free:
            raise EngineBusy(f"all {self.slots} slots of {self.name} are leased")
        return Slot(self._runtime, self._free.pop(0), self._sampling, self._free)

    def _step_together(self, generations: Sequence[Generation]) -> tuple[LlmStep, ...]:
        runtime = self._runtime
        if runtime is None:
            raise EngineError(f"{self.name} is closed")
        with runtime.lock:
            return decode_together(runtime, generations)

    async def aclose(self) -> None:
        """Forget the model. Its memory goes with the last slot and the last running chunk that uses it."""
        self._runtime = None
        self.texts = None


def _text_sampler(steps: Steps) -> Callable[[TextRequest], Any]:
    """What OpenAI's parameters ask for, and nothing beside them."""
    return lambda request: steps.sampler(Chance(request.temperature, request.seed, top_k=0, top_p=request.top_p))


class _Runtime:
    """Vocabulary, and what computes. `lock` is held for one chunk: neither is thread-safe."""

    def __init__(self, path: Path, *, slots: int, threads: int, limits: Limits) -> None:
        if not path.is_file():
            raise ModelMissing(f"no GGUF file at {path}", field="model_path")
        native.disable_logging()
        native.ggml_backend_load_all()
        self.limits = limits
        self.lock = threading.Lock()
        own = _own_steps(path, slots, threads, limits)
        try:
            # Whole: cyllama aborts on a vocabulary alone. Weights that nobody asks for stay in the file.
            self._model = native.LlamaModel(str(path), native.LlamaModelParams())
            self.steps: Steps = own or NativeSteps(self._model, slots, threads, limits)
        except (ValueError, RuntimeError, OSError) as error:
            raise ModelCorrupt(f"{path.name} cannot be loaded: {error}") from error
        self.can_cut = self.steps.can_cut
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
        return self.steps.keep(sequence, tokens)

    def evaluate(self, sequence: int, position: int, tokens: Sequence[int], wanted: int = 1) -> None:
        self.steps.evaluate(sequence, position, tokens, wanted)

    def evaluate_rows(self, rows: Sequence[Row]) -> None:
        self.steps.evaluate_rows(rows)

    def sample(self, sampler: Any, index: int) -> int:
        return self.steps.sample(sampler, index)


def _own_steps(path: Path, slots: int, threads: int, limits: Limits) -> Steps | None:
    """None where llama.cpp does better: on a GPU, or with a model that we do not understand."""
    if native.llama_supports_gpu_offload():
        return None
    try:
        return LlamaSteps(path, sequences=slots, context_tokens=limits.context, threads=threads)
    except CannotStep as error:
        log.info("llama.cpp computes %s: %s", path.name, error)
        return None
