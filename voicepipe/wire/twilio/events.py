"""What Twilio sends, as values; one frame to one of them; and every event with what becomes of it here.

Counters and time stamps are strings of digits. Unknown fields are ignored; known ones are typed and checked. No
error's text repeats a value out of the frame.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from voicepipe.errors import BadField, BadFrame, BadJson, UnknownType
from voicepipe.wire.dialect import Frame
from voicepipe.wire.text_frames import utf8_of

Fate = Literal["supported", "ignored", "refused"]

CLIENT_EVENTS: Final[dict[str, Fate]] = {
    "connected": "ignored",
    "start": "supported",
    "media": "supported",
    "mark": "supported",
    "dtmf": "supported",
    "stop": "supported",
}
"""An event of any other name is refused: it is counted, and the call goes on."""
START_FIELDS: Final[dict[str, Fate]] = {
    "start.streamSid": "supported",
    "start.mediaFormat": "supported",
    "start.customParameters.instructions": "supported",
    "start.customParameters.operating_point": "supported",
    "start.customParameters": "ignored",
    "start.accountSid": "ignored",
    "start.callSid": "ignored",
    "start.tracks": "ignored",
}
"""`start.customParameters`: any other one."""
SERVER_EVENTS: Final[dict[str, Fate]] = {"media": "supported", "mark": "supported", "clear": "supported"}
"""There are no others: Twilio takes anything else for a fault."""

MAX_EVENT_BYTES: Final = 64 * 1024
"""Six seconds of sound, where Twilio sends 20 ms. An event beyond it ends the call: close 1009."""

Number = Annotated[str, Meta(pattern=r"\A[0-9]{1,12}\Z")]
Sid = Annotated[str, Meta(min_length=1, max_length=128)]
MarkName = Annotated[str, Meta(max_length=128)]


class Connected(Struct, frozen=True, tag_field="event", tag="connected"):
    """Says nothing that is needed."""


class MediaFormat(Struct, frozen=True, rename="camel"):
    encoding: Literal["audio/x-mulaw"]
    sample_rate: Annotated[int, Meta(ge=8000, le=8000)]
    channels: Annotated[int, Meta(ge=1, le=1)]


class StartBody(Struct, frozen=True, rename="camel"):
    stream_sid: Sid
    media_format: MediaFormat
    custom_parameters: Annotated[dict[str, str], Meta(max_length=100)] = {}


class Start(Struct, frozen=True, tag_field="event", tag="start", rename="camel"):
    start: StartBody
    sequence_number: Number | None = None


class MediaBody(Struct, frozen=True):
    payload: str
    track: Literal["inbound", "outbound"] = "inbound"
    chunk: Number | None = None
    timestamp: Number | None = None
    """Where the sound begins, ms since the stream did."""


class Media(Struct, frozen=True, tag_field="event", tag="media", rename="camel"):
    stream_sid: Sid
    media: MediaBody
    sequence_number: Number | None = None


class MarkBody(Struct, frozen=True):
    name: MarkName


class Mark(Struct, frozen=True, tag_field="event", tag="mark", rename="camel"):
    stream_sid: Sid
    mark: MarkBody
    sequence_number: Number | None = None


class DtmfBody(Struct, frozen=True):
    digit: Annotated[str, Meta(pattern=r"\A[0-9*#A-D]\Z")]


class Dtmf(Struct, frozen=True, tag_field="event", tag="dtmf", rename="camel"):
    stream_sid: Sid
    dtmf: DtmfBody
    sequence_number: Number | None = None


class Stop(Struct, frozen=True, tag_field="event", tag="stop", rename="camel"):
    stream_sid: Sid
    sequence_number: Number | None = None


Event = Connected | Start | Media | Mark | Dtmf | Stop


class _Envelope(Struct):
    event: str


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_DECODERS: Final = {str(cls.__struct_config__.tag): msgspec.json.Decoder(cls) for cls in get_args(Event)}


def decode(data: Frame) -> Event:
    """Raises BadFrame, TooLarge, BadJson, UnknownType and BadField."""
    if isinstance(data, bytes):
        raise BadFrame("a binary frame; sound comes in `media` events")
    raw = utf8_of(data, MAX_EVENT_BYTES, "an event")
    decoder = _DECODERS.get(_kind(raw))
    if decoder is None:
        raise UnknownType("an event of an unknown name", field="event")
    try:
        event: Event = decoder.decode(raw)
    except msgspec.ValidationError as exc:
        raise _bad_field(exc) from None
    except (msgspec.DecodeError, RecursionError):
        raise BadJson("an event is no JSON that can be read") from None
    return event


def _kind(raw: bytes) -> str:
    try:
        return _ENVELOPE.decode(raw).event
    except msgspec.ValidationError:
        raise BadJson("an event is a JSON object with its name in `event`") from None
    except (msgspec.DecodeError, RecursionError):
        raise BadJson("an event is no JSON that can be read") from None


_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def _bad_field(problem: msgspec.ValidationError) -> BadField:
    """In words that repeat nothing of what was sent."""
    text, _, path = str(problem).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if missing := _MISSING.match(text):
        field = f"{field}.{missing['name']}".lstrip(".")
        return BadField(f"{field}: is required", field=field)
    if text.startswith("Invalid"):  # quotes the value
        text = "not one of the values that it may have"
    elif "matching regex" in text:
        text = "expected one of 0 to 9, *, #, A to D" if field == "dtmf.digit" else "expected digits"
    return BadField(f"{field}: {text.replace('`', '')}", field=field or None)
