"""Whole phone calls in virtual time, with scripted engines."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.driving import ListeningLlm, engines
from tests.twilio import PACKET_S, Phone, ring
from tests.wire.twilio.calling import OTHER, SID, connected, media, start
from voicepipe.config import Config, LimitsConfig, ScriptedConfig
from voicepipe.wire import messages as wire
from voicepipe.wire.twilio.dialect import TwilioDialect

SHORT = ScriptedConfig(reply="Yes.", transcripts=("One.", "Two.", "Three."))
LONG = ScriptedConfig(reply="This is a scripted reply. It has two sentences.", transcripts=("One.", "Two."))
LEAD_S = 0.5
"""So much sound lies unplayed at a client at most."""


def listening(config: ScriptedConfig) -> ListeningLlm:
    return ListeningLlm(config, 1)


def test_a_call_is_answered_within_its_budget() -> None:
    """200 ms from the end of speech to the first sound, as at the native door; the marks tell when it was heard."""

    async def script(phone: Phone) -> None:
        await phone.dial()
        await phone.pause(0.5)
        await phone.speak(1.0)
        speech_end = phone.now
        await phone.pause_until("media")
        assert phone.now - speech_end < 0.2
        await phone.quiet()
        await phone.hang_up()

    phone = ring(script, engines(SHORT))
    assert phone.verdicts == ["met"]
    assert len(phone.of("media")) == round(0.3 / PACKET_S)
    assert [event["mark"]["name"] for event in phone.of("mark")] == ["1:800", "1:1600", "1:2400"]
    assert phone.house is not None and phone.house.observer.client_errors == []
    assert phone.closed is not None and phone.closed.code == 1000


def test_a_barge_in_ends_the_reply_and_clears_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """S1 and S5: from the decision to `clear` less than a frame, from the onset to the last old sample bounded,
    work for the old reply given up; and what the caller has not heard by the marks is not remembered as said."""
    llm, decided, onset = listening(LONG), [], 0.0

    async def script(phone: Phone) -> None:
        nonlocal onset
        tell = TwilioDialect.tell

        def timed(self: TwilioDialect, told: wire.Told) -> Any:
            if isinstance(told, wire.ReplyInterrupted):
                decided.append(phone.now)
            return tell(self, told)

        monkeypatch.setattr(TwilioDialect, "tell", timed)
        await phone.dial()
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.pause(0.8)
        onset = phone.now
        await phone.speak_until("clear")
        await phone.speak(0.3)
        await phone.pause_until("media")
        await phone.quiet()

    phone = ring(script, engines(LONG, llm=llm))
    cleared = phone.at("clear")
    assert len(decided) == 1 and 0 <= cleared - decided[0] <= PACKET_S
    assert phone.of("clear") == [{"event": "clear", "streamSid": SID}]
    old = [at for at, event in phone.log if event["event"] == "media" and at <= cleared]
    assert onset < cleared < onset + 0.5 and old[-1] <= cleared
    assert phone.ahead_at_clear[0] <= LEAD_S
    sent_s = len(old) * PACKET_S
    assert sent_s < 2.0, "of the 2.7 s that the reply has"
    assert phone.verdicts == ["met", "met"]
    assert llm.asked[1:] == (("user", "One."), ("assistant", "This is a …"), ("user", "Two."))
    assert phone.house is not None and phone.house.observer.client_errors == []


def test_the_next_reply_after_a_barge_in_has_no_gap() -> None:
    """S8: the stream's clock is set back with the flush, as some do; the next reply is heard in one piece."""

    async def script(phone: Phone) -> None:
        await phone.dial()
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.pause(1.0)
        await phone.speak_until("clear")
        phone.at_ms = 0
        await phone.speak(0.3)
        await phone.pause_until("media")
        await phone.quiet()

    phone = ring(script, engines(LONG))
    again = [at for at, event in phone.log if event["event"] == "media" and at > phone.at("clear")]
    assert len(again) == round(2.7 / PACKET_S)
    assert not [at for at in phone.stood_still if at > phone.at("clear")]
    assert phone.verdicts == ["met", "met"]
    assert phone.house is not None and phone.house.observer.client_errors == []


def test_all_that_goes_out_has_the_present_id() -> None:
    """S10: nothing before `start`; a second one takes over in the middle of a reply."""

    async def script(phone: Phone) -> None:
        await phone.send(connected())
        await phone.dial()
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.pause(0.5)
        phone.sid, taken = OTHER, phone.now
        await phone.send(start(OTHER))
        await phone.pause(0.1)
        assert {event["streamSid"] for event in phone.since(taken + PACKET_S)} == {OTHER}
        await phone.speak_until("clear")
        await phone.hang_up()

    phone = ring(script, engines(LONG))
    assert {event["streamSid"] for _, event in phone.log} == {SID, OTHER}
    assert phone.of("clear") == [{"event": "clear", "streamSid": OTHER}]
    ids = [event["streamSid"] for _, event in phone.log]
    assert ids == sorted(ids), "never the old one again"


def test_hanging_up_in_the_middle_of_a_reply_ends_everything() -> None:
    """S133: `ring` looks whether the slot is back and no task is left."""

    async def script(phone: Phone) -> None:
        await phone.dial()
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.hang_up()

    phone = ring(script, engines(LONG))
    assert phone.closed is not None and phone.closed.code == 1000
    assert phone.house is not None and phone.house.leased == phone.house.observer.leases == 0
    assert phone.now < 2.5


@pytest.mark.parametrize(("keys", "heard"), [("42#", "DTMF: 42"), ("7", "DTMF: 7")])
def test_keys_are_answered_like_words(keys: str, heard: str) -> None:
    """The first one stops the reply; `#`, or a pause, ends the entry."""
    llm = listening(LONG)

    async def script(phone: Phone) -> None:
        await phone.dial()
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.pause(0.5)
        pressed = phone.now
        await phone.press(keys)
        assert phone.at("clear") <= pressed + PACKET_S
        await phone.quiet(2.2)

    phone = ring(script, engines(LONG, llm=llm))
    assert llm.asked[-1] == ("user", heard)
    assert len(phone.of("clear")) == 1 and phone.verdicts[-1] == "met"


def test_stale_and_strange_events_are_counted_and_the_call_goes_on() -> None:
    """S151."""

    async def script(phone: Phone) -> None:
        await phone.dial()
        await phone.send(media(sid="MZstale"))
        await phone.send({"event": "mark", "streamSid": SID, "mark": {"name": "9:800"}})
        await phone.send({"event": "telepathy", "streamSid": SID})
        await phone.send(b"\0\0")
        await phone.send("{")
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.hang_up()

    phone = ring(script, engines(SHORT))
    assert phone.house is not None
    assert phone.house.observer.client_errors == ["bad_field", "bad_field", "unknown_type", "bad_frame", "bad_json"]
    assert phone.closed is not None and phone.closed.code == 1000


@pytest.mark.parametrize(
    ("event", "code", "reason"),
    [
        (media(), 4400, "out_of_order"),
        (start(operating_point="sleepy"), 4400, "bad_start"),
        ("x" * 70_000, 1009, "too_large"),
        ("{", 4400, "bad_json"),
    ],
)
def test_what_cannot_begin_is_closed_with_its_code(event: Any, code: int, reason: str) -> None:
    async def script(phone: Phone) -> None:
        await phone.send(event)
        await phone.pause(0.1)

    phone = ring(script)
    assert phone.closed is not None and (phone.closed.code, phone.closed.reason) == (code, reason)
    assert phone.log == []


def test_a_socket_on_which_no_call_begins_is_closed() -> None:
    """`connected` alone is none, however often."""

    async def script(phone: Phone) -> None:
        for _ in range(100):
            await phone.send(connected())
        await asyncio.sleep(LimitsConfig().start_s + 1)

    phone = ring(script)
    assert phone.closed is not None and phone.closed.code == 4409


def test_the_calls_own_instructions_are_the_models() -> None:
    llm = listening(SHORT)

    async def script(phone: Phone) -> None:
        await phone.dial(instructions="Be a pirate.", order="17")
        await phone.speak(1.0)
        await phone.pause_until("media")
        await phone.hang_up()

    ring(script, engines(SHORT, llm=llm))
    assert llm.asked[0] == ("system", "Be a pirate.")


def test_a_call_that_says_nothing_at_all_is_ended() -> None:
    async def script(phone: Phone) -> None:
        await phone.dial()
        await asyncio.sleep(3.0)

    phone = ring(script, engines(SHORT), Config(limits=LimitsConfig(idle_s=2.0)))
    assert phone.closed is not None and phone.closed.code == 4409
    assert json.dumps(phone.log) == "[]"
