"""What a configured model is: a path, a known name, or a file on a hub. Looks at no disk and no
network.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_HUB_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<file>\w[\w.-]*(?:/\w[\w.-]*)*))?")
_MODEL_SUFFIXES = (".gguf", ".onnx", ".bin", ".safetensors")

WHISPER_SIZES = frozenset(
    {
        *("tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en"),
        *("large", "large-v1", "large-v2", "large-v3", "large-v3-turbo", "turbo"),
        *("distil-small.en", "distil-medium.en", "distil-large-v2", "distil-large-v3"),
        "distil-large-v3.5",
    }
)
"""Names that faster-whisper itself resolves, on the hub."""


@dataclass(frozen=True, slots=True)
class HubId:
    repo: str
    file: str | None


def hub_id(spec: str) -> HubId | None:
    """`org/name` or `org/name:file`; None for anything else."""
    match = _HUB_ID.fullmatch(spec)
    return None if match is None or looks_like_path(spec) else HubId(match["repo"], match["file"])


def looks_like_path(spec: str) -> bool:
    """Whether nobody would write this for a name: `./x`, `~/x`, `a/b/c`, `model.gguf`."""
    if spec.startswith(("./", "../", "~")) or "\\" in spec or os.path.isabs(spec):
        return True
    match = _HUB_ID.fullmatch(spec)
    if match is not None and match["file"] is not None:
        return False
    return spec.endswith(_MODEL_SUFFIXES) or ("/" in spec and match is None)
