import struct
from pathlib import Path

import numpy as np
import pytest

from voicepipe.engines.ct2_model import CannotRead, read_model


def string(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def model(version: int = 6) -> bytes:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    return b"".join(
        [
            struct.pack("<I", version) + string("WhisperSpec") + struct.pack("<II", 3, 2),
            string("decoder/weight") + struct.pack("<BIIBI", 2, 2, 3, 4, 12) + values.tobytes(),
            string("decoder/num_heads") + struct.pack("<BBI", 0, 2, 2) + struct.pack("<h", 6),
            struct.pack("<I", 1) + string("decoder/projection") + string("decoder/weight"),
        ]
    )


def test_variables_have_their_names_shapes_and_types(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(model())
    read = read_model(tmp_path / "model.bin")
    assert (read.name, read.revision) == ("WhisperSpec", 3)
    assert list(read.variables) == ["decoder/weight", "decoder/num_heads"]
    assert read.variables["decoder/weight"].dtype == np.float16
    assert read.variables["decoder/weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read.variables["decoder/num_heads"].shape == () and int(read.variables["decoder/num_heads"]) == 6


@pytest.mark.parametrize("length", [0, 3, 10, 30, 60, 80])
def test_a_file_that_ends_early_is_none_that_we_understand(tmp_path: Path, length: int) -> None:
    (tmp_path / "model.bin").write_bytes(model()[:length])
    with pytest.raises(CannotRead, match=r"model\.bin"):
        read_model(tmp_path / "model.bin")


def test_another_version_of_the_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(model(version=7))
    with pytest.raises(CannotRead, match="version 7 of the format, not 6"):
        read_model(tmp_path / "model.bin")
