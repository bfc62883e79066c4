"""A device that serves a language model, as data: what a step costs, and how much context it remembers.

    step = W + H n (context / context0) + P tokens

with n sequences that each get one token, and so many tokens of prompts beside them. W is reading the weights, H
reading a sequence's context, P computing a prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

BLOCK_TOKENS = 16
"""Context is remembered in blocks of so many tokens."""


@dataclass(frozen=True, slots=True)
class Gpu:
    step_s: float
    """W."""
    sequence_s: float
    """H, for a sequence with `context_tokens`; others in proportion."""
    prompt_token_s: float
    """P."""
    kv_mb_per_token: float
    kv_gb: float
    """Memory for context, beside the weights."""
    slots: int
    """Sequences at once."""
    chunk_tokens: int
    """Tokens of one step at most, one for each sequence that is being continued and the rest for prompts."""
    context_tokens: int = 8192
    """context0."""
    link_gb_s: float = 25.0
    """To the memory of the host, each way."""

    @property
    def kv_tokens(self) -> int:
        """Context that fits, in tokens."""
        return int(self.kv_gb * 1000 / self.kv_mb_per_token)

    @property
    def kv_blocks(self) -> int:
        return self.kv_tokens // BLOCK_TOKENS

    @property
    def context_token_s(self) -> float:
        """What one token of a sequence's context costs in each of its steps."""
        return self.sequence_s / self.context_tokens

    def kv_gb_of(self, tokens: float) -> float:
        return tokens * self.kv_mb_per_token / 1000

    def prefill_s(self, tokens: float) -> float:
        """A prompt's own part of the steps that compute it."""
        return tokens * self.prompt_token_s

    def copy_s(self, gb: float) -> float:
        """To the host or back."""
        return gb / self.link_gb_s

    def steps_s(self, steps: int, sequences: int, context_tokens: int) -> float:
        """So many steps without prompts; `context_tokens` is the sum over the sequences before the first of them,
        and each step makes each context one token longer."""
        growing = sequences * steps * (steps - 1) / 2
        return steps * self.step_s + self.context_token_s * (steps * context_tokens + growing)

    def alone_s(self, prompt_tokens: int, output_tokens: int) -> float:
        """A request with the device to itself: its prompt in chunks, the last of which gives the first token, and a
        step for each further one."""
        chunks = max(1, ceil(prompt_tokens / self.chunk_tokens))
        prefill = chunks * self.step_s + self.prefill_s(prompt_tokens)
        return prefill + self.steps_s(output_tokens - 1, 1, prompt_tokens)


A100 = Gpu(
    step_s=0.008,
    sequence_s=0.00065,
    prompt_token_s=1 / 8000,
    kv_mb_per_token=0.33,
    kv_gb=60.0,
    slots=64,
    chunk_tokens=512,
)
"""W and H as the fleet simulator of vLLM's semantic router has them for an A100; context of a model with 80 layers,
8 KV heads of 128 and 16 bits: 80 x 8 x 128 x 2 x 2 bytes = 0.33 MB a token."""

SMALL = Gpu(
    step_s=0.004,
    sequence_s=0.00025,
    prompt_token_s=1 / 8000,
    kv_mb_per_token=0.131,
    kv_gb=56.0,
    slots=128,
    chunk_tokens=512,
)
"""A smaller model on an 80 GB device: 32 layers, 8 KV heads of 128, 16 bits. Its costs are assumed, and round."""

GPUS = {"a100": A100, "small": SMALL}
