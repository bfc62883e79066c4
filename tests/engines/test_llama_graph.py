"""What files are understood, and that the graph says what plain NumPy does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

graphs = pytest.importorskip("voicepipe.engines.llama_graph", reason="needs the extra 'local'")
from tests.engines import tiny_llama  # noqa: E402
from tests.engines.tiny_llama import CONTEXT, KEY_VALUE_HEADS, LAYERS, tensors, write  # noqa: E402
from voicepipe.engines.onnx_session import cpu_session  # noqa: E402

IDS = [3, 17, 42, 8, 30, 11]


@pytest.mark.parametrize("tied", [True, False], ids=["the table is the output", "an output of its own"])
def test_one_pass_says_what_follows_every_token(tmp_path: Path, tied: bool) -> None:
    values = tensors(tied=tied)
    weights, shape = graphs.read_llama(write(tmp_path / "tiny.gguf", values))
    session = cpu_session(graphs.step_graph(weights, shape, CONTEXT).SerializeToString(), 1)
    memory = np.zeros((1, KEY_VALUE_HEADS, CONTEXT, shape.head_width), np.float32)
    feeds = {
        "ids": np.array([IDS]),
        "last": np.array([len(IDS) - 1], np.int32),
        "total": np.array(len(IDS), np.int32),
        "wanted": np.arange(len(IDS)),
        **{f"{what}_{n}": memory for n in range(LAYERS) for what in ("keys", "values")},
    }
    given = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))
    expected = tiny_llama.logits(values, IDS)
    np.testing.assert_allclose(given["logits"][0], expected, atol=0.05 * np.abs(expected).max())
    np.testing.assert_array_equal(given["best"][0], given["logits"][0].argmax(-1))


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in tensors().items() if key != name}


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (tensors(), {"kind": "qwen2"}, "it is a qwen2, not a llama"),
        (tensors(), {"scaling": "linear"}, r"scaled \(linear\)"),
        (tensors() | {"blk.0.attn_q.bias": np.zeros(64, np.float32)}, {}, r"it has blk\.0\.attn_q\.bias"),
        (without("blk.1.ffn_up.weight"), {}, r"it lacks blk\.1\.ffn_up\.weight"),
        (without("output_norm.weight"), {}, r"it lacks output_norm\.weight"),
        (tensors() | {"blk.0.ffn_down.weight": np.zeros((64, 90), np.float32)}, {}, "no multiples of 32"),
    ],
    ids=["another kind", "scaled positions", "a bias", "a matrix", "a norm", "odd widths"],
)
def test_a_model_of_another_layout_is_left_to_others(
    tmp_path: Path, values: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(graphs.CannotStep, match=message):
        graphs.read_llama(write(tmp_path / "other.gguf", values, **options))


def test_a_large_model_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_PARAMETERS", 1_000_000 // 20)
    with pytest.raises(graphs.CannotStep, match="million parameters"):
        graphs.read_llama(write(tmp_path / "large.gguf", tensors()))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all, but some bytes that are long enough to read"])
def test_what_is_no_gguf_file_is_left_to_others(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.gguf").write_bytes(content)
    with pytest.raises(graphs.CannotStep, match="cannot be read"):
        graphs.read_llama(tmp_path / "broken.gguf")
