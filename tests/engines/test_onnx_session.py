import numpy as np
import pytest

onnx_session = pytest.importorskip("voicepipe.engines.onnx_session", reason="needs the extra 'local'")


def doubling() -> bytes:
    helper = pytest.importorskip("onnx.helper")
    x, y = (helper.make_tensor_value_info(name, 1, [None]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubling", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def test_a_serialised_model_runs() -> None:
    (doubled,) = onnx_session.cpu_session(doubling(), 1).run(None, {"x": np.array([1.5, -2], np.float32)})
    assert doubled.tolist() == [3, -4]


@pytest.mark.parametrize("damage", ["no model", "of another rank"])
def test_what_goes_wrong_is_one_of_its_errors(damage: str) -> None:
    with pytest.raises(onnx_session.ERRORS):
        if damage == "no model":
            onnx_session.cpu_session(b"no model", 1)
        onnx_session.cpu_session(doubling(), 1).run(None, {"x": np.zeros((2, 2), np.float32)})
