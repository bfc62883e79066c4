"""The lines of a recording, and how the values of core stand in them.

A `Head`; then, in the order in which it happened, a `Made` for each component that came into being and an `Input`
for each call of one of its `on_` methods, with what came out; an `End` where the file was closed in order.

Values are JSON as `msgspec` writes them, with three additions. A dataclass that is an argument or a command of its
own has its name: `{"Onset": {"start": 0}}`. Of bytes only the number is kept, `{"bytes": 640}`: core cuts sound
into frames and never looks at it. A float that JSON lacks is a word, `{"float": "inf"}`.

Which arguments there are is read from the signatures, so that there is no list to keep in step with core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from inspect import Parameter, signature
from itertools import zip_longest
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from voicepipe.core.events import LaneTiming, Timing
from voicepipe.core.scheduler import Scheduler
from voicepipe.core.turn import Turns
from voicepipe.errors import RecordingError

VERSION = 5
"""Of the lines, and of what core is told: raised when an argument or a command has other fields than before.
Another one is refused."""
LONGEST_SHOWN = 500
"""Characters of a value that a message quotes."""
HOLDS = "what was said, as words, by the user and by the voice; no sound"
MAX_BYTES = 1 << 26
"""The longest bytes that a recording may claim: half an hour of 16 kHz PCM16."""

COMPONENTS: Mapping[str, type[object]] = {"Turns": Turns, "Scheduler": Scheduler}
"""Those whose inputs are recorded, by name."""
SERIAL = "serial"
"""The parameter of a constructor that is no value: what issues work ids. They are recorded as they are drawn."""
NOW = "now"
"""The parameter of an input that stands beside the others in its line."""

_VARIANTS: Mapping[type[object], tuple[type[object], ...]] = {Timing: (Timing, LaneTiming)}
"""Dataclasses in whose place a subclass may come."""
_WORDS = ("nan", "inf", "-inf")


# --- lines


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, tag_field="entry"):
    """An entry of the file."""


class Head(Line, frozen=True, tag="recording"):
    version: int
    holds: str
    voicepipe: str
    """Version of the package that recorded."""
    python: str
    """Version of the interpreter: sums of floats are not rounded alike in all of them."""


class Made(Line, frozen=True, tag="made"):
    """A component came into being; one of the same name is replaced."""

    n: int
    """Counts `Made` and `Input` lines from 1; a gap shows where the disk was too slow for some."""
    name: str
    component: str
    args: dict[str, Any]


class Input(Line, frozen=True, tag="input"):
    n: int
    to: str
    on: str
    """The method."""
    now: float | None = None
    args: dict[str, Any] = {}
    ids: tuple[int, ...] = ()
    """Work ids that were drawn while it was dealt with."""
    out: list[Any] | None = None
    """The commands; None where the method gives none."""
    raised: str | None = None
    """The class of the exception that came instead of commands."""


class End(Line, frozen=True, tag="end"):
    """The file was closed in order."""


Entry = Head | Made | Input | End
_decoder = msgspec.json.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def decode(line: bytes) -> Entry:
    """Raises RecordingError, whose `field` names what is wrong with it."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).partition(" - at `$")
        field = path.rstrip("`").lstrip(".")
        raise RecordingError(f"{field}: {problem}" if field else problem, field=field or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordingError(f"not JSON: {exc}") from None


# --- signatures


REQUIRED = Parameter.empty


@dataclass(frozen=True, slots=True)
class Argument:
    annotation: Any
    default: Any
    """`REQUIRED` where there is none."""


@cache
def arguments_of(function: Callable[..., object]) -> Mapping[str, Argument]:
    """Of a method or constructor, by name, in order; without `self`."""
    hints = get_type_hints(function)
    parameters = list(signature(function).parameters.items())[1:]
    return {name: Argument(hints[name], one.default) for name, one in parameters}


def inputs_of(component: type[object]) -> dict[str, Callable[..., object]]:
    """The methods that may change what it decides next."""
    return {name: getattr(component, name) for name in dir(component) if name.startswith("on_")}


def constructor_of(component: type[object]) -> Callable[..., object]:
    constructor: Callable[..., object] = getattr(component, "__init__")  # noqa: B009 - of a class, not an instance
    return constructor


# --- values


def plain(value: object) -> Any:
    """As JSON holds it."""
    return _lasting(msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True))


def named(value: object) -> Any:
    """A dataclass with its name, anything else as it is."""
    return {type(value).__name__: plain(value)} if is_dataclass(value) else plain(value)


def value_of(annotation: Any, raw: object, field: str) -> Any:
    """The argument that was written as `raw`. Raises RecordingError, naming the part of `field` that is wrong."""
    classes = _classes_of(annotation)
    if classes and not (raw is None and NoneType in get_args(annotation)):
        name, raw = _name_of(raw, classes, field)
        annotation, field = classes[name], f"{field}.{name}"
    try:
        value = msgspec.convert(_revived(raw), annotation, builtin_types=(bytes,))
    except msgspec.ValidationError as exc:
        problem, _, path = str(exc).partition(" - at `$")
        field += path.rstrip("`")
        raise RecordingError(f"{field}: {problem}", field=field) from None
    # Neither a field that is not known nor one that is missing and has a default goes unnoticed.
    if (found := first_difference(raw, plain(value))) is not None:
        field += found.at
        raise RecordingError(f"{field}: {text(found.expected)} was written, {text(found.got)} read", field=field)
    return value


def _classes_of(annotation: Any) -> dict[str, type[object]]:
    """The dataclasses that an argument may be of, by name."""
    members = get_args(annotation) if get_origin(annotation) in (UnionType, Union) else (annotation,)
    variants = (one for member in members for one in _VARIANTS.get(member, (member,)))
    return {one.__name__: one for one in variants if isinstance(one, type) and is_dataclass(one)}


def _name_of(raw: object, classes: Mapping[str, object], field: str) -> tuple[str, object]:
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, inner),) = raw.items()
        if name in classes:
            return name, inner
    raise RecordingError(f"{field}: expected one of {', '.join(classes)}, got {text(raw)}", field=field)


def _lasting(value: Any) -> Any:
    match value:
        case dict():
            return {key: _lasting(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_lasting(inner) for inner in value]
        case bytes():
            return {"bytes": len(value)}
        case float() if not math.isfinite(value):
            return {"float": str(value)}
    return value


def _revived(raw: Any) -> Any:
    match raw:
        case {"bytes": int(size)} if len(raw) == 1 and 0 <= size <= MAX_BYTES:
            return bytes(size)
        case {"float": str(word)} if len(raw) == 1 and word in _WORDS:
            return float(word)
        case dict():
            return {key: _revived(inner) for key, inner in raw.items()}
        case list():
            return [_revived(inner) for inner in raw]
    return raw


# --- comparing


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""Stands where one side has a value and the other has none."""


@dataclass(frozen=True, slots=True)
class Unlike:
    at: str
    """Path below what was compared, such as `[1].Committed.epoch`."""
    expected: object
    got: object


def first_difference(expected: object, got: object, at: str = "") -> Unlike | None:
    """Between two plain values, depth first."""
    match expected, got:
        case dict(), dict() if expected.keys() == got.keys():
            pairs = [(f"{at}.{key}", expected[key], got[key]) for key in expected]
        case list(), list():
            both = zip_longest(expected, got, fillvalue=NOTHING)
            pairs = [(f"{at}[{index}]", one, other) for index, (one, other) in enumerate(both)]
        case _:
            same = expected == got and isinstance(expected, bool) is isinstance(got, bool)
            return None if same else Unlike(at, expected, got)
    differences = (first_difference(one, other, path) for path, one, other in pairs)
    return next((unlike for unlike in differences if unlike is not None), None)


def text(value: object) -> str:
    """For people, in one line, and cut where it is long."""
    whole = repr(value) if value is NOTHING else msgspec.json.encode(value).decode()
    return whole if len(whole) <= LONGEST_SHOWN else f"{whole[:LONGEST_SHOWN]}..."
