"""Clients that send too fast, at each door, in virtual time: what is lost is counted and told, and ends in 4429."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests import realtime, twilio
from tests.driving import LOUD, RATE_HZ, Caller, FaultyVad, Hang, ListeningLlm, call, engines, limits
from voicepipe.config import Config, ScriptedConfig
from voicepipe.errors import RateExceeded, RateLimited
from voicepipe.wire import messages as wire


def packets(
    seconds: float, rate: int = RATE_HZ, channels: int = 1, packet_s: float = 0.02
) -> list[wire.AudioFrame]:
    size = round(packet_s * rate)
    noise = np.random.default_rng(1).uniform(-LOUD, LOUD, size * channels) * 32767
    pcm = noise.astype("<i2").tobytes()
    return [wire.AudioFrame(0, n * size, pcm) for n in range(round(seconds / packet_s))]


@pytest.mark.parametrize(
    ("rate", "channels", "packet_s"), [(48_000, 2, 0.02), (8_000, 1, 0.01), (16_000, 1, 0.02), (48_000, 1, 0.008)]
)
def test_nobody_who_sends_as_it_records_is_limited(rate: int, channels: int, packet_s: float) -> None:
    """Nor one whose network stood still for seconds."""

    async def script(caller: Caller) -> None:
        await caller.start(channels=channels)
        frames = packets(12.0, rate, channels, packet_s)
        stall = range(round(3.0 / packet_s), round(6.8 / packet_s))
        for index, frame in enumerate(frames):
            if index == stall.start:
                await asyncio.sleep(packet_s * len(stall))
            elif index not in stall:
                await asyncio.sleep(packet_s)
            await caller.send(frame)
        await caller.end()

    caller = call(script, rate=rate)
    assert caller.errors == []
    assert caller.house.observer.input_dropped_s == {}


def test_twice_real_time_for_minutes_is_heard_and_loses_nothing() -> None:
    """As fast as is allowed: the queue stays short, nothing is dropped."""
    depths: list[float] = []

    async def script(caller: Caller) -> None:
        await caller.start()
        for frame in packets(120.0):
            await caller.send(frame)
            await asyncio.sleep(0.01)
            depths.append(caller.house.services.device.snapshot().lanes["ears"].backlog_s)
        await caller.end()

    caller = call(script)
    assert caller.errors == [] and caller.house.observer.input_dropped_s == {}
    assert max(depths) < 0.1


def test_a_recording_that_comes_at_once_is_cut_and_the_client_told_how_to_do_it() -> None:
    """A newcomer's first experiment: 12 s as fast as the socket takes them. Four are heard; it is told at once what
    becomes of the rest, and can go on."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for frame in packets(12.0):
            await caller.send(frame)
        await caller.wait(5.0)
        await caller.end()

    caller = call(script)
    told = [error for error in caller.of(wire.Error) if error.code == "rate_limited"]
    assert 1 <= len(told) <= 3
    assert told[0].field == "sound" and "2 times real time with 4 s at once" in told[0].message
    assert "Send it as it is spoken" in told[0].message
    assert caller.house.observer.input_dropped_s["rate"] == pytest.approx(8.0, abs=0.1)
    assert caller.house.observer.client_errors.count("rate_limited") == len(told)
    assert caller.closed is not None and caller.closed.code == 1000


def test_a_flood_of_sound_is_ended() -> None:
    """After ten warnings, with a code of its own, and without ten thousand errors."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for frame in packets(120.0):
            await caller.send(frame)
        await caller.gone()

    caller = call(script)
    assert caller.closed is not None
    assert (caller.closed.code, caller.closed.reason) == (4429, RateExceeded.code)
    assert caller.errors == [RateLimited.code] * 10 + [RateExceeded.code]
    assert caller.house.observer.client_errors[-1] == RateExceeded.code


@pytest.mark.parametrize("text", ['{"type": "reply.cancel"}', '{"type": "no.such"}', '{"type": "input.text"}'])
def test_a_flood_of_messages_is_told_and_ended(text: str) -> None:
    """Of good ones, of unknown ones and of wrong ones: what is wrong with each is not told beyond the limit."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(5_000):
            await caller.send_raw(text)
        await caller.gone()

    caller = call(script)
    assert caller.closed is not None and caller.closed.code == 4429
    assert caller.errors[-1] == RateExceeded.code and caller.errors.count(RateLimited.code) == 10
    assert len(caller.errors) <= 250 + 11
    assert caller.house.observer.messages_dropped == 10 * 250 + 1
    (first, *_) = [error for error in caller.of(wire.Error) if error.code == RateLimited.code]
    assert first.field == "messages" and "more than 50 messages a second with 250 at once" in first.message


def test_sound_that_waits_too_long_is_passed_over_counted_and_told() -> None:
    """Not too fast for the rate, too fast for a detector that hangs: 4 s wait at most."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.speak(7.0)
        await caller.wait(3.0)
        await caller.end()

    caller = call(script, engines(vad=FaultyVad([None] * 10 + [Hang(6.0)])))
    lost_s = caller.house.observer.input_dropped_s["backlog"]
    assert 0.5 < lost_s < 2.5 and "rate" not in caller.house.observer.input_dropped_s
    told = [error.message for error in caller.of(wire.Error) if error.code == "input_overrun"]
    assert 1 <= len(told) <= 3 and "passed over" in told[0]


def test_limits_are_those_of_the_configuration() -> None:
    """The rate, the burst, the warnings."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for frame in packets(3.0):
            await caller.send(frame)
        await caller.wait(1.0)
        await caller.end()

    caller = call(script, config=limits(audio_rate=1.0, audio_burst_s=3.0, rate_warnings=0))
    assert caller.errors == []
    caller = call(script, config=limits(audio_rate=1.0, audio_burst_s=1.0, rate_warnings=0))
    assert caller.closed is not None and caller.closed.code == 4429
    assert caller.errors == [RateExceeded.code]


def test_openais_clients_may_send_a_recording_at_once() -> None:
    """A minute of it, in pieces of any size; beyond it they are told in their own words, and ended alike."""
    second = bytes(2 * realtime.RATE_HZ)

    async def script(client: realtime.Client) -> None:
        for _ in range(58):
            await client.append(second)
        assert client.of("error") == []
        await client.wait(1.0)
        for _ in range(800):
            await client.append(second)
        await client.wait(1.0)

    client = realtime.call(script)
    errors = [event["error"] for event in client.of("error")]
    assert errors[0]["code"] == "rate_limited" and "60 s at once" in errors[0]["message"]
    assert errors[-1]["code"] == "rate_exceeded"
    assert client.closed is not None and client.closed.code == 4429


def test_a_phone_that_floods_is_hung_up_on() -> None:
    """It has no words for errors; its close code tells."""

    async def script(phone: twilio.Phone) -> None:
        await phone.dial()
        for _ in range(6_000):
            await phone.send({"event": "mark", "mark": {"name": "x"}, "streamSid": "MZ"})
        await phone.quiet(1.0)

    phone = twilio.ring(script, config=Config())
    assert phone.closed is not None and phone.closed.code == 4429


def test_a_client_that_never_says_anything_is_ended_sooner_than_one_that_has_gone_quiet() -> None:
    """Told which limit it was."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.gone()
        assert caller.now == pytest.approx(3.0)

    caller = call(script, config=limits(first_input_s=3.0, idle_s=8.0))
    assert caller.closed is not None and caller.closed.code == 4409
    assert caller.of(wire.Error)[0].message == "nothing came for 3 s from its beginning on"

    async def quiet(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.ReplyCancel())
        await caller.gone()
        assert caller.now == pytest.approx(8.0)

    caller = call(quiet, config=limits(first_input_s=3.0, idle_s=8.0))
    assert caller.of(wire.Error)[0].message == "the session was idle for 8 s"


def test_the_history_is_bounded_in_lines_and_characters() -> None:
    """The oldest lines go."""

    async def script(caller: Caller) -> None:
        await caller.start()
        for number in range(8):
            await caller.send(wire.HistoryAdd("user", f"{number}" * 200))
        await caller.send(wire.InputText("Hello."))
        await caller.wait(10.0)
        await caller.end()

    llm = ListeningLlm(ScriptedConfig(reply="Yes."), 1)
    caller = call(script, engines(llm=llm), config=limits(history_chars=1000))
    assert caller.errors == []
    users = [text for role, text in llm.asked if role == "user"]
    assert [text[0] for text in users] == ["3", "4", "5", "6", "7", "H"]
