"""Reads the weights of a model that CTranslate2 has converted.

The layout is that of `ModelSpec._serialize` in CTranslate2's Python package: version, name and revision of the
specification, then variables (name, shape, type, bytes), then aliases.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 6
"""`CURRENT_BINARY_VERSION` since CTranslate2 2.0."""
_TYPES: tuple[type[np.generic], ...] = (np.float32, np.int8, np.int16, np.int32, np.float16)


class CannotRead(ValueError):
    """Not a model that we understand; CTranslate2 may."""


@dataclass(frozen=True, slots=True)
class Ct2Model:
    name: str
    revision: int
    variables: Mapping[str, NDArray[Any]]
    """As they lie in the file, aliases left out."""


def read_model(path: Path) -> Ct2Model:
    """Raises CannotRead, OSError."""
    cursor = _Cursor(path.read_bytes())
    try:
        if (version := cursor.number("I")) != VERSION:
            raise CannotRead(f"{path} has version {version} of the format, not {VERSION}")
        name, revision = cursor.string(), cursor.number("I")
        variables = dict(cursor.variable() for _ in range(cursor.number("I")))
    except (struct.error, IndexError, ValueError) as error:
        raise CannotRead(f"{path} is no model of CTranslate2: {error}") from error
    return Ct2Model(name, revision, variables)


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        value: int = struct.unpack_from("<" + code, self._data, self._at)[0]
        self._at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        """Its length counts the zero byte at its end."""
        length = self.number("H")
        text = self._data[self._at : self._at + length - 1].decode("utf-8")
        self._at += length
        return text

    def variable(self) -> tuple[str, NDArray[Any]]:
        name = self.string()
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind = np.dtype(_TYPES[self.number("B")])
        size = self.number("I")
        values = np.frombuffer(self._data, kind, size // kind.itemsize, self._at).reshape(shape)
        self._at += size
        return name, values
