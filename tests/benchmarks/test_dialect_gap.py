"""What the comparison of dialects makes of its turns, and that it plays them."""

from __future__ import annotations

import json

import pytest
from dialect_gap import Native, Realtime, Twilio, arguments, measure, summarise, table

from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server


def test_a_dialect_is_behind_by_the_median_of_its_turns() -> None:
    """Of those that were answered through both."""
    gaps: dict[str, list[float | None]] = {
        "native": [100.0, 120.0, None, 140.0],
        "other": [104.0, 121.0, 90.0, None],
    }
    summary = summarise(gaps)
    assert summary["behind_ms"] == {"other": 2.5} and summary["within"]
    assert (summary["n"], summary["unanswered"]) == (4, 2)
    assert len(table(summary)) == 3
    late = summarise({"native": [100.0], "other": [111.0]})
    assert not late["within"]
    assert not summarise({"native": [100.0], "other": [None]})["within"]


@pytest.mark.parametrize("dialect", [Realtime(), Realtime("phone", law="alaw")], ids=lambda one: one.name)
def test_sound_goes_through_the_dialect_and_back(dialect: Realtime) -> None:
    event = json.loads(dialect.sound(b"\0\0" * 160))
    assert event["type"] == "input_audio_buffer.append"
    delta = json.dumps({"type": "response.output_audio.delta", "delta": event["audio"]})
    pcm, rate_hz = dialect.heard(delta)
    assert len(pcm) == 320 and rate_hz == dialect.rate_hz
    assert dialect.is_over('{"type": "response.done"}') and not dialect.is_over(delta)


def test_a_phone_call_goes_through_the_dialect_and_back() -> None:
    phone = Twilio()
    event = json.loads(phone.sound(b"\0\0" * 160))
    assert len(phone.heard(json.dumps(event))[0]) == 320
    assert json.loads(phone.sound(b"\0\0" * 160))["media"]["timestamp"] == "20"
    last, other = ({"event": "mark", "mark": {"name": f"7:{samples}"}} for samples in (12_000, 800))
    assert phone.is_over(json.dumps(last)) and not phone.is_over(json.dumps(other))
    assert phone.heard(json.dumps(last))[0] == b"" and not phone.is_over(json.dumps(event))


def test_the_native_one_keeps_its_clock() -> None:
    native = Native()
    native.sound(bytes(640))
    assert native.sound(bytes(640))[4:8] == (320).to_bytes(4, "big")
    assert native.heard(encode_server(wire.AudioFrame(1, 0, b"\1\0")))[0] == b"\1\0"


def test_a_number_of_turns_may_be_asked_for() -> None:
    assert arguments(["--turns", "3"]).turns == 3


async def test_turns_are_said_through_every_dialect() -> None:
    gaps = await measure(1)
    assert set(gaps) == {"native", "realtime", "realtime, G.711", "twilio"}
    assert all(value is not None and 90 < value < 2_000 for felt in gaps.values() for value in felt)
