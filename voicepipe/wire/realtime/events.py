"""What a client may send, as values; and one frame to one of them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from voicepipe.errors import BadFrame, BadJson, TooLarge, UnknownType, Unsupported
from voicepipe.wire.messages import MAX_MS, Description, Instructions, Name, Result, Text
from voicepipe.wire.realtime.faults import bad_field
from voicepipe.wire.realtime.names import BETA_CLIENT_EVENTS, CLIENT_EVENTS

MAX_EVENT_BYTES: Final = 1024 * 1024
"""Sixteen seconds of 24 kHz sound. An event beyond it ends the session: `error` with the code "too_large", then
close 1009."""

Id = Annotated[str, Meta(min_length=1, max_length=128)]
MaxTokens = Annotated[int, Meta(ge=1, le=4096)] | Literal["inf"]
Modality = Literal["text", "audio"]
Modalities = Annotated[list[Modality], Meta(min_length=1, max_length=2)]
ToolChoice = str | dict[str, Any]


class ToolParam(Struct, frozen=True):
    """A function; a tool of another type is looked at before."""

    type: Literal["function"]
    name: Name
    description: Description = ""
    parameters: dict[str, Any] = {}


class Part(Struct, frozen=True):
    """Of a message."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio", "text", "audio"]
    text: Text | None = None
    transcript: Text | None = None


class ItemParam(Struct, frozen=True):
    type: str
    id: Id | None = None
    role: Literal["user", "assistant", "system"] | None = None
    content: Annotated[list[Part], Meta(max_length=32)] | None = None
    call_id: Name | None = None
    name: Name | None = None
    arguments: Result | None = None
    output: Result | None = None


class FormatParam(Struct, frozen=True):
    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None


class OutputParam(Struct, frozen=True):
    format: FormatParam | None = None
    voice: str | dict[str, Any] | None = None
    speed: float | None = None


class OutputAudioParam(Struct, frozen=True):
    output: OutputParam | None = None


class ResponseParams(Struct, frozen=True):
    """Of the GA protocol and of the beta one."""

    instructions: Instructions | None = None
    conversation: str | None = None
    input: Annotated[list[ItemParam], Meta(max_length=200)] | None = None
    output_modalities: Modalities | None = None
    modalities: Modalities | None = None
    max_output_tokens: MaxTokens | None = None
    max_response_output_tokens: MaxTokens | None = None
    metadata: Annotated[dict[str, Annotated[str, Meta(max_length=512)]], Meta(max_length=16)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    audio: OutputAudioParam | None = None
    output_audio_format: Literal["pcm16", "g711_ulaw", "g711_alaw"] | None = None
    prompt: dict[str, Any] | None = None


class Event(Struct, frozen=True, kw_only=True):
    event_id: Annotated[str, Meta(max_length=512)] | None = None


class SessionUpdate(Event, frozen=True, tag="session.update"):
    session: dict[str, Any]


class TranscriptionSessionUpdate(Event, frozen=True, tag="transcription_session.update"):
    session: dict[str, Any]


class Append(Event, frozen=True, tag="input_audio_buffer.append"):
    audio: str


class Commit(Event, frozen=True, tag="input_audio_buffer.commit"):
    """No field of its own."""


class Clear(Event, frozen=True, tag="input_audio_buffer.clear"):
    """No field of its own."""


class ItemCreate(Event, frozen=True, tag="conversation.item.create"):
    item: ItemParam
    previous_item_id: Id | None = None


class ItemRetrieve(Event, frozen=True, tag="conversation.item.retrieve"):
    item_id: Id


class ItemDelete(Event, frozen=True, tag="conversation.item.delete"):
    item_id: Id


class ItemTruncate(Event, frozen=True, tag="conversation.item.truncate"):
    item_id: Id
    content_index: Annotated[int, Meta(ge=0, le=1000)]
    audio_end_ms: Annotated[float, Meta(ge=0, le=MAX_MS)]


class ResponseCreate(Event, frozen=True, tag="response.create"):
    response: ResponseParams | None = None


class ResponseCancel(Event, frozen=True, tag="response.cancel"):
    response_id: str | None = None


class OutputClear(Event, frozen=True, tag="output_audio_buffer.clear"):
    """For transports that play the sound themselves."""


ClientEvent = (
    SessionUpdate
    | TranscriptionSessionUpdate
    | Append
    | Commit
    | Clear
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputClear
)


class _Envelope(Struct):
    type: str
    event_id: Any = None


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_DECODER: Final = msgspec.json.Decoder(ClientEvent)
_KNOWN: Final = frozenset((*CLIENT_EVENTS, *BETA_CLIENT_EVENTS))
_SHOWN: Final = re.compile(r"[a-z_.]{1,60}")


class Envelope(Struct, frozen=True):
    """What is known of an event before its fields are looked at."""

    raw: bytes
    event_id: str | None


def open_envelope(data: str | bytes) -> Envelope:
    """Raises BadFrame, BadJson and TooLarge."""
    if isinstance(data, bytes):
        raise BadFrame("binary frames are not a part of this protocol: sound travels in input_audio_buffer.append")
    if len(data) > MAX_EVENT_BYTES:
        raise TooLarge(f"an event may have {MAX_EVENT_BYTES} bytes, not {len(data)}", field="event")
    try:
        raw = data.encode()
        event_id = _ENVELOPE.decode(raw).event_id
    except UnicodeEncodeError:
        raise BadJson("an event holds a lone surrogate") from None
    except msgspec.ValidationError:
        raise BadJson("an event is a JSON object with a `type`", field="type") from None
    except (msgspec.DecodeError, RecursionError):
        raise BadJson("an event is a JSON object, and this is no JSON") from None
    short = event_id if isinstance(event_id, str) and len(event_id) <= 512 else None
    return Envelope(raw, short)


def decode(envelope: Envelope) -> ClientEvent:
    """Raises BadField, BadJson, UnknownType and Unsupported."""
    kind = _ENVELOPE.decode(envelope.raw).type
    if kind not in _KNOWN:
        shown = f" {kind!r}" if _SHOWN.fullmatch(kind) else ""
        raise UnknownType(f"unknown event type{shown}", field="type")
    try:
        return _DECODER.decode(envelope.raw)
    except msgspec.ValidationError as problem:
        raise bad_field(problem) from None
    except (msgspec.DecodeError, RecursionError):
        raise BadJson("an event is a JSON object, and this is no JSON") from None


def tools_of(raw: list[dict[str, Any]], field: str) -> tuple[ToolParam, ...]:
    """Raises BadField and Unsupported."""
    for index, tool in enumerate(raw):
        if tool.get("type") not in (None, "function"):
            raise Unsupported(
                f"{field}[{index}]: only functions are offered as tools", field=f"{field}[{index}].type"
            )
    try:
        typed = [{**tool, "type": "function"} for tool in raw]
        return tuple(msgspec.convert(tool, ToolParam) for tool in typed)
    except msgspec.ValidationError as problem:
        raise bad_field(problem, field) from None


def choice_of(choice: ToolChoice, field: str) -> str:
    """Of the three words, or the name of a function. Raises Unsupported."""
    if isinstance(choice, str):
        return choice
    name = choice.get("name")
    if choice.get("type") != "function" or not isinstance(name, str):
        raise Unsupported(f"{field}: only functions can be chosen", field=field)
    return name
