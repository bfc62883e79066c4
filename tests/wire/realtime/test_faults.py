"""What is wrong, in words that clients of the protocol look for."""

from __future__ import annotations

import pytest

from voicepipe.errors import BadField, BadJson, EngineBusy, SessionLimit, TooLarge, UnknownType, Unsupported
from voicepipe.errors import VoicepipeError as Fault
from voicepipe.wire.realtime.faults import Refusal, error_object


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (BadJson("no"), "invalid_request_error", "invalid_json"),
        (UnknownType("no", field="type"), "invalid_request_error", "invalid_value"),
        (BadField("a: expected int", field="a"), "invalid_request_error", "invalid_value"),
        (BadField("a: is required", field="a"), "invalid_request_error", "missing_required_parameter"),
        (Unsupported("no"), "invalid_request_error", "unsupported"),
        (TooLarge("much"), "invalid_request_error", "too_large"),
        (SessionLimit("idle"), "invalid_request_error", "session_limit"),
        (Refusal("response_cancel_not_active", "no"), "invalid_request_error", "response_cancel_not_active"),
        (EngineBusy("all taken"), "server_error", "engine_busy"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fault) else value,
)
def test_a_fault_is_told_with_its_field_and_its_event(fault: Fault, kind: str, code: str) -> None:
    assert error_object(fault, "e1") == {
        "type": kind,
        "code": code,
        "message": fault.message,
        "param": fault.field,
        "event_id": "e1",
    }
