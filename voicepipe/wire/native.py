"""The native dialect, sans-I/O: frames in, messages out, and back.

A text frame is one JSON object with a `type`; a binary frame is an 8-byte header (epoch u32,
offset_samples u32, big-endian) and PCM16LE. Unknown fields are ignored, so that either side may be
newer; known fields are typed and range-checked. A decoder raises `ClientError`s and nothing else,
whatever it is fed, and looks at nothing before the frame's size has passed. An error's text never
repeats a value out of the frame.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Final, TypeVar, get_args

import msgspec
from msgspec.inspect import LiteralType, Metadata, StructType, UnionType, type_info

from voicepipe.errors import (
    BadField,
    BadFrame,
    BadJson,
    ClientError,
    TooLarge,
    UnknownType,
    VoicepipeError,
)
from voicepipe.wire.messages import (
    MAX_BUDGET_MS,
    MIN_BUDGET_MS,
    PROTOCOL,
    U32_MAX,
    AudioFormat,
    AudioFrame,
    Blame,
    ClientMessage,
    Draining,
    Enforcement,
    Error,
    HistoryAdd,
    HistoryCall,
    HistoryDelete,
    HistoryLine,
    HistoryTruncate,
    InputClear,
    InputCommit,
    InputText,
    MediaTime,
    Mode,
    OperatingPoint,
    Playback,
    Refused,
    ReplyAcknowledged,
    ReplyCancel,
    ReplyCreate,
    ReplyDone,
    ReplyInterrupted,
    ReplyMade,
    ReplyText,
    ServerMessage,
    SessionEnd,
    SessionReady,
    SessionStart,
    SessionUpdate,
    Speculation,
    SpeechStarted,
    Stages,
    StageTimes,
    Told,
    ToolCall,
    ToolResult,
    ToolSpec,
    TranscriptFinal,
    TranscriptPartial,
    TurnCommitted,
    TurnEnded,
    TurnReopened,
    TurnTaking,
    Verdict,
    Waiting,
)
from voicepipe.wire.text_frames import utf8_of

__all__ = [
    "HEADER_BYTES",
    "MAX_BINARY_BYTES",
    "MAX_TEXT_BYTES",
    "PROTOCOL",
    "AudioFormat",
    "AudioFrame",
    "Blame",
    "ClientMessage",
    "Draining",
    "Enforcement",
    "Error",
    "HistoryAdd",
    "HistoryCall",
    "HistoryDelete",
    "HistoryLine",
    "HistoryTruncate",
    "InputClear",
    "InputCommit",
    "InputText",
    "Mode",
    "NativeDialect",
    "OperatingPoint",
    "Playback",
    "Refused",
    "ReplyAcknowledged",
    "ReplyCancel",
    "ReplyCreate",
    "ReplyDone",
    "ReplyInterrupted",
    "ReplyText",
    "ServerMessage",
    "SessionEnd",
    "SessionReady",
    "SessionStart",
    "SessionUpdate",
    "Speculation",
    "SpeechStarted",
    "StageTimes",
    "Stages",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "TranscriptFinal",
    "TranscriptPartial",
    "TurnCommitted",
    "TurnEnded",
    "TurnReopened",
    "TurnTaking",
    "Verdict",
    "Waiting",
    "check_size",
    "decode_client",
    "decode_server",
    "encode_client",
    "encode_server",
    "parse_budget_ms",
]

MAX_TEXT_BYTES: Final = 64 * 1024
"""A frame beyond its limit ends the session: `error` with the code "too_large" and the limit, then close 1009. Its
`field` is "text frame" or "binary frame", and "frame" where it was so large that nothing of it was read."""
MAX_BINARY_BYTES: Final = 64 * 1024
"""Header included: 2 s of PCM16 mono at 16 kHz."""

_HEADER: Final = struct.Struct(">II")
HEADER_BYTES: Final = _HEADER.size

M = TypeVar("M")
_Table = dict[str, tuple[type[M], msgspec.json.Decoder[M]]]


def decode_client(data: str | bytes) -> ClientMessage | AudioFrame:
    """What a client sent. Raises BadJson, UnknownType, BadField, BadFrame, TooLarge."""
    if isinstance(data, bytes):
        return _decode_frame(data)
    return _decode_text(data, _CLIENT)


def decode_server(data: str | bytes) -> ServerMessage | AudioFrame:
    """What a server sent. Raises what `decode_client` does; a payload must be of whole samples."""
    if isinstance(data, bytes):
        frame = _decode_frame(data)
        if len(frame.pcm) % 2:
            raise BadFrame("an audio frame of the server ends in half a sample")
        return frame
    return _decode_text(data, _SERVER)


def encode_client(message: ClientMessage | AudioFrame) -> str | bytes:
    """A text frame for a message, a binary frame for audio."""
    return _encode(message)


def encode_server(message: ServerMessage | AudioFrame) -> str | bytes:
    """A text frame for a message, a binary frame for audio."""
    return _encode(message)


def check_size(data: str | bytes) -> None:
    """What a frame may carry, either way. Raises TooLarge, which names the limit, and BadJson for a text that is no
    UTF-8."""
    if isinstance(data, str):
        utf8_of(data, MAX_TEXT_BYTES, "a text frame")
    elif len(data) > MAX_BINARY_BYTES:
        raise TooLarge(f"a binary frame may have {MAX_BINARY_BYTES} bytes, not {len(data)}", field="binary frame")


# --- the dialect ---------------------------------------------------------------------------------


class NativeDialect:
    """Messages as they stand, one frame each. What is for dialects that say more is not said."""

    max_backlog_s = 4.0
    least_burst_s = 0.0

    def opening(self) -> SessionStart | None:
        """The client begins."""
        return None

    def receive(self, data: str | bytes) -> Iterable[ClientMessage | AudioFrame]:
        return (decode_client(data),)

    def tell(self, told: Told) -> Iterable[str | bytes]:
        return () if isinstance(told, MediaTime | ReplyMade) else (encode_server(told),)

    def wishes(self) -> Iterable[ClientMessage]:
        return ()

    def fault(self, error: VoicepipeError) -> Iterable[str | bytes]:
        return (encode_server(Error(code=error.code, message=error.message, field=error.field)),)

    def is_fatal(self, error: ClientError) -> bool:
        return error.fatal


# --- the request ---------------------------------------------------------------------------------

_BUDGET: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,6})?", re.ASCII)


def parse_budget_ms(text: str) -> float:
    """The request's `budget_ms`, ms: plain decimal digits. Raises BadField."""
    if _BUDGET.fullmatch(text) and MIN_BUDGET_MS <= (budget_ms := float(text)) <= MAX_BUDGET_MS:
        return budget_ms
    limits = f"from {MIN_BUDGET_MS:.0f} to {MAX_BUDGET_MS:.0f}"
    raise BadField(f"budget_ms must be a decimal number {limits}, such as 200", field="budget_ms")


# --- binary --------------------------------------------------------------------------------------


def _decode_frame(data: bytes) -> AudioFrame:
    check_size(data)
    if len(data) < HEADER_BYTES:
        raise BadFrame(f"a binary frame starts with {HEADER_BYTES} bytes of header, not {len(data)}")
    epoch, offset_samples = _HEADER.unpack_from(data)
    return AudioFrame(epoch, offset_samples, data[HEADER_BYTES:])


def _encode(message: ClientMessage | ServerMessage | AudioFrame) -> str | bytes:
    if isinstance(message, AudioFrame):
        return _HEADER.pack(message.epoch, message.offset_samples & U32_MAX) + message.pcm
    return _ENCODER.encode(message).decode()


# --- text ----------------------------------------------------------------------------------------


class _Envelope(msgspec.Struct):
    type: str


_ENCODER: Final = msgspec.json.Encoder()
_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)


def _table(union: object) -> _Table[M]:
    classes: tuple[type[M], ...] = get_args(union)
    return {
        str(cls.__struct_config__.tag): (cls, msgspec.json.Decoder(cls))  # type: ignore[attr-defined]
        for cls in classes
    }


_CLIENT: Final[_Table[ClientMessage]] = _table(ClientMessage)
_SERVER: Final[_Table[ServerMessage]] = _table(ServerMessage)


def _decode_text(text: str, table: _Table[M]) -> M:
    raw = utf8_of(text, MAX_TEXT_BYTES, "a text frame")
    kind = _kind(raw)
    entry = table.get(kind)
    if entry is None:
        shown = f" {kind!r}" if re.fullmatch(r"[a-z_.]{1,40}", kind) else ""
        raise UnknownType(f"unknown message type{shown}", field="type")
    cls, decoder = entry
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as exc:
        raise _bad_field(str(exc), cls, kind) from None
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _bad_json(exc) from None


def _kind(raw: bytes) -> str:
    """The message's `type`, looked at alone so that a wrong type and a wrong field stay apart."""
    try:
        return _ENVELOPE.decode(raw).type
    except msgspec.ValidationError as exc:
        what = "needs a `type`" if "missing" in str(exc) or "$.type" in str(exc) else "is a JSON object"
        raise BadJson(f"a text frame {what}") from None
    except (msgspec.DecodeError, RecursionError) as exc:
        raise _bad_json(exc) from None


def _bad_json(exc: Exception) -> BadJson:
    """msgspec names the byte, not what is there; thousands of brackets make a RecursionError."""
    why = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
    return BadJson(f"a text frame is a JSON object: {why}")


_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def _bad_field(text: str, cls: type, kind: str) -> BadField:
    """msgspec's "Expected `int` >= 8000 - at `$.audio.rate`" as a BadField of "audio.rate"."""
    match = _AT.match(text)
    assert match is not None, "the pattern matches any text"
    what, path = match["what"], match["path"] or ""
    if missing := _MISSING.match(what):
        path = f"{path}.{missing['name']}".lstrip(".")
        what = "is required"
    elif what.startswith("Invalid"):  # the only texts of msgspec that quote the value
        choices = ", ".join(_CHOICES[cls].get(path, ()))
        what = f"expected one of {choices}" if choices else "invalid value"
    elif "matching regex" in what:  # the one pattern there is, of `messages.Text`
        what = "expected more than white space and invisible characters"
    else:
        what = what.replace("`", "").replace("Expected", "expected")
    return BadField(f"{kind}: {path}: {what}", field=path)


def _choices(cls: type) -> dict[str, tuple[str, ...]]:
    """Field path -> the strings that it may hold, for the fields of `cls` that are a choice."""
    found: dict[str, tuple[str, ...]] = {}
    info = type_info(cls)
    assert isinstance(info, StructType), "messages are structs"
    for field in info.fields:
        options = field.type.types if isinstance(field.type, UnionType) else (field.type,)
        for option in options:
            plain = option.type if isinstance(option, Metadata) else option
            if isinstance(plain, LiteralType):
                found[field.encode_name] = tuple(str(value) for value in plain.values)
    return found


_CHOICES: Final[dict[type, dict[str, tuple[str, ...]]]] = {
    cls: _choices(cls) for cls in (*get_args(ClientMessage), *get_args(ServerMessage))
}
