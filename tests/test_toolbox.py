"""Tools as a client offers them, and calls of them as a model makes them: neither is trusted."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from voicepipe.core.events import Call, Tools
from voicepipe.engines.base import ToolUse
from voicepipe.errors import BadField, BadToolCall
from voicepipe.toolbox import (
    MAX_ARGUMENT_CHARACTERS,
    MAX_CALLS,
    MAX_SCHEMA_BYTES,
    check_choice,
    checked_calls,
    tools_of,
)
from voicepipe.wire.messages import ToolSpec

PLACE = {
    "type": "object",
    "properties": {"place": {"type": "string", "maxLength": 20}, "days": {"$ref": "#/$defs/days"}},
    "required": ["place"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "integer", "minimum": 1}},
}


def offered(schema: dict[str, Any] | None = None, choice: str = "auto") -> Tools:
    return tools_of([ToolSpec("weather", "Tells it.", schema or PLACE)], choice)


def used(arguments: str, name: str = "weather") -> list[ToolUse]:
    return [ToolUse("call_1", name, arguments)]


def test_a_call_that_fits_is_one() -> None:
    """As the model wrote it."""
    text = '{"place": "Oslo", "days": 2}'
    assert checked_calls(used(text), offered()) == (Call("call_1", "weather", text),)
    assert checked_calls([], Tools()) == ()


def test_no_arguments_are_an_empty_object() -> None:
    assert checked_calls(used(""), offered({"type": "object"}))[0].arguments == "{}"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"place": 3}', "type"),
        ('{"days": 3}', "required"),
        ('{"place": "Oslo", "days": 0}', "minimum"),
        ('{"place": "Oslo", "colour": 1}', "additionalProperties"),
        ('{"place": "Oslooooooooooooooooooooooooo"}', "maxLength"),
        ('["Oslo"]', "not a JSON object"),
        ('{"place": "Os', "not JSON"),
        ("[" * 50_000, "more than"),
        ("[" * 5_000, "not JSON"),
        (json.dumps({"place": "x" * MAX_ARGUMENT_CHARACTERS}), "more than"),
        ('{"place": "\ud800"}', "not JSON"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_call_that_does_not_fit_is_none(arguments: str, why: str) -> None:
    """And the reason repeats nothing of it."""
    with pytest.raises(BadToolCall, match=why) as caught:
        checked_calls(used(arguments), offered())
    assert "Oslo" not in caught.value.message


def test_a_tool_that_is_not_at_hand_cannot_be_called() -> None:
    for name, tools in (("clock", offered()), ("weather", Tools()), ("weather", offered(choice="none"))):
        with pytest.raises(BadToolCall, match="not offered"):
            checked_calls(used('{"place": "Oslo"}', name), tools)


def test_more_calls_than_a_reply_may_have() -> None:
    with pytest.raises(BadToolCall, match=f"{MAX_CALLS} are allowed"):
        checked_calls(used('{"place": "Oslo"}') * (MAX_CALLS + 1), offered())


def chain(depth: int) -> dict[str, Any]:
    """A schema whose check doubles with each of its definitions."""
    rules: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": {**rules, f"d{depth}": {"type": "object"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        chain(40),
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/$defs/none"},
        {"properties": {"place": {"enum": [[["x"] * 3] * 3] * 3}}},
        {"properties": {"n": {"multipleOf": 1e-320}}},
    ],
    ids=lambda schema: str(schema)[:40],
)
def test_a_schema_cannot_keep_the_server(schema: dict[str, Any]) -> None:
    """Neither by its size when it is unfolded, nor by something to be fetched."""
    began = time.perf_counter()
    with pytest.raises(BadToolCall, match="schema"):
        checked_calls(used('{"place": "Oslo", "n": 1e308}'), offered(schema))
    assert time.perf_counter() - began < 5.0


def test_regular_expressions_are_not_looked_at() -> None:
    """One of them could take for ever."""
    slow = {"properties": {"place": {"pattern": "^(a+)+$", "format": "date"}}, "patternProperties": {"(a+)+$": {}}}
    assert checked_calls(used(json.dumps({"place": "a" * 5_000 + "!"})), offered(slow))
    assert offered({"properties": {"place": {"pattern": "("}}})


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"type": "no-such-type"}, "tools[0].parameters"),
        ({"properties": 3}, "tools[0].parameters"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "tools[0].parameters"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_schema_is_refused_when_it_is_offered(schema: dict[str, Any], field: str) -> None:
    with pytest.raises(BadField) as caught:
        offered(schema)
    assert caught.value.field == field


def test_names_are_unique() -> None:
    with pytest.raises(BadField) as caught:
        tools_of([ToolSpec("clock"), ToolSpec("clock")], "auto", "session.tools")
    assert caught.value.field == "session.tools[1].name"


@pytest.mark.parametrize(("choice", "names", "ok"), [
    ("auto", [], True), ("none", [], True), ("required", ["clock"], True), ("clock", ["clock"], True),
    ("required", [], False), ("clock", [], False), ("", ["clock"], False),
])  # fmt: skip
def test_a_choice_is_among_what_there_is(choice: str, names: list[str], ok: bool) -> None:
    if ok:
        check_choice(choice, names)
        return
    with pytest.raises(BadField, match="tool_choice"):
        check_choice(choice, names)
