"""A client that sends twice as much sound as time passes: what waits stays within its limits, what is passed over
is counted, and the client is told."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from tests.driving import LOUD, PACKET_S, RATE_HZ, Caller, FaultyVad, Hang, call, engines
from tests.raw.client import BINARY, frame, open_raw
from tests.raw.house import beside_a_good_client
from voicepipe.ears import Ears
from voicepipe.wire import messages as m
from voicepipe.wire.native import NativeDialect

MINUTES_S = 180.0
PACKET = round(PACKET_S * RATE_HZ)
PACE = 2.0


class Watched:
    """The ears of the sessions of a test, and the most that ever waited there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ears: list[Ears] = []
        self.deepest = 0
        self.oldest_s = 0.0
        append, watched = Ears._append, self

        def look(ears: Ears, samples: Any) -> None:
            append(ears, samples)
            if ears not in watched.ears:
                watched.ears.append(ears)
            watched.deepest = max(watched.deepest, len(ears._frames))
            if ears._frames:
                watched.oldest_s = max(watched.oldest_s, ears._clock() - ears._frames[0].arrived)

        monkeypatch.setattr(Ears, "_append", look)

    @property
    def passed_over_s(self) -> float:
        return sum(ears.passed_over_frames for ears in self.ears) * 512 / RATE_HZ


async def overfeed(caller: Caller, seconds: float) -> None:
    """Speech of 2 s and silence of 1 s in turn, at `PACE`, on a clock that fits the sound."""
    quiet, loud = bytes(2 * PACKET), pcm()
    for number in range(round(seconds * PACE / PACKET_S)):
        spoken = number * PACKET_S % 3.0 < 2.0
        await caller.send(m.AudioFrame(0, number * PACKET, loud if spoken else quiet))
        await caller.wait(PACKET_S / PACE)


def pcm() -> bytes:
    """A tone: scripted engines take it for speech."""
    wave = (round(32767 * LOUD * math.sin(2 * math.pi * 400 * n / RATE_HZ)) for n in range(PACKET))
    return b"".join(value.to_bytes(2, "little", signed=True) for value in wave)


def slow(seconds: float) -> Iterator[Any]:
    """A detector that takes so long for a frame of 32 ms."""
    return repeat(Hang(seconds))


def test_ears_that_keep_up_hear_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    async def script(caller: Caller) -> None:
        await caller.start()
        await overfeed(caller, MINUTES_S)
        await caller.wait(8.0)

    caller = call(script, engines(vad=FaultyVad(slow(0.001))))
    assert watched.passed_over_s == 0 and watched.deepest < 20
    assert len(caller.of(m.TurnCommitted)) > 20, "each of its pauses is heard, though it speaks on at once"
    assert "input_overrun" not in caller.errors


def test_ears_that_do_not_keep_up_pass_the_oldest_over_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """They listen as fast as time passes, and half of what comes is too much."""
    watched = Watched(monkeypatch)

    async def script(caller: Caller) -> None:
        await caller.start()
        await overfeed(caller, MINUTES_S)
        await caller.wait(10.0)

    caller = call(script, engines(vad=FaultyVad(slow(0.032))))
    limit_s = NativeDialect.max_backlog_s
    assert watched.deepest <= limit_s * RATE_HZ / 512
    assert watched.oldest_s <= limit_s + 1.0
    assert 0.3 < watched.passed_over_s / (PACE * MINUTES_S) < 0.6
    told = caller.errors.count("input_overrun")
    assert told >= 1
    assert caller.house.observer.input_dropped_s["backlog"] == pytest.approx(watched.passed_over_s)
    assert told < MINUTES_S, "told of it once for each time that they fall behind, and not once a packet"
    assert caller.of(m.TurnEnded), "it is still answered"


def test_a_queue_without_a_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with the limit gone: depth and age pass what is promised."""
    watched = Watched(monkeypatch)
    monkeypatch.setattr(NativeDialect, "max_backlog_s", 10_000.0)

    async def script(caller: Caller) -> None:
        await caller.start()
        await overfeed(caller, 30.0)
        await caller.wait(70.0)

    call(script, engines(vad=FaultyVad(slow(0.032))))
    assert watched.deepest > 4.0 * RATE_HZ / 512 and watched.oldest_s > 5.0


async def test_in_real_time_beside_a_good_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seconds on a socket. Should the server hold such a client back, or end it, that is right, too."""
    watched = Watched(monkeypatch)
    loud = pcm()
    async with beside_a_good_client() as built, open_raw(built.port) as client:
        listening = asyncio.create_task(client.until_ended())
        began, number = time.monotonic(), 0
        while time.monotonic() - began < 5.0 and not listening.done():
            head = (0).to_bytes(4, "big") + (number * PACKET).to_bytes(4, "big")
            await client.send(frame(BINARY, head + loud))
            number += 1
            await asyncio.sleep(max(0.0, began + number * PACKET_S / PACE - time.monotonic()))
        client.reset()
        await listening
    assert watched.deepest <= NativeDialect.max_backlog_s * RATE_HZ / 512
