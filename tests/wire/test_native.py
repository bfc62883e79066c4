"""The native dialect: every message there and back, every limit at its edge, only ClientErrors."""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
import unicodedata
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe import errors
from voicepipe.wire import messages as m
from voicepipe.wire import native

START = {"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}
STAGES = m.Stages(
    endpoint=m.StageTimes(96.0, 0.5),
    asr=m.StageTimes(),
    llm=m.StageTimes(0.0, 20.25),
    tts=m.StageTimes(),
    send=m.StageTimes(0.0, 3.0),
)

CLIENT_SAMPLES = [
    m.SessionStart(audio=m.AudioFormat(16000), protocol="voicepipe.v1"),
    m.SessionStart(
        audio=m.AudioFormat(48000, 2),
        protocol="voicepipe.v1",
        output_rate=8000,
        instructions="Be brief: ü, 日本.",
        operating_point="balanced",
        enforcement="enforce",
        turn_taking="manual",
        mode="transcription",
        auto_reply=False,
        interruptible=False,
        resume="0123abcd",
        tools=(m.ToolSpec("weather", "Tells it.", {"type": "object"}), m.ToolSpec("time")),
    ),
    m.SessionStart(
        audio=m.AudioFormat(16000),
        protocol="voicepipe.v1",
        tool_choice="required",
        silence_ms=500.0,
        reply_as="text",
        max_reply_tokens=64,
    ),
    m.SessionUpdate(),
    m.SessionUpdate("Be brief.", turn_taking="manual", tools=(m.ToolSpec("time"),), tool_choice="time"),
    m.Playback(3, 4800),
    m.InputCommit(),
    m.InputCommit(even_empty=True),
    m.InputClear(),
    m.InputText("hello"),
    m.ReplyCreate(),
    m.ReplyCreate("Say goodbye."),
    m.ReplyCreate(
        lines=(m.HistoryLine("user", "Is this spam?"),),
        keep=False,
        reply_as="text",
        max_reply_tokens=1,
        tools=(),
        tool_choice="none",
    ),
    m.ReplyCancel(),
    m.ToolResult("c1", '{"ok": true}'),
    m.HistoryAdd("assistant", "I said so.", "i1"),
    m.HistoryAdd("user", "I asked."),
    m.HistoryAdd("system", "First of all.", "i0", ""),
    m.HistoryCall("c1", "weather", "{}", "i2", "i1"),
    m.ToolResult("c1", "12 degrees", "i3", "i2"),
    m.HistoryDelete("i1"),
    m.HistoryTruncate(4, 812.5),
    m.SessionEnd(),
]

SERVER_SAMPLES = [
    m.SessionReady("s1", "voicepipe.v1", 22050, 200.0, 143.5),
    m.SessionReady("s1", "voicepipe.v1", 22050, 200.0, None, "token"),
    m.Waiting(2),
    m.Refused("capacity", 1500),
    m.SpeechStarted(),
    m.SpeechStarted(1, 32000),
    m.TranscriptPartial(1, "what is", "the time"),
    m.TranscriptFinal(1, "What is the time?"),
    m.TurnCommitted(1, 1),
    m.TurnReopened(1, 2),
    m.ReplyText(1, 3, "It is "),
    m.ReplyText(1, 3, "noon.", 8000),
    m.ReplyText(1, 3, "noon.", spoken=False),
    m.ReplyDone(1, 3, 24000),
    m.ReplyInterrupted(1, 3, 512.5),
    m.TurnEnded(1, "met", 120.0, 12.5, STAGES, m.Speculation(True, 2, 340.0, 81.5), None),
    m.TurnEnded(2, "missed", None, None, STAGES, m.Speculation(False, 0, 0, 0), m.Blame("llm", "wait", 31.0)),
    m.TurnEnded(3, "refused", None, None, STAGES, m.Speculation(False, 0, 0, 0), None, "late-commit"),
    m.ToolCall(1, 3, "c1", "weather", '{"city": "Bern"}'),
    m.Error("bad_field", "too long", "text"),
    m.Error("engine_failed", "no reply"),
    m.Draining(5000.0),
    m.Draining(5000.0, "token"),
    m.ReplyAcknowledged(1, 3, 8000),
]


def test_the_samples_cover_every_message() -> None:
    assert {type(sample) for sample in CLIENT_SAMPLES} == set(get_args(m.ClientMessage))
    assert {type(sample) for sample in SERVER_SAMPLES} == set(get_args(m.ServerMessage))


def test_native_exports_every_message() -> None:
    for cls in (*get_args(m.ClientMessage), *get_args(m.ServerMessage), m.AudioFrame):
        assert getattr(native, cls.__name__) is cls
        assert cls.__name__ in native.__all__


@pytest.mark.parametrize("message", CLIENT_SAMPLES, ids=lambda sample: type(sample).__name__)
def test_client_messages_come_back_equal(message: m.ClientMessage) -> None:
    text = native.encode_client(message)
    assert isinstance(text, str)
    assert native.decode_client(text) == message
    assert json.loads(text)["type"] == type(message).__struct_config__.tag


@pytest.mark.parametrize("message", SERVER_SAMPLES, ids=lambda sample: type(sample).__name__)
def test_server_messages_come_back_equal(message: m.ServerMessage) -> None:
    text = native.encode_server(message)
    assert isinstance(text, str)
    assert native.decode_server(text) == message
    assert json.loads(text)["type"] == type(message).__struct_config__.tag


OLD_TEXTS = [
    (m.InputCommit(), '{"type":"input.commit"}'),
    (m.ReplyCreate(), '{"type":"reply.create"}'),
    (m.ToolResult("c1", "1"), '{"type":"tool.result","call_id":"c1","output":"1"}'),
    (m.HistoryAdd("user", "Hi."), '{"type":"history.add","role":"user","text":"Hi."}'),
    (
        m.SessionStart(m.AudioFormat(16000), "voicepipe.v1", interruptible=False),
        '{"type":"session.start","audio":{"rate":16000,"channels":1},"protocol":"voicepipe.v1","interruptible":false}',
    ),
]


@pytest.mark.parametrize(("message", "text"), OLD_TEXTS, ids=lambda value: type(value).__name__)
def test_fields_that_came_later_are_not_there_where_they_say_nothing(message: m.ClientMessage, text: str) -> None:
    """An older peer gets what it always got."""
    assert native.encode_client(message) == text
    assert native.encode_server(m.ReplyText(1, 3, "It is ")) == (
        '{"type":"reply.text","turn":1,"epoch":3,"text":"It is "}'
    )


def test_the_dialect_is_the_messages_as_they_stand() -> None:
    """One frame for one message; what is for other dialects is not told."""
    dialect = native.NativeDialect()
    assert dialect.opening() is None and not list(dialect.wishes())
    assert list(dialect.receive('{"type":"reply.cancel"}')) == [m.ReplyCancel()]
    for told in SERVER_SAMPLES:
        assert list(dialect.tell(told)) == [native.encode_server(told)]
    assert list(dialect.tell(m.AudioFrame(1, 2, b"\0\0"))) == [b"\0\0\0\1\0\0\0\2\0\0"]
    assert list(dialect.tell(m.MediaTime(1, 20))) == list(dialect.tell(m.ReplyMade(1, 1, 2, 3, False))) == []
    fault = errors.BadField("text: is required", field="text")
    assert list(dialect.fault(fault)) == [native.encode_server(m.Error("bad_field", "text: is required", "text"))]
    assert not dialect.is_fatal(fault) and dialect.is_fatal(errors.TooLarge("much"))


def test_turn_ended_on_the_wire() -> None:
    """The object that scripts read, field by field; null where there is nothing to say."""
    text = native.encode_server(SERVER_SAMPLES[16])
    zero = {"wait_ms": 0.0, "service_ms": 0.0}
    assert json.loads(text) == {
        "type": "turn.ended",
        "turn": 2,
        "verdict": "missed",
        "felt_estimate_ms": None,
        "system_ms": None,
        "stages": {
            "endpoint": {"wait_ms": 96.0, "service_ms": 0.5},
            "asr": zero,
            "llm": {"wait_ms": 0.0, "service_ms": 20.25},
            "tts": zero,
            "send": {"wait_ms": 0.0, "service_ms": 3.0},
        },
        "speculation": {"hit": False, "attempts": 0, "saved_ms": 0, "wasted_ms": 0},
        "blame": {"stage": "llm", "kind": "wait", "ms": 31.0},
        "reason": None,
    }


def test_channels_default_to_one_and_choices_stay_open() -> None:
    start = native.decode_client(json.dumps(START))
    assert start == m.SessionStart(audio=m.AudioFormat(16000, 1), protocol="voicepipe.v1")
    assert start.enforcement is None
    assert start.turn_taking == "auto"


@pytest.mark.parametrize("resume", [True, False, None, "abc"])
def test_resume_is_a_wish_or_a_token(resume: object) -> None:
    start = native.decode_client(json.dumps({**START, "resume": resume}))
    assert isinstance(start, m.SessionStart)
    assert start.resume == resume


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    text = json.dumps({**START, "audio": {"rate": 8000, "codec": "x"}, "later": [1, {"a": None}]})
    start = native.decode_client(text)
    assert isinstance(start, m.SessionStart)
    assert start.audio == m.AudioFormat(8000)


# --- limits ---------------------------------------------------------------------------------------


def with_start(**fields: object) -> dict[str, object]:
    return {**START, **fields}


BAD_FIELDS: list[tuple[dict[str, Any], str, str]] = [
    (with_start(audio={"rate": 7999}), "audio.rate", "8000"),
    (with_start(audio={"rate": 48001}), "audio.rate", "48000"),
    (with_start(audio={"rate": "16000"}), "audio.rate", "expected int"),
    (with_start(audio={"rate": True}), "audio.rate", "expected int"),
    (with_start(audio={"rate": 16000.5}), "audio.rate", "expected int"),
    (with_start(audio={"rate": 16000, "channels": 0}), "audio.channels", ">= 1"),
    (with_start(audio={"rate": 16000, "channels": 3}), "audio.channels", "<= 2"),
    (with_start(audio={}), "audio.rate", "required"),
    ({"type": "session.start", "protocol": "voicepipe.v1"}, "audio", "required"),
    ({"type": "session.start", "audio": {"rate": 16000}}, "protocol", "required"),
    (with_start(protocol="voicepipe.v2"), "protocol", "voicepipe.v1"),
    (with_start(output_rate=4000), "output_rate", "8000"),
    (with_start(instructions="x" * 16_385), "instructions", "16384"),
    (with_start(operating_point="reckless"), "operating_point", "balanced, fast, safe"),
    (with_start(enforcement="strict"), "enforcement", "degrade, enforce, observe"),
    (with_start(turn_taking="none"), "turn_taking", "auto, manual"),
    (with_start(mode="video"), "mode", "transcription, voice"),
    (with_start(auto_reply="yes"), "auto_reply", "bool"),
    (with_start(resume=""), "resume", "1"),
    (with_start(resume="t" * 129), "resume", "128"),
    (with_start(tools=[{"name": "n"}] * 33), "tools", "32"),
    (with_start(tools=[{"name": ""}]), "tools[0].name", "1"),
    (with_start(tools=[{"description": "x"}]), "tools[0].name", "required"),
    ({"type": "playback", "epoch": -1, "played_samples": 0}, "epoch", ">= 0"),
    ({"type": "playback", "epoch": 2**32, "played_samples": 0}, "epoch", "4294967295"),
    ({"type": "playback", "epoch": 0, "played_samples": 10**400}, "played_samples", "4294967295"),
    ({"type": "playback", "epoch": 0, "played_samples": None}, "played_samples", "int"),
    ({"type": "input.text", "text": ""}, "text", "more than white space"),
    ({"type": "input.text", "text": " \t\n\u00a0\u3000"}, "text", "more than white space"),
    ({"type": "history.add", "role": "user", "text": " "}, "text", "more than white space"),
    ({"type": "input.text", "text": "\u200b"}, "text", "invisible"),
    ({"type": "input.text", "text": "\0"}, "text", "invisible"),
    ({"type": "input.text", "text": "\ufeff \u2028\u202e\x7f\U000e0041"}, "text", "invisible"),
    ({"type": "history.add", "role": "user", "text": "\u00ad\n"}, "text", "invisible"),
    ({"type": "input.text", "text": "x" * 8193}, "text", "8192"),
    ({"type": "history.add", "role": "tool", "text": "x"}, "role", "assistant, system, user"),
    ({"type": "history.add", "role": "user", "text": "x" * 8193}, "text", "8192"),
    ({"type": "history.truncate", "epoch": 1, "heard_ms": -0.5}, "heard_ms", ">= 0"),
    ({"type": "history.truncate", "epoch": 1, "heard_ms": 1e300}, "heard_ms", "86400000"),
    ({"type": "tool.result", "call_id": "c" * 129, "output": ""}, "call_id", "128"),
]


@pytest.mark.parametrize(("message", "field", "limit"), BAD_FIELDS)
def test_a_bad_field_is_named_with_its_limit(message: dict[str, Any], field: str, limit: str) -> None:
    with pytest.raises(errors.BadField) as caught:
        native.decode_client(json.dumps(message))
    assert caught.value.field == field
    assert limit in caught.value.message
    assert caught.value.message.startswith(f"{message['type']}: {field}: ")


def test_blank_are_the_characters_that_unicode_calls_so() -> None:
    """Control, format and space; each alone is no text. This Python may not know the newest ones yet."""
    visible = re.compile(m._VISIBLE)
    kinds = {unicodedata.category(char) for char in map(chr, range(sys.maxunicode + 1)) if not visible.match(char)}
    assert kinds - {"Cn"} == {"Cc", "Cf", "Zs", "Zl", "Zp"}
    wrong = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if visible.match(char) and unicodedata.category(char) in kinds - {"Cn"}
    ]
    assert wrong == []


def test_a_single_visible_character_is_text() -> None:
    """Among invisible ones, which stay: they join emoji and shape scripts."""
    for text in ("\u200b?\u200b", "\U0001f469\u200d\U0001f52c", "\u0645\u06cc\u200c\u062e"):
        assert native.decode_client(json.dumps({"type": "input.text", "text": text})) == m.InputText(text)


def test_values_at_the_edge_are_good() -> None:
    for message in (
        with_start(audio={"rate": 8000, "channels": 2}, output_rate=48000),
        with_start(instructions="ü" * 16_384, resume="t" * 128, tools=[{"name": "n"}] * 32),
        {"type": "playback", "epoch": 2**32 - 1, "played_samples": 0},
        {"type": "input.text", "text": "x" * 8192},
        {"type": "history.truncate", "epoch": 0, "heard_ms": 0},
    ):
        native.decode_client(json.dumps(message, ensure_ascii=False))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        "3",
        "null",
        "{}",
        '{"type": 3}',
        '{"type": "playback", "epoch": NaN, "played_samples": 0}',
        '{"type": "playback"} x',
        '{"type": "input.text", "text": "\\ud800"}',
        '{"type": "input.text", "text": "\ud800"}',
        '{"type": "input.commit", "x": ' + "[" * 60_000,
        '{"type": "input.commit", "x": ' + "[" * 30_000 + "]" * 30_000 + "}",
        '{"type": "session.start", "tools": [{"name": "n", "parameters": {"a": ' + "[" * 60_000,
    ],
)
def test_what_is_no_message_at_all(text: str) -> None:
    with pytest.raises(errors.BadJson) as caught:
        native.decode_client(text)
    assert len(caught.value.message) < 200


def test_an_infinite_number_is_refused() -> None:
    with pytest.raises(errors.BadField) as caught:
        native.decode_client('{"type": "history.truncate", "epoch": 1, "heard_ms": 1e999}')
    assert caught.value.field == "heard_ms"


def test_unknown_types() -> None:
    with pytest.raises(errors.UnknownType, match=r"'reply\.sing'"):
        native.decode_client('{"type": "reply.sing"}')
    with pytest.raises(errors.UnknownType):
        native.decode_server('{"type": "session.start"}')


def test_no_error_repeats_what_was_said() -> None:
    for text in (
        '{"type": "my secret words"}',
        json.dumps(with_start(mode="my secret words")),
        '{"type": "input.text", "text": ["my secret words"]}',
        '{"type": "input.text", "text": "my secret words" "}',
    ):
        with pytest.raises(errors.ClientError) as caught:
            native.decode_client(text)
        assert "secret" not in caught.value.message


@pytest.mark.parametrize("text", ["x" * 65_537, "ü" * 32_769])
def test_a_text_frame_over_64_kib_is_not_parsed(text: str) -> None:
    with pytest.raises(errors.TooLarge, match="65536") as caught:
        native.decode_client(text)
    assert caught.value.field == "text frame"
    with pytest.raises(errors.BadJson):
        native.decode_client(text[:-1])


# --- the request ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "200", "199.5", "60000", "00200", "60000.000000"])
def test_a_budget_is_read(text: str) -> None:
    assert native.parse_budget_ms(text) == float(text)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.999999", "60000.1", "99999", "-1", "+1", "1_0", "1e2", "1e-300", "nan", "inf", "٢٠٠", " 1", "1\n"],
)
def test_what_is_no_budget_is_refused_by_name_without_repeating_it(text: str) -> None:
    with pytest.raises(errors.BadField) as caught:
        native.parse_budget_ms(text)
    assert caught.value.field == "budget_ms"
    assert caught.value.message == "budget_ms must be a decimal number from 1 to 60000, such as 200"


# --- audio ----------------------------------------------------------------------------------------


def test_audio_frame_bytes() -> None:
    frame = m.AudioFrame(epoch=2, offset_samples=0x01020304, pcm=b"\x05\x06")
    data = b"\x00\x00\x00\x02\x01\x02\x03\x04\x05\x06"
    assert native.encode_server(frame) == data
    assert native.encode_client(frame) == data
    assert native.decode_client(data) == frame
    assert native.decode_server(data) == frame


def test_an_odd_payload_is_for_the_ingest_to_join() -> None:
    """161, 51 and 13 bytes of sound: what counts is the stream, not where it was cut."""
    stream = bytes(range(225))
    parts = [stream[:161], stream[161:212], stream[212:]]
    frames = [native.decode_client(native.encode_client(m.AudioFrame(0, 0, p))) for p in parts]
    assert b"".join(f.pcm for f in frames if isinstance(f, m.AudioFrame)) == stream


def test_half_a_sample_from_a_server_is_a_fault() -> None:
    with pytest.raises(errors.BadFrame):
        native.decode_server(bytes(8) + b"\x00")


@pytest.mark.parametrize("size", range(8))
def test_a_header_has_eight_bytes(size: int) -> None:
    with pytest.raises(errors.BadFrame):
        native.decode_client(bytes(size))


def test_a_frame_without_sound_is_empty() -> None:
    assert native.decode_client(bytes(8)) == m.AudioFrame(0, 0, b"")


def test_a_binary_frame_over_64_kib_is_refused() -> None:
    assert isinstance(native.decode_client(bytes(65_536)), m.AudioFrame)
    with pytest.raises(errors.TooLarge, match="65536") as caught:
        native.decode_client(bytes(65_537))
    assert caught.value.field == "binary frame"


def test_the_sample_clock_wraps() -> None:
    data = native.encode_client(m.AudioFrame(0, 2**32 + 7, b""))
    assert native.decode_client(data) == m.AudioFrame(0, 7, b"")


def test_no_allocation_by_a_peers_number() -> None:
    """A header of all ones (an offset of 4 G samples) costs no more than the frame itself."""
    data = b"\xff" * 10
    tracemalloc.start()
    try:
        native.decode_client(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


# --- fuzz -----------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["voicepipe.v1", "auto", "fast", "voice"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
TAGS = [str(cls.__struct_config__.tag) for cls in (*get_args(m.ClientMessage), *get_args(m.ServerMessage))]
FIELDS = sorted({field.name for cls in get_args(m.ClientMessage) for field in msgspec.structs.fields(cls)})
near_messages = st.builds(
    lambda tag, fields: {"type": tag, **fields},
    st.sampled_from(TAGS),
    st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6),
).map(lambda value: json.dumps(value, ensure_ascii=False))


@settings(max_examples=300, deadline=None)
@given(st.text() | st.binary(max_size=64) | near_messages)
def test_a_decoder_raises_nothing_but_client_errors(data: str | bytes) -> None:
    for decode in (native.decode_client, native.decode_server):
        try:
            decode(data)
        except errors.ClientError as exc:
            assert exc.message


@settings(max_examples=200, deadline=None)
@given(
    epoch=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 2**32 - 1),
    pcm=st.binary(max_size=200).filter(lambda data: len(data) % 2 == 0),
)
def test_any_audio_frame_comes_back_equal(epoch: int, offset: int, pcm: bytes) -> None:
    frame = m.AudioFrame(epoch, offset, pcm)
    assert native.decode_server(native.encode_server(frame)) == frame


ms = st.floats(-1e6, 1e6, allow_nan=False)
stage_times = st.builds(m.StageTimes, ms, ms)
server_messages = st.one_of(
    st.builds(m.TranscriptPartial, st.integers(1, 9999), st.text(), st.text()),
    st.builds(m.ReplyText, st.integers(1, 9999), st.integers(0, 2**32 - 1), st.text()),
    st.builds(
        m.TurnEnded,
        turn=st.integers(1, 9999),
        verdict=st.sampled_from(get_args(m.Verdict)),
        felt_estimate_ms=st.none() | ms,
        system_ms=st.none() | ms,
        stages=st.builds(m.Stages, stage_times, stage_times, stage_times, stage_times, stage_times),
        speculation=st.builds(m.Speculation, st.booleans(), st.integers(0, 99), ms, ms),
        blame=st.none() | st.builds(m.Blame, st.text(), st.text(), ms),
    ),
)


@settings(max_examples=200, deadline=None)
@given(server_messages)
def test_any_server_message_comes_back_equal(message: m.ServerMessage) -> None:
    assert native.decode_server(native.encode_server(message)) == message


client_messages = st.one_of(
    st.builds(
        m.SessionStart,
        audio=st.builds(m.AudioFormat, st.integers(8000, 48000), st.integers(1, 2)),
        protocol=st.just("voicepipe.v1"),
        output_rate=st.none() | st.integers(8000, 48000),
        instructions=st.none() | st.text(max_size=200),
        operating_point=st.none() | st.sampled_from(get_args(m.OperatingPoint)),
        enforcement=st.none() | st.sampled_from(get_args(m.Enforcement)),
        turn_taking=st.sampled_from(get_args(m.TurnTaking)),
        mode=st.sampled_from(get_args(m.Mode)),
        auto_reply=st.booleans(),
        interruptible=st.booleans(),
        resume=st.none() | st.booleans() | st.text(min_size=1, max_size=128),
        tools=st.lists(st.builds(m.ToolSpec, st.text(min_size=1, max_size=128)), max_size=m.MAX_TOOLS).map(tuple),
    ),
    st.builds(m.InputText, st.text(max_size=300).filter(re.compile(m._VISIBLE).search)),
    st.builds(m.HistoryTruncate, st.integers(0, 2**32 - 1), st.floats(0, m.MAX_MS)),
)


@settings(max_examples=200, deadline=None)
@given(client_messages)
def test_any_client_message_comes_back_equal(message: m.ClientMessage) -> None:
    assert native.decode_client(native.encode_client(message)) == message
