"""What a session sends: a bounded queue, its one writer, and what of it has been handed to the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from voicepipe.connection import Connection
from voicepipe.errors import SessionLimit
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Frame

FRAMES = 512
"""Ten seconds of 20 ms frames: playout never runs so far ahead, so a full box is a client that has stalled."""

Watched = wire.AudioFrame | wire.ReplyText | wire.ReplyAcknowledged
"""Of a reply: sound, what is given in writing, and what of the sound is no content. When that goes out matters also
where a dialect has no frames for it."""


class _Parcel(NamedTuple):
    frames: tuple[Frame, ...]
    told: wire.Told | None
    """What they say; None for an answer of the dialect's own."""


class Outbox:
    def __init__(
        self,
        connection: Connection,
        tell: Callable[[wire.Told], Iterable[Frame]],
        *,
        timeout_s: float,
        epoch: Callable[[], int],
        sent: Callable[[int], None],
        acknowledged: Callable[[int], None],
        stale: Callable[[int], None],
    ) -> None:
        """`tell` makes frames of what the session says, when it is said. A client that does not take a frame for
        `timeout_s` is let go. `epoch` tells the present one: audio of
        an older one is not sent, and `stale` told its samples. `sent` and `acknowledged` are told the epoch whose
        first content, or whose acknowledgement, has been handed to the socket."""
        self._connection = connection
        self._tell = tell
        self._timeout_s = timeout_s
        self._epoch = epoch
        self._sent = sent
        self._acknowledged = acknowledged
        self._stale = stale
        self._queue: asyncio.Queue[_Parcel] = asyncio.Queue(FRAMES)
        self._is_open = True
        self.stalled = False
        """What is sent is not taken: the connection is as good as gone."""
        self._told_epoch = 0
        self._front: wire.ReplyAcknowledged | None = None
        """The newest one that was handed to the socket."""

    def put(self, message: wire.Told) -> None:
        """Raises SessionLimit where too much waits already."""
        self._enqueue(_Parcel(tuple(self._tell(message)), message))

    def answer(self, *frames: Frame) -> None:
        """What the session has no part in. Raises SessionLimit like `put`."""
        self._enqueue(_Parcel(frames, None))

    def _enqueue(self, parcel: _Parcel) -> None:
        if not self._is_open or (not parcel.frames and not isinstance(parcel.told, Watched)):
            return
        try:
            self._queue.put_nowait(parcel)
        except asyncio.QueueFull:
            self.stalled = True
            raise SessionLimit("what is sent is not taken") from None

    async def write(self) -> None:
        """Until it is cancelled. Raises SessionLimit and ConnectionClosed."""
        while True:
            parcel = await self._queue.get()
            try:
                await self._deliver(parcel)
            finally:
                self._queue.task_done()

    async def emptied(self) -> None:
        """Returns once all of it has been handed over."""
        await self._queue.join()

    async def finish(self) -> None:
        """Take no more, and hand over what has been told. Raises SessionLimit like `write`."""
        self._is_open = False
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._queue.join()
        except TimeoutError:
            self.stalled = True
            raise SessionLimit(f"nothing was taken for {self._timeout_s:.0f} s") from None

    async def _deliver(self, parcel: _Parcel) -> None:
        message = parcel.told
        audio = message if isinstance(message, wire.AudioFrame) else None
        if audio is not None and audio.epoch < self._epoch():
            self._stale(len(audio.pcm) // 2)
            return
        for frame in parcel.frames:
            await self._send(frame)
        if isinstance(message, wire.ReplyAcknowledged):
            self._front = message
        if audio is not None and audio.epoch != self._told_epoch:
            self._on_sound_sent(audio)
        elif isinstance(message, wire.ReplyText) and not message.spoken and message.epoch != self._told_epoch:
            self._told_epoch = message.epoch
            self._sent(message.epoch)

    async def _send(self, frame: Frame) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connection.send(frame)
        except TimeoutError:
            self.stalled = True
            raise SessionLimit(f"nothing was taken for {self._timeout_s:.0f} s") from None

    def _on_sound_sent(self, audio: wire.AudioFrame) -> None:
        """The first content of a reply, or what goes before it: frames do not reach across."""
        front = self._front
        if front is not None and front.epoch == audio.epoch and audio.offset_samples < front.samples:
            if audio.offset_samples == 0:
                self._acknowledged(audio.epoch)
            return
        self._told_epoch = audio.epoch
        self._sent(audio.epoch)
