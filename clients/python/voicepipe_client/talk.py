"""The terminal client's engine: frames, a session, a playback clock, a record per turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from voicepipe.errors import ConnectionLost, VoicepipeError
from voicepipe.wire.native import (
    AudioFrame,
    ReplyInterrupted,
    SessionReady,
    TurnEnded,
    TurnReopened,
)
from voicepipe_client.events import Disconnected, Event
from voicepipe_client.player import Player
from voicepipe_client.source import Source
from voicepipe_client.turns import TurnRecord, Turns, summarise

CLOSE_S = 2.0
"""How long the server may take to close after `session.end`."""


class VoiceSession(Protocol):
    """What is needed of `voicepipe_client.Session`."""

    @property
    def ready(self) -> SessionReady: ...

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def send_audio(self, pcm: bytes) -> None: ...

    async def report_playback(self, epoch: int, played_samples: int) -> None: ...

    async def end(self) -> None: ...


class Speaker(Protocol):
    """A loudspeaker: plays in the background what it is given."""

    latency_s: float

    def play(self, pcm: bytes) -> None: ...

    def flush(self) -> None:
        """Throw away what has not been played."""
        ...


@dataclass(frozen=True, slots=True)
class TalkReport:
    turns: list[TurnRecord]
    summary: dict[str, object]
    heard_clips: frozenset[int] = frozenset()
    """Numbers of the recordings of which the server has shown that it heard something."""
    open_turns: int = 0
    """Turns that had begun, and of which no end was told, or whose answer a server that went away has cut off."""


async def talk(
    session: VoiceSession,
    source: Source,
    *,
    clock: Callable[[], float] | None = None,
    on_event: Callable[[Event, float], None] | None = None,
    on_turn: Callable[[TurnRecord], None] | None = None,
    speaker: Speaker | None = None,
    played: Callable[[bytes], None] | None = None,
    on_end: Callable[[TalkReport], None] | None = None,
) -> TalkReport:
    """Send the source's frames until it ends or the server closes, and record the turns.

    `clock` gives monotonic seconds and is the source's clock as well; the event loop's by default.
    `on_event` sees every event and its time, `on_turn` every record as its turn ends. `played` is
    given what has been played, as PCM16 at the session's output rate. `on_end` is given the report of what
    there was on every path, last of all: also before ConnectionLost is raised, and on cancellation.
    """
    clock = clock or asyncio.get_running_loop().time
    latency_s = 0.0 if speaker is None else speaker.latency_s
    player = Player(session.ready.output_rate, latency_s=latency_s, sink=played)
    turns = Turns(player, labelled=source.labelled, now=clock())
    talking = _Talk(session, source, turns, clock, on_event, on_turn, speaker)
    try:
        await talking.run()
    finally:
        player.finish(clock())
        report = TalkReport(turns.records, summarise(turns.records), turns.heard_clips, turns.open_turns)
        if on_end is not None:
            on_end(report)
    return report


@dataclass(frozen=True, slots=True)
class _Talk:
    session: VoiceSession
    source: Source
    turns: Turns
    clock: Callable[[], float]
    on_event: Callable[[Event, float], None] | None
    on_turn: Callable[[TurnRecord], None] | None
    speaker: Speaker | None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                listener = group.create_task(self._listen())
                try:
                    await self._converse(listener)
                except ConnectionLost:
                    # What had arrived before is still unread, and says how it ended.
                    await asyncio.wait([listener], timeout=CLOSE_S)
                    if not listener.done():
                        raise
        except ExceptionGroup as failures:
            # Both directions fail when the connection does: one error says it. A bug stays a group.
            ours, bugs = failures.split(VoicepipeError)
            if ours is None or bugs is not None:
                raise
            raise ours.exceptions[0] from None

    async def _converse(self, listener: asyncio.Task[None]) -> None:
        await self._speak(listener)
        if not listener.done():
            await self.session.end()
            await asyncio.wait([listener], timeout=CLOSE_S)
            listener.cancel()

    async def _speak(self, listener: asyncio.Task[None]) -> None:
        while not listener.done() and (frame := await self.source.frame()) is not None:
            now = self.clock()
            self.turns.on_sent(frame, now)
            await self.session.send_audio(frame.pcm)
            for report in self.turns.on_timer(now):
                await self.session.report_playback(report.epoch, report.played_samples)
            if self.turns.settled(now):
                self.source.advance()

    async def _listen(self) -> None:
        async for event in self.session:
            now = self.clock()
            if self.speaker is not None:
                self._sound(self.speaker, event)
            if self.on_event is not None:
                self.on_event(event, now)
            reports = self.turns.on_event(event, now)
            if isinstance(event, TurnEnded) and self.on_turn is not None:
                self.on_turn(self.turns.records[-1])
            for report in reports:
                await self.session.report_playback(report.epoch, report.played_samples)

    @staticmethod
    def _sound(speaker: Speaker, event: Event) -> None:
        if isinstance(event, AudioFrame):
            speaker.play(event.pcm)
        elif isinstance(event, ReplyInterrupted | TurnReopened | Disconnected):
            speaker.flush()
