"""A session that outlives its connection.

    async with stay_connected("ws://127.0.0.1:8765") as session:
        async for event in session:
            ...

As with `connect` there is no background task: iterating reads the socket, notices that it is gone, and comes back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack

from msgspec import structs

from voicepipe import errors
from voicepipe.wire import native
from voicepipe.wire.native import AudioFrame
from voicepipe_client.backoff import Backoff, Outage, may_return
from voicepipe_client.client import Destination, Session, SessionStatistics, StartOptions, Wishes
from voicepipe_client.events import Disconnected, Event, Reconnected

_OF_THE_MOMENT = (AudioFrame, native.Playback, native.InputCommit, native.InputClear, native.ReplyCancel)
"""What concerns the turn that was going on: without a connection it concerns nobody any more."""
_PCM_BYTES = 2


@asynccontextmanager
async def stay_connected(
    url: str,
    *,
    rate: int = 16_000,
    channels: Literal[1, 2] = 1,
    backoff: Backoff | None = None,
    chance: Callable[[], float] = random.random,
    wishes: Wishes | None = None,
    **options: Unpack[StartOptions],
) -> AsyncIterator[LastingSession]:
    """As `connect`, whose `token`, `budget_ms`, `route`, `timeouts` and `on_waiting` are the `wishes`; and a
    connection that gets lost afterwards is got back, as `backoff` says. `chance` draws from [0, 1).

    Raises what `connect` raises where there is no session to begin with.
    """
    options.setdefault("resume", True)
    start = native.SessionStart(audio=native.AudioFormat(rate, channels), protocol=native.PROTOCOL, **options)
    destination = Destination.of(url, start, **(wishes or {}))
    lasting = LastingSession(destination, await destination.open(), backoff or Backoff(), chance)
    try:
        yield lasting
    finally:
        await lasting.close()


class LastingSession:
    """Made by `stay_connected`; the methods of `Session`. Each may be called from any task, iteration from one at a
    time."""

    def __init__(
        self, destination: Destination, session: Session, backoff: Backoff, chance: Callable[[], float]
    ) -> None:
        # Whoever plays the replies goes on at the rate at which they began, whatever the next server's voice.
        start = structs.replace(destination.start, output_rate=session.ready.output_rate)
        self._destination = replace(destination, start=start)
        self._session = session
        self._backoff = backoff
        self._chance = chance
        self._clock = asyncio.get_running_loop().time
        self._token = session.ready.resume
        self._outage: Outage | None = None
        self._outage_before: Outage | None = None
        self._loss: errors.ConnectionLost | None = None
        self._moved = asyncio.Condition()
        self._over = False
        """It was ended, or nobody comes back any more."""
        self._update: native.SessionUpdate | None = None
        self._left_out_samples = 0
        self._before = SessionStatistics(0, 0, 0)
        self._frame_bytes = _PCM_BYTES * destination.start.audio.channels

    # --- receiving

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """As that of `Session`, and `Disconnected` and `Reconnected`. Cancelled while it tries to come back, it
        goes on trying when it is called again.

        Raises what the connection was lost by (ConnectionLost, ServerDrained) where it does not come back, and what
        `connect` raises where it may not, such as Unauthorized.
        """
        if self._outage is not None:
            return await self._come_back(self._outage)
        session = self._session
        try:
            return await session.__anext__()
        except errors.ConnectionLost as lost:
            if self._over or not may_return(session.close_code):
                await self._give_up(lost)
                raise
            self._loss = lost
            self._outage = Outage(self._backoff, self._chance, self._clock(), self._outage_before)
            return Disconnected(lost.message, session.close_code)

    @property
    def ready(self) -> native.SessionReady:
        """Of the present connection, or the last one."""
        return self._session.ready

    @property
    def close_code(self) -> int | None:
        """Of the last connection; None while there is one."""
        return self._session.close_code

    @property
    def left_out_samples(self) -> int:
        """Of sound that was sent while there was no connection: nobody has heard it."""
        return self._left_out_samples

    def statistics(self) -> SessionStatistics:
        """Of all connections."""
        return _added(self._before, self._session.statistics())

    # --- sending

    async def send_audio(self, pcm: bytes) -> None:
        """As that of `Session`. Without a connection it is left out: it is too late for an answer then."""
        session = self._session
        if self._outage is None:
            try:
                return await session.send_audio(pcm)
            except errors.ConnectionLost as lost:
                self._on_failed_send(session, lost)
        self._left_out_samples += len(pcm) // self._frame_bytes

    async def commit(self) -> None:
        await self.send(native.InputCommit())

    async def cancel(self) -> None:
        await self.send(native.ReplyCancel())

    async def send_text(self, text: str) -> None:
        await self.send(native.InputText(text))

    async def report_playback(self, epoch: int, played_samples: int) -> None:
        await self.send(native.Playback(epoch, played_samples))

    async def end(self) -> None:
        """As that of `Session`. Without a connection nobody comes back any more: the iteration raises what it was
        lost by."""
        self._over = True
        if self._outage is None:
            try:
                await self._session.end()
            except errors.ConnectionLost:
                return

    async def send(self, message: native.ClientMessage | AudioFrame) -> None:
        """Any message of the dialect. Without a connection, what concerns the turn that was going on is left out,
        and all else waits until there is one: somebody has to iterate. Raises TooLarge, and ConnectionLost where
        there will be none."""
        if isinstance(message, native.SessionUpdate):
            self._update = message
        while True:
            session = self._session
            if self._outage is None and not (self._over and self._loss):
                try:
                    return await session.send(message)
                except errors.ConnectionLost as lost:
                    self._on_failed_send(session, lost)
            if isinstance(message, _OF_THE_MOMENT):
                return
            async with self._moved:
                await self._moved.wait_for(partial(self._has_moved, session))
            if self._over:
                raise self._loss or errors.ConnectionLost("the session has been ended")

    async def close(self) -> None:
        """The connection, if there is one; nobody comes back."""
        self._over = True
        async with self._moved:
            self._moved.notify_all()
        await self._session.close()

    # --- inside

    def _has_moved(self, before: Session) -> bool:
        return self._over or self._session is not before

    def _on_failed_send(self, session: Session, lost: errors.ConnectionLost) -> None:
        """Whoever iterates notices it as well, and does what has to be done; also where the server only has not
        read for too long."""
        if self._over or not may_return(session.close_code):
            raise lost
        session.abort()

    async def _come_back(self, outage: Outage) -> Reconnected:
        wait_s = outage.next_wait_s()
        while wait_s is not None:
            await asyncio.sleep(wait_s)
            if self._over:
                break
            try:
                session = await self._destination.open(self._token or True)
            except (errors.ConnectionLost, errors.ServerUnreachable, errors.Refused) as failure:
                wait_s = outage.on_failed(failure, self._clock())
            except errors.VoicepipeError as failure:
                await self._give_up(failure)
                raise
            else:
                return await self._go_on(session, outage)
        assert self._loss is not None, "an outage begins with a loss"
        await self._give_up(self._loss)
        raise self._loss

    async def _go_on(self, session: Session, outage: Outage) -> Reconnected:
        self._before = self.statistics()
        self._token = session.ready.resume
        if self._update is not None:
            try:
                await session.send(self._update)
            except errors.ConnectionLost:
                session.abort()  # the next event tells it
        outage.on_back(self._clock())
        self._outage_before = outage
        self._session, self._outage, self._loss = session, None, None
        async with self._moved:
            self._moved.notify_all()
        return Reconnected(session.ready.resumed, self._clock() - outage.since, outage.tries)

    async def _give_up(self, error: errors.VoicepipeError) -> None:
        self._over = True
        self._loss = error if isinstance(error, errors.ConnectionLost) else self._loss
        async with self._moved:
            self._moved.notify_all()


def _added(one: SessionStatistics, other: SessionStatistics) -> SessionStatistics:
    return SessionStatistics(
        one.sent_samples + other.sent_samples,
        one.stale_frames + other.stale_frames,
        one.unknown_messages + other.unknown_messages,
    )
