"""The tables of a configuration file, as the types of the options have them, and the keys in each.

A table whose keys are names of the user's choice, as `tokens` has them, holds one table per name: its dotted name
has `NAME` in that place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeGuard, get_args, get_origin

import msgspec
from msgspec import Struct

from voicepipe.config.options import Config

NAME = "NAME"


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """Dotted; "" is above all tables."""
    struct: type[Struct]
    options: tuple[str, ...]
    tables: tuple[str, ...]
    """Those that stand in it, by their last names."""
    home: tuple[str, str]
    """The struct and the field that it is the type of."""

    @property
    def keys(self) -> tuple[str, ...]:
        return self.options + self.tables


@dataclass(frozen=True, slots=True)
class Unknown:
    table: str
    key: str
    siblings: tuple[str, ...]
    """Keys that may stand there."""


def dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def tables(struct: type[Struct] = Config, name: str = "", home: tuple[str, str] = ("", "")) -> Iterator[Table]:
    """All of them, each before those in it."""
    fields = msgspec.structs.fields(struct)
    inner_ones = [field.name for field in fields if _is_table(field.type)]
    own = tuple(field.name for field in fields if field.name not in inner_ones)
    yield Table(name, struct, own, tuple(inner_ones), home)
    for field in fields:
        here = (struct.__name__, field.name)
        if (inner := table_of(field.type)) is not None:
            yield from tables(inner, dotted(name, field.name), here)
        elif (inner := named_tables_of(field.type)) is not None:
            yield from tables(inner, dotted(name, field.name, NAME), here)


def table_of(kind: object) -> type[Struct] | None:
    """The options of a table that may be left out or not; None for what is no table."""
    if _is_struct(kind):
        return kind
    return next((inner for inner in get_args(kind) if _is_struct(inner)), None) if _is_optional(kind) else None


def named_tables_of(kind: object) -> type[Struct] | None:
    """Of a table of tables by name, the options of each."""
    if get_origin(kind) is not dict:
        return None
    _, inner = get_args(kind)
    return inner if _is_struct(inner) else None


def unknown_keys(values: Mapping[str, object], struct: type[Struct] = Config, name: str = "") -> Iterator[Unknown]:
    """Each key that is no option, in the order of the file."""
    known = _kinds(struct)
    for key, value in values.items():
        if key not in known:
            yield Unknown(name, key, tuple(known))
        elif isinstance(value, Mapping):
            where = dotted(name, key)
            if (inner := table_of(known[key])) is not None:
                yield from unknown_keys(value, inner, where)
            elif (inner := named_tables_of(known[key])) is not None:
                for own, options in value.items():
                    if isinstance(options, Mapping):
                        yield from unknown_keys(options, inner, dotted(where, own))


def kind_of(field: str) -> object:
    """The type of the option at a dotted key; of an element, where it ends in `[n]`."""
    struct: type[Struct] = Config
    *path, last = field.split(".")
    parts = iter(path)
    for part in parts:
        kind = _kinds(struct)[part]
        inner, by_name = table_of(kind), named_tables_of(kind)
        if by_name is not None:
            next(parts, None)  # the name
        struct = inner or by_name or struct
    name, bracket, _ = last.partition("[")
    kind = _kinds(struct)[name]
    return get_args(_bare(kind))[0] if bracket else kind


def words_of(kind: object) -> tuple[str, ...]:
    """The words that an option, or each element of one, is one of, in the order in which they are declared; none
    for an option of another kind."""
    while get_origin(kind) is not Literal:
        if not get_args(kind):
            return ()
        kind = get_args(kind)[0]
    return get_args(kind)


def _kinds(struct: type[Struct]) -> dict[str, object]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def no_tables(values: Mapping[str, object], struct: type[Struct] = Config, name: str = "") -> Iterator[str]:
    """The dotted name of each value that stands where a table should."""
    for key, kind in _kinds(struct).items():
        where, value = dotted(name, key), values.get(key)
        inner, by_name = table_of(kind), named_tables_of(kind)
        if value is None or (inner is None and by_name is None):
            continue
        if not isinstance(value, Mapping):
            yield where
        elif inner is not None:
            yield from no_tables(value, inner, where)
        elif by_name is not None:
            for own, options in value.items():
                if isinstance(options, Mapping):
                    yield from no_tables(options, by_name, dotted(where, own))
                else:
                    yield dotted(where, own)


def _is_table(kind: object) -> bool:
    return table_of(kind) is not None or named_tables_of(kind) is not None


def _bare(kind: object) -> object:
    """Without what is said about it."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _is_struct(kind: object) -> TypeGuard[type[Struct]]:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _is_optional(kind: object) -> bool:
    return type(None) in get_args(kind)
