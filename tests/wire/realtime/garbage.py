"""Events that nobody should send: of every kind, with fields that are missing, mistyped, too large or out of place."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from voicepipe.wire.realtime.names import BETA_CLIENT_EVENTS, CLIENT_EVENTS, SERVER_EVENTS

KINDS = (*CLIENT_EVENTS, *BETA_CLIENT_EVENTS)
IDS = st.sampled_from(["i1", "item_s1_n1", "item_s1_1_1", "resp_s1_1_1", "root", "", "x" * 200, "\0"])
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["audio/pcm", "server_vad", "auto", "inf", "AAAA", "item_reference", "function", "user"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def mixed(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what may stand there."""
    return good | good | good | JUNK


def fields(**those: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these, each of them right or wrong."""
    return st.fixed_dictionaries({}, optional={name: mixed(value) for name, value in those.items()})


TOOL = fields(
    type=st.sampled_from(["function", "mcp"]),
    name=st.sampled_from(["clock", "weather", "", "x" * 200]),
    description=st.text(max_size=10),
    parameters=st.sampled_from([{}, {"type": "object"}, {"type": "no"}, {"$ref": "#"}]),
)
CHOICE = st.sampled_from(["auto", "none", "required", "clock"]) | st.just({"type": "function", "name": "clock"})
FORMAT = fields(
    type=st.sampled_from(["audio/pcm", "audio/pcmu", "audio/pcma"]), rate=st.sampled_from([24000, 8000])
)
DETECTION = st.none() | fields(
    type=st.sampled_from(["server_vad", "semantic_vad"]),
    threshold=st.floats(-1, 2),
    silence_duration_ms=st.integers(-1, 100_000),
    eagerness=st.sampled_from(["low", "auto", "never"]),
    create_response=st.booleans(),
    interrupt_response=st.booleans(),
    idle_timeout_ms=st.integers(),
)
SESSION = fields(
    type=st.sampled_from(["realtime", "transcription"]),
    instructions=st.text(max_size=20),
    output_modalities=st.lists(st.sampled_from(["text", "audio"]), max_size=3),
    max_output_tokens=st.just("inf") | st.integers(-1, 5000),
    tools=st.lists(TOOL, max_size=3),
    tool_choice=CHOICE,
    audio=fields(
        input=fields(format=FORMAT, turn_detection=DETECTION, transcription=st.none() | st.just({})),
        output=fields(format=FORMAT, voice=st.text(max_size=5), speed=st.floats()),
    ),
    turn_detection=DETECTION,
    modalities=st.lists(st.sampled_from(["text", "audio"]), max_size=3),
    input_audio_format=st.sampled_from(["pcm16", "g711_ulaw", "opus"]),
    voicepipe=fields(operating_point=st.sampled_from(["fast", "safe", "none"])),
    prompt=st.none(),
)
PART = fields(
    type=st.sampled_from(["input_text", "input_audio", "input_image", "output_text", "text"]),
    text=st.text(max_size=10),
    transcript=st.text(max_size=10),
    audio=st.just("AAAA"),
)
ITEM = fields(
    type=st.sampled_from(["message", "function_call", "function_call_output", "item_reference", "mcp_tool_call"]),
    id=IDS,
    role=st.sampled_from(["user", "assistant", "system"]),
    content=st.lists(PART, max_size=3),
    call_id=IDS,
    name=st.text(max_size=5),
    arguments=st.just("{}"),
    output=st.text(max_size=5),
)
RESPONSE = fields(
    instructions=st.text(max_size=5),
    conversation=st.sampled_from(["auto", "none", "other"]),
    input=st.lists(ITEM, max_size=3),
    output_modalities=st.lists(st.sampled_from(["text", "audio"]), max_size=3),
    max_output_tokens=st.just("inf") | st.integers(-1, 5000),
    tools=st.lists(TOOL, max_size=3),
    tool_choice=CHOICE,
    metadata=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    audio=fields(output=fields(format=FORMAT)),
)
AUDIO = st.sampled_from(["", "AAAA", "AAAA" * 1600, "A", "====", "ÄÖ", "AA=="])
EVENTS = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(KINDS) | st.sampled_from(KINDS) | st.sampled_from(sorted(SERVER_EVENTS)) | st.text(max_size=9),
    fields(
        event_id=st.text(max_size=5),
        session=SESSION,
        audio=AUDIO,
        item=ITEM,
        item_id=IDS,
        previous_item_id=IDS,
        content_index=st.integers(-1, 2),
        audio_end_ms=st.integers(-1, 2000) | st.floats(),
        response=RESPONSE,
        response_id=IDS,
    ),
)


def _spoilt(text: str, at: int, junk: str) -> str:
    at %= len(text) + 1
    return text[:at] + junk + text[at + len(junk) :]


TEXTS: st.SearchStrategy[str] = EVENTS.map(lambda event: json.dumps(event, allow_nan=True))
FRAMES: st.SearchStrategy[str | bytes] = (
    TEXTS
    | TEXTS
    | TEXTS
    | st.builds(_spoilt, TEXTS, st.integers(0, 10_000), st.text(min_size=1, max_size=3))
    | JUNK.map(json.dumps)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
