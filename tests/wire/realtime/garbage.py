"""Events that nobody should send: of every kind, with fields that are missing, mistyped, too large or misplaced."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from voicepipe.wire.realtime.names import SERVER_EVENTS

IDS = st.sampled_from(["i1", "i2", "item_s1_n4", "item_s1_1_1", "resp_s1_1_1", "root", "", "x" * 200, "\0"])
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["audio/pcm", "server_vad", "auto", "inf", "AAAA", "item_reference", "function", "user"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def mixed(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nine times out of ten what may stand there."""
    return st.integers(0, 9).flatmap(lambda n: JUNK if n == 5 else good)


def fields(**those: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these, each of them right or wrong."""
    return st.fixed_dictionaries({}, optional={name: mixed(value) for name, value in those.items()})


def event(kind: str, optional: dict[str, Any] | None = None, **needed: st.SearchStrategy[Any]) -> Any:
    """With all that it needs, nine times out of ten."""
    right = {name: mixed(value) for name, value in needed.items()}
    more = {"event_id": mixed(st.text(max_size=5))} | {n: mixed(v) for n, v in (optional or {}).items()}
    whole = st.fixed_dictionaries({"type": st.just(kind), **right}, optional=more)
    partial = st.fixed_dictionaries({"type": st.just(kind)}, optional=right | more)
    return st.integers(0, 9).flatmap(lambda n: partial if n == 5 else whole)


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
WHOLE_ITEMS = st.sampled_from(
    [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "message", "id": "i1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
        {"type": "function_call", "id": "i2", "name": "clock", "call_id": "c1", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "noon"},
    ]
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
MS = st.integers(-1, 300) | st.floats(-1, 300)
EVENTS = st.one_of(
    event("session.update", session=SESSION),
    event("transcription_session.update", session=SESSION),
    event("input_audio_buffer.append", audio=AUDIO),
    event("input_audio_buffer.commit"),
    event("input_audio_buffer.clear"),
    event("conversation.item.create", {"previous_item_id": IDS}, item=ITEM | WHOLE_ITEMS),
    event("conversation.item.retrieve", item_id=IDS),
    event("conversation.item.delete", item_id=IDS),
    event("conversation.item.truncate", item_id=IDS, content_index=st.integers(-1, 1), audio_end_ms=MS),
    event("response.create", {"response": RESPONSE | st.just({}) | st.just({"conversation": "none"})}),
    event("response.cancel", {"response_id": IDS}),
    event("output_audio_buffer.clear"),
    st.builds(lambda kind, rest: {"type": kind, **rest}, st.sampled_from(sorted(SERVER_EVENTS)), SESSION),
    st.builds(lambda kind: {"type": kind}, JUNK),
)


def _spoilt(text: str, at: int, junk: str) -> str:
    at %= len(text) + 1
    return text[:at] + junk + text[at + len(junk) :]


TEXTS: st.SearchStrategy[str] = EVENTS.map(lambda event: json.dumps(event, allow_nan=True))
_NO_EVENTS: st.SearchStrategy[str | bytes] = (
    st.builds(_spoilt, TEXTS, st.integers(0, 10_000), st.text(min_size=1, max_size=3))
    | JUNK.map(json.dumps)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
FRAMES: st.SearchStrategy[str | bytes] = st.integers(0, 9).flatmap(lambda n: _NO_EVENTS if n > 7 else TEXTS)
