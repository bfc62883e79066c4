"""ONNX Runtime, as every engine here uses it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

Session: TypeAlias = Any
"""An `onnxruntime.InferenceSession`, which has no types."""

ERRORS: tuple[type[Exception], ...] = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
    RuntimeError,
)
"""ONNX Runtime's exceptions have no base of their own; the last one is what a bound run raises."""


def cpu_session(model: bytes | str, threads: int) -> Session:
    """Of a serialised model, or of the path to one. Raises one of `ERRORS`.

    Threads do not spin while they wait. Of a voice in two parts, spinning gains a tenth in the front end (28 and
    25 ms), and then costs the decoder three times its time, as the front end's threads are still spinning (13 and
    43 ms). Beside one other busy thread it was 38 + 23 ms without and 58 + 44 ms with. Medians of 12, two threads
    on two cores.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def in_place(array: NDArray[np.float32]) -> Any:
    """An `onnxruntime.OrtValue` that is the array's own memory, and keeps it."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
