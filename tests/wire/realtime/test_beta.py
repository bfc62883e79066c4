"""What a client of the beta protocol gets: its names, its flat sessions, and nothing that it does not know."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.beta.realtime.realtime_server_event import RealtimeServerEvent
from openai.types.beta.realtime.session import Session
from pydantic import BaseModel

from tests.wire.realtime.talking import SILENCE, Wire, ended, kinds
from voicepipe.wire import messages as m
from voicepipe.wire.realtime.beta import to_beta
from voicepipe.wire.realtime.names import BETA_LACKS, BETA_NAMES, SERVER_EVENTS

BETA_HEADER = {"openai-beta": "realtime=v1"}


def known() -> set[str]:
    """Names of the beta protocol's server events, by the official types."""
    union, *_ = get_args(RealtimeServerEvent)
    models: tuple[type[BaseModel], ...] = get_args(union)
    return {name for model in models for name in get_args(model.model_fields["type"].annotation)}


def test_every_event_has_a_name_that_beta_clients_know() -> None:
    sent = {name for name, fate in SERVER_EVENTS.items() if fate == "supported"} - set(BETA_LACKS)
    assert {BETA_NAMES.get(name, name) for name in sent} <= known()


@pytest.mark.parametrize(
    "wire",
    [
        Wire(headers=BETA_HEADER),
        Wire(headers={"sec-websocket-protocol": "realtime, openai-insecure-api-key.x, openai-beta.realtime-v1"}),
    ],
    ids=["header", "subprotocol"],
)
def test_who_asks_for_beta_gets_it_from_the_first_event_on(wire: Wire) -> None:
    created = wire.opening[0]
    assert created["type"] == "session.created"
    Session.model_validate(created["session"] | {"model": "gpt-realtime"})  # it knows no other names
    assert created["session"]["input_audio_format"] == "pcm16" and "audio" not in created["session"]


def test_who_sends_the_flat_form_gets_it_from_then_on() -> None:
    wire = Wire()
    assert "audio" in wire.opening[0]["session"]
    (updated,) = wire.send("session.update", session={"modalities": ["text"], "turn_detection": None})
    assert updated["session"]["modalities"] == ["text"] and updated["session"]["turn_detection"] is None


def test_a_turn_in_beta_names() -> None:
    wire = Wire(headers=BETA_HEADER)
    wire.send("session.update", session={"input_audio_transcription": {"model": "whisper-1"}})
    events = wire.speak(1, "Hi.", 1)
    events += wire.hear(
        m.ReplyText(1, 1, "Yes."), m.AudioFrame(1, 0, b"\0\0" * 240), m.ReplyDone(1, 1, 240), ended(1)
    )
    assert set(kinds(events)) <= known()
    assert "response.audio.delta" in kinds(events) and "conversation.item.done" not in kinds(events)
    done = events[-1]["response"]
    assert done["modalities"] == ["audio", "text"] and done["output_audio_format"] == "pcm16"
    assert done["output"][0]["content"] == [{"type": "audio", "transcript": "Yes."}]
    assert done["voicepipe"]["verdict"] == "met"


def test_a_transcription_session_has_events_of_its_own_in_beta() -> None:
    wire = Wire(headers=BETA_HEADER, query={"intent": "transcription"})
    assert wire.opening[0]["type"] == "transcription_session.created"
    (updated,) = wire.send(
        "transcription_session.update",
        session={"input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "whisper-1"}},
    )
    assert updated["type"] == "transcription_session.updated"
    assert updated["session"]["input_audio_format"] == "g711_ulaw"
    wire.send("input_audio_buffer.append", audio=SILENCE)
    events = wire.speak(1, "Hi.", 1)
    assert "conversation.item.input_audio_transcription.completed" in kinds(events)
    assert not [kind for kind in kinds(events + wire.hear(ended(1))) if kind.startswith("response.")]


def test_an_event_that_is_the_same_stays_the_same() -> None:
    event: dict[str, Any] = {"type": "input_audio_buffer.cleared", "event_id": "e"}
    assert to_beta(event) == event
