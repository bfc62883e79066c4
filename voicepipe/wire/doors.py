"""Where which dialect is spoken: the paths of the server, and what is said there before there is a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from voicepipe.errors import TooLarge
from voicepipe.wire import native
from voicepipe.wire.dialect import Dialect, Frame
from voicepipe.wire.messages import Refused
from voicepipe.wire.realtime.dialect import RealtimeDialect
from voicepipe.wire.realtime.events import MAX_EVENT_BYTES
from voicepipe.wire.realtime.faults import INVALID, error_object
from voicepipe.wire.twilio.dialect import TwilioDialect
from voicepipe.wire.twilio.events import MAX_EVENT_BYTES as MAX_TWILIO_BYTES

READ_BEYOND_BYTES: Final = 192 * 1024
_KEY: Final = "openai-insecure-api-key."


@dataclass(frozen=True, slots=True)
class Door:
    path: str
    subprotocol: str
    """Who offers it reads a refusal after the upgrade, too. "": there is none."""
    dialect: Callable[[Mapping[str, str], Mapping[str, str]], Dialect]
    """From a request's headers, their names in lower case, and its query."""
    token: Callable[[Sequence[str]], str | None]
    """Out of the subprotocols that were offered: a browser has no other place for it."""
    refused: Callable[[Refused], Iterable[Frame]]
    """There is no session."""
    too_large: Callable[[TooLarge], str]
    """A frame was so large that nobody has read it. "": there are no words for it."""
    max_bytes: int
    """Of a frame that a session takes. More than that is read, so that it can say so itself."""
    waits: bool
    """Its clients may be kept in the waiting room."""
    held_s: float | None = None
    """How long at most, where they know no message that tells them so: their upgrade is not answered meanwhile, so
    that they send no sound yet. None: they get the upgrade, and are told their place."""

    def shown(self, headers: Mapping[str, str]) -> str | None:
        """The bearer token of a request: from `Authorization`, else from where the dialect has it among the
        subprotocols."""
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return credentials.strip()
        return self.token(subprotocols_of(headers))

    @property
    def read_bytes(self) -> int:
        """Of a frame that are read at all."""
        return self.max_bytes + READ_BEYOND_BYTES


def subprotocols_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """That were offered, in order."""
    offered = headers.get("sec-websocket-protocol", "").split(",")
    return tuple(name for item in offered if (name := item.strip()))


def _native_token(offered: Sequence[str]) -> str | None:
    return next((name for name in offered if name != native.PROTOCOL), None)


def _realtime_token(offered: Sequence[str]) -> str | None:
    return next((name.removeprefix(_KEY) for name in offered if name.startswith(_KEY)), None)


def _native_too_large(fault: TooLarge) -> str:
    text = native.encode_server(native.Error(fault.code, fault.message, fault.field))
    assert isinstance(text, str)
    return text


def _realtime_refused(refused: Refused) -> tuple[str]:
    text = f"there is no session now; try again in {refused.retry_after_ms} ms"
    told = {"type": INVALID, "code": refused.reason, "message": text, "param": None, "event_id": None}
    more = {"retry_after_ms": refused.retry_after_ms}
    return (_json({"type": "error", "event_id": "event_refused", "error": told, "voicepipe": more}),)


def _realtime_too_large(fault: TooLarge) -> str:
    return _json({"type": "error", "event_id": "event_too_large", "error": error_object(fault, None)})


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


NATIVE: Final = Door(
    path="/v1/voice",
    subprotocol=native.PROTOCOL,
    dialect=lambda headers, query: native.NativeDialect(),
    token=_native_token,
    refused=lambda refused: (native.encode_server(refused),),
    too_large=_native_too_large,
    max_bytes=max(native.MAX_BINARY_BYTES, native.MAX_TEXT_BYTES),
    waits=True,
)
REALTIME: Final = Door(
    path="/v1/realtime",
    subprotocol="realtime",
    dialect=RealtimeDialect,
    token=_realtime_token,
    refused=_realtime_refused,
    too_large=_realtime_too_large,
    max_bytes=MAX_EVENT_BYTES,
    waits=True,
    held_s=8.0,  # most of these clients give up themselves after 10 s, and would not know why
)
TWILIO: Final = Door(
    path="/v1/twilio",
    subprotocol="",
    dialect=TwilioDialect,
    token=lambda offered: None,
    refused=lambda refused: (),
    too_large=lambda fault: "",
    max_bytes=MAX_TWILIO_BYTES,
    waits=False,
)
DOORS: Final[Mapping[str, Door]] = {door.path: door for door in (NATIVE, REALTIME, TWILIO)}


def door_at(path: str) -> Door:
    """`path` is that of one; another one is a bug of ours, which only then lets sessions in."""
    return DOORS[path]
