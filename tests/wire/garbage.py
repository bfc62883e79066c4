"""Frames that no native client should send: of every kind, with fields that are missing, mistyped, out of range or
out of order; and enough that are right to bring a session to where the wrong ones matter."""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import strategies as st

from tests.wire.realtime.garbage import JUNK, event, fields

U32 = st.sampled_from([0, 1, 2, 3, 2**32 - 1, 2**32, -1])
NAMES = st.sampled_from(["a", "b", "user-1", "assistant-1", "user-2", "c1", "", "x" * 200, "\0"])
WORDS = st.sampled_from(["Hi.", "And then?", "", " ", "​", "x" * 9000]) | st.text(max_size=10)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
TOOLS = st.lists(
    fields(
        name=st.sampled_from(["clock", "weather", ""]),
        description=st.text(max_size=5),
        parameters=st.sampled_from([{}, {"type": "object"}, {"type": "no"}, {"$ref": "#"}]),
    ),
    max_size=3,
) | st.just([{"name": "clock"}] * 40)
CHOICE = st.sampled_from(["auto", "none", "required", "clock", "other"])
SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "instructions": st.none() | WORDS,
    "operating_point": st.sampled_from(["fast", "balanced", "safe", "slow"]),
    "enforcement": st.sampled_from(["degrade", "enforce", "observe", "none"]),
    "turn_taking": st.sampled_from(["auto", "manual"]),
    "mode": st.sampled_from(["voice", "transcription"]),
    "auto_reply": st.booleans(),
    "interruptible": st.booleans(),
    "tools": TOOLS,
    "tool_choice": CHOICE,
    "silence_ms": st.floats(0, 3000) | st.none(),
    "reply_as": st.sampled_from(["speech", "text"]),
    "max_reply_tokens": st.integers(-1, 5000),
}
ANSWER = {
    "instructions": st.none() | WORDS,
    "lines": st.lists(fields(role=ROLES, text=WORDS), max_size=3),
    "keep": st.booleans(),
    "reply_as": SETTINGS["reply_as"],
    "max_reply_tokens": SETTINGS["max_reply_tokens"],
    "tools": TOOLS,
    "tool_choice": CHOICE,
}
AUDIO = fields(rate=st.sampled_from([8000, 16_000, 24_000, 48_000, 96_000, 0]), channels=st.integers(0, 3))
START = event(
    "session.start",
    {"output_rate": st.integers(7000, 50_000), "resume": st.booleans() | NAMES, **SETTINGS},
    protocol=st.just("voicepipe.v1"),
    audio=AUDIO,
)
PLACE = {"id": NAMES, "after": NAMES}
MESSAGES = st.one_of(
    event("session.update", SETTINGS),
    event("playback", epoch=U32, played_samples=U32),
    event("input.commit", {"even_empty": st.booleans()}),
    event("input.clear"),
    event("input.text", text=WORDS),
    event("reply.create", ANSWER),
    event("reply.cancel"),
    event("tool.result", PLACE, call_id=NAMES, output=WORDS),
    event("history.add", PLACE, role=ROLES, text=WORDS),
    event("history.call", PLACE, call_id=NAMES, name=NAMES, arguments=st.sampled_from(["{}", "[", ""])),
    event("history.delete", id=NAMES),
    event("history.truncate", epoch=U32, heard_ms=st.floats(-1, 1e9)),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["session.ready", "turn.ended", "bonjour"]) | st.text()),
)
SOUND = st.builds(
    lambda epoch, offset, pcm: struct.pack(">II", epoch, offset) + pcm,
    st.sampled_from([0, 1, 2**32 - 1]),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40) | st.sampled_from([b"\xff\x7f" * 320, b"\x01" * 641, b""]),
)
TEXTS: st.SearchStrategy[str] = MESSAGES.map(lambda message: json.dumps(message, allow_nan=True))
_ENDINGS: st.SearchStrategy[str | bytes] = st.one_of(
    START.map(json.dumps),
    st.just('{"type": "session.end"}'),
    st.builds(
        lambda text, at, junk: text[: at % len(text)] + junk, TEXTS, st.integers(0, 999), st.text(max_size=3)
    ),
    JUNK.map(json.dumps),
    st.text(max_size=40),
    st.binary(max_size=7),
    st.just("x" * 70_000),
    st.just(bytes(70_000)),
)
"""What a session may well not live through."""
LIVING: st.SearchStrategy[str | bytes] = st.integers(0, 3).flatmap(lambda n: SOUND if n == 0 else TEXTS)
"""What a session should live through, three times out of four a text."""
FRAMES: st.SearchStrategy[str | bytes] = st.integers(0, 9).flatmap(lambda n: _ENDINGS if n > 7 else LIVING)
CALLS: st.SearchStrategy[list[str | bytes]] = st.builds(
    lambda living, last: living + last, st.lists(LIVING, min_size=20, max_size=40), st.lists(FRAMES, max_size=4)
)
"""Of one connection, behind its first frame."""
_GOOD_START = '{"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}'
FIRST: st.SearchStrategy[str] = st.integers(0, 4).flatmap(
    lambda n: (START | JUNK).map(json.dumps) if n == 3 else st.just(_GOOD_START)
)
