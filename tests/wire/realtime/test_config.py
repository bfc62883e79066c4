"""What an update changes, what it comes to for the session, and how it is told in both forms."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.realtime import RealtimeSessionCreateRequest, RealtimeTranscriptionSessionCreateRequest

from voicepipe.errors import BadField, ClientError, Unsupported
from voicepipe.wire import messages as wire
from voicepipe.wire.realtime.config import Config, is_beta

NEW = Config()


def updated(before: Config = NEW, **raw: Any) -> Config:
    return before.merged({"type": "realtime", **raw}, beta=False)


def with_input(**fields: Any) -> Config:
    return updated(audio={"input": fields})


def test_what_is_not_named_stays() -> None:
    """Down to the fields of `audio.input` and `audio.output`."""
    first = updated(
        instructions="Be brief.",
        audio={"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}, "output": {"voice": "joe"}},
    )
    then = updated(first, audio={"input": {"transcription": {"model": "whisper-1"}}}, output_modalities=["text"])
    assert (then.instructions, then.input_format, then.turn_detection) == ("Be brief.", "audio/pcmu", None)
    assert (then.transcription, then.voice, then.spoken) == ({"model": "whisper-1"}, "joe", False)
    assert updated(then) == then


def test_null_takes_away() -> None:
    before = updated(instructions="Be brief.", tools=[{"name": "clock"}], max_output_tokens=20)
    after = updated(before, instructions=None, tools=None, max_output_tokens="inf")
    assert (after.instructions, after.tools, after.max_tokens) == (None, (), None)


@pytest.mark.parametrize(
    ("detection", "native"),
    [
        ({"type": "server_vad"}, wire.SessionUpdate()),
        ({"type": "server_vad", "silence_duration_ms": 700}, wire.SessionUpdate(silence_ms=700.0)),
        ({"type": "server_vad", "silence_duration_ms": 0}, wire.SessionUpdate(silence_ms=32.0)),
        ({"type": "server_vad", "silence_duration_ms": 9000}, wire.SessionUpdate(silence_ms=2500.0)),
        ({"type": "server_vad", "create_response": False}, wire.SessionUpdate(auto_reply=False)),
        ({"type": "server_vad", "interrupt_response": False}, wire.SessionUpdate(interruptible=False)),
        ({"type": "semantic_vad"}, wire.SessionUpdate(operating_point="balanced")),
        ({"type": "semantic_vad", "eagerness": "high"}, wire.SessionUpdate(operating_point="fast")),
        ({"type": "semantic_vad", "eagerness": "low"}, wire.SessionUpdate(operating_point="safe")),
        (None, wire.SessionUpdate(turn_taking="manual", auto_reply=False, interruptible=False)),
    ],
    ids=str,
)
def test_how_turns_are_detected(detection: object, native: wire.SessionUpdate) -> None:
    assert with_input(turn_detection=detection).native() == native


def test_what_replies_are_made_of() -> None:
    tool = {"type": "function", "name": "clock", "description": "Tells it.", "parameters": {"type": "object"}}
    config = updated(
        instructions="Be brief.",
        output_modalities=["text"],
        max_output_tokens=64,
        tools=[tool],
        tool_choice={"type": "function", "name": "clock"},
    )
    assert config.native() == wire.SessionUpdate(
        instructions="Be brief.",
        reply_as="text",
        max_reply_tokens=64,
        tools=(wire.ToolSpec("clock", "Tells it.", {"type": "object"}),),
        tool_choice="clock",
    )


def test_the_extension_goes_before_what_the_protocol_says() -> None:
    """An operating point of ours says more than a silence."""
    config = updated(
        voicepipe={"operating_point": "fast", "enforcement": "enforce"},
        audio={"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}},
    )
    assert config.native() == wire.SessionUpdate(operating_point="fast", enforcement="enforce")


def test_a_transcription_is_not_answered() -> None:
    config = NEW.merged({"type": "transcription"}, beta=False)
    assert (config.native().mode, config.native().auto_reply, config.answers) == ("transcription", False, False)


@pytest.mark.parametrize(
    ("session", "fault", "field"),
    [
        ({"type": "other"}, BadField, "session.type"),
        ({"instructions": 3}, BadField, "session.instructions"),
        ({"instructions": "x" * 20_000}, BadField, "session.instructions"),
        ({"output_modalities": []}, BadField, "session.output_modalities"),
        ({"output_modalities": ["video"]}, BadField, "session.output_modalities[0]"),
        ({"max_output_tokens": 5000}, BadField, "session.max_output_tokens"),
        ({"prompt": {"id": "p1"}}, Unsupported, "session.prompt"),
        ({"tools": [{"type": "mcp"}]}, Unsupported, "session.tools[0].type"),
        ({"tool_choice": {"type": "mcp"}}, Unsupported, "session.tool_choice"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, BadField, "session.audio.input.format.type"),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            BadField,
            "session.audio.input.format.rate",
        ),
        (
            {"audio": {"output": {"format": {"type": "audio/pcmu", "rate": 24000}}}},
            BadField,
            "session.audio.output.format.rate",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 2}}}},
            BadField,
            "session.audio.input.turn_detection.threshold",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}}}},
            Unsupported,
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
        ({"voicepipe": {"operating_point": "reckless"}}, BadField, "session.voicepipe.operating_point"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_is_named(session: dict[str, Any], fault: type[ClientError], field: str) -> None:
    with pytest.raises(fault) as caught:
        NEW.merged(session, beta=False)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("raw", "beta"),
    [
        ({"modalities": ["text"]}, True),
        ({"turn_detection": None}, True),
        ({"voice": "alloy", "instructions": "x"}, True),
        ({"instructions": "x"}, False),
        ({"type": "realtime", "voice": "alloy"}, False),
        ({"audio": {}, "turn_detection": None}, False),
        ({}, False),
    ],
)
def test_the_flat_form_is_known_by_its_fields(raw: dict[str, Any], beta: bool) -> None:
    assert is_beta(raw) is beta


def test_the_flat_form_says_the_same() -> None:
    flat = {
        "modalities": ["audio", "text"],
        "instructions": "Be brief.",
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "g711_alaw",
        "input_audio_transcription": {"model": "whisper-1"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
        "voice": "alloy",
        "max_response_output_tokens": 50,
        "temperature": 0.7,
    }
    nested = {
        "output_modalities": ["audio"],
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "audio": {
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": {"model": "whisper-1"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
            },
            "output": {"format": {"type": "audio/pcma"}, "voice": "alloy"},
        },
    }
    assert NEW.merged(flat, beta=True) == NEW.merged(nested, beta=False)


def test_what_is_told_is_a_session_of_the_protocol() -> None:
    """By the official types, which refuse what they do not know; the extension beside it."""
    config = updated(
        tools=[{"name": "clock"}], tool_choice={"type": "function", "name": "clock"}, output_modalities=["text"]
    )
    told = config.told("sess_1", {"budget_ms": 200.0})
    session = RealtimeSessionCreateRequest.model_validate(told)
    assert session.tools is not None and session.output_modalities == ["text"]
    assert told["voicepipe"] == {"budget_ms": 200.0} and told["id"] == "sess_1"
    assert told["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert told["audio"]["input"]["turn_detection"]["create_response"] is True
    other = NEW.merged({"type": "transcription"}, beta=False).told("sess_1", {})
    RealtimeTranscriptionSessionCreateRequest.model_validate(other)
    assert "output" not in other["audio"] and "instructions" not in other


def test_what_is_told_can_be_sent_back() -> None:
    """A client may change a field of what it was told, and send it all."""
    config = updated(tools=[{"name": "clock"}], audio={"input": {"turn_detection": {"type": "semantic_vad"}}})
    told = config.told("sess_1", {"operating_point": None})
    again = config.merged(told, beta=False)
    assert again.native() == config.native() and again.told("sess_1", {}) == config.told("sess_1", {})
