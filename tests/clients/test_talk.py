"""The terminal client's engine, whole, on a clock that only moves when it sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from voicepipe.errors import ConnectionLost, ServerDrained
from voicepipe.wire.native import (
    AudioFrame,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    SessionReady,
    Speculation,
    SpeechStarted,
    Stages,
    StageTimes,
    TranscriptFinal,
    TurnCommitted,
    TurnEnded,
    TurnReopened,
)
from voicepipe_client import ClipSource, TalkReport, TurnRecord, make_clip, talk
from voicepipe_client.turns import Event

RATE = 16_000
STAGES = Stages(*[StageTimes()] * 5)
TONE = np.full(1600, 0.1, np.float32)  # 100 ms


class Clock:
    """Virtual seconds. `at` runs something when its time has come, inside the sleep that gets there."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._due.append((when, action))
        self._due.sort(key=lambda item: item[0])

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            self.now, action = self._due.pop(0)
            action()
            for _ in range(5):  # let the listener see it at its own time
                await asyncio.sleep(0)
        self.now = until


class Server:
    """A `VoiceSession` that answers 100 ms after each end of speech with 40 ms of sound."""

    ready = SessionReady("s", "voicepipe.v1", RATE, 200.0, None)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: asyncio.Queue[Event | ConnectionLost | None] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.reports: list[tuple[int, int]] = []
        self.ended = False
        self.turn = 0
        self._speaking = False

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self.events.get()
        if isinstance(event, ConnectionLost):
            raise event
        if event is None:
            raise StopAsyncIteration
        return event

    async def send_audio(self, pcm: bytes) -> None:
        self.sent.append(pcm)
        loud = any(pcm)
        if self._speaking and not loud:
            self._answer()
        self._speaking = loud

    async def report_playback(self, epoch: int, played_samples: int) -> None:
        self.reports.append((epoch, played_samples))

    async def end(self) -> None:
        self.ended = True
        self.events.put_nowait(None)

    def say(self, when: float, *events: Event) -> None:
        self.clock.at(when, lambda: [self.events.put_nowait(event) for event in events] and None)

    def _answer(self) -> None:
        self.turn += 1
        turn, now = self.turn, self.clock()
        self.say(
            now + 0.08,
            TranscriptFinal(turn, f"question {turn}"),
            TurnCommitted(turn, turn),
            ReplyText(turn, turn, f"answer {turn}"),
            AudioFrame(turn, 0, b"\x00\x10" * 640),
            ReplyDone(turn, turn, 640),
        )
        self.say(
            now + 0.15,
            TurnEnded(turn, "met", 90.0, 1.0, STAGES, Speculation(True, 1, 0.0, 0.0), None),
        )


def recordings(clock: Clock, count: int) -> ClipSource:
    clips = [make_clip(f"q{n}", TONE, RATE) for n in range(count)]
    return ClipSource(clips, RATE, clock=clock, sleep=clock.sleep)


async def test_two_recordings_two_turns() -> None:
    """Lead-in 200 ms, speech until 300 ms; 20 ms + 80 ms later the answer sounds."""
    clock = Clock()
    server = Server(clock)
    played = bytearray()
    turns: list[TurnRecord] = []
    report = await talk(
        server,
        recordings(clock, 2),
        clock=clock,
        on_turn=turns.append,
        played=played.extend,
    )
    assert [(r.turn, r.transcript, r.reply, r.verdict) for r in report.turns] == [
        (1, "question 1", "answer 1", "met"),
        (2, "question 2", "answer 2", "met"),
    ]
    assert [r.felt_ms for r in report.turns] == [pytest.approx(100.0), pytest.approx(100.0)]
    assert [r.clip for r in report.turns] == [0, 1]
    assert turns == report.turns
    assert report.summary["turns"] == 2
    assert report.summary["answered"] == 2
    assert bytes(played) == b"\x00\x10" * 1280
    assert server.reports[-1] == (2, 640)
    assert server.ended
    # The second starts with the frame after the first answer's verdict, at 0.47 s.
    loud = [index for index, pcm in enumerate(server.sent) if any(pcm)]
    assert loud == [*range(10, 15), *range(24, 29)]


async def test_nobody_answers() -> None:
    """Silence goes on for 3 s after the recording, then the talk ends without a turn."""
    clock = Clock()
    server = Server(clock)
    source = ClipSource([make_clip("hush", np.zeros(1600, np.float32), RATE)], RATE, clock=clock, sleep=clock.sleep)
    report = await talk(server, source, clock=clock)
    assert report.turns == []
    assert report.summary["turns"] == 0
    assert clock.now == pytest.approx(0.3 + 3.0, abs=0.021)


async def test_the_server_closes_in_the_middle() -> None:
    clock = Clock()
    server = Server(clock)
    clock.at(0.25, lambda: server.events.put_nowait(None))
    report = await talk(server, recordings(clock, 1), clock=clock)
    assert report.turns == []
    assert not server.ended
    assert clock.now < 0.3


async def test_a_lost_connection_is_one_error() -> None:
    clock = Clock()
    server = Server(clock)
    clock.at(0.25, lambda: server.events.put_nowait(ConnectionLost("connection lost: 1006")))
    with pytest.raises(ConnectionLost, match="1006"):
        await talk(server, recordings(clock, 1), clock=clock)


async def test_a_lost_connection_leaves_the_report_of_what_there_was() -> None:
    """One turn of two."""
    clock = Clock()
    server = Server(clock)
    clock.at(0.5, lambda: server.events.put_nowait(ConnectionLost("connection lost: 1006")))
    reports: list[TalkReport] = []
    with pytest.raises(ConnectionLost):
        await talk(server, recordings(clock, 2), clock=clock, on_end=reports.append)
    (report,) = reports
    assert report.summary["turns"] == 1
    assert report.heard_clips == {0}


async def test_what_had_arrived_says_how_it_ended_though_sending_failed_first() -> None:
    """The sender notices that the connection is closed while the last words of the server are still unread."""
    clock = Clock()
    server = Closing(clock)
    reports: list[TalkReport] = []
    with pytest.raises(ServerDrained):
        await talk(server, recordings(clock, 1), clock=clock, on_end=reports.append)
    assert [turn.verdict for turn in reports[0].turns] == ["met"]
    assert reports[0].open_turns == 1


class Closing(Server):
    """Closes at 0.25 s; a turn's end, another one's begin and the reason are on their way by then."""

    async def send_audio(self, pcm: bytes) -> None:
        if self.clock() > 0.25:
            ended = TurnEnded(1, "met", 90.0, 1.0, STAGES, Speculation(True, 1, 0.0, 0.0), None)
            for event in (TurnCommitted(1, 1), ended, SpeechStarted(2), ServerDrained("gone")):
                self.events.put_nowait(event)
            raise ConnectionLost("connection lost: 1012")


async def test_a_client_that_stood_still_feels_it() -> None:
    """Stopped for 2 s in a pause, before it had read the answer to what came before the pause. Then the rest of
    the recording leaves in one burst, but what the server had said long ago is read first."""
    clock = Clock()
    server = Server(clock)
    pause = np.zeros(8000, np.float32)
    clip = make_clip("q", np.concatenate([TONE, pause, TONE]), RATE)
    stopped = False

    async def sleep(seconds: float) -> None:
        nonlocal stopped
        if not stopped and clock.now >= 0.36:
            stopped = True
            clock.now += 2.0
        await clock.sleep(seconds)

    source = ClipSource([clip], RATE, clock=clock, sleep=sleep)
    report = await talk(server, source, clock=clock)
    first = report.turns[0]
    assert (first.cutoff, first.felt_ms) == (True, None)
    assert all(turn.felt_ms is None or turn.felt_ms > 20.0 for turn in report.turns)
    assert report.turns[-1].felt_ms == pytest.approx(100.0, abs=25.0)


async def test_a_bug_in_a_callback_is_not_hidden() -> None:
    clock = Clock()
    server = Server(clock)

    def fail(event: Event, now: float) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await talk(server, recordings(clock, 1), clock=clock, on_event=fail)
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


async def test_events_are_shown_with_their_times() -> None:
    clock = Clock()
    server = Server(clock)
    server.say(0.21, SpeechStarted(1))
    seen: list[tuple[type, float]] = []
    await talk(
        server,
        recordings(clock, 1),
        clock=clock,
        on_event=lambda event, now: seen.append((type(event), now)),
    )
    assert seen[0] == (SpeechStarted, pytest.approx(0.21))
    assert seen[-1] == (TurnEnded, pytest.approx(0.47))


class Loudspeaker:
    latency_s = 0.05

    def __init__(self) -> None:
        self.log: list[bytes | None] = []

    def play(self, pcm: bytes) -> None:
        self.log.append(pcm)

    def flush(self) -> None:
        self.log.append(None)


async def test_a_loudspeaker_is_flushed_and_its_latency_is_felt() -> None:
    clock = Clock()
    server = Server(clock)
    server.say(0.21, AudioFrame(0, 0, b"ab"), ReplyInterrupted(1, 0, 0.0), TurnReopened(1, 0))
    speaker = Loudspeaker()
    report = await talk(server, recordings(clock, 1), clock=clock, speaker=speaker)
    assert speaker.log == [b"ab", None, None, b"\x00\x10" * 640]
    assert report.turns[0].felt_ms == pytest.approx(150.0)


async def test_cancelling_ends_both_directions() -> None:
    clock = Clock()
    server = Server(clock)
    played = bytearray()
    before = asyncio.all_tasks()
    source = recordings(clock, 1)
    talking = asyncio.ensure_future(talk(server, source, clock=clock, played=played.extend))
    clock.at(0.425, talking.cancel)  # 25 ms after the answer began to sound
    with pytest.raises(asyncio.CancelledError):
        await talking
    assert asyncio.all_tasks() == before
    assert bytes(played) == b"\x00\x10" * 400
