"""A client without manners: what it does, and when it stops doing it, is drawn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import numpy as np

from tests.driving import Heard
from tests.seeded.door import Socket
from tests.seeded.engines import CANARY
from tests.seeded.loop import Trace
from voicepipe.connection import ConnectionClosed
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server, encode_client

RATE_HZ = 16_000
PACKET_S = 0.1
_SIZE = round(PACKET_S * RATE_HZ)
_VOICE = (np.random.default_rng(1).uniform(-0.2, 0.2, _SIZE) * 32767).astype("<i2").tobytes()
_SILENCE = bytes(2 * _SIZE)
GARBAGE: tuple[str | bytes, ...] = (
    "{",
    "[]",
    '{"type": "nonsense"}',
    '{"type": "input.text", "text": ["zanzibar"]}',
    '{"zanzibar": 1',
    '{"type": "playback", "epoch": -1, "played_samples": 0}',
    '{"type": "session.start"}',
    b"\x00\x01",
    b"\x00" * 8,
    '{"type": "history.truncate", "epoch": 1, "heard_ms": 1e300}',
)


class SeededCaller:
    """Writes and reads at the same time; `log` is what it heard."""

    def __init__(
        self, socket: Socket, draw: random.Random, trace: Trace, name: str, resume: str | bool | None = None
    ) -> None:
        self.socket = socket
        self.resume = resume
        """What it asks for in `session.start`."""
        self.log: list[Heard] = []
        self.closed: ConnectionClosed | None = None
        self.vanished = False
        self.name = name
        self._draw = draw
        self._trace = trace
        self._clock = asyncio.get_running_loop().time
        self._position = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self._epoch = 0

    async def run(self) -> None:
        """Until the connection is closed, by whichever side."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.listen())
            if self._draw.random() < 0.2:
                group.create_task(self._vanish_after(self._draw.uniform(0.0, 6.0)))
            with suppress(ConnectionClosed):
                await self._talk()
            self.reading.set()

    def note(self, what: str) -> None:
        self._trace.note(self._clock(), f"{self.name} {what}")

    # what it does

    async def _talk(self) -> None:
        draw = self._draw
        if draw.random() < 0.95:
            await self.send(self._start())
        for _ in range(draw.randrange(1, 9)):
            act = draw.choices(ACTS, WEIGHTS)[0]
            self.note(act.__name__)
            await act(self)
        if draw.random() < 0.5:
            self.note("ends")
            await self.send(wire.SessionEnd())
            await asyncio.sleep(draw.uniform(0.0, 3.0))
        if draw.random() < 0.8:
            await self.vanish()

    def _start(self) -> wire.SessionStart:
        draw = self._draw
        return wire.SessionStart(
            audio=wire.AudioFormat(rate=RATE_HZ, channels=1),
            protocol="voicepipe.v1",
            output_rate=8000,
            turn_taking=draw.choice(("auto", "auto", "manual")),
            interruptible=draw.random() < 0.8,
            enforcement=draw.choice((None, "enforce", "observe")),
            auto_reply=draw.random() < 0.9,
            reply_as=draw.choice(("speech", "speech", "text")),
            max_reply_tokens=draw.choice((None, 3)),
            resume=self.resume,
        )

    @property
    def ready(self) -> wire.SessionReady | None:
        return next((heard.message for heard in self.log if isinstance(heard.message, wire.SessionReady)), None)

    async def speak(self) -> None:
        await self._sound(_VOICE, self._draw.uniform(0.1, 1.2))

    async def pause(self) -> None:
        await self._sound(_SILENCE, self._draw.uniform(0.1, 1.5))

    async def ask_aloud(self) -> None:
        await self.speak()
        await self._sound(_SILENCE, 0.8)
        await self.wait()

    async def go_on(self) -> None:
        """Speech that seems to be all there is, and is not: a false start, or a barge-in where it takes longer."""
        await self._sound(_VOICE, 0.4)
        await self._sound(_SILENCE, self._draw.uniform(0.1, 1.2))
        await self._sound(_VOICE, self._draw.uniform(0.1, 0.6))

    async def type(self) -> None:
        await self.send(wire.InputText(f"Hello, {CANARY}."))

    async def wait(self) -> None:
        await asyncio.sleep(self._draw.choice((0.0, 0.01, 0.1, 1.0, 3.0)) * self._draw.random())

    async def commit(self) -> None:
        await self.send(wire.InputCommit(even_empty=self._draw.random() < 0.3))

    async def cancel(self) -> None:
        await self.send(wire.ReplyCancel())

    async def clear(self) -> None:
        await self.send(wire.InputClear())

    async def create(self) -> None:
        await self.send(wire.ReplyCreate())

    async def report(self) -> None:
        epoch = max(0, self._epoch + self._draw.choice((0, 0, 0, -1, 1)))
        played = round(self._draw.uniform(0, 3) * 8000)
        message = wire.Playback(epoch, played)
        await self.send(message if self._draw.random() < 0.7 else wire.HistoryTruncate(epoch, float(played // 8)))

    async def update(self) -> None:
        await self.send(wire.SessionUpdate(instructions=f"Talk of {CANARY}.", auto_reply=self._draw.random() < 0.9))

    async def add_history(self) -> None:
        await self.send(wire.HistoryAdd("user", f"To {CANARY}.", id=self._draw.choice(("", "a", "b"))))

    async def forget_history(self) -> None:
        await self.send(wire.HistoryDelete(self._draw.choice(("a", "b", "user-1", "assistant-1"))))

    async def stall(self) -> None:
        """Reads nothing for a while, and goes on writing."""
        self.reading.clear()
        await self.wait()
        await self.type()
        await asyncio.sleep(self._draw.choice((0.2, 1.5, 8.0)))
        self.reading.set()

    async def babble(self) -> None:
        await self.send_raw(self._draw.choice(GARBAGE))

    async def jump(self) -> None:
        """Its clock."""
        self._position += self._draw.choice((RATE_HZ // 10, 20 * RATE_HZ, 10**9))

    async def be_silent(self) -> None:
        """Until a limit closes it."""
        await asyncio.sleep(25.0)

    async def vanish(self) -> None:
        if not self.vanished:
            self.vanished = True
            self.note("vanishes")
            await self.socket.vanish()

    # inner

    async def _vanish_after(self, seconds: float) -> None:
        """In the middle of whatever goes on."""
        await asyncio.sleep(seconds)
        await self.vanish()

    async def sound(self, packets: int, *, voiced: bool) -> None:
        await self._sound(_VOICE if voiced else _SILENCE, packets * PACKET_S)

    async def _sound(self, packet: bytes, seconds: float) -> None:
        for _ in range(max(1, round(seconds / PACKET_S))):
            await self.send(wire.AudioFrame(0, self._position, packet))
            self._position = (self._position + _SIZE) % 2**32
            await asyncio.sleep(PACKET_S)

    async def send(self, message: wire.ClientMessage | wire.AudioFrame) -> None:
        await self.send_raw(encode_client(message))

    async def send_raw(self, data: str | bytes) -> None:
        await self.socket.far.send(data)

    async def listen(self) -> None:
        try:
            while True:
                await self.reading.wait()
                message = decode_server(await self.socket.far.recv())
                self.log.append(Heard(self._clock(), message))
                if isinstance(message, wire.TurnCommitted):
                    self._epoch = message.epoch
                if isinstance(message, wire.Error) and message.code == "resume_unknown":
                    self.resume = True  # afresh, on the same connection
                    with suppress(ConnectionClosed):
                        await self.send(self._start())
                if not isinstance(message, wire.AudioFrame):
                    self.note(f"hears {message}")
        except ConnectionClosed as closed:
            self.closed = closed
            self.note(f"is closed: {closed}")


Act = Callable[[SeededCaller], Awaitable[None]]
_CHANCES: dict[Act, float] = {
    SeededCaller.ask_aloud: 5,
    SeededCaller.go_on: 4,
    SeededCaller.speak: 2,
    SeededCaller.pause: 2,
    SeededCaller.type: 6,
    SeededCaller.wait: 8,
    SeededCaller.commit: 3,
    SeededCaller.cancel: 4,
    SeededCaller.clear: 1,
    SeededCaller.create: 1,
    SeededCaller.report: 2,
    SeededCaller.update: 0.5,
    SeededCaller.add_history: 0.5,
    SeededCaller.forget_history: 0.5,
    SeededCaller.stall: 1,
    SeededCaller.babble: 0.5,
    SeededCaller.jump: 0.3,
    SeededCaller.be_silent: 0.3,
    SeededCaller.vanish: 0.5,
}
ACTS, WEIGHTS = list(_CHANCES), list(_CHANCES.values())
