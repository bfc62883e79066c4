"""The phone's dialect by itself: a table of frames and what they come to, from both sides; and its rules."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.wire.twilio.calling import (
    OTHER,
    PCM,
    QUIET,
    SID,
    Event,
    Phone,
    connected,
    dtmf,
    mark,
    marks,
    media,
    names,
    start,
    stop,
)
from voicepipe import g711
from voicepipe.errors import BadField, BadFrame, BadJson, OutOfOrder, SessionLimit, TooLarge, UnknownType
from voicepipe.wire import messages as m

LOUD = bytes(range(160))
STAGES = m.Stages(*(m.StageTimes(),) * 5)
ENDED = m.TurnEnded(1, "met", 150.0, 10.0, STAGES, m.Speculation(True, 1, 1.0, 0.0), None)


@pytest.mark.parametrize(
    ("event", "comes_to"),
    [
        (connected(), []),
        (media(LOUD), [m.AudioFrame(0, 0, g711.decode(LOUD, "ulaw"))]),
        (media(b""), [m.AudioFrame(0, 0, b"")]),
        (media(LOUD, track="outbound"), []),
        (dtmf("7"), [m.ReplyCancel()]),
        (dtmf("#"), [m.ReplyCancel(), m.InputText("DTMF: #")]),
        (stop(), [m.SessionEnd()]),
        (start(OTHER), []),
        (start(OTHER, operating_point="safe"), [m.SessionUpdate(operating_point="safe")]),
    ],
)
def test_what_an_event_of_a_running_call_comes_to(event: Event, comes_to: list[object]) -> None:
    assert Phone().send(event) == comes_to


@pytest.mark.parametrize(
    ("told", "sent"),
    [
        (m.SessionReady("s", m.PROTOCOL, 8000, 200.0, None), []),
        (m.SpeechStarted(1), []),
        (m.MediaTime(1, 20), []),
        (m.TranscriptPartial(1, "Hi", ""), []),
        (m.TranscriptFinal(1, "Hi"), []),
        (m.TurnCommitted(1, 1), []),
        (m.ReplyAcknowledged(1, 1, 800), []),
        (m.ReplyText(1, 1, "Yes."), []),
        (m.ReplyMade(1, 1, 5, 5, cut=False), []),
        (m.ToolCall(1, 1, "c", "clock", "{}"), []),
        (m.Error("engine_failed", "no"), []),
        (m.Draining(100.0), []),
        (ENDED, []),
        (m.TurnReopened(1, 1), []),
        (m.ReplyInterrupted(1, 1, 0.0), []),
        (m.AudioFrame(1, 0, PCM), [{"event": "media", "media": {"payload": base64.b64encode(QUIET).decode()}}]),
        (m.ReplyDone(1, 1, 160), [{"event": "mark", "mark": {"name": "1:160"}}]),
    ],
)
def test_what_is_told_to_a_caller(told: m.Told, sent: list[Event]) -> None:
    """Nothing but the three events that Twilio takes. Where nothing was sent, nothing is cleared."""
    assert Phone().hear(told) == [{**event, "streamSid": SID} for event in sent]


def test_the_session_begins_at_the_start() -> None:
    """Nothing goes out before; an interruption has nothing to clear (S10)."""
    phone = Phone(started=False)
    assert phone.send(connected()) == []
    assert phone.hear(m.ReplyInterrupted(1, 1, 0.0), m.AudioFrame(1, 0, PCM), m.ReplyDone(1, 1, 160)) == []
    for event in (media(), mark("1:800"), dtmf("1"), stop()):
        assert isinstance(phone.fails(event), OutOfOrder)
    assert phone.send(start()) == [m.SessionStart(m.AudioFormat(8000), m.PROTOCOL, output_rate=8000)]
    assert phone.hear(m.ReplyInterrupted(1, 1, 0.0)) == []


def test_parameters_of_the_call() -> None:
    """Two of ours; the rest is the application's own."""
    phone = Phone(instructions="Be brief.", operating_point="balanced", customer="17")
    assert isinstance(phone.start, m.SessionStart)
    assert (phone.start.instructions, phone.start.operating_point) == ("Be brief.", "balanced")
    for custom in ({"operating_point": "s3cret"}, {"instructions": "s3cret" * 4000}):
        error = Phone(started=False).fails(start(**custom))
        assert isinstance(error, BadField) and error.field == f"start.customParameters.{next(iter(custom))}"
        assert "s3cret" not in error.message


@pytest.mark.parametrize("change", [{"encoding": "audio/l16"}, {"sampleRate": 16000}, {"channels": 2}])
def test_only_the_phones_sound_is_taken(change: dict[str, Any]) -> None:
    event = start()
    event["start"]["mediaFormat"] = {**event["start"]["mediaFormat"], **change}
    error = Phone(started=False).fails(event)
    assert isinstance(error, BadField) and error.field == f"start.mediaFormat.{next(iter(change))}"


def test_a_mark_for_every_100_ms_and_one_at_the_end() -> None:
    phone = Phone()
    sent = phone.reply(3, 13)
    assert marks(sent) == ["3:800", "3:1600"]
    assert names(sent)[:6] == ["media"] * 5 + ["mark"]
    assert marks(phone.hear(m.ReplyDone(1, 3, 13 * 160))) == ["3:2080"]
    assert marks(phone.hear(m.ReplyDone(1, 3, 13 * 160))) == []
    assert phone.send(mark("3:800")) == [m.Playback(3, 800)]
    assert phone.send(mark("3:2080")) == [m.Playback(3, 2080)]


def test_after_a_clear_returned_marks_are_not_taken_as_heard() -> None:
    phone = Phone()
    phone.reply(3, 13)
    assert phone.send(mark("3:800")) == [m.Playback(3, 800)]
    assert phone.hear(m.ReplyInterrupted(1, 3, 120.0)) == [{"event": "clear", "streamSid": SID}]
    assert phone.send(mark("3:1600")) == []
    assert isinstance(phone.fails(mark("3:1600")), BadField), "it came back already"
    assert phone.hear(m.ReplyInterrupted(1, 3, 120.0)) == [], "nothing was sent since"
    assert marks(phone.reply(4, 5)) == ["4:800"]
    assert phone.send(mark("4:800")) == [m.Playback(4, 800)]
    assert names(phone.hear(m.TurnReopened(2, 4))) == ["clear"]


def test_a_second_start_takes_the_call_over() -> None:
    """All that goes out has the new id; what the old stream still says is refused (S10, S151)."""
    phone = Phone()
    phone.reply(3, 5)
    assert phone.send(start(OTHER)) == []
    sent = phone.reply(3, 6, begin=5) + phone.hear(m.ReplyInterrupted(1, 3, 0.0))
    assert names(sent) == ["media"] * 5 + ["mark", "media", "clear"]
    assert {event["streamSid"] for event in sent} == {OTHER}
    for event in (media(), mark("3:800"), dtmf("1"), stop()):
        error = phone.fails(event)
        assert isinstance(error, BadField) and error.field == "streamSid"
        assert not phone.dialect.is_fatal(error)
    assert phone.send(mark("3:800", OTHER)) == [], "of the stream that is gone: nobody heard it here"
    assert phone.send(stop(OTHER)) == [m.SessionEnd()]


def at(phone: Phone, event: Event) -> int:
    (frame,) = phone.send(event)
    assert isinstance(frame, m.AudioFrame)
    return frame.offset_samples


def test_sound_lies_on_one_clock() -> None:
    """Time stamps that are a little off say nothing; 100 ms that are missing are; a clock set anew is no loss."""
    phone = Phone()
    assert [at(phone, media(at_ms=ms)) for ms in (5000, 5020, 5043, 5059)] == [0, 160, 320, 480]
    assert at(phone, media(at_ms=5280)) == 2240, "200 ms were lost"
    assert at(phone, media(at_ms=0)) == 2400, "the clock was set back (S8)"
    assert at(phone, media(at_ms=20)) == 2560
    assert at(phone, media(at_ms=60_000)) == 2720, "and forth"
    assert at(phone, media()) == 2880
    phone.send(start(OTHER))
    assert [at(phone, media(sid=OTHER, at_ms=ms)) for ms in (300, 320)] == [3040, 3200]


def test_keys_are_said_when_the_entry_is_complete() -> None:
    """By `#`, or two seconds of sound after the last key. The first key stops the reply, as a word would."""
    phone = Phone()
    assert [phone.send(dtmf(key)) for key in "12#"] == [[m.ReplyCancel()], [], [m.InputText("DTMF: 12")]]
    assert phone.send(dtmf("9")) == [m.ReplyCancel()]
    steps = [step for _ in range(100) for step in phone.send(media())]
    assert [step for step in steps[:-1] if not isinstance(step, m.AudioFrame)] == []
    assert steps[-1] == m.InputText("DTMF: 9")


@pytest.mark.parametrize(
    ("data", "kind", "field"),
    [
        (b"\0\0", BadFrame, None),
        ("", BadJson, None),
        ("[]", BadJson, None),
        ("{}", BadJson, None),
        ('{"event": 5}', BadJson, None),
        ("\ud800", BadJson, None),
        ('{"event": "s3cret"}', UnknownType, "event"),
        ({"event": "media", "streamSid": SID}, BadField, "media"),
        ({"event": "mark", "streamSid": SID, "mark": {}}, BadField, "mark.name"),
        ({**media(), "media": {"payload": "s3cret!"}}, BadField, "media.payload"),
        ({**media(), "media": {"payload": "", "timestamp": "-5"}}, BadField, "media.timestamp"),
        ({**media(), "media": {"payload": "", "timestamp": "NaN"}}, BadField, "media.timestamp"),
        ({**media(), "media": {"payload": "", "timestamp": 5}}, BadField, "media.timestamp"),
        ({**media(), "sequenceNumber": "1e9"}, BadField, "sequenceNumber"),
        ({**media(), "media": {"payload": "", "track": "s3cret"}}, BadField, "media.track"),
        (dtmf("s3cret"), BadField, "dtmf.digit"),
        (media(sid="s3cret"), BadField, "streamSid"),
        (mark("s3cret"), BadField, "mark.name"),
        ("x" * 70_000, TooLarge, "text frame"),
        (media(b"\xff" * 60_000), TooLarge, "text frame"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(data: Any, kind: type[Exception], field: str | None) -> None:
    phone = Phone()
    error = phone.fails(data)
    assert type(error) is kind and error is not None and error.field == field
    assert "s3cret" not in error.message
    assert phone.dialect.is_fatal(error) is (kind is TooLarge)
    assert phone.send(media(LOUD))[0] == m.AudioFrame(0, 0, g711.decode(LOUD, "ulaw")), "and nothing was spoilt"


def test_a_limit_ends_the_call() -> None:
    assert Phone().dialect.is_fatal(SessionLimit("too long"))
