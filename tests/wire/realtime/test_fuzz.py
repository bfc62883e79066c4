"""Malformed events, ten thousand of them and more: each is taken, or answered with a typed error; nothing breaks.

By the dialect alone, in every state that a session can bring it to; then by whole sessions, which live on.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.realtime import Client, call
from tests.wire.realtime.garbage import FRAMES
from tests.wire.realtime.talking import Event, Wire, ended, kinds
from voicepipe.wire import messages as m
from voicepipe.wire.realtime.events import MAX_EVENT_BYTES
from voicepipe.wire.realtime.names import BETA_NAMES, SERVER_EVENTS

WANTED = 10_000
PCM = b"\0\0" * 480
SUPPORTED = {name for name, fate in SERVER_EVENTS.items() if fate == "supported"}
SENT = SUPPORTED | set(BETA_NAMES.values()) | {"transcription_session.updated"}


def told(turn: int) -> list[list[m.Told]]:
    """What a session may say next; the turn's epoch has its number."""
    return [
        [m.SpeechStarted(turn), m.TranscriptFinal(turn, "Hi."), m.TurnCommitted(turn, turn)],
        [m.ReplyText(turn, turn, "Yes."), m.AudioFrame(turn, 0, PCM), m.AudioFrame(turn, 480, PCM)],
        [m.ToolCall(turn, turn, f"c{turn}", "clock", "{}"), m.ReplyDone(turn, turn, 960)],
        [m.ReplyInterrupted(turn, turn, 10.0), ended(turn)],
    ]


STATES = 5


def in_state(state: int) -> Wire:
    wire = Wire()
    for messages in told(1)[:state]:
        wire.hear(*messages)
    return wire


def check(events: list[Event]) -> None:
    for event in events:
        assert event["type"] in SENT
        if event["type"] == "error":
            fault = event["error"]
            assert fault["type"] == "invalid_request_error" and fault["code"] and fault["message"]


def test_every_generated_event_is_taken_or_refused_by_name() -> None:
    """In any state; and afterwards the dialect still does what is right."""
    seen = 0

    @settings(
        max_examples=700,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(FRAMES, min_size=16, max_size=20), st.integers(0, STATES - 1))
    def run(frames: list[str | bytes], state: int) -> None:
        nonlocal seen
        wire = in_state(state)
        for frame in frames:
            seen += 1
            check(wire.send_raw(frame))
            answer_what_was_asked(wire)
        wire.hear(*answers_to_end(wire))
        last = wire.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        assert "updated" in kinds(last)[-1], last

    run()
    assert seen >= WANTED


def answer_what_was_asked(wire: Wire) -> None:
    """As a session would: whoever asks for a reply gets one."""
    for message in wire.asked:
        if isinstance(message, m.ReplyCreate):
            turn = 100 + len(wire.dialect._conversation._items)
            check(wire.hear(m.TurnCommitted(turn, turn), m.ReplyText(turn, turn, "Yes."), ended(turn)))
    wire.asked.clear()


def answers_to_end(wire: Wire) -> list[m.Told]:
    turn = wire.dialect._turn
    return [] if turn is None else [ended(turn)]


def test_a_session_lives_through_what_its_client_sends() -> None:
    """It answers afterwards, or it has been closed with a code that is written down."""
    seen = 0

    @settings(
        max_examples=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(FRAMES, min_size=40, max_size=60))
    def run(frames: list[str | bytes]) -> None:
        nonlocal seen

        async def script(client: Client) -> None:
            for frame in frames:
                await client.send_raw(frame)
                await client.wait(0.005)
            await client.wait(1.0)
            await client.send("session.update", session={"type": "realtime", "voicepipe": {}}, event_id="last")
            await client.wait(1.0)

        client = call(script)
        seen += len(frames)
        assert client.closed is not None and client.closed.code == 1006, "it was the client that went"
        assert client.kinds()[-1] != "error"
        assert "updated" in " ".join(client.kinds())
        created, done = client.of("response.created"), client.of("response.done")
        assert len(created) - len(done) in (0, 1)  # the last one may have been cut off by the end of the call

    run()
    assert seen >= 1_000


def test_an_event_beyond_the_limit_ends_the_session_with_its_code() -> None:
    async def script(client: Client) -> None:
        await client.send_raw(json.dumps({"type": "input_audio_buffer.append", "audio": "A" * MAX_EVENT_BYTES}))
        await client.gone()

    client = call(script)
    assert client.closed is not None and client.closed.code == 1009
    fault: dict[str, Any] = client.of("error")[0]["error"]
    assert fault["code"] == "too_large" and str(MAX_EVENT_BYTES) in fault["message"]
