"""Whisper's decoder as two ONNX graphs, from the weights that CTranslate2 runs.

    states of the window ─ cross ─ keys, values ─┐
    tokens, what is remembered ───────────────── step ─ the likeliest next token after each, what to remember

CTranslate2 takes the tokens of a hypothesis one by one, even those that it is given, and projects all 1,500
encoder states for each decode. `step` takes any number of tokens at once and says what would follow each, so a
whole hypothesis is checked in one pass; and `cross` is run on the states of the window alone, because those of
the silence behind it never change.

Weights are 8-bit, each block of 128 with a scale; activations are made 8-bit row by row, so that what a token
gives does not depend on those beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from voicepipe.engines.ct2_model import CannotRead, Ct2Model
from voicepipe.engines.graph_writer import FLOATS, RUNTIME, WHOLES, GraphWriter, tensor

BLOCK = 128
_GELU = 3
"""`ActivationType::GELU` of CTranslate2: the exact one."""

Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    heads: int
    width: int
    vocabulary: int
    positions: int
    """How many tokens fit, prompt included."""

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Tokens that are never said, and those that are not said first."""

    always: Sequence[int]
    first: Sequence[int]


def decoder_weights(model: Ct2Model) -> tuple[Weights, Shape]:
    """Raises CannotRead where the model is not a Whisper of this layout, or has been quantised."""
    variables = {
        name.removeprefix("decoder/"): value
        for name, value in model.variables.items()
        if name.startswith("decoder/")
    }
    if model.name != "WhisperSpec" or model.revision != 3:
        raise CannotRead(f"a {model.name} of revision {model.revision}, not a WhisperSpec of revision 3")
    if any(name.endswith("weight_scale") for name in variables):
        raise CannotRead("its weights have been quantised")
    if int(variables["activation"]) != _GELU:
        raise CannotRead("its activation is not GELU")
    names = {name.split("/")[0] for name in variables}
    vocabulary, width = variables["embeddings/weight"].shape
    shape = Shape(
        layers=sum(name.removeprefix("layer_").isdigit() for name in names),
        heads=int(variables["num_heads"]),
        width=width,
        vocabulary=vocabulary,
        positions=len(variables["position_encodings/encodings"]),
    )
    if width % BLOCK:
        raise CannotRead(f"its width, {width}, is no multiple of {BLOCK}")
    weights = {name: np.array(value, np.float32) for name, value in variables.items()}
    for layer in range(shape.layers):
        # Queries are scaled here: a factor in front of a product makes onnxruntime take a slower one.
        for name, rows in (("self_attention", slice(width)), ("attention", slice(None))):
            for part in ("weight", "bias"):
                weights[f"layer_{layer}/{name}/linear_0/{part}"][rows] *= shape.head_width**-0.5
    return weights, shape


def cross_graph(weights: Weights, shape: Shape) -> ModelProto:
    """In: `states` (1, n, width). Out: per layer `keys_L` (1, heads, head width, n) and `values_L`
    (1, heads, n, head width)."""
    graph = _Graph(weights, shape)
    outputs = []
    for layer in range(shape.layers):
        both = graph.linear("states", f"layer_{layer}/attention/linear_1")
        keys, values = graph.split(both, shape.width, shape.width)
        graph.add("Transpose", graph.in_heads(keys), perm=[0, 2, 3, 1], output=f"keys_{layer}")
        graph.add("Transpose", graph.in_heads(values), perm=[0, 2, 1, 3], output=f"values_{layer}")
        outputs += [
            tensor(f"keys_{layer}", FLOATS, 1, shape.heads, shape.head_width, None),
            tensor(f"values_{layer}", FLOATS, 1, shape.heads, None, shape.head_width),
        ]
    return graph.model([tensor("states", FLOATS, 1, None, shape.width)], outputs)


def step_graph(weights: Weights, shape: Shape, suppressed: Suppressed, no_speech: int) -> ModelProto:
    """Any number n of tokens behind what is remembered.

    In: `ids` (1, n), `positions` (n), `mask` (n, all tokens; 0 or -inf), `begins` (n; 1 where the first token of
    the text follows, else 0), per layer `past_keys_L` and `past_values_L` (1, heads, tokens before, head width),
    and what `cross_graph` gives.

    Out: `best` (n), the likeliest token after each; `chance` (n), its probability; `no_speech` (1), its probability
    after the first token; per layer `seen_keys_L` and `seen_values_L`, with these tokens behind the past ones.
    """
    graph = _Graph(weights, shape)
    inputs = [
        tensor("ids", WHOLES, 1, None),
        tensor("positions", WHOLES, None),
        tensor("begins", WHOLES, None),
        tensor("mask", FLOATS, None, None),
    ]
    outputs = [tensor("best", WHOLES, None)]
    outputs += [
        tensor("chance", FLOATS, None),
        tensor("no_speech", FLOATS, None),
    ]
    # Half precision: the table is as large as all other weights together.
    table = graph.constant(weights["embeddings/weight"].astype(np.float16))
    x = graph.add("Cast", graph.add("Gather", table, "ids"), to=FLOATS)
    at = graph.add("Gather", graph.constant(weights["position_encodings/encodings"]), "positions")
    x = graph.add("Add", x, at)
    for layer in range(shape.layers):
        x = _layer(graph, layer, x)
        kept = [f"{what}_{layer}" for what in ("past_keys", "past_values", "keys", "values")]
        inputs += [tensor(name, FLOATS, 1, shape.heads, None, None) for name in kept]
        seen = (1, shape.heads, None, shape.head_width)
        outputs += [tensor(f"seen_{what}_{layer}", FLOATS, *seen) for what in ("keys", "values")]
    logits = graph.add(
        "Squeeze",
        graph.linear(graph.norm(x, "layer_norm"), "embeddings", bias=False),
        graph.constant(np.array([0])),
    )
    _answers(graph, logits, suppressed, no_speech)
    return graph.model(inputs, outputs)


def _layer(graph: _Graph, layer: int, x: str) -> str:
    name = f"layer_{layer}"
    own = graph.linear(graph.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0")
    queries, keys, values = (
        graph.swapped(graph.in_heads(part)) for part in graph.split(own, *[graph.shape.width] * 3)
    )
    keys = graph.add("Concat", f"past_keys_{layer}", keys, axis=2, output=f"seen_keys_{layer}")
    values = graph.add("Concat", f"past_values_{layer}", values, axis=2, output=f"seen_values_{layer}")
    scores = graph.add("MatMul", queries, graph.add("Transpose", keys, perm=[0, 1, 3, 2]))
    seen = graph.attend(graph.add("Add", scores, "mask"), values)
    x = graph.add("Add", x, graph.linear(seen, f"{name}/self_attention/linear_1"))
    asked = graph.linear(graph.norm(x, f"{name}/attention/layer_norm"), f"{name}/attention/linear_0")
    queries = graph.swapped(graph.in_heads(asked))
    heard = graph.attend(graph.add("MatMul", queries, f"keys_{layer}"), f"values_{layer}")
    x = graph.add("Add", x, graph.linear(heard, f"{name}/attention/linear_2"))
    inner = graph.linear(graph.norm(x, f"{name}/ffn/layer_norm"), f"{name}/ffn/linear_0")
    inner = graph.add("Gelu", inner, domain=RUNTIME)
    return graph.add("Add", x, graph.linear(inner, f"{name}/ffn/linear_1"))


def _answers(graph: _Graph, logits: str, suppressed: Suppressed, no_speech: int) -> None:
    first = graph.add("Gather", logits, graph.constant(np.array([0])), axis=0)
    graph.add(
        "Gather",
        graph.add("Softmax", first, axis=-1),
        graph.constant(np.array(no_speech)),
        axis=1,
        output="no_speech",
    )
    masks = np.zeros((2, graph.shape.vocabulary), np.float32)
    masks[:, list(suppressed.always)] = -np.inf
    masks[1, list(suppressed.first)] = -np.inf
    allowed = graph.add("Add", logits, graph.add("Gather", graph.constant(masks), "begins"))
    graph.add("ArgMax", allowed, axis=-1, keepdims=0, output="best")
    chances = graph.add("Softmax", allowed, axis=-1)
    graph.add("ReduceMax", chances, axes=[-1], keepdims=0, output="chance")


class _Graph(GraphWriter):
    """Layers are named as in the model, with `/` between the parts of a name."""

    def __init__(self, weights: Weights, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self._weights = weights

    def linear(self, x: str, name: str, *, bias: bool = True) -> str:
        y = self.product(x, self._weights[f"{name}/weight"], BLOCK)
        return self.add("Add", y, self.constant(self._weights[f"{name}/bias"])) if bias else y

    def norm(self, x: str, name: str) -> str:
        gamma, beta = (self.constant(self._weights[f"{name}/{part}"]) for part in ("gamma", "beta"))
        return self.add("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-5)

    def in_heads(self, x: str) -> str:
        """(1, n, width) -> (1, n, heads, head width)."""
        return self.add("Reshape", x, self.constant(np.array([0, -1, self.shape.heads, self.shape.head_width])))

    def swapped(self, x: str) -> str:
        return self.add("Transpose", x, perm=[0, 2, 1, 3])

    def attend(self, scores: str, values: str) -> str:
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), values)
        return self.add("Reshape", self.swapped(mixed), self.constant(np.array([0, -1, self.shape.width])))
