"""Event by event, from both sides: what the session is asked, and what the client is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter

from tests.wire.realtime.talking import SILENCE, Event, Wire, codes, ended, kinds
from voicepipe.errors import BadField, EngineBusy, SessionLimit, TooLarge
from voicepipe.wire import messages as m
from voicepipe.wire.realtime.dialect import MAX_ASKED
from voicepipe.wire.realtime.events import MAX_EVENT_BYTES

TRANSCRIBED: dict[str, Any] = {"audio": {"input": {"transcription": {"model": "whisper-1"}}}}
MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None, "transcription": {"model": "whisper-1"}}}}
ADDED = "conversation.item.added"
PCM = b"\0\0" * 480
"""20 ms."""
OFFICIAL: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def replied(wire: Wire, turn: int, epoch: int, text: str = "Yes.", frames: int = 1) -> list[Event]:
    """A reply, up to its last frame."""
    sound = [m.AudioFrame(epoch, 480 * n, PCM) for n in range(frames)]
    return wire.hear(m.ReplyText(turn, epoch, text), *sound)


def only(events: list[Event], kind: str) -> Event:
    (event,) = [event for event in events if event["type"] == kind]
    return event


def user_text(words: str, **more: Any) -> Event:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}], **more}


# --- the session


def test_the_session_begins_by_itself_and_says_what_it_is() -> None:
    wire = Wire(query={"model": "gpt-realtime"})
    assert wire.start == m.SessionStart(m.AudioFormat(24000), "voicepipe.v1", output_rate=24000)
    assert kinds(wire.opening) == ["session.created", "conversation.created"]
    session = wire.opening[0]["session"]
    assert (session["type"], session["model"], session["id"]) == ("realtime", "gpt-realtime", "sess_s1")
    assert session["voicepipe"] == {"operating_point": None, "budget_ms": 200.0, "achievable_ms": 120.0}


def test_an_update_goes_to_the_session_before_it_is_told() -> None:
    """What the session refuses has changed nothing."""
    wire = Wire()
    (updated,) = wire.update(instructions="Be brief.")
    assert wire.asked == [m.SessionUpdate(instructions="Be brief.")]
    assert updated["session"]["instructions"] == "Be brief."
    wire.refusing = BadField("tools[0].parameters: no JSON schema", field="tools[0].parameters")
    refused = wire.update(instructions="Shout.", tools=[{"type": "function", "name": "clock"}])
    assert codes(refused) == ["invalid_value"] and refused[0]["error"]["param"] == "tools[0].parameters"
    assert wire.update()[0]["session"]["instructions"] == "Be brief."


def test_an_error_names_the_event_that_it_is_about() -> None:
    wire = Wire()
    (error,) = wire.send("input_audio_buffer.commit", event_id="e7")
    assert error["type"] == "error" and error["error"]["event_id"] == "e7"
    (error,) = wire.send_raw("{")
    assert (error["error"]["code"], error["error"]["event_id"]) == ("invalid_json", None)


def test_only_limits_end_the_session() -> None:
    dialect = Wire().dialect
    assert dialect.is_fatal(TooLarge("much")) and dialect.is_fatal(SessionLimit("idle"))
    with pytest.raises(TooLarge):
        list(dialect.receive(" " * (MAX_EVENT_BYTES + 1)))
    assert codes(Wire().send_raw(b"\0\1")) == ["bad_frame"]


def test_a_fault_of_the_server_is_told_as_one() -> None:
    (frame,) = Wire().dialect.fault(EngineBusy("all slots are taken"))
    assert json.loads(frame)["error"]["type"] == "server_error"


# --- sound


def test_sound_is_handed_on_with_its_place() -> None:
    """And nothing is said about it."""
    wire = Wire()
    for _ in range(2):
        assert wire.send("input_audio_buffer.append", audio=base64.b64encode(PCM).decode()) == []
    assert wire.asked == [m.AudioFrame(0, 0, PCM), m.AudioFrame(0, 480, PCM)]
    assert codes(wire.send("input_audio_buffer.append", audio="not base64")) == ["invalid_value"]


def test_a_turn_that_the_server_ends() -> None:
    """Speech, what is certain of it, its item, its transcript, and a response."""
    wire = Wire()
    wire.update(**TRANSCRIBED)
    started = wire.hear(m.MediaTime(1, 1200), m.SpeechStarted(1))
    assert kinds(started) == ["input_audio_buffer.speech_started"] and started[0]["audio_start_ms"] == 1200
    ident = started[0]["item_id"]
    deltas = wire.hear(
        m.TranscriptPartial(1, "what", "is"),
        m.TranscriptPartial(1, "what", "is the"),
        m.TranscriptPartial(1, "what is the", "time"),
    )
    assert [(event["delta"], event["item_id"]) for event in deltas] == [("what", ident), (" is the", ident)]
    events = wire.hear(m.TranscriptFinal(1, "What is the time?"), m.MediaTime(1, 2700), m.TurnCommitted(1, 1))
    assert kinds(events) == [
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    assert events[0]["audio_end_ms"] == 2700
    assert {event["item_id"] for event in events if "item_id" in event} == {ident}
    assert events[2]["item"]["content"] == [{"type": "input_audio", "transcript": None}], "clients add what follows"
    assert events[4]["usage"] == {"type": "duration", "seconds": 1.5}


def test_without_transcription_nothing_of_it_is_told() -> None:
    wire = Wire()
    wire.hear(m.SpeechStarted(1))
    assert wire.hear(m.TranscriptPartial(1, "what", "is")) == []
    events = wire.hear(m.TranscriptFinal(1, "What?"), m.TurnCommitted(1, 1))
    assert not [kind for kind in kinds(events) if "transcription" in kind]


def test_a_turn_without_words_is_an_item_without_words() -> None:
    """The client has been told that somebody speaks, and is told that nobody does any more."""
    wire = Wire()
    wire.update(**TRANSCRIBED)
    wire.hear(m.SpeechStarted(1))
    events = wire.hear(ended(1, "empty"))
    assert kinds(events)[:2] == ["input_audio_buffer.speech_stopped", "input_audio_buffer.committed"]
    assert events[-1]["transcript"] == "" and "response.created" not in kinds(events)
    assert (
        wire.send("conversation.item.delete", item_id=events[1]["item_id"])[0]["type"]
        == "conversation.item.deleted"
    )
    assert not [one for one in wire.asked if isinstance(one, m.HistoryDelete)]


def test_a_recogniser_that_fails_is_told_of_the_item() -> None:
    wire = Wire()
    wire.update(**TRANSCRIBED)
    wire.hear(m.SpeechStarted(1))
    fault = m.Error("engine_timeout", "turn 1 failed at the asr stage")
    (failed,) = wire.hear(fault, ended(1, "failed", "engine_timeout"))
    assert failed["type"] == "conversation.item.input_audio_transcription.failed"
    assert failed["error"]["code"] == "engine_timeout"


def test_what_is_cleared_is_no_item() -> None:
    wire = Wire()
    wire.hear(m.SpeechStarted(1))
    assert kinds(wire.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert wire.asked == [m.InputClear()]
    assert kinds(wire.hear(ended(1, "empty"))) == ["input_audio_buffer.speech_stopped"]
    wire.hear(m.SpeechStarted(2))
    assert "input_audio_buffer.committed" in kinds(wire.hear(ended(2, "empty")))


def test_a_client_may_commit_what_it_knows_to_be_all() -> None:
    """While the server listens for the end of turns, too; where somebody has spoken."""
    wire = Wire()
    wire.send("input_audio_buffer.append", audio=SILENCE)
    assert codes(wire.send("input_audio_buffer.commit")) == ["input_audio_buffer_commit_empty"]
    wire.hear(m.SpeechStarted(1))
    assert wire.send("input_audio_buffer.commit") == []
    assert wire.asked[-1] == m.InputCommit()


# --- turns that the client ends


def test_a_manual_commit_is_answered_at_once_and_transcribed_later() -> None:
    """No speech is told of, no reply comes by itself."""
    wire = Wire()
    wire.update(**MANUAL)
    wire.send("input_audio_buffer.append", audio=SILENCE)
    assert wire.hear(m.SpeechStarted(1), m.TranscriptPartial(1, "what", "")) == []
    events = wire.send("input_audio_buffer.commit")
    assert kinds(events) == ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"]
    assert wire.asked[-1] == m.InputCommit(even_empty=True)
    (done,) = wire.hear(m.TranscriptFinal(1, "What?"), m.TurnCommitted(1, 1), ended(1))
    assert (done["transcript"], done["item_id"]) == ("What?", events[0]["item_id"])
    retrieved = wire.send("conversation.item.retrieve", item_id=done["item_id"])[0]["item"]
    assert retrieved["content"] == [{"type": "input_audio", "transcript": "What?"}]


def test_a_manual_commit_of_silence_is_an_item_without_words() -> None:
    wire = Wire()
    wire.update(**MANUAL)
    wire.send("input_audio_buffer.append", audio=SILENCE)
    ident = wire.send("input_audio_buffer.commit")[0]["item_id"]
    (done,) = wire.hear(ended(1, "empty"))
    assert (done["transcript"], done["item_id"]) == ("", ident)


def test_less_than_a_tenth_of_a_second_cannot_be_committed() -> None:
    wire = Wire()
    wire.update(**MANUAL)
    assert codes(wire.send("input_audio_buffer.commit")) == ["input_audio_buffer_commit_empty"]
    wire.send("input_audio_buffer.append", audio=SILENCE)
    wire.send("input_audio_buffer.clear")
    assert codes(wire.send("input_audio_buffer.commit")) == ["input_audio_buffer_commit_empty"]


def test_a_response_waits_for_what_was_committed() -> None:
    """Else it would not know what was said."""
    wire = Wire()
    wire.update(**MANUAL)
    wire.send("input_audio_buffer.append", audio=SILENCE)
    wire.hear(m.SpeechStarted(1))
    wire.send("input_audio_buffer.commit")
    assert wire.send("response.create") == [] and isinstance(wire.asked[-1], m.InputCommit)
    wire.hear(m.TranscriptFinal(1, "What?"), m.TurnCommitted(1, 1))
    assert isinstance(wire.asked[-1], m.InputCommit)
    wire.hear(ended(1))
    assert wire.asked[-1] == m.ReplyCreate(reply_as="speech")
    assert kinds(wire.hear(m.TurnCommitted(2, 2))) == ["response.created"]


def test_a_commit_over_a_reply_ends_it() -> None:
    """And its response is done before the item's transcript is known."""
    wire = Wire()
    wire.update(**MANUAL)
    wire.send("response.create")
    wire.hear(m.TurnCommitted(1, 1))
    replied(wire, 1, 1)
    wire.send("input_audio_buffer.append", audio=SILENCE)
    wire.send("input_audio_buffer.commit")
    events = wire.hear(m.ReplyInterrupted(1, 1, 10.0), ended(1), m.SpeechStarted(2))
    assert events[-1]["response"]["status"] == "cancelled"
    (done,) = wire.hear(m.TranscriptFinal(2, "Stop."), m.TurnCommitted(2, 3), ended(2))
    assert done["transcript"] == "Stop."


# --- replies


def test_a_response_is_done_once_it_has_been_heard_and_says_how() -> None:
    """With the verdict and where the time went, as an extension."""
    wire = Wire()
    wire.speak(1, "What?", 1)
    assert kinds(replied(wire, 1, 1, frames=2))[-2:] == ["response.output_audio.delta"] * 2
    ending = wire.hear(m.ReplyMade(1, 1, 20, 2, cut=False), m.ReplyDone(1, 1, 960))
    assert kinds(ending)[0] == "response.output_audio.done" and "response.done" not in kinds(ending)
    (done,) = wire.hear(ended(1, "missed"))
    assert done["response"]["status"] == "completed" and done["response"]["usage"]["total_tokens"] == 22
    assert done["response"]["voicepipe"]["verdict"] == "missed"
    assert done["response"]["voicepipe"]["stages"]["asr"] == {"wait_ms": 0.0, "service_ms": 0.0}


def test_what_is_sent_is_what_the_official_types_know() -> None:
    """A whole turn with a call of a function, event by event, by models that refuse wrong types."""
    wire = Wire()
    events = wire.opening + wire.update(**TRANSCRIBED) + wire.hear(m.SpeechStarted(1))
    events += wire.hear(m.TranscriptPartial(1, "what", "")) + wire.hear(
        m.TranscriptFinal(1, "What?"), m.MediaTime(1, 900), m.TurnCommitted(1, 1)
    )
    events += replied(wire, 1, 1) + wire.hear(
        m.ToolCall(1, 1, "c1", "clock", "{}"), m.ReplyDone(1, 1, 480), ended(1)
    )
    output = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    events += wire.send("conversation.item.create", item=output) + wire.send("nonsense")
    for event in events:
        OFFICIAL.validate_python(event)
    assert len({event["event_id"] for event in events}) == len(events)


def test_the_user_interrupts_a_reply() -> None:
    """The client learns first that somebody speaks, so that it stops playing; then that the response is over."""
    wire = Wire()
    wire.speak(1, "What?", 1)
    replied(wire, 1, 1, frames=5)
    assert wire.hear(m.ReplyInterrupted(1, 1, 60.0), ended(1)) == []
    events = wire.hear(m.MediaTime(2, 4000), m.SpeechStarted(2))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    done = events[-1]["response"]
    assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert done["output"][0]["status"] == "incomplete"


def test_an_interrupted_response_is_done_whatever_comes_next() -> None:
    wire = Wire()
    wire.speak(1, "What?", 1)
    wire.hear(m.ReplyInterrupted(1, 1, 0.0), ended(1, "interrupted"))
    assert kinds(wire.hear(m.Error("engine_failed", "x"))) == ["response.done"]


def test_a_client_cancels_a_response() -> None:
    wire = Wire()
    wire.speak(1, "What?", 1)
    replied(wire, 1, 1)
    assert wire.send("response.cancel") == [] and wire.asked == [m.ReplyCancel()]
    events = wire.hear(m.ReplyInterrupted(1, 1, 10.0), ended(1))
    assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert codes(wire.send("response.cancel")) == ["response_cancel_not_active"]


def test_errors_that_clients_know_by_their_text_have_it() -> None:
    """The text alone tells them that nothing is wrong: they interrupt whatever they believe to be going on."""
    wire = Wire()
    (not_active,) = wire.send("response.cancel")
    assert not_active["error"]["message"] == "Cancellation failed: no active response found"
    wire.send("response.create")
    (asked,) = wire.send("response.create")
    assert asked["error"]["message"].startswith("Conversation already has an active response in progress: ")
    ident = wire.hear(m.TurnCommitted(1, 1))[0]["response"]["id"]
    (active,) = wire.send("response.create")
    assert active["error"]["message"].startswith(
        f"Conversation already has an active response in progress: {ident}."
    )
    item = only(wire.hear(m.ReplyText(1, 1, "Yes."), m.AudioFrame(1, 0, PCM)), "conversation.item.added")["item"]
    (short,) = wire.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=5000)
    assert short["error"]["message"] == "Audio content of 20ms is already shorter than 5000ms"


def test_another_response_is_not_cancelled_by_mistake() -> None:
    wire = Wire()
    ident = wire.speak(1, "What?", 1)[-1]["response"]["id"]
    assert codes(wire.send("response.cancel", response_id="resp_other")) == ["response_cancel_not_active"]
    assert wire.send("response.cancel", response_id=ident) == [] and wire.asked == [m.ReplyCancel()]


def test_a_response_that_still_waits_can_be_cancelled() -> None:
    """It is told of, and done, all the same."""
    wire = Wire()
    wire.update(audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}})
    wire.hear(m.SpeechStarted(1))
    wire.send("response.create")
    events = wire.send("response.cancel")
    assert kinds(events) == ["response.created", "response.done"]
    assert events[-1]["response"]["status"] == "cancelled"
    wire.hear(m.TranscriptFinal(1, "What?"), m.TurnCommitted(1, 1), ended(1))
    assert not [one for one in wire.asked if isinstance(one, m.ReplyCreate)]


def test_a_reply_fails() -> None:
    """With the code of the engine's error, before any sound or after it."""
    wire = Wire()
    wire.speak(1, "What?", 1)
    replied(wire, 1, 1)
    fault = m.Error("engine_timeout", "turn 1 failed at the tts stage")
    done = wire.hear(fault, m.ReplyInterrupted(1, 1, 10.0), ended(1, "failed", "engine_timeout"))[-1]["response"]
    assert done["status"] == "failed" and done["status_details"]["error"]["code"] == "engine_timeout"
    wire.speak(2, "And?", 3)
    assert wire.hear(ended(2))[-1]["response"]["status"] == "completed"


def test_a_turn_that_is_refused_for_being_late_has_failed() -> None:
    wire = Wire()
    wire.speak(1, "What?", 1)
    done = wire.hear(ended(1, "refused", "no-content"))[-1]["response"]
    assert done["status_details"]["error"]["code"] == "turn_refused"
    assert done["voicepipe"]["reason"] == "no-content"


def test_a_commit_that_came_too_early_is_taken_back() -> None:
    """The response is over; when the whole turn is committed, it replaces what had been made of its first half."""
    wire = Wire()
    wire.update(**TRANSCRIBED)
    first = wire.speak(1, "What is", 1)
    replied(wire, 1, 1)
    events = wire.hear(m.TurnReopened(1, 2))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert events[-1]["response"]["status_details"]["reason"] == "turn_detected"
    again = wire.hear(m.TranscriptFinal(1, "What is the time?"), m.TurnCommitted(1, 3))
    gone = [event["item_id"] for event in again if event["type"] == "conversation.item.deleted"]
    assert gone == [
        only(first, "input_audio_buffer.committed")["item_id"],
        events[-1]["response"]["output"][0]["id"],
    ]
    assert only(again, "input_audio_buffer.committed")["item_id"] == events[0]["item_id"]
    assert only(again, "conversation.item.input_audio_transcription.completed")["transcript"] == "What is the time?"
    assert "response.created" in kinds(again)


def test_words_that_were_heard_better_later_are_there_for_who_looks() -> None:
    wire = Wire()
    ident = only(wire.speak(1, "I want a pair.", 1), "input_audio_buffer.committed")["item_id"]
    assert wire.hear(m.TranscriptFinal(1, "I want a pear.")) == []
    item = wire.send("conversation.item.retrieve", item_id=ident)[0]["item"]
    assert item["content"][0]["transcript"] == "I want a pear."


def test_sound_of_an_older_reply_is_dropped() -> None:
    wire = Wire()
    wire.speak(1, "What?", 2)
    assert wire.hear(m.AudioFrame(1, 0, PCM), m.ReplyText(1, 1, "No.")) == []


def test_the_servers_going_away_is_not_an_event() -> None:
    assert Wire().hear(m.Draining(5000.0), m.ReplyAcknowledged(1, 1, 480)) == []


# --- responses that are asked for


def test_a_response_is_asked_for_with_what_is_special_about_it() -> None:
    wire = Wire()
    wire.send("conversation.item.create", item=user_text("Hi."))
    wire.send(
        "response.create",
        response={
            "instructions": "Whisper.",
            "output_modalities": ["text"],
            "max_output_tokens": 9,
            "tools": [{"type": "function", "name": "clock"}],
            "tool_choice": "required",
            "metadata": {"topic": "time"},
        },
    )
    assert wire.asked[-1] == m.ReplyCreate(
        instructions="Whisper.",
        reply_as="text",
        max_reply_tokens=9,
        tools=(m.ToolSpec("clock"),),
        tool_choice="required",
    )
    (created,) = wire.hear(m.TurnCommitted(1, 1))
    assert created["response"]["metadata"] == {"topic": "time"}
    assert kinds(wire.hear(m.ReplyText(1, 1, "Noon.", spoken=False)))[-1] == "response.output_text.delta"


def test_the_conversation_has_one_response_at_a_time() -> None:
    wire = Wire()
    wire.speak(1, "What?", 1)
    assert codes(wire.send("response.create")) == ["conversation_already_has_active_response"]
    wire.hear(ended(1))
    wire.send("response.create")
    assert codes(wire.send("response.create")) == ["conversation_already_has_active_response"]
    wire.hear(m.TurnCommitted(2, 2), ended(2))
    assert wire.send("response.create") == []


def test_a_response_beside_the_conversation_waits_until_nobody_else_speaks() -> None:
    """What it is to answer comes with it; it leaves nothing behind."""
    wire = Wire()
    wire.send("conversation.item.create", item=user_text("Buy now!", id="i1"))
    wire.speak(1, "What?", 1)
    response = {
        "conversation": "none",
        "output_modalities": ["text"],
        "input": [{"type": "item_reference", "id": "i1"}, user_text("Is this spam?")],
    }
    assert wire.send("response.create", response=response) == []
    assert not [one for one in wire.asked if isinstance(one, m.ReplyCreate)]
    wire.hear(ended(1))
    lines = (m.HistoryLine("user", "Buy now!"), m.HistoryLine("user", "Is this spam?"))
    assert wire.asked[-1] == m.ReplyCreate(lines=lines, keep=False, reply_as="text")
    events = wire.hear(
        m.TurnCommitted(2, 2), m.ReplyText(2, 2, "Yes.", spoken=False), m.ReplyDone(2, 2, 0), ended(2)
    )
    assert not [kind for kind in kinds(events) if kind.startswith("conversation.")]
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": "Yes."}]


def test_not_too_many_are_waited_for() -> None:
    wire = Wire()
    wire.hear(m.SpeechStarted(1))
    for _ in range(MAX_ASKED):
        assert wire.send("response.create", response={"conversation": "none"}) == []
    assert codes(wire.send("response.create", response={"conversation": "none"})) == ["too_many_responses"]


def test_a_response_that_the_session_refuses_does_not_block_the_next() -> None:
    wire = Wire()
    wire.refusing = BadField("tool_choice: there is no tool to choose", field="tool_choice")
    refused = wire.send("response.create", event_id="e1", response={"tool_choice": "required"})
    assert codes(refused) == ["invalid_value"] and refused[0]["error"]["event_id"] == "e1"
    assert wire.send("response.create") == [] and len(wire.asked) == 1


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"conversation": "conv_2"}, "unsupported"),
        ({"prompt": {"id": "p"}}, "unsupported"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference_invalid_item_id"),
        ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 8000}}}}, "invalid_value"),
        ({"tools": [{"type": "mcp"}]}, "unsupported"),
    ],
    ids=str,
)
def test_a_response_that_cannot_be_is_refused(response: Event, code: str) -> None:
    assert codes(Wire().send("response.create", response=response)) == [code]


def test_a_response_has_its_own_format() -> None:
    wire = Wire()
    wire.send("response.create", response={"audio": {"output": {"format": {"type": "audio/pcmu"}, "voice": "x"}}})
    created = wire.hear(m.TurnCommitted(1, 1))[0]["response"]
    assert created["audio"]["output"] == {"format": {"type": "audio/pcmu"}, "voice": "x"}


# --- calls of functions


def test_a_function_is_called_and_what_came_of_it_is_answered() -> None:
    wire = Wire()
    wire.speak(1, "What is the time?", 1)
    events = wire.hear(m.ToolCall(1, 1, "c1", "clock", "{}"), ended(1))
    assert only(events, "response.function_call_arguments.done")["arguments"] == "{}"
    assert events[-1]["response"]["output"][0]["type"] == "function_call"
    wire.send(
        "conversation.item.create",
        item={"type": "function_call_output", "call_id": "c1", "output": "noon"},
    )
    result = wire.asked[-1]
    assert isinstance(result, m.ToolResult) and (result.call_id, result.output) == ("c1", "noon")
    wire.send("response.create")
    assert isinstance(wire.asked[-1], m.ReplyCreate)


# --- items


def test_an_item_is_put_in_its_place() -> None:
    wire = Wire()
    first = wire.send("conversation.item.create", item=user_text("One.", id="i1"))
    assert kinds(first) == ["conversation.item.added", "conversation.item.done"]
    assert first[0]["previous_item_id"] is None
    wire.send("conversation.item.create", item=user_text("Three.", id="i3"))
    wire.send("conversation.item.create", item=user_text("Two.", id="i2"), previous_item_id="i1")
    zero = wire.send("conversation.item.create", item=user_text("Zero.", id="i0"), previous_item_id="root")
    assert zero[0]["previous_item_id"] is None
    assert wire.asked == [
        m.HistoryAdd("user", "One.", "item:i1"),
        m.HistoryAdd("user", "Three.", "item:i3"),
        m.HistoryAdd("user", "Two.", "item:i2", "item:i1"),
        m.HistoryAdd("user", "Zero.", "item:i0", ""),
    ]


def test_an_item_without_an_id_gets_one() -> None:
    added = Wire().send("conversation.item.create", item=user_text("One."))[0]
    assert added["item"]["id"].startswith("item_")


def test_a_conversation_that_is_told_again_keeps_its_ids_apart_from_new_ones() -> None:
    """A client that comes back to a server that was begun anew brings the items of its old session, which may have
    had the same name."""
    before = Wire()
    old = [e["item"]["id"] for e in [*before.speak(1, "What?", 1), *replied(before, 1, 1)] if e["type"] == ADDED]
    assert len(old) == 2
    wire = Wire()
    for ident in old:
        wire.send("conversation.item.create", item=user_text("What?", id=ident))
    new = [e["item"]["id"] for e in [*wire.speak(1, "What?", 1), *replied(wire, 1, 1)] if e["type"] == ADDED]
    assert len({*old, *new}) == 4


def test_an_item_that_cannot_be_put_there_is_refused() -> None:
    wire = Wire()
    wire.send("conversation.item.create", item=user_text("One.", id="i1"))
    assert codes(wire.send("conversation.item.create", item=user_text("One.", id="i1"))) == [
        "item_create_duplicate_item_id"
    ]
    assert codes(wire.send("conversation.item.create", item=user_text("Two."), previous_item_id="x")) == [
        "item_create_invalid_item_id"
    ]


def test_an_item_is_deleted_from_the_sessions_history_too() -> None:
    wire = Wire()
    wire.send("conversation.item.create", item=user_text("One.", id="i1"))
    said = only(wire.speak(1, "What?", 1), "input_audio_buffer.committed")["item_id"]
    answered = only(replied(wire, 1, 1), "conversation.item.added")["item"]["id"]
    assert codes(wire.send("conversation.item.delete", item_id=answered)) == ["item_delete_in_progress"]
    wire.hear(m.ReplyDone(1, 1, 480), ended(1))
    for ident in ("i1", said, answered):
        assert kinds(wire.send("conversation.item.delete", item_id=ident)) == ["conversation.item.deleted"]
        assert codes(wire.send("conversation.item.retrieve", item_id=ident)) == ["item_retrieve_invalid_item_id"]
    assert [one.id for one in wire.asked if isinstance(one, m.HistoryDelete)] == [
        "item:i1",
        "user-1",
        "assistant-1",
    ]
    assert codes(wire.send("conversation.item.delete", item_id="i1")) == ["item_delete_invalid_item_id"]


def test_a_reply_is_cut_to_what_was_heard() -> None:
    """While it is given, and after it has been interrupted; its transcript goes."""
    wire = Wire()
    wire.speak(1, "What?", 1)
    ident = only(replied(wire, 1, 1, frames=10), "conversation.item.added")["item"]["id"]
    at = {"item_id": ident, "content_index": 0}
    (cut,) = wire.send("conversation.item.truncate", **at, audio_end_ms=150)
    assert (cut["type"], cut["item_id"], cut["audio_end_ms"]) == ("conversation.item.truncated", ident, 150)
    wire.hear(m.ReplyInterrupted(1, 1, 160.0), ended(1), m.SpeechStarted(2))
    wire.send("conversation.item.truncate", **at, audio_end_ms=120.5)
    assert [one for one in wire.asked if isinstance(one, m.HistoryTruncate)] == [
        m.HistoryTruncate(1, 150),
        m.HistoryTruncate(1, 120.5),
    ]
    item = wire.send("conversation.item.retrieve", item_id=ident)[0]["item"]
    assert item["content"] == [{"type": "output_audio"}]


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"item_id": "x"}, "item_truncate_invalid_item_id", "item_id"),
        ({"content_index": 1}, "invalid_value", "content_index"),
        ({"audio_end_ms": 201}, "invalid_value", "audio_end_ms"),
        ({"item_id": "i1"}, "invalid_value", "item_id"),
    ],
    ids=str,
)
def test_what_cannot_be_cut_is_refused(changes: Event, code: str, param: str) -> None:
    wire = Wire()
    wire.send("conversation.item.create", item=user_text("One.", id="i1"))
    wire.speak(1, "What?", 1)
    ident = only(replied(wire, 1, 1, frames=10), "conversation.item.added")["item"]["id"]
    fields = {"item_id": ident, "content_index": 0, "audio_end_ms": 200} | changes
    (error,) = wire.send("conversation.item.truncate", **fields)
    assert (error["error"]["code"], error["error"]["param"]) == (code, param)
    assert not [one for one in wire.asked if isinstance(one, m.HistoryTruncate)]


# --- transcription alone


def test_a_transcription_session_hears_and_does_not_answer() -> None:
    """Whether the address or an update says so."""
    by_address = Wire(query={"intent": "transcription"})
    assert by_address.start is not None and by_address.start.mode == "transcription"
    assert kinds(by_address.opening) == ["session.created"]
    by_update = Wire()
    by_update.send("session.update", session={"type": "transcription", **TRANSCRIBED})
    for wire in (by_address, by_update):
        events = wire.speak(1, "What?", 1) + wire.hear(ended(1))
        assert only(events, "conversation.item.input_audio_transcription.completed")["transcript"] == "What?"
        assert not [kind for kind in kinds(events) if kind.startswith("response.")]
