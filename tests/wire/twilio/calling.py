"""The dialect with nobody behind it: what a test says to it from both sides, and what comes of it."""

from __future__ import annotations

import base64
import json
from typing import Any

from voicepipe.errors import ClientError
from voicepipe.wire import messages as m
from voicepipe.wire.dialect import Step
from voicepipe.wire.twilio.dialect import TwilioDialect

SID = "MZ18ad3ab5a668481ce02b83e7395059f0"
OTHER = "MZ99ad3ab5a668481ce02b83e7395059f9"
FORMAT = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
QUIET = b"\xff" * 160
"""20 ms of µ-law silence."""
PCM = b"\0\0" * 160
Event = dict[str, Any]


def connected() -> Event:
    return {"event": "connected", "protocol": "Call", "version": "1.0.0"}


def start(sid: str = SID, **custom: str) -> Event:
    body = {
        "accountSid": "AC1",
        "streamSid": sid,
        "callSid": "CA1",
        "tracks": ["inbound"],
        "mediaFormat": FORMAT,
        "customParameters": custom,
    }
    return {"event": "start", "sequenceNumber": "1", "start": body, "streamSid": sid}


def media(data: bytes = QUIET, sid: str = SID, *, at_ms: int | None = None, track: str = "inbound") -> Event:
    body = {"track": track, "chunk": "1", "payload": base64.b64encode(data).decode()}
    if at_ms is not None:
        body["timestamp"] = str(at_ms)
    return {"event": "media", "sequenceNumber": "2", "media": body, "streamSid": sid}


def mark(name: str, sid: str = SID) -> Event:
    return {"event": "mark", "sequenceNumber": "3", "streamSid": sid, "mark": {"name": name}}


def dtmf(digit: str, sid: str = SID) -> Event:
    body = {"track": "inbound_track", "digit": digit}
    return {"event": "dtmf", "streamSid": sid, "sequenceNumber": "4", "dtmf": body}


def stop(sid: str = SID) -> Event:
    return {
        "event": "stop",
        "sequenceNumber": "5",
        "streamSid": sid,
        "stop": {"accountSid": "AC1", "callSid": "CA1"},
    }


class Phone:
    def __init__(self, *, started: bool = True, **custom: str) -> None:
        self.dialect = TwilioDialect({}, {})
        assert self.dialect.opening() is None
        if started:
            (self.start,) = self.send(start(**custom))

    def send(self, event: Event) -> list[Step]:
        return self.send_raw(json.dumps(event))

    def send_raw(self, data: str | bytes) -> list[Step]:
        return list(self.dialect.receive(data))

    def fails(self, data: Event | str | bytes) -> ClientError | None:
        """What it raises; and that it has no words for it."""
        try:
            self.send_raw(json.dumps(data) if isinstance(data, dict) else data)
        except ClientError as error:
            assert list(self.dialect.fault(error)) == []
            return error
        return None

    def hear(self, *told: m.Told) -> list[Event]:
        return [json.loads(frame) for one in told for frame in self.dialect.tell(one)]

    def reply(self, epoch: int, frames: int, *, begin: int = 0) -> list[Event]:
        """So much of a reply: 20 ms each."""
        return self.hear(*(m.AudioFrame(epoch, 160 * n, PCM) for n in range(begin, begin + frames)))


def names(events: list[Event]) -> list[str]:
    return [event["event"] for event in events]


def marks(events: list[Event]) -> list[str]:
    return [event["mark"]["name"] for event in events if event["event"] == "mark"]
