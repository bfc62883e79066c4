"""The items of a conversation, as the client knows them: messages, calls of functions, and what came of those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from voicepipe.errors import BadField, Unsupported
from voicepipe.wire import messages as wire
from voicepipe.wire.realtime.events import ItemParam, Part
from voicepipe.wire.realtime.faults import Refusal

MAX_ITEMS: Final = 1000
"""The oldest is forgotten beyond that; the session's own memory is shorter."""
ROOT: Final = "root"

Status = Literal["in_progress", "completed", "incomplete"]


@dataclass(slots=True)
class Item:
    id: str
    kind: Literal["message", "function_call", "function_call_output"] = "message"
    role: str | None = None
    content: list[dict[str, Any]] = field(default_factory=list)
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None
    status: Status = "completed"
    line: str | None = None
    """Name of what the session has of it in its history; None where it has nothing."""
    epoch: int | None = None
    """Of the reply that it is."""
    audio_ms: float = 0.0
    """Sound of it that was handed out."""

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": self.id,
            "object": "realtime.item",
            "type": self.kind,
            "status": self.status,
        }
        if self.kind == "message":
            return told | {"role": self.role, "content": [dict(part) for part in self.content]}
        if self.kind == "function_call":
            return told | {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
        return told | {"call_id": self.call_id, "output": self.output}

    @property
    def text(self) -> str:
        """What is said or written in it."""
        parts = (part.get("text") or part.get("transcript") or "" for part in self.content)
        return " ".join(part for part in parts if part)


class Conversation:
    def __init__(self) -> None:
        self._items: list[Item] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def find(self, ident: str) -> Item | None:
        return next((item for item in self._items if item.id == ident), None)

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Behind that item, or `ROOT`, or the last one. Id of the one that is before it now."""
        index = len(self._items) if after is None else 0 if after == ROOT else self._index(after) + 1
        self._items.insert(index, item)
        before = None if index == 0 else self._items[index - 1].id
        del self._items[:-MAX_ITEMS]
        return before

    def free(self, ident: str) -> str:
        """That id, or one like it where there is such an item: a client may bring it from another session."""
        found, number = ident, 1
        while self.find(found) is not None:
            number += 1
            found = f"{ident}_{number}"
        return found

    def remove(self, item: Item) -> None:
        self._items.remove(item)

    def line_before(self, after: str) -> str:
        """Name of the session's line that something behind that item comes behind; "" for its beginning."""
        if after == ROOT:
            return ""
        lines = [item.line for item in self._items[: self._index(after) + 1] if item.line is not None]
        return lines[-1] if lines else ""

    def _index(self, ident: str) -> int:
        return next(index for index, item in enumerate(self._items) if item.id == ident)


def item_of(param: ItemParam, ident: str) -> Item:
    """Raises BadField, and Unsupported for what cannot be a part of a conversation here."""
    match param.type:
        case "message":
            return _message(param, ident)
        case "function_call":
            name, arguments = _required(param.name, "name"), _required(param.arguments, "arguments")
            call_id = param.call_id or ident
            return Item(ident, "function_call", call_id=call_id, name=name, arguments=arguments, line=_line(ident))
        case "function_call_output":
            call_id, output = _required(param.call_id, "call_id"), _required(param.output, "output")
            return Item(ident, "function_call_output", call_id=call_id, output=output, line=_line(ident))
        case "item_reference":
            raise BadField("item.type: a reference is for the input of a response", field="item.type")
    raise Unsupported("item.type: expected message, function_call or function_call_output", field="item.type")


def message_for(item: Item, after: str | None) -> wire.HistoryAdd | wire.HistoryCall | wire.ToolResult:
    """What puts it into the session's history; `after`: name of a line."""
    match item.kind:
        case "function_call":
            assert item.call_id is not None and item.name is not None and item.arguments is not None
            return wire.HistoryCall(item.call_id, item.name, item.arguments, item.line, after)
        case "function_call_output":
            assert item.call_id is not None and item.output is not None
            return wire.ToolResult(item.call_id, item.output, item.line, after)
    return wire.HistoryAdd(_role(item.role), item.text, item.line, after)


def line_of(item: Item) -> wire.HistoryLine:
    """Raises Unsupported for what is no message."""
    if item.kind != "message" or not item.text:
        raise Unsupported("response.input: only messages with a text are taken", field="response.input")
    return wire.HistoryLine(_role(item.role), item.text)


def _line(ident: str) -> str:
    """Not to be taken for a name that the session gives."""
    return f"item:{ident}"


def _role(role: str | None) -> wire.HistoryRole:
    return "system" if role == "system" else "assistant" if role == "assistant" else "user"


def _message(param: ItemParam, ident: str) -> Item:
    role = _required(param.role, "role")
    parts = [_part(part, role, index) for index, part in enumerate(param.content or [])]
    if not parts:
        raise BadField("item.content: a message has a part at least", field="item.content")
    item = Item(ident, role=role, content=parts, line=_line(ident))
    if len(item.text) > wire.MAX_TEXT_CHARS:
        raise BadField(f"item.content: expected length <= {wire.MAX_TEXT_CHARS}", field="item.content")
    return item


def _part(part: Part, role: str, index: int) -> dict[str, Any]:
    field = f"item.content[{index}]"
    if part.type == "input_image":
        raise Unsupported(f"{field}: images are not offered", field=f"{field}.type")
    text = part.text or part.transcript
    if part.type == "input_audio" and text is None:
        raise Unsupported(
            f"{field}: sound in an item is taken with its transcript only; send it to the input audio buffer",
            field=f"{field}.transcript",
        )
    if text is None:
        raise BadField(f"{field}.text: is required", field=f"{field}.text")
    if part.type == "input_audio":
        return {"type": "input_audio", "transcript": text}
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise BadField(f"item.{name}: is required", field=f"item.{name}")
    return value


def unknown_item(verb: str, field: str = "item_id") -> Refusal:
    return Refusal(f"item_{verb}_invalid_item_id", f"{field}: there is no such item", field=field)
