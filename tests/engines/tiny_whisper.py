"""A Whisper decoder of a few thousand weights in the layout of CTranslate2, and what it should say: plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voicepipe.engines.ct2_model import Ct2Model

Array = NDArray[Any]
LAYERS, HEADS, WIDTH, VOCABULARY, POSITIONS = 2, 2, 128, 60, 40
HEARD = 30
"""Encoder positions of a whole window with the silence behind it."""
START, NO_TIMESTAMPS, END, NO_SPEECH = 50, 51, 52, 53


def tiny_decoder(seed: int = 0) -> Ct2Model:
    rng = np.random.default_rng(seed)

    def linear(name: str, rows: int, columns: int) -> dict[str, Array]:
        weight = rng.standard_normal((rows, columns)) / math.sqrt(columns)
        return {
            f"{name}/weight": weight.astype(np.float16),
            f"{name}/bias": rng.standard_normal(rows).astype(np.float16),
        }

    def norm(name: str) -> dict[str, Array]:
        gamma, beta = 1 + 0.1 * rng.standard_normal(WIDTH), 0.1 * rng.standard_normal(WIDTH)
        return {f"{name}/gamma": gamma.astype(np.float16), f"{name}/beta": beta.astype(np.float16)}

    variables: dict[str, Array] = {
        "activation": np.array(3, np.int8),
        "num_heads": np.array(HEADS, np.int16),
        "embeddings/weight": rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float16),
        "position_encodings/encodings": rng.standard_normal((POSITIONS, WIDTH)).astype(np.float16),
        **norm("layer_norm"),
    }
    for layer in range(LAYERS):
        name = f"layer_{layer}"
        for part, sizes in (("self_attention", (3, 1)), ("attention", (1, 2, 1))):
            variables |= norm(f"{name}/{part}/layer_norm")
            for number, times in enumerate(sizes):
                variables |= linear(f"{name}/{part}/linear_{number}", times * WIDTH, WIDTH)
        variables |= norm(f"{name}/ffn/layer_norm")
        variables |= linear(f"{name}/ffn/linear_0", 4 * WIDTH, WIDTH) | linear(
            f"{name}/ffn/linear_1", WIDTH, 4 * WIDTH
        )
    return Ct2Model("WhisperSpec", 3, {f"decoder/{name}": value for name, value in variables.items()})


def logits(model: Ct2Model, ids: Sequence[int], states: Array) -> Array:
    """Shape (tokens, vocabulary), of the whole sequence at once."""
    w = {name.removeprefix("decoder/"): np.asarray(value, np.float64) for name, value in model.variables.items()}

    def linear(name: str, x: Array) -> Array:
        return np.asarray(x @ w[f"{name}/weight"].T + w[f"{name}/bias"])

    def norm(name: str, x: Array) -> Array:
        spread = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return np.asarray((x - x.mean(-1, keepdims=True)) / spread * w[f"{name}/gamma"] + w[f"{name}/beta"])

    def attend(queries: Array, keys: Array, values: Array, mask: Array | float) -> Array:
        q, k, v = (part.reshape(len(part), HEADS, -1).swapaxes(0, 1) for part in (queries, keys, values))
        scores = np.exp(q @ k.swapaxes(1, 2) / math.sqrt(WIDTH // HEADS) + mask)
        return np.asarray((scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(queries), WIDTH))

    x = w["embeddings/weight"][list(ids)] + w["position_encodings/encodings"][: len(ids)]
    ahead = np.triu(np.full((len(ids), len(ids)), -np.inf), k=1)
    for layer in range(LAYERS):
        name = f"layer_{layer}"
        own = np.split(
            linear(f"{name}/self_attention/linear_0", norm(f"{name}/self_attention/layer_norm", x)), 3, axis=1
        )
        x = x + linear(f"{name}/self_attention/linear_1", attend(*own, ahead))
        asked = linear(f"{name}/attention/linear_0", norm(f"{name}/attention/layer_norm", x))
        keys, values = np.split(linear(f"{name}/attention/linear_1", states[0]), 2, axis=1)
        x = x + linear(f"{name}/attention/linear_2", attend(asked, keys, values, 0.0))
        inner = linear(f"{name}/ffn/linear_0", norm(f"{name}/ffn/layer_norm", x))
        gelu = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = x + linear(f"{name}/ffn/linear_1", gelu)
    return np.asarray(norm("layer_norm", x) @ w["embeddings/weight"].T)


def states(positions: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((1, positions, WIDTH)).astype(np.float32)
