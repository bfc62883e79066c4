import numpy as np
import pytest

writer = pytest.importorskip("voicepipe.engines.graph_writer", reason="needs the extra 'local'")
from voicepipe.engines.onnx_session import cpu_session  # noqa: E402


@pytest.mark.parametrize("block", [32, 128])
def test_blocks_of_weights_keep_their_values_to_a_254th(block: int) -> None:
    weight = np.random.default_rng(3).standard_normal((5, 256)).astype(np.float32)
    weight[2] = 0
    numbers, scales = writer.quantised(weight, block)
    assert numbers.shape == (5, 256 // block, block) and scales.shape == (5 * 256 // block,)
    again = ((numbers.astype(np.float32) - 128) * scales.reshape(5, -1, 1)).reshape(5, 256)
    assert np.abs(again - weight).max() <= np.abs(weight).max() / 254 * 1.01


def test_a_product_is_nearly_that_of_the_weights_and_rows_do_not_see_each_other() -> None:
    rng = np.random.default_rng(4)
    weight, x = rng.standard_normal((48, 64)).astype(np.float32), rng.standard_normal((7, 64)).astype(np.float32)
    graph = writer.GraphWriter()
    graph.add("Identity", graph.product("x", weight, 32), output="y")
    y = writer.tensor("y", writer.FLOATS, None, 48)
    model = graph.model([writer.tensor("x", writer.FLOATS, None, 64)], [y])
    session = cpu_session(model.SerializeToString(), 1)
    (given,) = session.run(None, {"x": x})
    np.testing.assert_allclose(given, x @ weight.T, atol=0.3)
    x[1:] *= 1_000
    (again,) = session.run(None, {"x": x})
    np.testing.assert_allclose(again[0], given[0], atol=1e-4)


def test_a_split_is_along_the_last_axis() -> None:
    graph = writer.GraphWriter()
    for name, part in zip(("a", "b"), graph.split("x", 1, 2), strict=True):
        graph.add("Identity", part, output=name)
    outputs = [writer.tensor("a", writer.FLOATS, 2, 1), writer.tensor("b", writer.FLOATS, 2, 2)]
    session = cpu_session(graph.model([writer.tensor("x", writer.FLOATS, 2, 3)], outputs).SerializeToString(), 1)
    a, b = session.run(None, {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert (a.tolist(), b.tolist()) == ([[0], [3]], [[1, 2], [4, 5]])
