"""Malformed events, ten thousand of them and more: each is taken, or raises a typed error; nothing breaks.

By the dialect alone, in every state that a session can bring it to; then by whole calls, which live on.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.driving import engines
from tests.twilio import Phone as Caller
from tests.twilio import ring
from tests.wire.twilio.calling import FORMAT, OTHER, PCM, SID, Phone, media, start
from voicepipe.config import ScriptedConfig
from voicepipe.errors import BadField, BadFrame, BadJson, OutOfOrder, TooLarge, UnknownType
from voicepipe.wire import messages as m
from voicepipe.wire.twilio.events import CLIENT_EVENTS

WANTED = 10_000
TYPED = (BadField, BadFrame, BadJson, OutOfOrder, TooLarge, UnknownType)
ASKED = (m.SessionStart, m.SessionUpdate, m.AudioFrame, m.Playback, m.ReplyCancel, m.InputText, m.SessionEnd)
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=20)
    | st.sampled_from(["-1", "NaN", "1e9", "99999999999999", "0x10", " 5", "٣", SID]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)


def mixed(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nine times out of ten what may stand there."""
    return st.integers(0, 9).flatmap(lambda n: JUNK if n == 5 else good)


def fields(**those: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: mixed(value) for name, value in those.items()})


NUMBER = st.integers(0, 10**12).map(str)
SIDS = st.just(SID) | st.sampled_from([SID, OTHER, "", "x" * 200])
PAYLOAD = st.binary(max_size=200).map(lambda data: media(data)["media"]["payload"]) | st.sampled_from(
    ["", "AAAA", "A", "====", "ÄÖ", "AA=="]
)
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "connected": JUNK,
    "start": fields(
        streamSid=SIDS,
        mediaFormat=st.just(FORMAT) | fields(encoding=st.just("audio/x-mulaw"), sampleRate=st.just(8000)),
        customParameters=fields(
            instructions=st.text(max_size=20),
            operating_point=st.sampled_from(["fast", "safe", "none"]),
            other=st.text(max_size=5),
        ),
    ),
    "media": fields(
        payload=PAYLOAD, timestamp=NUMBER, chunk=NUMBER, track=st.sampled_from(["inbound", "outbound"])
    ),
    "mark": fields(name=st.sampled_from(["1:800", "2:800", "1:1600", "9:9", "", "x" * 200])),
    "dtmf": fields(digit=st.sampled_from([*"0159*#A", "", "12", "E"])),
    "stop": JUNK,
}
EVENTS: st.SearchStrategy[Any] = st.sampled_from(sorted(CLIENT_EVENTS)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"event": mixed(st.just(kind)), "streamSid": mixed(SIDS), kind: BODIES[kind]},
        optional={"sequenceNumber": mixed(NUMBER)},
    )
)


def _spoilt(text: str, at: int, junk: str) -> str:
    at %= len(text) + 1
    return text[:at] + junk + text[at + len(junk) :]


TEXTS = EVENTS.map(lambda event: json.dumps(event, allow_nan=True))
NO_EVENTS: st.SearchStrategy[str | bytes] = (
    st.builds(_spoilt, TEXTS, st.integers(0, 10_000), st.text(min_size=1, max_size=3))
    | JUNK.map(json.dumps)
    | st.text(max_size=40)
    | st.binary(max_size=40)
)
FRAMES: st.SearchStrategy[str | bytes] = st.integers(0, 9).flatmap(lambda n: NO_EVENTS if n > 7 else TEXTS)
GENERATED: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
STATES = 4


def in_state(state: int) -> Phone:
    """Before `start`; silent; in a reply; after its `clear`."""
    phone = Phone(started=state > 0)
    if state > 1:
        phone.reply(1, 12)
    if state > 2:
        phone.hear(m.ReplyInterrupted(1, 1, 10.0))
        phone.reply(2, 6)
    return phone


def test_every_generated_event_is_taken_or_refused_by_name() -> None:
    """In any state; and afterwards the dialect still does what is right."""
    seen: dict[str, int] = {"taken": 0}

    @settings(max_examples=700, **GENERATED)
    @given(st.lists(FRAMES, min_size=16, max_size=20), st.integers(0, STATES - 1))
    def run(frames: list[str | bytes], state: int) -> None:
        phone = in_state(state)
        for frame in frames:
            try:
                steps = phone.send_raw(frame)
            except TYPED as error:
                assert error.message and list(phone.dialect.fault(error)) == []
                seen[error.code] = seen.get(error.code, 0) + 1
            else:
                assert all(isinstance(step, ASKED) for step in steps)
                seen["taken"] += 1
        phone.send(start(OTHER))
        kinds = [type(step) for step in phone.send(media(sid=OTHER))]
        assert m.AudioFrame in kinds
        assert {event["streamSid"] for event in phone.hear(m.AudioFrame(9, 0, PCM))} == {OTHER}

    run()
    assert sum(seen.values()) >= WANTED
    assert seen.keys() == {"taken", "bad_field", "bad_frame", "bad_json", "out_of_order", "unknown_type"}
    assert min(seen.values()) > 10, seen


def test_a_call_lives_through_what_is_sent() -> None:
    """It answers afterwards: nothing of this ends it but `stop`, which closes with 1000."""
    seen = 0

    @settings(max_examples=25, **GENERATED)
    @given(st.lists(FRAMES, min_size=40, max_size=60))
    def run(frames: list[str | bytes]) -> None:
        nonlocal seen

        async def script(caller: Caller) -> None:
            await caller.dial()
            for frame in frames:
                await caller.send(frame)
                await caller.pause(0.02)
            await caller.send(start(SID))
            await caller.quiet()
            await caller.speak(1.0)
            await caller.pause_until("media")
            await caller.hang_up()

        caller = ring(script, engines(ScriptedConfig(reply="Yes.")))
        seen += len(frames)
        assert caller.closed is not None and (caller.closed.code, caller.closed.reason) == (1000, "")

    run()
    assert seen >= 1_000
