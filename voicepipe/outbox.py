"""What a session sends: a bounded queue, its one writer, and what of it has been handed to the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from voicepipe.connection import Connection
from voicepipe.errors import SessionLimit
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server

FRAMES = 512
"""Ten seconds of 20 ms frames: playout never runs so far ahead, so a full box is a client that has stalled."""


class Outbox:
    def __init__(
        self,
        connection: Connection,
        *,
        timeout_s: float,
        epoch: Callable[[], int],
        sent: Callable[[int], None],
        acknowledged: Callable[[int], None],
        stale: Callable[[int], None],
    ) -> None:
        """A client that does not take a message for `timeout_s` is let go. `epoch` tells the present one: audio of
        an older one is not sent, and `stale` told its samples. `sent` and `acknowledged` are told the epoch whose
        first content, or whose acknowledgement, has been handed to the socket."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._epoch = epoch
        self._sent = sent
        self._acknowledged = acknowledged
        self._stale = stale
        self._queue: asyncio.Queue[wire.ServerMessage | wire.AudioFrame] = asyncio.Queue(FRAMES)
        self._told_epoch = 0
        self._front: wire.ReplyAcknowledged | None = None
        """The newest one that was handed to the socket."""

    def put(self, message: wire.ServerMessage | wire.AudioFrame) -> None:
        """Raises SessionLimit where too much waits already."""
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            raise SessionLimit("what is sent is not taken") from None

    async def write(self) -> None:
        """Until it is cancelled. Raises SessionLimit and ConnectionClosed."""
        while True:
            message = await self._queue.get()
            try:
                await self._deliver(message)
            finally:
                self._queue.task_done()

    async def emptied(self) -> None:
        """Returns once all of it has been handed over."""
        await self._queue.join()

    async def _deliver(self, message: wire.ServerMessage | wire.AudioFrame) -> None:
        audio = message if isinstance(message, wire.AudioFrame) else None
        if audio is not None and audio.epoch < self._epoch():
            self._stale(len(audio.pcm) // 2)
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connection.send(encode_server(message))
        except TimeoutError:
            raise SessionLimit(f"nothing was taken for {self._timeout_s:.0f} s") from None
        if isinstance(message, wire.ReplyAcknowledged):
            self._front = message
        if audio is not None and audio.epoch != self._told_epoch:
            self._on_sound_sent(audio)

    def _on_sound_sent(self, audio: wire.AudioFrame) -> None:
        """The first content of a reply, or what goes before it: frames do not reach across."""
        front = self._front
        if front is not None and front.epoch == audio.epoch and audio.offset_samples < front.samples:
            if audio.offset_samples == 0:
                self._acknowledged(audio.epoch)
            return
        self._told_epoch = audio.epoch
        self._sent(audio.epoch)
