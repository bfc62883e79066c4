"""Writes ONNX graphs of transformers whose weights are kept in 8 bits.

`MatMulNBits` is ONNX Runtime's product for quantised weights: they have a scale for each block along a row, and
activations are made 8-bit row by row, so that what a row gives does not depend on those beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

RUNTIME = "com.microsoft"
"""ONNX Runtime's own operators."""
FLOATS = TensorProto.FLOAT
WHOLES = TensorProto.INT64
WHOLES32 = TensorProto.INT32
_OPSET = 17
_IR_VERSION = 9
_EIGHT_BIT_ACTIVATIONS = 4
"""A value of `accuracy_level`."""


class GraphWriter:
    """Nodes and constants of a graph. Names are made up unless they are given."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._names = 0

    def add(self, op: str, *inputs: str, domain: str = "", output: str = "", **attributes: Any) -> str:
        """A node with one output: its name."""
        return self.add_many(op, *inputs, domain=domain, outputs=[output or self._name()], **attributes)[0]

    def add_many(self, op: str, *inputs: str, outputs: list[str], domain: str = "", **attributes: Any) -> list[str]:
        self._nodes.append(helper.make_node(op, list(inputs), outputs, domain=domain, **attributes))
        return outputs

    def split(self, x: str, *sizes: int) -> list[str]:
        """Along the last axis."""
        names = [self._name() for _ in sizes]
        return self.add_many("Split", x, self.constant(np.array(sizes)), outputs=names, axis=-1)

    def constant(self, values: NDArray[Any]) -> str:
        name = self._name()
        self._constants.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def product(self, x: str, weight: NDArray[np.float32], block: int) -> str:
        """`x` times the transpose of `weight` (rows, columns), whose columns are a multiple of `block`."""
        rows, columns = weight.shape
        numbers, scales = quantised(weight, block)
        return self.add(
            "MatMulNBits",
            x,
            self.constant(numbers),
            self.constant(scales),
            domain=RUNTIME,
            K=columns,
            N=rows,
            bits=8,
            block_size=block,
            accuracy_level=_EIGHT_BIT_ACTIVATIONS,
        )

    def model(self, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> ModelProto:
        graph = helper.make_graph(self._nodes, "steps", inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(RUNTIME, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"


def tensor(name: str, kind: int, *shape: int | None) -> ValueInfoProto:
    """An input or output; None is an axis of any length."""
    return helper.make_tensor_value_info(name, kind, list(shape))


def quantised(weight: NDArray[np.float32], block: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Numbers of shape (rows, blocks, `block`), zero at 128, and the blocks' scales, one after the other."""
    blocks = weight.reshape(len(weight), -1, block)
    scales = np.abs(blocks).max(axis=-1) / 127
    scales[scales == 0] = 1
    numbers = np.round(blocks / scales[..., np.newaxis]) + 128
    return numbers.astype(np.uint8), scales.reshape(-1).astype(np.float32)
