"""Every option with its default, its limits and its text, for people.

Texts are read out of the source of `config.options`, where each stands under its option: documentation that is
generated from there cannot say something else.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import msgspec
from msgspec import inspect as kinds

from voicepipe.config import options
from voicepipe.config.tables import Table, dotted, named_tables_of, table_of, tables, words_of

UNITS = {"_ms": "ms", "_s": "s", "_tokens": "tokens", "per_minute": "a minute"}
"""What the end of a name says of its unit."""
TEXT = "text"


@dataclass(frozen=True, slots=True)
class Option:
    table: str
    name: str
    default: object
    """None: not set."""
    kind: str
    """What may stand there: "number from 1 to 60,000, ms"."""
    text: str

    @property
    def key(self) -> str:
        return dotted(self.table, self.name)


@dataclass(frozen=True, slots=True)
class Section:
    """A table, and the options that stand in it and in none of its own tables."""

    name: str
    text: str
    options: tuple[Option, ...]


def sections() -> list[Section]:
    """In the order of the file: an option above all tables before the first of them."""
    return [Section(table.name, _about(table), tuple(_options(table))) for table in tables()]


def _about(table: Table) -> str:
    """What a table is for, after what all of its kind are."""
    return " ".join(filter(None, (_texts()[table.struct.__name__, ""], _texts().get(table.home, ""))))


def _options(table: Table) -> Iterator[Option]:
    for field in msgspec.structs.fields(table.struct):
        if table_of(field.type) is not None or named_tables_of(field.type) is not None:
            continue
        text = _texts()[table.struct.__name__, field.name]
        yield Option(table.name, field.name, field.default, _told(field.type, field.name), text)


@cache
def _texts() -> dict[tuple[str, str], str]:
    """By class and option; "" is the class itself. In one line each."""
    texts: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(options)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        texts[node.name, ""] = " ".join((ast.get_docstring(node) or "").split())
        for option, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(option, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(option.target, ast.Name) and isinstance(text.value, ast.Constant)
                texts[node.name, option.target.id] = " ".join(str(text.value.value).split())
    return texts


def _told(kind: object, name: str) -> str:
    info, words = kinds.type_info(kind), ", ".join(words_of(kind))
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
    told = _kind(info, words)
    return f"{told}, {unit}" if unit and isinstance(info, kinds.IntType | kinds.FloatType) else told


def _kind(kind: kinds.Type, words: str) -> str:
    match kind:
        case kinds.UnionType(types=several):
            return next(_kind(one, words) for one in several if not isinstance(one, kinds.NoneType))
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType():
            return f"whole number{_range(kind)}"
        case kinds.FloatType():
            return f"number{_range(kind)}"
        case kinds.LiteralType():
            return f"one of {words}"
        case kinds.StrType(max_length=most):
            return TEXT if most is None else f"{TEXT} of up to {most} characters"
        case kinds.VarTupleType(item_type=item, min_length=least, max_length=most):
            count = f" of {least} to {most}" if most is not None else ""
            return f"list{count}, each {_kind(item, words)}"
        case _:
            raise AssertionError(f"no words for {kind}")


def _range(kind: kinds.IntType | kinds.FloatType) -> str:
    """ " from 1 to 60,000", " above 0, up to 1"."""
    least, above, most, below = kind.ge, kind.gt, kind.le, kind.lt
    if least is not None:
        return f" from {least:,} to {most:,}"
    begin = "" if above is None else f" above {above:,}"
    end = f", up to {most:,}" if most is not None else "" if below is None else f", below {below:,}"
    return begin + end
