"""A dialect with nobody behind it: what a test says to it from both sides, and what comes of it."""

from __future__ import annotations

import json
from typing import Any

from voicepipe.errors import ClientError
from voicepipe.wire import messages as m
from voicepipe.wire.realtime.dialect import RealtimeDialect

READY = m.SessionReady("s1", m.PROTOCOL, 24000, 200.0, 120.0)
STAGES = m.Stages(*(m.StageTimes(),) * 5)
SILENCE = "AAAA" * 1600
"""4,800 bytes: 100 ms of PCM16 at 24 kHz."""
Event = dict[str, Any]


def ended(turn: int, verdict: m.Verdict = "met", reason: str | None = None) -> m.TurnEnded:
    return m.TurnEnded(turn, verdict, 150.0, 10.0, STAGES, m.Speculation(True, 1, 1.0, 0.0), None, reason)


class Wire:
    """`asked`: what the session was told, in order."""

    def __init__(self, headers: dict[str, str] | None = None, query: dict[str, str] | None = None) -> None:
        self.dialect = RealtimeDialect(headers or {}, query or {})
        self.asked: list[m.ClientMessage | m.AudioFrame] = []
        self.refusing: ClientError | None = None
        """The session raises it for the next thing that it is asked."""
        self.start = self.dialect.opening()
        self.opening = self.hear(READY)

    def send(self, kind: str, **fields: Any) -> list[Event]:
        """As a client does."""
        return self.send_raw(json.dumps({"type": kind, **fields}))

    def send_raw(self, data: str | bytes) -> list[Event]:
        events: list[Event] = []
        try:
            for step in self.dialect.receive(data):
                if isinstance(step, str | bytes):
                    events.append(json.loads(step))
                else:
                    self._ask(step)
            self._grant()
        except ClientError as error:
            assert not self.dialect.is_fatal(error)
            events += [json.loads(frame) for frame in self.dialect.fault(error)]
        return events

    def update(self, **session: Any) -> list[Event]:
        return self.send("session.update", session={"type": "realtime", **session})

    def hear(self, *told: m.Told) -> list[Event]:
        """As a session does."""
        events = [json.loads(frame) for one in told for frame in self.dialect.tell(one)]
        self._grant()
        return events

    def speak(self, turn: int, text: str, epoch: int) -> list[Event]:
        """A turn of the user, up to its commit."""
        began, over = m.MediaTime(turn, 1000 * turn), m.MediaTime(turn, 1000 * turn + 500)
        return self.hear(
            began, m.SpeechStarted(turn), m.TranscriptFinal(turn, text), over, m.TurnCommitted(turn, epoch)
        )

    def _ask(self, message: m.ClientMessage | m.AudioFrame) -> None:
        refusing, self.refusing = self.refusing, None
        if refusing is not None:
            raise refusing
        self.asked.append(message)

    def _grant(self) -> None:
        for message in self.dialect.wishes():
            self._ask(message)


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def codes(events: list[Event]) -> list[str]:
    return [event["error"]["code"] for event in events if event["type"] == "error"]
