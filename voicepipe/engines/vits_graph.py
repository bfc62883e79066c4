"""Where to cut a VITS voice in two, and how to make it say the same thing twice.

Knows the shape of an exported VITS graph; loads and runs nothing. It works on an `onnx.ModelProto`
by its fields alone, so that onnx itself stays an import of the one backend that needs it.

    ids ─ text encoder ─ durations ─ flow ─ latent (1, channels, frames) ─ decoder ─ samples
          └────────────── front ───────┘      cut here                     └ convolutions only

The decoder is a stack of convolutions, so a sample depends on a few latent frames around it and on
nothing else: with `reach_frames` of context on both sides, any run of frames decodes to the very
samples that the whole would have had. That number and the samples per frame are computed from the
graph, not assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

Model = Any
"""An `onnx.ModelProto`."""
Node = Any
"""An `onnx.NodeProto`."""

FLOAT = 1
"""`onnx.TensorProto.FLOAT`."""
INT64 = 7
"""`onnx.TensorProto.INT64`."""

NOISE_VALUES = 65_537
"""Length of the noise table: a prime, so that two channels of a latent never get the same stretch."""

SPEAKER_INPUT = "sid"
"""Name of the graph's input that says who speaks: the one that cannot vary along time."""

POINTWISE = frozenset(
    {
        *("Add", "Cast", "Clip", "Div", "Elu", "Exp", "Identity", "LeakyRelu", "Mul", "Neg"),
        *("Relu", "Sigmoid", "Sub", "Tanh", "Unsqueeze"),
    }
)
"""Operators whose result at one instant needs their operands at that instant only."""


class CannotCut(ValueError):
    """The graph is not a VITS that we understand; it can still be run whole."""


@dataclass(frozen=True, slots=True)
class Cut:
    front: Model
    """Phoneme ids -> `latent` and `conditions`."""
    decoder: Model
    """`latent` and `conditions` -> samples."""
    latent: str
    """Name of the tensor of shape (1, channels, frames) between the two."""
    conditions: tuple[str, ...]
    """Names of what else crosses the cut: a speaker's embedding, the same for every frame."""
    hop_samples: int
    """Samples per latent frame."""
    reach_frames: int
    """Frames of context on either side that a decoded frame depends on."""


def cut(model: Model) -> Cut:
    """Cut at the decoder's input. Raises CannotCut. `model` is left as it is."""
    nodes = list(model.graph.node)
    latent = _decoder_input(nodes)
    follows = _descendants(nodes, {latent})
    if (output := model.graph.output[0].name) not in follows:
        raise CannotCut("the decoder's input does not lead to the output")
    decoder_nodes = [n for n in nodes if follows.intersection(n.output)]
    conditions = _conditions(model, decoder_nodes, follows | {latent})
    hop, reach = _receptive_field(decoder_nodes, latent, output)
    return Cut(
        front=_extract(model, outputs=(latent, *conditions), stop=frozenset()),
        decoder=_extract(model, outputs=(output,), stop=frozenset((latent, *conditions))),
        latent=latent,
        conditions=conditions,
        hop_samples=hop,
        reach_frames=reach,
    )


def _conditions(model: Model, decoder_nodes: Iterable[Node], own: set[str]) -> tuple[str, ...]:
    """What the decoder reads beside the latent and constants. It must not vary along time."""
    inputs = {i.name for i in model.graph.input}
    computed = _descendants(model.graph.node, inputs)
    timed = _descendants(model.graph.node, inputs - {SPEAKER_INPUT})
    crossing = {name for n in decoder_nodes for name in n.input if name in computed - own}
    if crossing & timed:
        raise CannotCut("the decoder reads more than one tensor that varies along time")
    return tuple(sorted(crossing))


def fix_noise(model: Model, seed: int) -> None:
    """Replace each random draw by a walk through a fixed table, in place.

    A voice then gives the same samples for the same text, whatever was said before: what is
    synthesised ahead of time can be compared and cached, and a test can ask for equality.
    """
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for serial, node in enumerate(nodes):
        if node.op_type == "RandomNormalLike":
            _add_table_walk(model.graph, node, np.random.default_rng((seed, serial)))
        else:
            model.graph.node.append(node)


def _add_table_walk(graph: Any, draw: Node, rng: np.random.Generator) -> None:
    """table[i mod NOISE_VALUES] for i < size, in the shape of the operand."""
    name = draw.output[0]
    mean, scale = _float(draw, "mean", 0.0), _float(draw, "scale", 1.0)
    table = (mean + scale * rng.standard_normal(NOISE_VALUES)).astype("<f4")
    graph.initializer.add(name=f"{name}/table", dims=[NOISE_VALUES], data_type=FLOAT, raw_data=table.tobytes())
    for constant, value in (("zero", 0), ("one", 1), ("length", NOISE_VALUES)):
        graph.initializer.add(name=f"{name}/{constant}", data_type=INT64, int64_data=[value])
    for op_type, operands, result in (
        ("Shape", [draw.input[0]], f"{name}/shape"),
        ("Size", [draw.input[0]], f"{name}/size"),
        ("Range", [f"{name}/zero", f"{name}/size", f"{name}/one"], f"{name}/serial"),
        ("Mod", [f"{name}/serial", f"{name}/length"], f"{name}/place"),
        ("Gather", [f"{name}/table", f"{name}/place"], f"{name}/values"),
        ("Reshape", [f"{name}/values", f"{name}/shape"], name),
    ):
        graph.node.add(op_type=op_type, name=f"{result}/{op_type}", input=operands, output=[result])


def _decoder_input(nodes: Iterable[Node]) -> str:
    """What the decoder's first convolution reads: found by the name that training gives it."""
    found = [n for n in nodes if n.op_type == "Conv" and ("dec.conv_pre" in n.input[1] or "dec/conv_pre" in n.name)]
    if len(found) != 1:
        raise CannotCut(f"{len(found)} convolutions are called dec.conv_pre, not one")
    return str(found[0].input[0])


def _descendants(nodes: Iterable[Node], roots: set[str]) -> set[str]:
    """Tensors computed from any of `roots`, without these. Nodes come in topological order."""
    reached = set(roots)
    for node in nodes:
        if reached.intersection(node.input):
            reached.update(node.output)
    return reached - roots


def _receptive_field(nodes: Iterable[Node], latent: str, output: str) -> tuple[int, int]:
    """(samples per frame, frames of context on either side), from the latent to the output.

    Each tensor has a rate (instants per latent frame) and a reach (in latent frames).
    """
    known: dict[str, tuple[int, Fraction]] = {latent: (1, Fraction(0))}
    for node in nodes:
        operands = [known[name] for name in node.input if name in known]
        rate, reach = operands[0][0], max(r for _, r in operands)
        if any(other != rate for other, _ in operands):
            raise CannotCut(f"{node.name} mixes two rates")
        if node.op_type == "Conv":
            reach += _conv_reach(node) / rate
        elif node.op_type == "ConvTranspose":
            stride, more = _transposed(node)
            reach += more / rate
            rate *= stride
        elif node.op_type not in POINTWISE:
            raise CannotCut(f"the decoder holds an operator {node.op_type}")
        known.update((name, (rate, reach)) for name in node.output)
    rate, reach = known[output]
    return rate, ceil(reach)


def _conv_reach(node: Node) -> Fraction:
    """Operand instants on the wider side of a convolution that keeps the length."""
    kernel = _ints(node, "kernel_shape", ())
    dilation = _ints(node, "dilations", (1,))[0]
    pads = _ints(node, "pads", (0, 0))
    if len(kernel) != 1 or _ints(node, "strides", (1,))[0] != 1:
        raise CannotCut(f"{node.name} is not a one-dimensional convolution of stride 1")
    if sum(pads) != (kernel[0] - 1) * dilation:
        raise CannotCut(f"{node.name} changes the length")
    return Fraction(max(pads))


def _transposed(node: Node) -> tuple[int, Fraction]:
    """(stride, operand instants on the wider side) of an upsampling by exactly its stride."""
    kernel = _ints(node, "kernel_shape", ())
    stride = _ints(node, "strides", (1,))[0]
    pads = _ints(node, "pads", (0, 0))
    extra = _ints(node, "output_padding", (0,))[0]
    if len(kernel) != 1 or _ints(node, "dilations", (1,))[0] != 1:
        raise CannotCut(f"{node.name} is not a one-dimensional upsampling")
    if kernel[0] - sum(pads) + extra != stride:
        raise CannotCut(f"{node.name} does not multiply the length by its stride")
    return stride, Fraction(max(kernel[0] - 1 - pads[0], pads[0]), stride)


def _extract(model: Model, *, outputs: tuple[str, ...], stop: frozenset[str]) -> Model:
    """The part of `model` that computes `outputs` from its inputs and from `stop`."""
    maker: Mapping[str, Node] = {name: n for n in model.graph.node for name in n.output}
    needed, waiting = set[str](), list(outputs)
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        if name in maker and name not in stop:
            waiting.extend(maker[name].input)
            needed.update(maker[name].output)
    part = type(model)(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.graph.name = model.graph.name
    part.graph.node.extend(
        n for n in model.graph.node if needed.intersection(n.output) and not stop & set(n.output)
    )
    part.graph.initializer.extend(i for i in model.graph.initializer if i.name in needed)
    part.graph.input.extend(i for i in model.graph.input if i.name in needed)
    for name in sorted(stop):
        _declare(part.graph.input, name)
    for name in outputs:
        _declare(part.graph.output, name)
    return part


def _declare(ports: Any, name: str) -> None:
    """An input or output of type float and of unknown shape."""
    ports.add(name=name).type.tensor_type.elem_type = FLOAT


def _ints(node: Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), default)


def _float(node: Node, name: str, default: float) -> float:
    return next((float(a.f) for a in node.attribute if a.name == name), default)
