"""A Llama of a few thousand weights in a GGUF file, and what it should say: plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LAYERS, WIDTH, HEADS, KEY_VALUE_HEADS, INNER, VOCABULARY, CONTEXT = 2, 64, 4, 2, 96, 50, 32
HEAD_WIDTH = WIDTH // HEADS
ROPE_BASE, EPSILON = 1_000.0, 1e-5


def tensors(seed: int = 0, *, tied: bool = True) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns)) / np.sqrt(columns)

    made: dict[str, Array] = {
        "token_embd.weight": rng.standard_normal((VOCABULARY, WIDTH)),
        "output_norm.weight": 1 + 0.1 * rng.standard_normal(WIDTH),
    }
    if not tied:
        made["output.weight"] = matrix(VOCABULARY, WIDTH)
    aside = KEY_VALUE_HEADS * HEAD_WIDTH
    for layer in range(LAYERS):
        sizes = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (aside, WIDTH),
            "attn_v": (aside, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        made |= {f"blk.{layer}.{part}.weight": matrix(*size) for part, size in sizes.items()}
        for part in ("attn_norm", "ffn_norm"):
            made[f"blk.{layer}.{part}.weight"] = 1 + 0.1 * rng.standard_normal(WIDTH)
    return {name: values.astype(np.float32) for name, values in made.items()}


def write(
    path: Path, weights: dict[str, NDArray[np.float32]], *, kind: str = "llama", scaling: str | None = None
) -> Path:
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_VALUE_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_BASE)
    if scaling is not None:
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(weights: dict[str, NDArray[np.float32]], ids: Sequence[int]) -> Array:
    """Shape (tokens, vocabulary), of the whole sequence at once."""

    def norm(x: Array, name: str) -> Array:
        return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weights[name])

    def turned(x: Array) -> Array:
        """(heads, tokens, head width): neighbours are a pair."""
        rates = ROPE_BASE ** -(np.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
        angles = np.outer(np.arange(len(ids)), rates)
        one, other = x[..., ::2], x[..., 1::2]
        pairs = (one * np.cos(angles) - other * np.sin(angles), one * np.sin(angles) + other * np.cos(angles))
        return np.stack(pairs, axis=-1).reshape(x.shape)

    def heads(x: Array, count: int) -> Array:
        return np.repeat(x.reshape(len(ids), count, HEAD_WIDTH).swapaxes(0, 1), HEADS // count, axis=0)

    x = weights["token_embd.weight"][list(ids)].astype(np.float64)
    ahead = np.triu(np.full((len(ids), len(ids)), -np.inf), k=1)
    for layer in range(LAYERS):
        parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        w = {part: weights[f"blk.{layer}.{part}.weight"].T for part in parts}
        y = norm(x, f"blk.{layer}.attn_norm.weight")
        q, k, v = y @ w["attn_q"], y @ w["attn_k"], y @ w["attn_v"]
        q, k, v = turned(heads(q, HEADS)), turned(heads(k, KEY_VALUE_HEADS)), heads(v, KEY_VALUE_HEADS)
        scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(HEAD_WIDTH) + ahead)
        seen = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), WIDTH)
        x = x + seen @ w["attn_output"]
        y = norm(x, f"blk.{layer}.ffn_norm.weight")
        gate = y @ w["ffn_gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["ffn_up"])) @ w["ffn_down"]
    output = weights.get("output.weight", weights["token_embd.weight"])
    return np.asarray(norm(x, "output_norm.weight") @ output.T)
