"""A voice of a few hundred weights in the shape of a Piper voice: it hums, and it runs in a millisecond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
CHANNELS = 4
FRAMES_PER_ID = 3
RATE_HZ = 16_000
HOP_SAMPLES = 16
"""8 * 2: the strides of the two upsamplings below."""
REACH_FRAMES = 6
"""conv_pre 3 + ups.0 (16 - 1 - 4) / 8 + conv 4 / 8 + ups.1 (4 - 1 - 1) / 2 / 8 + conv_post 3 / 16,
which is 5.1875, rounded up."""


def tiny_model(*, speakers: int = 1, decoder_name: str = "dec") -> onnx.ModelProto:
    """ids -> embedding -> three frames each -> noise -> two upsamplings -> samples."""
    rng = np.random.default_rng(7)
    weights: list[TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape) / np.sqrt(float(np.prod(shape[1:])))
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def constant(name: str, *values: int) -> str:
        weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(op_type: str, operands: list[str], result: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op_type, operands, [result], name=result, **attributes))
        return result

    def conv(x: str, name: str, kernel: int, *, out: int = CHANNELS, dilation: int = 1) -> str:
        pad = (kernel - 1) * dilation // 2
        return node(
            "Conv",
            [x, weight(f"{name}.weight", out, CHANNELS, kernel)],
            f"/{name.replace('.', '/')}/Conv",
            kernel_shape=[kernel],
            dilations=[dilation],
            pads=[pad, pad],
        )

    def upsample(x: str, name: str, kernel: int, stride: int) -> str:
        pad = (kernel - stride) // 2
        return node(
            "ConvTranspose",
            [x, weight(f"{name}.weight", CHANNELS, CHANNELS, kernel)],
            f"/{name}/ConvTranspose",
            kernel_shape=[kernel],
            strides=[stride],
            pads=[pad, pad],
        )

    x = node("Gather", [weight("emb", 256, CHANNELS), "input"], "/emb")
    x = node("Transpose", [x], "/turned", perm=[0, 2, 1])
    x = node("Unsqueeze", [x, constant("last", 3)], "/wide")
    x = node("Expand", [x, constant("times", 1, 1, 1, FRAMES_PER_ID)], "/stretched")
    x = node("Reshape", [x, constant("flat", 1, CHANNELS, -1)], "/frames")
    some = node("Cast", [node("Sign", ["input_lengths"], "/sign")], "/some", to=FLOAT)
    x = node("Mul", [x, some], "/masked")
    noise = node("RandomNormalLike", [x], "/RandomNormalLike")
    noise = node("Mul", [noise, node("Gather", ["scales", constant("zeroth", 0)], "/noise")], "/n")
    x = node("Add", [x, noise], "/latent")
    x = conv(x, f"{decoder_name}.conv_pre", 7)
    if speakers > 1:
        g = node("Gather", [weight("emb_g", speakers, CHANNELS), "sid"], "/emb_g")
        g = node("Unsqueeze", [g, constant("behind", -1)], "/g")
        x = node("Add", [x, conv(g, "dec.cond", 1)], "/conditioned")
    x = upsample(node("LeakyRelu", [x], "/relu"), "ups.0", 16, 8)
    x = node("Add", [x, conv(x, "res", 5, dilation=2)], "/res/sum")
    x = upsample(x, "ups.1", 4, 2)
    x = node("Tanh", [conv(x, "conv_post", 7, out=1)], "/tanh")
    node("Unsqueeze", [x, constant("second", 1)], "output")
    inputs: list[tuple[str, int, list[int | str]]] = [
        ("input", INT64, [1, "n"]),
        ("input_lengths", INT64, [1]),
        ("scales", FLOAT, [3]),
    ]
    if speakers > 1:
        inputs.append(("sid", INT64, [1]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info("output", FLOAT, [1, 1, 1, "samples"])],
        weights,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])


def write_voice(folder: Path, model: onnx.ModelProto, *, speakers: int = 1) -> Path:
    """The .onnx of the voice; its description is beside it."""
    path = folder / "tiny.onnx"
    onnx.save(model, str(path))
    description = {
        "audio": {"sample_rate": RATE_HZ},
        "espeak": {"voice": "en-us"},
        "phoneme_type": "espeak",
        "phoneme_id_map": DEFAULT_PHONEME_ID_MAP,
        "num_symbols": 256,
        "num_speakers": speakers,
        "inference": {"noise_scale": 0.5, "length_scale": 1.0, "noise_w": 0.8},
    }
    (folder / "tiny.onnx.json").write_text(json.dumps(description), "utf-8")
    return path
