"""A phone behind Twilio: what it sends, what it plays, when a mark comes back; in virtual time or on a socket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from tests import virtual
from tests.driving import LOUD, House, check_nothing_left, open_house
from tests.wire.twilio.calling import SID, Event, connected, dtmf, mark, media, start, stop
from voicepipe import g711
from voicepipe.config import Config
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.engines.base import Engines
from voicepipe.reception import serve_session

PACKET_S = 0.02
SIZE = 160


class Socket(Protocol):
    async def send(self, data: str | bytes) -> None: ...

    async def recv(self) -> str | bytes:
        """Raises ConnectionClosed."""
        ...

    async def close(self, code: int = 1000) -> None: ...


class Phone:
    """`log`: what came, and when. Marks go back when what is before them was played, all at a `clear`."""

    def __init__(self, socket: Socket, house: House | None = None) -> None:
        self.house = house
        self.log: list[tuple[float, Event]] = []
        self.closed: ConnectionClosed | None = None
        self.sid = SID
        self.at_ms = 0
        """The stream's clock."""
        self.ahead_at_clear: list[float] = []
        """Seconds of sound that each `clear` threw away."""
        self.stood_still: list[float] = []
        """When the loudspeaker had nothing to play though more of a reply came."""
        self._socket = socket
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._playing_until = 0.0
        self._due: list[tuple[float, str]] = []
        """Marks, and when the sound before them will have been played."""
        self._noise = np.random.default_rng(1)
        self._taken: Counter[str] = Counter()
        self._gone = asyncio.Event()

    @property
    def now(self) -> float:
        return self._clock() - self._began

    async def send(self, event: Event | str | bytes) -> None:
        await self._socket.send(json.dumps(event) if isinstance(event, dict) else event)

    async def dial(self, **custom: str) -> None:
        await self.send(connected())
        await self.send(start(self.sid, **custom))

    async def press(self, keys: str) -> None:
        for key in keys:
            await self.send(dtmf(key, self.sid))
            await self.pause(0.2)

    async def hang_up(self) -> None:
        """Returns once the connection has been closed."""
        await self.send(stop(self.sid))
        async with asyncio.timeout(5.0):
            await self._gone.wait()

    async def speak(self, seconds: float) -> None:
        await self._sound(seconds, LOUD)

    async def pause(self, seconds: float) -> None:
        await self._sound(seconds, 0.0)

    async def pause_until(self, kind: str, *, within_s: float = 30.0) -> Event:
        """Silence until there is an event of this kind that has not been waited for before."""
        return await self._until(kind, self.pause, within_s)

    async def speak_until(self, kind: str, *, within_s: float = 5.0) -> Event:
        return await self._until(kind, self.speak, within_s)

    async def _until(self, kind: str, pass_time: Callable[[float], Awaitable[None]], within_s: float) -> Event:
        until = self.now + within_s
        while len(self.of(kind)) <= self._taken[kind]:
            assert self.now < until, f"no {kind} within {within_s} s"
            await pass_time(PACKET_S)
        self._taken[kind] = len(self.of(kind))
        return self.of(kind)[-1]

    async def quiet(self, seconds: float = 0.8) -> None:
        """Until nothing has come for so long."""
        while True:
            seen = len(self.log)
            await self.pause(seconds)
            if len(self.log) == seen:
                for kind in ("media", "mark", "clear"):
                    self._taken[kind] = len(self.of(kind))
                return

    async def _sound(self, seconds: float, level: float) -> None:
        for _ in range(round(seconds / PACKET_S)):
            noise = (self._noise.uniform(-level, level, SIZE) * 32767).astype("<i2").tobytes()
            await self.send(media(g711.encode(noise, "ulaw"), self.sid, at_ms=self.at_ms))
            self.at_ms += 20
            await self._return_marks()
            await asyncio.sleep(PACKET_S)

    async def _return_marks(self) -> None:
        while self._due and self._due[0][0] <= self.now:
            await self.send(mark(self._due.pop(0)[1], self.sid))

    # what it hears

    def of(self, kind: str) -> list[Event]:
        return [event for _, event in self.log if event["event"] == kind]

    def at(self, kind: str, index: int = 0) -> float:
        return [at for at, event in self.log if event["event"] == kind][index]

    def since(self, at: float) -> list[Event]:
        return [event for when, event in self.log if when >= at]

    @property
    def verdicts(self) -> list[str]:
        assert self.house is not None
        return [record.verdict.value for record in self.house.records.get("s1", [])]

    async def listen(self) -> None:
        try:
            while True:
                event = json.loads(await self._socket.recv())
                self.log.append((self.now, event))
                await self._play(event)
        except ConnectionClosed as closed:
            self.closed = closed
            self._gone.set()

    async def _play(self, event: Event) -> None:
        match event["event"]:
            case "media":
                if self._due and self._playing_until < self.now:
                    self.stood_still.append(self.now)
                seconds = len(base64.b64decode(event["media"]["payload"])) / g711.RATE_HZ
                self._playing_until = max(self._playing_until, self.now) + seconds
            case "mark":
                self._due.append((self._playing_until, event["mark"]["name"]))
            case "clear":
                self.ahead_at_clear.append(max(0.0, self._playing_until - self.now))
                self._playing_until = self.now
                self._due = [(0.0, name) for _, name in self._due]
                with suppress(ConnectionClosed):
                    await self._return_marks()
            case _:
                raise AssertionError("Twilio hangs up at an event that it does not know")


Script = Callable[[Phone], Awaitable[None]]


def ring(script: Script, these: Engines | None = None, config: Config | None = None, **known: Any) -> Phone:
    """Play the script against a fresh house; afterwards every lease is back and no task is left."""

    async def main() -> Phone:
        async with open_house(these, config, known=known or None) as house:
            ours, theirs = MemoryConnection.pair(capacity=100_000, path="/v1/twilio")
            phone = Phone(theirs, house)
            async with asyncio.TaskGroup() as group:
                group.create_task(serve_session(ours, house.services, "s1"))
                listening = group.create_task(phone.listen())
                with suppress(ConnectionClosed):
                    await script(phone)
                if phone.closed is None:
                    await theirs.close(1006)
                await listening
        check_nothing_left()
        return phone

    return virtual.run(main())
