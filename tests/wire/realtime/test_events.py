"""One frame to one event, or to what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from voicepipe.errors import BadField, BadFrame, BadJson, ClientError, TooLarge, UnknownType, Unsupported
from voicepipe.wire.realtime import events
from voicepipe.wire.realtime.events import MAX_EVENT_BYTES, choice_of, decode, open_envelope, tools_of
from voicepipe.wire.realtime.names import BETA_CLIENT_EVENTS, CLIENT_EVENTS

SMALLEST: dict[str, dict[str, Any]] = {
    "session.update": {"session": {}},
    "transcription_session.update": {"session": {}},
    "input_audio_buffer.append": {"audio": ""},
    "conversation.item.create": {"item": {"type": "message"}},
    "conversation.item.retrieve": {"item_id": "a"},
    "conversation.item.delete": {"item_id": "a"},
    "conversation.item.truncate": {"item_id": "a", "content_index": 0, "audio_end_ms": 0},
}
"""The fields that an event must have."""


def read(**event: Any) -> events.ClientEvent:
    return decode(open_envelope(json.dumps(event)))


@pytest.mark.parametrize("kind", [*CLIENT_EVENTS, *BETA_CLIENT_EVENTS])
def test_every_event_is_read(kind: str) -> None:
    """With what it must have, with an id, and with fields that nobody knows."""
    event = read(type=kind, event_id="e1", new_in_2030=[1], **SMALLEST.get(kind, {}))
    assert type(event).__struct_config__.tag == kind and event.event_id == "e1"


@pytest.mark.parametrize("kind", SMALLEST)
def test_what_it_must_have_is_asked_for_by_name(kind: str) -> None:
    for missing in SMALLEST[kind]:
        rest = {name: value for name, value in SMALLEST[kind].items() if name != missing}
        with pytest.raises(BadField, match="is required") as caught:
            read(type=kind, **rest)
        assert caught.value.field == missing


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (b"\0\1", BadFrame),
        ("{", BadJson),
        ("[]", BadJson),
        ("{}", BadJson),
        ('{"type": 3}', BadJson),
        ('{"type": "input_audio_buffer.append", "audio": "\ud800"}', BadJson),
        ("[" * 100_000, BadJson),
        (" " * (MAX_EVENT_BYTES + 1), TooLarge),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_event_at_all(frame: str | bytes, fault: type[ClientError]) -> None:
    with pytest.raises(fault):
        open_envelope(frame)


@pytest.mark.parametrize(
    ("event", "fault", "field"),
    [
        ({"type": "no.such.event"}, UnknownType, "type"),
        ({"type": "input_audio_buffer.append", "audio": 3}, BadField, "audio"),
        ({"type": "response.create", "response": {"input": [{"type": 3}]}}, BadField, "response.input[0].type"),
        ({"type": "response.create", "response": {"max_output_tokens": 0}}, BadField, "response.max_output_tokens"),
        ({"type": "response.create", "response": {"metadata": {"a": 1}}}, BadField, "response.metadata[...]"),
        ({"type": "conversation.item.create", "item": {"type": "x", "role": "robot"}}, BadField, "item.role"),
        ({"type": "response.cancel", "event_id": 7}, BadField, "event_id"),
        (
            {"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": -1},
            BadField,
            "audio_end_ms",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_named(event: dict[str, Any], fault: type[ClientError], field: str) -> None:
    with pytest.raises(fault) as caught:
        read(**event)
    assert caught.value.field == field


def test_nothing_that_was_said_is_repeated() -> None:
    for event in ({"type": "my secret words"}, {"type": "session.update", "session": "my secret words"}):
        with pytest.raises(ClientError) as caught:
            read(**event)
        assert "secret" not in caught.value.message


def test_the_id_is_known_of_an_event_that_cannot_be_read() -> None:
    assert open_envelope('{"type": "x", "event_id": "e7"}').event_id == "e7"
    assert open_envelope('{"type": "x", "event_id": 7}').event_id is None


def test_only_functions_are_tools() -> None:
    (tool,) = tools_of([{"name": "clock"}], "session.tools")
    assert (tool.type, tool.name, tool.parameters) == ("function", "clock", {})
    with pytest.raises(Unsupported):
        tools_of([{"type": "mcp", "server_label": "x"}], "session.tools")
    with pytest.raises(BadField) as caught:
        tools_of([{"type": "function"}], "session.tools")
    assert caught.value.field == "session.tools.name"


def test_a_choice_is_a_word_or_a_function() -> None:
    assert choice_of("required", "tool_choice") == "required"
    assert choice_of({"type": "function", "name": "clock"}, "tool_choice") == "clock"
    for other in ({"type": "mcp", "server_label": "x"}, {"type": "function"}, {}):
        with pytest.raises(Unsupported):
            choice_of(other, "tool_choice")
