"""What is wrong, in the protocol's words: an `error` event's object."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from voicepipe.errors import BadField, BadJson, ClientError, TooLarge, UnknownType, Unsupported, VoicepipeError

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"

_CODES: Final[dict[type[VoicepipeError], str]] = {
    BadJson: "invalid_json",
    UnknownType: "invalid_value",
    BadField: "invalid_value",
    Unsupported: "unsupported",
    TooLarge: "too_large",
}


class Refusal(BadField):
    """Understood, but not as things stand. `event_code` is what clients of the protocol look at."""

    def __init__(self, event_code: str, message: str, *, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.event_code = event_code


def error_object(error: VoicepipeError, event_id: str | None) -> dict[str, Any]:
    """`event_id`: of the client's event that it is about."""
    code = error.event_code if isinstance(error, Refusal) else _CODES.get(type(error), error.code)
    if isinstance(error, BadField) and error.message.endswith("is required"):
        code = "missing_required_parameter"
    return {
        "type": INVALID if isinstance(error, ClientError) else SERVER,
        "code": code,
        "message": error.message,
        "param": error.field,
        "event_id": event_id,
    }


_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def bad_field(problem: msgspec.ValidationError, prefix: str = "") -> BadField:
    """In words that repeat nothing of what was sent. `prefix`: the path of what was looked at."""
    text, _, path = str(problem).partition(" - at `$")
    field = f"{prefix}{path.rstrip('`')}".lstrip(".")
    if missing := _MISSING.match(text):
        field = f"{field}.{missing['name']}".lstrip(".")
        return BadField(f"{field}: is required", field=field)
    if text.startswith("Invalid"):  # quotes the value
        text = "not one of the values that it may have"
    elif "matching regex" in text:
        text = "expected more than white space and invisible characters"
    return BadField(f"{field}: {text.replace('`', '')}", field=field or None)
