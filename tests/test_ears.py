"""Bytes in, endpoint events out: in frames, in order, bounded, and with the time at which they were spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pytest

from tests import virtual
from tests.driving import FaultyVad, Hang
from voicepipe.core.events import (
    EndpointEvent,
    Lull,
    Onset,
    Quiet,
    Resumed,
    Silence,
    SoftEnd,
    Swell,
    Voiced,
    WorkKind,
)
from voicepipe.core.forecast import Forecaster
from voicepipe.device import Device
from voicepipe.ears import MAX_BACKLOG_S, MAX_FRAMES, MAX_WAITING, Ears
from voicepipe.engines.scripted import ScriptedVad
from voicepipe.errors import BadField, EngineError, SessionLimit
from voicepipe.ingest import Ingest

RATE = 16_000
FRAME = 512


def tone(seconds: float, level: float = 0.2) -> bytes:
    wave = level * np.sin(np.arange(round(seconds * RATE)) * 0.3)
    return bytes((wave * 32767).astype("<i2"))


class Listener:
    """Ears on a device, and what they told."""

    def __init__(self, device: Device, vad: Any, timeout_s: float) -> None:
        self.events: list[tuple[EndpointEvent, float, float]] = []
        self.deaf: list[tuple[float, str]] = []
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.ears = Ears(
            "s",
            Ingest(RATE),
            vad,
            device,
            Forecaster(),
            count(1),
            heard=lambda event, when, now, _: self.events.append((event, round(when, 6), round(now, 6))),
            deaf=lambda code: self.deaf.append((round(self.now(), 6), code)),
            guarded=lambda act: act(),
            clock=self.now,
            timeout_s=timeout_s,
        )

    def now(self) -> float:
        return self._loop.time() - self._began

    async def hear(self, pcm: bytes, packet_s: float = 0.02) -> None:
        """In real time."""
        size = 2 * round(packet_s * RATE)
        for position in range(0, len(pcm), size):
            await asyncio.sleep(packet_s)
            self.ears.on_audio(pcm[position : position + size], None)
        await asyncio.sleep(0)

    def of(self, kind: type[Any]) -> list[tuple[Any, float, float]]:
        return [entry for entry in self.events if isinstance(entry[0], kind)]


def listened(story: Callable[[Listener], Awaitable[None]], vad: Any = None, *, timeout_s: float = 10.0) -> Listener:
    async def main() -> Listener:
        async with Device(dict.fromkeys(WorkKind, "ears"), {"ears": 1}) as device:
            listener = Listener(device, vad or ScriptedVad(), timeout_s)
            await story(listener)
        return listener

    return virtual.run(main())


def test_speech_and_silence_become_events() -> None:
    """Onset, stretches, the soft end and the silence after it, each at its sample."""

    async def story(one: Listener) -> None:
        await one.hear(bytes(2 * FRAME * 10) + tone(FRAME * 20 / RATE) + bytes(2 * FRAME * 10))

    one = listened(story)
    kinds = [type(event) for event, _, _ in one.events if not isinstance(event, Lull | Swell | Quiet)]
    assert kinds == [Onset] + [Voiced] * 19 + [SoftEnd] + [Silence] * 10
    assert one.of(SoftEnd)[0][0] == SoftEnd(30 * FRAME)
    assert one.of(Silence)[-1][0] == Silence(10 * FRAME)


def test_the_level_shows_the_end_of_sound_before_the_vad_does() -> None:
    """20 ms after it, at its sample."""

    async def story(one: Listener) -> None:
        await one.hear(bytes(2 * FRAME * 10) + tone(FRAME * 20 / RATE) + bytes(2 * FRAME * 10))

    one = listened(story)
    (swell, _, _), (lull, when, now) = one.of(Swell)[0], one.of(Lull)[0]
    assert swell == Swell(10 * FRAME)
    assert lull == Lull(30 * FRAME, 30 * FRAME + 320)
    assert when == pytest.approx(30 * FRAME / RATE, abs=1e-3)
    assert now < one.of(SoftEnd)[0][2]


def test_how_long_it_has_been_quiet_is_told_in_speech_and_after_it() -> None:
    """With each message of sound, and not before anybody has spoken."""

    async def story(one: Listener) -> None:
        await one.hear(bytes(2 * FRAME * 10) + tone(FRAME * 20 / RATE) + bytes(2 * FRAME * 10))

    one = listened(story)
    told = [event.samples for event, _, _ in one.of(Quiet)]
    assert told == sorted(told) and told[0] >= 160 and told[-1] <= 10 * FRAME
    assert one.of(Quiet)[0][2] > one.of(Onset)[0][2]


def test_events_carry_when_their_sample_was_spoken() -> None:
    """As far as arrival shows it; the soft end is when the sound ended."""

    async def story(one: Listener) -> None:
        await one.hear(tone(FRAME * 20 / RATE) + bytes(2 * FRAME * 5))

    one = listened(story)
    _, when, now = one.of(SoftEnd)[0]
    assert when == pytest.approx(20 * FRAME / RATE, abs=1e-3)
    assert now == pytest.approx(21 * FRAME / RATE, abs=0.02)
    voiced, when, _ = one.of(Voiced)[-1]
    assert when == pytest.approx(voiced.at / RATE, abs=1e-3)


@pytest.mark.parametrize("sizes", [[51], [161], [13], [1], [1, 1000, 7]])
def test_messages_of_any_length_are_heard_alike(sizes: list[int]) -> None:
    """An odd byte is carried over to the next message."""
    pcm = tone(0.5) + bytes(2 * FRAME * 4)

    def cut(sizes: Iterable[int]) -> Callable[[Listener], Awaitable[None]]:
        async def story(one: Listener) -> None:
            position, pieces = 0, list(sizes)
            for number in count():
                if position >= len(pcm):
                    break
                size = pieces[number % len(pieces)]
                one.ears.on_audio(pcm[position : position + size], None)
                position += size
                await asyncio.sleep(0)
            await asyncio.sleep(1)

        return story

    def told(sizes: Iterable[int]) -> tuple[list[EndpointEvent], list[EndpointEvent]]:
        """By the Vad and by the levels: the former need the device, and come later."""
        events = [event for event, _, _ in listened(cut(sizes)).events if not isinstance(event, Quiet)]
        levels = [event for event in events if isinstance(event, Lull | Swell)]
        return [event for event in events if event not in levels], levels

    assert told(sizes) == told([len(pcm)])


def test_frames_that_arrive_while_the_vad_works_wait_and_are_taken_together() -> None:
    """At most so many at a time; nothing is lost."""
    batches: list[int] = []

    async def story(one: Listener) -> None:
        inner = one.ears._awaited_probabilities

        async def counted(stream: Any, frames: list[Any]) -> list[float]:
            batches.append(len(frames))
            return await inner(stream, frames)

        one.ears._awaited_probabilities = counted  # type: ignore[method-assign]
        one.ears.on_audio(tone(FRAME / RATE), None)
        await asyncio.sleep(0.1)
        one.ears.on_audio(tone(40 * FRAME / RATE), None)
        await asyncio.sleep(5)
        assert one.of(Voiced)[-1][0].at == 41 * FRAME

    listened(story, FaultyVad([Hang(1.0)]))
    assert batches == [1, MAX_FRAMES, MAX_FRAMES, 40 - 2 * MAX_FRAMES]


def test_a_backlog_is_bounded_and_what_is_passed_over_is_counted() -> None:
    """Hearing late is worse than hearing with a gap."""

    async def story(one: Listener) -> None:
        one.ears.on_audio(bytes(2 * FRAME), None)
        await asyncio.sleep(0)
        for _ in range(round(MAX_BACKLOG_S * 16_000 / 512) + 7):
            one.ears.on_audio(bytes(2 * FRAME), None)
        await asyncio.sleep(5)
        assert one.ears.passed_over_frames == 7

    listened(story, FaultyVad([Hang(1.0)]))


def test_missing_sound_in_mid_speech_is_silence() -> None:
    """The turn does not wait for a client that has stopped to send; one timer, harmless when early."""

    async def story(one: Listener) -> None:
        assert one.ears.next_deadline() is None
        await one.hear(tone(1.0))
        fed = one.now()
        assert one.ears.next_deadline() == pytest.approx(fed + 0.3)
        one.ears.on_timer()
        assert not one.of(SoftEnd)
        await asyncio.sleep(0.301)
        one.ears.on_timer()
        await asyncio.sleep(0.001)
        assert len(one.of(SoftEnd)) == 1
        assert one.of(Silence)[-1][0].samples == pytest.approx(0.3 * RATE, abs=2 * FRAME)
        assert one.ears.next_deadline() == pytest.approx(fed + 0.601)

    listened(story)


def test_a_process_that_stood_still_in_mid_speech_goes_on() -> None:
    """For longer than any sound is kept: no more is made up for than may wait to be listened to."""

    async def story(one: Listener) -> None:
        await one.hear(tone(1.0))
        newest = one.ears.ring.newest
        await asyncio.sleep(300.0)
        one.ears.on_timer()
        await asyncio.sleep(0.001)
        assert one.ears.ring.newest - newest == pytest.approx(MAX_BACKLOG_S * RATE, abs=FRAME)
        assert len(one.of(SoftEnd)) == 1
        await one.hear(tone(1.0))
        assert len(one.of(Resumed)) == 1

    listened(story)


def test_missing_sound_while_nobody_speaks_is_nothing() -> None:
    """A client may send nothing at all between turns."""

    async def story(one: Listener) -> None:
        await one.hear(bytes(2 * RATE))
        assert one.ears.next_deadline() is None
        one.ears.on_timer()

    assert listened(story).events == []


def test_a_vad_that_fails_is_told_and_hearing_goes_on() -> None:
    """The frames of that chunk are lost, the next ones are not."""

    async def story(one: Listener) -> None:
        await one.hear(tone(1.0))

    one = listened(story, FaultyVad([EngineError("no")]))
    assert [code for _, code in one.deaf] == ["engine_failed"]
    assert one.of(Onset)


def test_a_vad_that_hangs_is_told_once_within_the_bound() -> None:
    """And is listened to again when it answers."""

    async def story(one: Listener) -> None:
        one.ears.on_audio(tone(FRAME / RATE), None)
        assert one.ears.next_deadline() == pytest.approx(2.0)
        await asyncio.sleep(1.9)
        one.ears.on_timer()
        assert one.deaf == []
        await asyncio.sleep(0.1)
        one.ears.on_timer()
        one.ears.on_timer()
        assert one.ears.next_deadline() is None
        await asyncio.sleep(3)
        await one.hear(tone(0.2))
        assert one.of(Onset)

    assert listened(story, FaultyVad([Hang(4.0)]), timeout_s=2.0).deaf == [(2.0, "engine_timeout")]


def test_a_clock_that_jumps_is_the_clients_fault() -> None:
    """Refused once; the clock follows the client."""

    async def story(one: Listener) -> None:
        one.ears.on_audio(bytes(640), 0)
        with pytest.raises(BadField) as caught:
            one.ears.on_audio(bytes(640), 10_000_000)
        assert caught.value.field == "offset_samples"
        one.ears.on_audio(bytes(640), 10_000_320)

    listened(story)


def test_what_was_heard_stays_in_the_ring() -> None:
    """For the recogniser, addressed by the session's sample clock."""

    async def story(one: Listener) -> None:
        pcm = tone(0.1)
        one.ears.on_audio(pcm, None)
        samples = one.ears.ring.read(0, one.ears.ring.newest)
        assert len(samples) == len(pcm) // 2
        assert np.abs(samples - np.frombuffer(pcm, "<i2") / 32768).max() < 1e-6

    listened(story)


def test_what_was_heard_before_is_forgotten_on_demand() -> None:
    """Speech that goes on begins anew, and not before that instant."""

    async def story(one: Listener) -> None:
        await one.hear(tone(0.5))
        one.ears.forget()
        await one.hear(tone(0.5))

    onsets = listened(story).of(Onset)
    assert [event.start for event, _, _ in onsets] == [0, 15 * FRAME]


def test_a_recording_that_comes_at_once_is_heard_where_there_is_room_for_it() -> None:
    """Ten seconds in one message: with room for four, the first six are passed over."""

    async def story(one: Listener) -> None:
        one.ears.on_audio(tone(10.0), None)
        await asyncio.sleep(5)

    few = listened(story)
    assert few.ears.passed_over_frames > 150

    async def roomy(one: Listener) -> None:
        one.ears._max_backlog = 1875
        await story(one)

    assert listened(roomy).ears.passed_over_frames == 0


def test_few_may_wait_for_what_was_said_before_them() -> None:
    """A client that commits without end while the Vad hangs is let go, and nothing grows."""

    async def story(one: Listener) -> None:
        one.ears.on_audio(tone(FRAME / RATE), None)
        ran: list[int] = []
        for number in range(MAX_WAITING):
            one.ears.after_what_arrived(lambda now, hearing, number=number: ran.append(number))
        with pytest.raises(SessionLimit, match=str(MAX_WAITING)):
            one.ears.after_what_arrived(lambda now, hearing: ran.append(-1))
        await asyncio.sleep(3.0)
        assert ran == list(range(MAX_WAITING))

    listened(story, FaultyVad([Hang(1.0)]))


def test_a_vad_that_hangs_is_listened_to_no_more_and_a_fresh_one_is() -> None:
    """What comes after it is heard."""

    class Lost(ScriptedVad):
        """Its first frame swallows every cancellation for ten minutes."""

        placement = "loop"
        opened = 0

        def open(self) -> Any:
            self.opened += 1
            stream = super().open()
            probability = stream.probability

            async def lost(frame: Any) -> float:
                until = asyncio.get_running_loop().time() + 600.0
                while asyncio.get_running_loop().time() < until:
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(until - asyncio.get_running_loop().time())
                return 0.0

            async def heard(frame: Any) -> float:
                return probability(frame)

            stream.probability = lost if self.opened == 1 else heard  # type: ignore[method-assign,assignment]
            return stream

    vad = Lost()

    async def story(one: Listener) -> None:
        one.ears.on_audio(tone(FRAME / RATE), None)
        await asyncio.sleep(12.0)
        await one.hear(tone(FRAME * 20 / RATE))
        assert one.of(Onset) and vad.opened == 2

    listened(story, vad)


def test_who_has_been_told_that_nobody_listens_is_not_told_what_is_passed_over() -> None:
    """It is so for as long as the detector's call takes, and no fault of the client's."""
    told: list[str] = []

    async def story(one: Listener) -> None:
        one.ears._behind = lambda: told.append("behind")
        one.ears.on_audio(bytes(2 * FRAME), None)
        await asyncio.sleep(1.0)
        one.ears.on_timer()
        for _ in range(round(MAX_BACKLOG_S * 16_000 / 512) + 7):
            one.ears.on_audio(bytes(2 * FRAME), None)
        assert one.deaf and one.ears.passed_over_frames > 0 and not told

    listened(story, FaultyVad([Hang(2.0)]), timeout_s=0.5)
