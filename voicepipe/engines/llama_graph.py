"""A Llama in a GGUF file as an ONNX graph that takes any number of tokens at once.

llama.cpp's wheels multiply a batch of a dozen tokens by a 4-bit matrix hardly faster than one token after the
other. ONNX Runtime's 8-bit product does so three to five times as fast (`benchmarks/llm_chunks.py`).

Weights are turned into 8 bits with a scale for every 32, the blocks of the file's own quantisations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from voicepipe.engines.graph_writer import FLOATS, RUNTIME, WHOLES, WHOLES32, GraphWriter, tensor

BLOCK = 32
MAX_PARAMETERS = 600_000_000
"""A larger model takes too long to turn into a graph at each start, and ONNX's own limit of 2 GB is not far."""


class CannotStep(ValueError):
    """Not a model that we understand; llama.cpp may."""


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    width: int
    heads: int
    key_value_heads: int
    head_width: int
    vocabulary: int
    epsilon: float
    """Of the root mean squares."""
    rope_base: float


Weights = Mapping[str, NDArray[np.float32]]


def read_llama(path: Path) -> tuple[Weights, Shape]:
    """Raises CannotStep."""
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise CannotStep(f"it cannot be read: {error}") from error
    fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    if (kind := fields.get("general.architecture")) != "llama":
        raise CannotStep(f"it is a {kind}, not a llama")
    if (scaling := fields.get("llama.rope.scaling.type", "none")) != "none":
        raise CannotStep(f"its positions are scaled ({scaling})")
    if (parameters := sum(int(np.prod(one.shape)) for one in reader.tensors)) > MAX_PARAMETERS:
        raise CannotStep(f"it has {parameters / 1e6:.0f} million parameters, more than {MAX_PARAMETERS / 1e6:.0f}")
    shape = _shape(fields, {one.name: tuple(map(int, one.shape)) for one in reader.tensors})
    return _Values(reader.tensors), shape


def _shape(fields: Mapping[str, Any], sizes: Mapping[str, tuple[int, ...]]) -> Shape:
    """`sizes`: as GGUF has them, columns first."""
    try:
        layers, width = int(fields["llama.block_count"]), int(fields["llama.embedding_length"])
        heads = int(fields["llama.attention.head_count"])
        shape = Shape(
            layers=layers,
            width=width,
            heads=heads,
            key_value_heads=int(fields.get("llama.attention.head_count_kv", heads)),
            head_width=int(fields.get("llama.attention.key_length", width // heads)),
            vocabulary=sizes["token_embd.weight"][1],
            epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
            rope_base=float(fields.get("llama.rope.freq_base", 10_000.0)),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise CannotStep(f"its description lacks {error}") from error
    if int(fields.get("llama.rope.dimension_count", shape.head_width)) != shape.head_width:
        raise CannotStep("only a part of its heads is turned by the position")
    known = {"token_embd.weight", "output.weight", "output_norm.weight"}
    parts = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    needed = {f"blk.{layer}.{part}.weight" for layer in range(layers) for part in parts}
    if extra := sizes.keys() - known - needed:
        raise CannotStep(f"it has {min(extra)}")
    if missing := (needed | known - {"output.weight"}) - sizes.keys():
        raise CannotStep(f"it lacks {min(missing)}")
    if any(size[0] % BLOCK for size in sizes.values()):
        raise CannotStep(f"the widths of its matrices are no multiples of {BLOCK}")
    return shape


class _Values(Mapping[str, NDArray[np.float32]]):
    """Computed each time, because all of them at once are eight times the file."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = {one.name: one for one in tensors}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        one = self._tensors[name]
        try:
            return np.asarray(gguf.quants.dequantize(one.data, one.tensor_type), np.float32)
        except NotImplementedError as error:
            raise CannotStep(f"{name} is {one.tensor_type.name}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def step_graph(weights: Weights, shape: Shape, context_tokens: int) -> ModelProto:
    """Some tokens of each of b sequences behind what is remembered; more than one only if b is 1.

    In: `ids` (b, n); `last` (b), the position of the last of them; `total` (), one more than the highest; `wanted`
    (m), which of the n to tell about; per layer `keys_L` and `values_L` (b, key-value heads, `context_tokens`, head
    width), what is remembered.

    Out: `logits` (b, m, vocabulary), `best` (b, m), the likeliest token behind each; per layer `seen_keys_L` and
    `seen_values_L`, which are meant to be the same memory as what came in.
    """
    graph = GraphWriter()
    turns = _turns(shape, context_tokens)
    cosines, sines = graph.constant(np.cos(turns)), graph.constant(np.sin(turns))
    inputs = [tensor("ids", WHOLES, None, None), tensor("last", WHOLES32, None), tensor("total", WHOLES32)]
    inputs += [tensor("wanted", WHOLES, None)]
    outputs = [tensor("logits", FLOATS, None, None, shape.vocabulary), tensor("best", WHOLES, None, None)]
    # Half precision: the table would be as large as all other weights together.
    table = graph.constant(weights["token_embd.weight"].astype(np.float16))
    x = graph.add("Cast", graph.add("Gather", table, "ids"), to=FLOATS)
    kept = (None, shape.key_value_heads, context_tokens, shape.head_width)
    for layer in range(shape.layers):
        x = _layer(graph, weights, shape, layer, x, (cosines, sines))
        inputs += [tensor(f"{what}_{layer}", FLOATS, *kept) for what in ("keys", "values")]
        outputs += [tensor(f"seen_{what}_{layer}", FLOATS, *kept) for what in ("keys", "values")]
    x = _norm(graph, graph.add("Gather", x, "wanted", axis=1), weights["output_norm.weight"], shape)
    last = graph.product(x, weights["output.weight" if "output.weight" in weights else "token_embd.weight"], BLOCK)
    graph.add("Identity", last, output="logits")
    graph.add("ArgMax", last, axis=-1, keepdims=0, output="best")
    return graph.model(inputs, outputs)


def _layer(graph: GraphWriter, weights: Weights, shape: Shape, layer: int, x: str, turns: tuple[str, str]) -> str:
    def weight(part: str) -> NDArray[np.float32]:
        return weights[f"blk.{layer}.{part}.weight"]

    y = _norm(graph, x, weight("attn_norm"), shape)
    own = graph.product(y, np.concatenate([weight("attn_q"), weight("attn_k"), weight("attn_v")]), BLOCK)
    aside = shape.key_value_heads * shape.head_width
    queries, keys, values = graph.split(own, shape.heads * shape.head_width, aside, aside)
    kept = [f"keys_{layer}", f"values_{layer}"]
    seen, _, _ = graph.add_many(
        "GroupQueryAttention",
        *(queries, keys, values, *kept, "last", "total", *turns),
        outputs=[f"seen_{layer}", *(f"seen_{name}" for name in kept)],
        domain=RUNTIME,
        num_heads=shape.heads,
        kv_num_heads=shape.key_value_heads,
        do_rotary=1,
        rotary_interleaved=1,  # GGUF's order of a Llama's rows
    )
    x = graph.add("Add", x, graph.product(seen, weight("attn_output"), BLOCK))
    y = _norm(graph, x, weight("ffn_norm"), shape)
    both = graph.product(y, np.concatenate([weight("ffn_gate"), weight("ffn_up")]), BLOCK)
    width = len(weight("ffn_gate"))
    gate, up = graph.split(both, width, width)
    inner = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), up)
    return graph.add("Add", x, graph.product(inner, weight("ffn_down"), BLOCK))


def _norm(graph: GraphWriter, x: str, scale: NDArray[np.float32], shape: Shape) -> str:
    return graph.add("SimplifiedLayerNormalization", x, graph.constant(scale), axis=-1, epsilon=shape.epsilon)


def _turns(shape: Shape, context_tokens: int) -> NDArray[np.float32]:
    """Angles by position and pair of numbers (Su et al., arXiv:2104.09864)."""
    pairs = np.arange(0, shape.head_width, 2) / shape.head_width
    return np.outer(np.arange(context_tokens), shape.rope_base**-pairs).astype(np.float32)
