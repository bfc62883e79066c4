"""Inputs out of other inputs, each drawn from one seed: by what they are made of, or byte by byte.

JSON is taken apart into its values, TOML and HTTP into lines, tapes and ledgers into lines of JSON. What is mixed
in are values at which readers break: numbers at the ends of their ranges, not a number, surrogates, depth, length.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_INPUT_BYTES = 80_000
"""Beyond what most decoders take, so that their own limit is met, too."""
Draw = random.Random
Mutate = Callable[[bytes, bytes, Draw], bytes]
"""(an input, another one, chance)"""

EDGES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**400),
    *(0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "\0", "\u200b", "\ud800", "x" * 5_000, "é" * 300, "NaN", "1e9", "null", "../../x", "{}", "["),
    *([], {}, [[]], {"": {}}, [1] * 2_000, {str(n): n for n in range(300)}),
)
_TOKENS = tuple(
    b"\0 \xff \xed\xa0\x80 \xef\xbb\xbf { } [ ] \" ' \\ = , : # nan inf 1e999 -0 0x 1_0 \r \t".split(b" ")
)
_U32 = (0, 1, 2, 319, 320, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Mutator:
    ways: tuple[Mutate, ...]

    def mutate(self, seeds: Sequence[bytes], seed: int) -> bytes:
        """The same seed and corpus come to the same bytes, in every process."""
        draw = random.Random(seed)
        data = draw.choice(seeds)
        for _ in range(draw.choice((1, 1, 2, 3, 6))):
            data = draw.choice(self.ways)(data, draw.choice(seeds), draw)[:MAX_INPUT_BYTES]
        return data


# --- bytes


def bytewise(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Flip, cut, double, splice or insert."""
    at = draw.randrange(len(data) + 1)
    end = min(len(data), at + draw.choice((1, 2, 4, 16, 200)))
    match draw.randrange(7):
        case 0 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:end] * draw.choice((1, 2, 50)) + data[end:]
        case 4:
            return data[:at] + other[draw.randrange(len(other) + 1) :]
        case 5:
            return data[:at] + draw.randbytes(draw.choice((1, 3, 40))) + data[at:]
        case _:
            return data[:at] + draw.choice(_TOKENS) * draw.choice((1, 1, 3)) + data[at:]


def numbers(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Overwrite two or four bytes with a number that a length or a clock may not be."""
    packed = struct.pack(draw.choice(("<I", ">I")), draw.choice(_U32))[: draw.choice((2, 4))]
    at = draw.randrange(len(data) + 1)
    return data[:at] + packed + data[at + len(packed) :]


def deeper(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Brackets without end, where a value stood."""
    at = draw.choice([n for n, byte in enumerate(data) if byte in b":=[,"] or [0])
    depth = draw.choice((5, 200, 1_500, 30_000))
    opened = draw.choice((b"[", b'{"a":', b"{a=", b"[["))
    return data[: at + 1] + opened * depth + data[at + 1 :]


# --- lines


def lines(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Leave out, double, swap or borrow a line."""
    mine, theirs = data.splitlines(keepends=True) or [b""], other.splitlines(keepends=True) or [b""]
    at = draw.randrange(len(mine))
    match draw.randrange(4):
        case 0:
            del mine[at]
        case 1:
            mine[at:at] = [mine[at]] * draw.choice((1, 1, 300))
        case 2:
            draw.shuffle(mine)
        case _:
            mine.insert(at, draw.choice(theirs))
    return b"".join(mine)


def assigned(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Another value behind one of the `=` or `:` of a line."""
    mine = data.splitlines(keepends=True)
    fit = [n for n, line in enumerate(mine) if b"=" in line or b":" in line]
    if not fit:
        return data + _toml(draw.choice(EDGES))
    at = draw.choice(fit)
    sign = b"=" if b"=" in mine[at] else b":"
    head, _, _ = mine[at].partition(sign)
    mine[at] = head + sign + b" " + _toml(draw.choice(EDGES)) + b"\n"
    return b"".join(mine)


def _toml(value: Any) -> bytes:
    match value:
        case None:
            return b""
        case float():
            return repr(value).encode()
        case dict():
            return ("{" + ", ".join(f'"{key}" = 1' for key in value) + "}").encode("utf-8", "surrogatepass")
        case _:
            return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


# --- JSON


def values(data: bytes, other: bytes, draw: Draw) -> bytes:
    """Of one line of JSON: another value, key, a key more or less, or a part of another line."""
    mine = data.splitlines()
    if not mine:
        return json.dumps(draw.choice(EDGES)).encode()
    at = draw.randrange(len(mine))
    try:
        value = json.loads(mine[at])
    except (ValueError, RecursionError):
        return bytewise(data, other, draw)
    mine[at] = json.dumps(_changed(value, _parts(other), draw), ensure_ascii=draw.random() < 0.8).encode(
        "utf-8", "surrogatepass"
    )
    return b"\n".join(mine) + (b"\n" if data.endswith(b"\n") else b"")


def _parts(other: bytes) -> list[Any]:
    try:
        value = json.loads(other.splitlines()[0])
    except (ValueError, RecursionError, IndexError):
        return []
    return list(value.values()) if isinstance(value, dict) else [value]


def _changed(value: Any, parts: Sequence[Any], draw: Draw) -> Any:
    if isinstance(value, dict) and value and draw.random() < 0.85:
        return _changed_object(dict(value), parts, draw)
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        return [*value[:at], _changed(value[at], parts, draw), *value[at + draw.randrange(2) :]]
    if isinstance(value, str) and draw.random() < 0.3:
        return value[: draw.randrange(len(value) + 1)] + draw.choice(("", "\0", "=", "A", "é", " ", "9"))
    if isinstance(value, int | float) and draw.random() < 0.4:
        return value * draw.choice((-1, 2, 10**9)) + draw.choice((0, 1, -1))
    return draw.choice(parts) if parts and draw.random() < 0.3 else draw.choice(EDGES)


def _changed_object(value: dict[str, Any], parts: Sequence[Any], draw: Draw) -> dict[str, Any]:
    key = draw.choice(list(value))
    match draw.randrange(8):
        case 0:
            del value[key]
        case 1:
            value[draw.choice(("type", "event", "", "x", key.upper(), f"{key}s"))] = value.pop(key)
        case 2:
            value[f"{key}_{draw.randrange(9)}"] = draw.choice(EDGES)
        case 3 if parts:
            value[key] = draw.choice(parts)
        case _:
            value[key] = _changed(value[key], parts, draw)
    return value


JSON = Mutator((values, values, values, values, bytewise, deeper))
JSON_LINES = Mutator((values, values, values, lines, bytewise, deeper))
TOML = Mutator((assigned, assigned, assigned, lines, bytewise, deeper))
HTTP = Mutator((lines, assigned, bytewise, bytewise))
BINARY = Mutator((bytewise, bytewise, numbers))
