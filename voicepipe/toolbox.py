"""The tools of a session: what its client offers the model, and whether a call of the model is one of them.

A call is checked against its tool's JSON schema before anybody sees it. Schemas come from the client and arguments
from the model, so that neither is trusted: a check takes `MAX_CHECKS` keywords at most, fetches nothing, and does
not look at regular expressions (`pattern`, `patternProperties`, `format`), whose cost has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from voicepipe.core.events import Call, Tool, Tools
from voicepipe.engines.base import ToolUse
from voicepipe.errors import BadField, BadToolCall
from voicepipe.wire.messages import ToolSpec

MAX_SCHEMA_BYTES: Final = 16 * 1024
MAX_ARGUMENT_CHARACTERS: Final = 16 * 1024
MAX_CALLS: Final = 8
"""In one reply."""
MAX_CHECKS: Final = 5_000
_UNBOUNDED: Final = ("pattern", "patternProperties", "format")
_CHOICES: Final = ("auto", "none", "required")


class _TooCostly(Exception):
    pass


def tools_of(specs: Sequence[ToolSpec], choice: str, field: str = "tools") -> Tools:
    """Raises BadField where a schema is none, names are not unique, or `choice` is not one of them."""
    names = [spec.name for spec in specs]
    for index, spec in enumerate(specs):
        if spec.name in names[:index]:
            raise BadField(f"{field}: two tools of one name", field=f"{field}[{index}].name")
        _check_schema(spec, f"{field}[{index}].parameters")
    check_choice(choice, names)
    return Tools(tuple(Tool(s.name, s.description, _json(s.parameters)) for s in specs), choice)


def check_choice(choice: str, names: Sequence[str]) -> None:
    """`names`: of the tools there are. Raises BadField."""
    if choice not in (*_CHOICES, *names):
        raise BadField("tool_choice: expected auto, none, required or the name of a tool", field="tool_choice")
    if choice == "required" and not names:
        raise BadField("tool_choice: there is no tool to choose", field="tool_choice")


def checked_calls(uses: Sequence[ToolUse], tools: Tools) -> tuple[Call, ...]:
    """Raises BadToolCall; its text repeats nothing of the arguments."""
    if len(uses) > MAX_CALLS:
        raise BadToolCall(f"the model called {len(uses)} tools at once; {MAX_CALLS} are allowed")
    return tuple(_checked(use, tools) for use in uses)


def _checked(use: ToolUse, tools: Tools) -> Call:
    tool = next((tool for tool in tools.those if tool.name == use.name), None)
    if tool is None or tools.choice == "none":
        raise BadToolCall("the model called a tool that it was not offered")
    text = use.arguments or "{}"
    if len(text) > MAX_ARGUMENT_CHARACTERS:
        raise BadToolCall(f"the arguments for {tool.name} have more than {MAX_ARGUMENT_CHARACTERS} characters")
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadToolCall(f"the arguments for {tool.name} are not JSON") from None
    if not isinstance(arguments, dict):
        raise BadToolCall(f"the arguments for {tool.name} are not a JSON object")
    wrong = _misfit(arguments, msgspec.json.decode(tool.parameters))
    if wrong is not None:
        raise BadToolCall(f"the arguments for {tool.name} do not fit its schema: {wrong}")
    return Call(use.call_id, use.name, text)


def _misfit(arguments: object, schema: dict[str, Any]) -> str | None:
    """The keyword that is not met; None where all are."""
    try:
        found = next(_validator(schema).iter_errors(arguments), None)
    except (_TooCostly, RecursionError):
        return "it takes too long to check"
    except Unresolvable:
        return "$ref"
    except (TypeError, ValueError, ArithmeticError):
        return "it cannot be checked"
    return None if found is None else str(found.validator)


def _check_schema(spec: ToolSpec, field: str) -> None:
    if len(_json(spec.parameters)) > MAX_SCHEMA_BYTES:
        raise BadField(f"{field}: a schema may have {MAX_SCHEMA_BYTES} bytes", field=field)
    try:
        Draft202012Validator.check_schema(_bounded(spec.parameters))
    except SchemaError as error:
        at = ".".join(str(part) for part in error.absolute_path if str(part).isidentifier())
        raise BadField(f"{field}: no JSON schema{f', at {at[:80]}' if at else ''}", field=field) from None
    except RecursionError:
        raise BadField(f"{field}: nested too deeply", field=field) from None


def _bounded(value: Any) -> Any:
    """The schema without what is not looked at, so that a check of the schema does not look at it either."""
    if isinstance(value, dict):
        return {key: _bounded(inner) for key, inner in value.items() if key not in _UNBOUNDED}
    return [_bounded(inner) for inner in value] if isinstance(value, list) else value


def _validator(schema: dict[str, Any]) -> Any:
    left = MAX_CHECKS

    def counted(keyword: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
        def check(validator: Any, value: Any, instance: Any, inner: Any) -> Iterator[ValidationError]:
            nonlocal left
            left -= 1
            if left < 0:
                raise _TooCostly
            yield from keyword(validator, value, instance, inner) or ()

        return check

    known = Draft202012Validator.VALIDATORS
    counted_ones = {name: counted(check) for name, check in known.items() if name not in _UNBOUNDED}
    unlooked = {name: lambda *_: () for name in _UNBOUNDED}
    return extend(Draft202012Validator, {**counted_ones, **unlooked})(schema, registry=Registry())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
