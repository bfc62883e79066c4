"""Items: what a client may put into a conversation, where it comes to lie, and what the session is told of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from voicepipe.errors import BadField, ClientError, Unsupported
from voicepipe.wire import messages as wire
from voicepipe.wire.realtime.events import ItemParam
from voicepipe.wire.realtime.items import MAX_ITEMS, ROOT, Conversation, Item, item_of, line_of, message_for


def item(**fields: Any) -> Item:
    return item_of(msgspec.convert(fields, ItemParam), "i1")


def text(role: str, kind: str, words: str = "Hi.") -> Item:
    return item(type="message", role=role, content=[{"type": kind, "text": words}])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (text("user", "input_text"), wire.HistoryAdd("user", "Hi.", "item:i1", "x")),
        (text("system", "input_text"), wire.HistoryAdd("system", "Hi.", "item:i1", "x")),
        (text("assistant", "output_text"), wire.HistoryAdd("assistant", "Hi.", "item:i1", "x")),
        (text("assistant", "text"), wire.HistoryAdd("assistant", "Hi.", "item:i1", "x")),
        (
            item(type="message", role="user", content=[{"type": "input_audio", "transcript": "Hi."}]),
            wire.HistoryAdd("user", "Hi.", "item:i1", "x"),
        ),
        (
            item(type="function_call", name="clock", call_id="c1", arguments="{}"),
            wire.HistoryCall("c1", "clock", "{}", "item:i1", "x"),
        ),
        (
            item(type="function_call_output", call_id="c1", output="noon"),
            wire.ToolResult("c1", "noon", "item:i1", "x"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_session_is_told(made: Item, message: wire.ClientMessage) -> None:
    assert message_for(made, "x") == message


def test_parts_are_joined() -> None:
    parts = [{"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."}]
    assert item(type="message", role="user", content=parts).text == "One. Two."


@pytest.mark.parametrize(
    ("fields", "fault", "field"),
    [
        ({"type": "message"}, BadField, "item.role"),
        ({"type": "message", "role": "user"}, BadField, "item.content"),
        ({"type": "message", "role": "user", "content": []}, BadField, "item.content"),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text"}]},
            BadField,
            "item.content[0].text",
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_image"}]},
            Unsupported,
            "item.content[0].type",
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "AAAA"}]},
            Unsupported,
            "item.content[0].transcript",
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x" * 8000}] * 2},
            BadField,
            "item.content",
        ),
        ({"type": "function_call", "call_id": "c1"}, BadField, "item.name"),
        ({"type": "function_call_output", "call_id": "c1"}, BadField, "item.output"),
        ({"type": "item_reference", "id": "x"}, BadField, "item.type"),
        ({"type": "mcp_approval_response"}, Unsupported, "item.type"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_an_item_is_named(fields: dict[str, Any], fault: type[ClientError], field: str) -> None:
    with pytest.raises(fault) as caught:
        item(**fields)
    assert caught.value.field == field


def test_an_item_is_told_as_what_it_is() -> None:
    common = {"id": "i1", "object": "realtime.item", "status": "completed"}
    assert text("assistant", "text").told() == common | {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi."}],
    }
    call = item(type="function_call", name="clock", call_id="c1", arguments="{}").told()
    assert call == common | {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{}"}
    output = item(type="function_call_output", call_id="c1", output="noon").told()
    assert output == common | {"type": "function_call_output", "call_id": "c1", "output": "noon"}


def test_only_messages_are_read_for_a_response() -> None:
    assert line_of(text("user", "input_text")) == wire.HistoryLine("user", "Hi.")
    with pytest.raises(Unsupported):
        line_of(item(type="function_call_output", call_id="c1", output="noon"))


def named(*names: str) -> Conversation:
    conversation = Conversation()
    for name in names:
        conversation.add(Item(name, role="user", line=None if name == "silent" else f"line-{name}"))
    return conversation


def test_an_item_has_its_place() -> None:
    """And the session's line behind the nearest one before it that the session has."""
    conversation = named("a", "silent", "b")
    assert conversation.line_before(ROOT) == ""
    assert conversation.line_before("a") == conversation.line_before("silent") == "line-a"
    assert conversation.add(Item("c"), after="a") == "a"
    assert conversation.add(Item("d"), after=ROOT) is None
    assert conversation.add(Item("e")) == "b"
    assert [one.id for one in conversation] == ["d", "a", "c", "silent", "b", "e"]


def test_the_oldest_is_forgotten() -> None:
    conversation = named(*(str(n) for n in range(MAX_ITEMS + 5)))
    assert conversation.find("4") is None and conversation.find("5") is not None
    assert len(list(conversation)) == MAX_ITEMS
