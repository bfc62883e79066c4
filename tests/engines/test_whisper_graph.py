"""The graphs against plain NumPy, on a model of a few thousand weights."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from voicepipe.engines.ct2_model import CannotRead

graphs = pytest.importorskip("voicepipe.engines.whisper_graph", reason="needs the extra 'local'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra 'local'")

from tests.engines.tiny_whisper import (  # noqa: E402
    HEARD,
    LAYERS,
    NO_SPEECH,
    NO_TIMESTAMPS,
    START,
    WIDTH,
    logits,
    states,
    tiny_decoder,
)

IDS = [START, NO_TIMESTAMPS, 7, 12, 3]


def run(ids: list[int], always: list[int], first: list[int], begins: int = 1) -> dict[str, Any]:
    """All tokens in one pass."""
    weights, shape = graphs.decoder_weights(tiny_decoder())
    cross, step = (
        onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
        for graph in (
            graphs.cross_graph(weights, shape),
            graphs.step_graph(weights, shape, graphs.Suppressed(always, first), NO_SPEECH),
        )
    )
    heard = cross.run(None, {"states": states(HEARD)})
    nothing = np.zeros((1, shape.heads, 0, shape.head_width), np.float32)
    feeds = {
        "ids": np.array([ids]),
        "positions": np.arange(len(ids)),
        "mask": np.triu(np.full((len(ids), len(ids)), -np.inf, np.float32), k=1),
        "begins": np.arange(len(ids)) == begins,
        **{f"{what}_{n}": nothing for n in range(LAYERS) for what in ("past_keys", "past_values")},
        **{f"{what}_{n // 2}": part for n, part in enumerate(heard) for what in (("keys", "values")[n % 2],)},
    }
    feeds["begins"] = feeds["begins"].astype(np.int64)
    return dict(zip([output.name for output in step.get_outputs()], step.run(None, feeds), strict=True))


def softmax(values: Any) -> Any:
    chances = np.exp(values - values.max(-1, keepdims=True))
    return chances / chances.sum(-1, keepdims=True)


def test_one_pass_says_what_follows_every_token() -> None:
    given = run(IDS, [], [])
    expected = softmax(logits(tiny_decoder(), IDS, states(HEARD)))
    np.testing.assert_array_equal(given["best"], expected.argmax(-1))
    np.testing.assert_allclose(given["chance"], expected.max(-1), atol=0.1)
    np.testing.assert_allclose(given["no_speech"], expected[0, NO_SPEECH], atol=0.02)


def test_what_is_suppressed_is_never_said_and_what_may_not_begin_does_not_begin() -> None:
    usual = run(IDS, [], [])["best"]
    always = run(IDS, [int(usual[3])], [])["best"]
    assert usual[3] not in always
    np.testing.assert_array_equal(np.delete(always, np.flatnonzero(usual == usual[3])), usual[usual != usual[3]])
    first = run(IDS, [], [int(usual[1])])["best"]
    assert first[1] != usual[1]
    np.testing.assert_array_equal(np.delete(first, 1), np.delete(usual, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "TransformerSpec"}, "not a WhisperSpec"),
        ({"revision": 4}, "revision 4"),
        ({"decoder/layer_0/ffn/linear_0/weight_scale": np.ones(3)}, "quantised"),
        ({"decoder/activation": np.array(0)}, "GELU"),
        ({"decoder/embeddings/weight": np.ones((60, WIDTH - 1))}, "width, 127"),
    ],
)
def test_a_model_of_another_layout_is_left_to_others(change: dict[str, Any], message: str) -> None:
    model = tiny_decoder()
    fields = {name: value for name, value in change.items() if name in ("name", "revision")}
    variables = {**model.variables, **{name: value for name, value in change.items() if name not in fields}}
    with pytest.raises(CannotRead, match=message):
        graphs.decoder_weights(replace(model, variables=variables, **fields))
