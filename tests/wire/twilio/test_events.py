"""The table of events: its page, its decoders; and an exchange as it was recorded, both ways."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.wire.twilio.calling import PCM, Event, Phone, connected, dtmf, mark, media, start, stop
from voicepipe.errors import UnknownType
from voicepipe.wire import messages as m
from voicepipe.wire.twilio import events
from voicepipe.wire.twilio.events import CLIENT_EVENTS, MAX_EVENT_BYTES, SERVER_EVENTS, START_FIELDS, decode

PAGE = (Path(__file__).parents[3] / "docs/twilio.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([A-Za-z_.]+)` \| (supported|ignored|refused)\b", re.MULTILINE)
WHOLE = {"connected": connected(), "start": start(), "media": media(), "mark": mark("1:800")}
WHOLE |= {"dtmf": dtmf("1"), "stop": stop()}


def test_the_page_says_what_the_table_says() -> None:
    """Row by row, in both directions."""
    from_twilio, to_twilio = PAGE.split("\nTo Twilio:\n")
    assert dict(ROW.findall(from_twilio)) == {**CLIENT_EVENTS, **START_FIELDS}
    assert dict(ROW.findall(to_twilio)) == SERVER_EVENTS


def test_the_table_is_what_the_code_does() -> None:
    """Each event of the table is decoded, no other one; what is ignored comes to nothing, the rest to something."""
    assert WHOLE.keys() == CLIENT_EVENTS.keys() == events._DECODERS.keys()
    for kind, fate in CLIENT_EVENTS.items():
        assert type(decode(json.dumps(WHOLE[kind]))).__name__.lower() == kind
        phone = Phone(started=kind != "start")
        phone.reply(1, 5)
        if kind == "mark":
            phone.reply(1, 5)
        assert bool(phone.send(WHOLE[kind])) is (fate == "supported")
    with pytest.raises(UnknownType):
        decode('{"event": "clear", "streamSid": "MZ1"}')


def test_the_page_names_the_limit() -> None:
    assert f"more than {MAX_EVENT_BYTES // 1024} KiB" in PAGE


RECORDED: list[tuple[str, str]] = [
    ("<", '{"event":"connected","protocol":"Call","version":"1.0.0"}'),
    (
        "<",
        '{"event":"start","sequenceNumber":"1","start":{"accountSid":"AC0","streamSid":"MZ0","callSid":"CA0",'
        '"tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},'
        '"customParameters":{"FirstName":"Jane"}},"streamSid":"MZ0"}',
    ),
    (
        "<",
        '{"event":"media","sequenceNumber":"2","media":{"track":"inbound","chunk":"1","timestamp":"5",'
        '"payload":"////"},"streamSid":"MZ0"}',
    ),
    (">", '{"event":"media","streamSid":"MZ0","media":{"payload":"' + "/" * 213 + 'w=="}}'),
    (">", '{"event":"mark","streamSid":"MZ0","mark":{"name":"1:160"}}'),
    ("<", '{"event":"mark","sequenceNumber":"3","streamSid":"MZ0","mark":{"name":"1:160"}}'),
    (">", '{"event":"clear","streamSid":"MZ0"}'),
    (
        "<",
        '{"event":"dtmf","streamSid":"MZ0","sequenceNumber":"5","dtmf":{"track":"inbound_track","digit":"1"}}',
    ),
    (
        "<",
        '{"event":"stop","sequenceNumber":"6","streamSid":"MZ0","stop":{"accountSid":"AC0","callSid":"CA0"}}',
    ),
]
"""In the form of Twilio's own reference."""


def test_a_recorded_exchange() -> None:
    phone = Phone(started=False)
    asked = [step for way, text in RECORDED[:3] if way == "<" for step in phone.send_raw(text)]
    assert [type(step) for step in asked] == [m.SessionStart, m.AudioFrame]
    sent: list[Event] = phone.hear(m.AudioFrame(1, 0, PCM), m.ReplyDone(1, 1, 160))
    asked = phone.send_raw(RECORDED[5][1])
    assert asked == [m.Playback(1, 160)]
    sent += phone.hear(m.ReplyInterrupted(1, 1, 20.0))
    assert sent == [json.loads(text) for way, text in RECORDED if way == ">"]
    assert [step for _, text in RECORDED[7:] for step in phone.send_raw(text)] == [m.ReplyCancel(), m.SessionEnd()]
