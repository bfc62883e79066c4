"""Each path has its dialect, its subprotocol, its place for a key and its words for a refusal."""

from __future__ import annotations

import json

import pytest

from voicepipe.errors import TooLarge
from voicepipe.wire.dialect import Dialect
from voicepipe.wire.doors import DOORS, NATIVE, REALTIME, TWILIO, Door, door_at
from voicepipe.wire.messages import Refused
from voicepipe.wire.native import NativeDialect
from voicepipe.wire.realtime.dialect import RealtimeDialect
from voicepipe.wire.twilio.dialect import TwilioDialect

EVERY = pytest.mark.parametrize("door", DOORS.values(), ids=lambda door: door.path)
TALKING = pytest.mark.parametrize("door", (NATIVE, REALTIME), ids=lambda door: door.path)
"""Those whose clients can be told what is wrong."""


def test_a_path_leads_to_its_dialect() -> None:
    """A new one for each connection."""
    kinds = {"/v1/voice": NativeDialect, "/v1/realtime": RealtimeDialect, "/v1/twilio": TwilioDialect}
    assert kinds.keys() == DOORS.keys()
    for path, kind in kinds.items():
        door = door_at(path)
        one: Dialect = door.dialect({}, {})
        assert type(one) is kind and door.dialect({}, {}) is not one
    with pytest.raises(KeyError):
        door_at("/v1/nothing")


@EVERY
def test_more_is_read_than_is_taken(door: Door) -> None:
    """So that the session itself can say what was too much."""
    assert door.read_bytes > door.max_bytes


@TALKING
def test_what_was_too_much_is_told(door: Door) -> None:
    fault = json.loads(door.too_large(TooLarge("much", field="frame")))
    assert fault["type"] == "error" and "too_large" in str(fault)


@TALKING
def test_a_refusal_says_why_and_when(door: Door) -> None:
    (frame,) = door.refused(Refused("capacity", 1500))
    assert "capacity" in str(frame) and "1500" in str(frame)


@pytest.mark.parametrize(
    ("door", "offered", "token"),
    [
        (NATIVE, ("voicepipe.v1", "s3cret"), "s3cret"),
        (NATIVE, ("voicepipe.v1",), None),
        (REALTIME, ("realtime", "openai-insecure-api-key.s3cret", "openai-agents-sdk.1"), "s3cret"),
        (REALTIME, ("realtime", "openai-beta.realtime-v1"), None),
        (REALTIME, ("s3cret",), None),
        (REALTIME, (), None),
    ],
)
def test_a_browsers_key_is_found_among_the_subprotocols(
    door: Door, offered: tuple[str, ...], token: str | None
) -> None:
    assert door.token(offered) == token


def test_clients_that_know_no_waiting_room_wait_for_less_than_they_wait_for_a_connection() -> None:
    """10 s in the websockets library, which the openai package uses, and in LiveKit's."""
    assert NATIVE.waits and NATIVE.held_s is None
    assert REALTIME.waits and REALTIME.held_s is not None and REALTIME.held_s < 10.0


def test_a_phone_is_told_nothing_that_it_does_not_know() -> None:
    """It takes `media`, `mark` and `clear`; a refusal comes before the upgrade, and no subprotocol asks for one."""
    assert list(TWILIO.refused(Refused("capacity", 1500))) == []
    assert TWILIO.too_large(TooLarge("much", field="frame")) == "" == TWILIO.subprotocol
    assert TWILIO.token(("audio.twilio.com", "s3cret")) is None
    assert not TWILIO.waits
