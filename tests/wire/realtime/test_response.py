"""A response by itself: whatever becomes of it, what was begun is ended, and it is done once."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.wire.realtime.talking import Event, kinds
from voicepipe.wire import messages as m
from voicepipe.wire.realtime.config import Config
from voicepipe.wire.realtime.items import Conversation
from voicepipe.wire.realtime.response import ARGUMENTS_PIECE, Response, Terms

SPOKEN = Terms.of(Config())
WRITTEN = Terms.of(Config(spoken=False, max_tokens=20))
PCM = b"\1\0" * 480


def response(terms: Terms = SPOKEN) -> tuple[Response, Conversation]:
    conversation = Conversation()
    return Response("resp_s1_1_1", 1, 1, terms, conversation), conversation


def done(one: Response, **how: Any) -> Event:
    return list(one.done(**{"reason": None, "failure": None, "extension": {}} | how))[-1]["response"]  # type: ignore[no-any-return]


def test_a_spoken_reply_from_its_first_piece_to_its_last() -> None:
    one, conversation = response()
    events = [*one.created(), *one.on_text("It is"), *one.on_audio(PCM), *one.on_text(" noon."), *one.on_audio(PCM)]
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
    ]
    assert base64.b64decode(events[5]["delta"]) == PCM
    (item,) = conversation
    assert (item.status, item.audio_ms, item.line) == ("in_progress", 40.0, "assistant-1")
    ending = list(one.on_end_of_output())
    assert kinds(ending) == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
    ]
    assert ending[1]["transcript"] == "It is noon."
    one.made = m.ReplyMade(1, 1, 30, 4, cut=False)
    told = done(one, extension={"verdict": "met"})
    assert (told["status"], told["status_details"], told["voicepipe"]) == ("completed", None, {"verdict": "met"})
    assert (told["usage"]["input_tokens"], told["usage"]["output_tokens"], told["usage"]["total_tokens"]) == (
        30,
        4,
        34,
    )
    (output,) = told["output"]
    assert output["content"] == [{"type": "output_audio", "transcript": "It is noon."}]
    assert output["status"] == "completed"


def test_a_written_reply_has_no_sound() -> None:
    one, _ = response(WRITTEN)
    events = [*one.on_text("It is noon."), *one.on_end_of_output()]
    assert [kind for kind in kinds(events) if "output_text" in kind] == [
        "response.output_text.delta",
        "response.output_text.done",
    ]
    assert "audio" not in str(kinds(events))
    told = done(one)
    assert told["output"][0]["content"] == [{"type": "output_text", "text": "It is noon."}]
    assert (told["output_modalities"], told["max_output_tokens"]) == (["text"], 20)


def test_the_end_of_the_output_is_told_once() -> None:
    one, _ = response()
    assert not list(one.on_end_of_output())
    list(one.on_text("Hi."))
    assert list(one.on_end_of_output()) and not list(one.on_end_of_output())


@pytest.mark.parametrize(
    ("how", "cut", "status", "details", "item"),
    [
        ({}, False, "completed", None, "completed"),
        ({}, True, "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}, "incomplete"),
        (
            {"reason": "turn_detected"},
            True,
            "cancelled",
            {"type": "cancelled", "reason": "turn_detected"},
            "incomplete",
        ),
        (
            {"reason": "client_cancelled", "failure": ("engine_timeout", "it hung")},
            False,
            "failed",
            {"type": "failed", "error": {"type": "server_error", "code": "engine_timeout", "message": "it hung"}},
            "incomplete",
        ),
    ],
    ids=["completed", "incomplete", "cancelled", "failed"],
)
def test_how_it_ended(how: Event, cut: bool, status: str, details: object, item: str) -> None:
    """What was open is closed before it is done."""
    one, _ = response()
    list(one.on_text("It is"))
    one.made = m.ReplyMade(1, 1, 30, 4, cut=cut)
    events = list(one.done(**{"reason": None, "failure": None, "extension": {}} | how))
    assert kinds(events)[-2:] == ["response.output_item.done", "response.done"]
    told = events[-1]["response"]
    assert (told["status"], told["status_details"], told["output"][0]["status"]) == (status, details, item)


def test_a_reply_that_never_began_has_no_output() -> None:
    one, _ = response()
    events = list(one.done(reason=None, failure=("engine_busy", "no"), extension={}))
    assert kinds(events) == ["response.done"] and events[0]["response"]["output"] == []


def test_arguments_are_streamed_and_told_whole() -> None:
    """Behind what is said, as an item of its own."""
    one, conversation = response()
    list(one.on_text("One moment."))
    arguments = '{"place": "' + "x" * 2 * ARGUMENTS_PIECE + '"}'
    events = list(one.on_call(m.ToolCall(1, 1, "c1", "weather", arguments), "item_2"))
    deltas = [event["delta"] for event in events if event["type"].endswith("arguments.delta")]
    assert len(deltas) > 1 and "".join(deltas) == arguments
    (whole,) = [event for event in events if event["type"].endswith("arguments.done")]
    assert (whole["arguments"], whole["call_id"], whole["name"], whole["output_index"]) == (
        arguments,
        "c1",
        "weather",
        1,
    )
    assert [item.kind for item in conversation] == ["message", "function_call"]
    assert events[0]["item"]["arguments"] == "" and events[-1]["item"]["status"] == "completed"
    assert [item["type"] for item in done(one)["output"]] == ["message", "function_call"]


def test_one_that_is_not_kept_is_no_part_of_the_conversation() -> None:
    one, conversation = response(Terms(True, "audio/pcm", None, None, {"topic": "spam"}, kept=False))
    events = [*one.created(), *one.on_text("Yes."), *one.on_end_of_output()]
    assert not [kind for kind in kinds(events) if kind.startswith("conversation.")]
    assert not list(conversation)
    told = done(one)
    assert (told["conversation_id"], told["metadata"]) == (None, {"topic": "spam"})
    assert told["output"][0]["content"][0]["transcript"] == "Yes."


def test_what_a_phone_line_holds_back_comes_before_the_end() -> None:
    one, _ = response(Terms(True, "audio/pcmu", None, None))
    events = [*one.on_text("Hi."), *one.on_audio(PCM * 10), *one.on_end_of_output()]
    sound = b"".join(base64.b64decode(e["delta"]) for e in events if e["type"] == "response.output_audio.delta")
    assert abs(len(sound) - 1600) <= 1
    assert kinds(events).index("response.output_audio.done") > max(
        index for index, kind in enumerate(kinds(events)) if kind == "response.output_audio.delta"
    )
