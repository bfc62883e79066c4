"""Cutting a graph: what is found in it, and what cannot be cut."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("piper")

from tests.engines import tiny_voice  # noqa: E402
from voicepipe.engines import vits_graph  # noqa: E402


def test_hop_and_reach_are_read_from_the_graph() -> None:
    cut = vits_graph.cut(tiny_voice.tiny_model())
    assert cut.latent == "/latent"
    assert cut.hop_samples == tiny_voice.HOP_SAMPLES
    assert cut.reach_frames == tiny_voice.REACH_FRAMES
    assert cut.conditions == ()


def test_a_speaker_crosses_the_cut() -> None:
    cut = vits_graph.cut(tiny_voice.tiny_model(speakers=3))
    assert cut.conditions == ("/dec/cond/Conv",)
    assert [i.name for i in cut.decoder.graph.input] == ["/dec/cond/Conv", "/latent"]
    assert [o.name for o in cut.front.graph.output] == ["/latent", "/dec/cond/Conv"]


def test_each_part_holds_only_its_own_weights() -> None:
    cut = vits_graph.cut(tiny_voice.tiny_model())
    assert "emb" in {i.name for i in cut.front.graph.initializer}
    assert "emb" not in {i.name for i in cut.decoder.graph.initializer}
    assert "dec.conv_pre.weight" not in {i.name for i in cut.front.graph.initializer}


def test_a_graph_without_a_known_decoder_cannot_be_cut() -> None:
    with pytest.raises(vits_graph.CannotCut, match="0 convolutions"):
        vits_graph.cut(tiny_voice.tiny_model(decoder_name="other"))


@pytest.mark.parametrize(
    ("result", "change", "reason"),
    [
        ("/relu", {"op_type": "GlobalAveragePool"}, "operator GlobalAveragePool"),
        ("/res/Conv", {"pads": [0, 0]}, "changes the length"),
        ("/res/Conv", {"strides": [2]}, "not a one-dimensional convolution of stride 1"),
        ("/ups.0/ConvTranspose", {"pads": [0, 0]}, "does not multiply the length"),
        ("/ups.0/ConvTranspose", {"dilations": [2]}, "not a one-dimensional upsampling"),
        ("/res/sum", {"input": ["/res/Conv", "/latent"]}, "mixes two rates"),
        ("/res/sum", {"input": ["/res/Conv", "/frames"]}, "varies along time"),
        ("output", {"output": ["elsewhere"]}, "does not lead to the output"),
    ],
)
def test_what_is_no_plain_decoder_cannot_be_cut(
    result: str, change: dict[str, str | list[int] | list[str]], reason: str
) -> None:
    model = tiny_voice.tiny_model()
    node = next(n for n in model.graph.node if n.output[0] == result)
    for field, value in change.items():
        if field == "op_type":
            node.op_type = value
        elif field in ("input", "output"):
            getattr(node, field)[:] = value
        else:
            kept = [a for a in node.attribute if a.name != field]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute(field, value)])
    with pytest.raises(vits_graph.CannotCut, match=reason):
        vits_graph.cut(model)


def test_no_draw_is_left_after_fixing_the_noise() -> None:
    model = tiny_voice.tiny_model()
    vits_graph.fix_noise(model, seed=0)
    assert "RandomNormalLike" not in {n.op_type for n in model.graph.node}
    onnx.checker.check_model(model)
