"""A client of the Realtime protocol against a house in virtual time: what it says, what it hears, and when."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import numpy as np

from tests import virtual
from tests.driving import LOUD, House, check_nothing_left, open_house
from voicepipe.config import Config
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.core.events import TurnRecord
from voicepipe.engines.base import Engines
from voicepipe.reception import serve_session

RATE_HZ = 24_000
PACKET_S = 0.02
Event = dict[str, Any]


class Client:
    """Speaks in real (virtual) time and keeps all that it hears."""

    def __init__(self, house: House, query: dict[str, str] | None, headers: dict[str, str] | None) -> None:
        self.house = house
        self.log: list[tuple[float, Event]] = []
        self.closed: ConnectionClosed | None = None
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._ours, self._theirs = MemoryConnection.pair(
            capacity=100_000, query=query, path="/v1/realtime", headers=headers
        )
        self._noise = np.random.default_rng(1)
        self._ended = asyncio.Event()
        self._taken: Counter[str] = Counter()
        """Events that have been waited for."""

    # what it does

    @property
    def now(self) -> float:
        return self._clock() - self._began

    async def send(self, kind: str, **fields: Any) -> None:
        await self.send_raw(json.dumps({"type": kind, **fields}))

    async def send_raw(self, data: str | bytes) -> None:
        await self._theirs.send(data)

    async def update(self, **session: Any) -> None:
        await self.send("session.update", session={"type": "realtime", **session})

    async def append(self, pcm: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    async def say(self, text: str) -> None:
        """In writing, and asks for an answer."""
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create")

    async def speak(self, seconds: float) -> None:
        await self._sound(seconds, LOUD)

    async def pause(self, seconds: float) -> None:
        """Silence, sent like sound."""
        await self._sound(seconds, 0.0)

    async def wait(self, seconds: float) -> None:
        """Nothing is sent."""
        await asyncio.sleep(seconds)

    async def pause_until(self, kind: str, *, within_s: float = 30.0) -> Event:
        """Send silence until there is an event of this kind that has not been waited for before."""
        return await self._until(kind, self.pause, within_s)

    async def wait_until(self, kind: str, *, within_s: float = 30.0) -> Event:
        """The same, and nothing is sent."""
        return await self._until(kind, self.wait, within_s)

    async def _until(self, kind: str, pause: Callable[[float], Awaitable[None]], within_s: float) -> Event:
        taken, until = self._taken[kind], self.now + within_s
        while len(self.of(kind)) == taken:
            assert self.now < until, f"no {kind} within {within_s} s"
            await pause(PACKET_S)
        self._taken[kind] += 1
        return self.of(kind)[taken]

    async def gone(self, *, within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            await self._ended.wait()

    async def hang_up(self) -> None:
        await self._theirs.close(1006)

    def sound(self, seconds: float, level: float = LOUD) -> bytes:
        noise = self._noise.uniform(-level, level, round(seconds * RATE_HZ)) * 32767
        return noise.astype("<i2").tobytes()

    async def _sound(self, seconds: float, level: float) -> None:
        for _ in range(round(seconds / PACKET_S)):
            await self.append(self.sound(PACKET_S, level))
            await asyncio.sleep(PACKET_S)

    # what it heard

    def of(self, kind: str) -> list[Event]:
        return [event for _, event in self.log if event["type"] == kind]

    def at(self, kind: str, index: int = 0) -> float:
        return [at for at, event in self.log if event["type"] == kind][index]

    def kinds(self) -> list[str]:
        """In order, runs of the same kind as one."""
        names: list[str] = []
        for _, event in self.log:
            if names[-1:] != [event["type"]]:
                names.append(event["type"])
        return names

    @property
    def errors(self) -> list[str]:
        return [event["error"]["code"] for event in self.of("error")]

    @property
    def done(self) -> list[Event]:
        """Responses, as they ended."""
        return [event["response"] for event in self.of("response.done")]

    @property
    def records(self) -> list[TurnRecord]:
        return self.house.records.get("s1", [])

    def audio(self, response: str) -> bytes:
        deltas = [e["delta"] for e in self.of("response.output_audio.delta") if e["response_id"] == response]
        return b"".join(base64.b64decode(delta) for delta in deltas)

    # inner

    async def listen(self) -> None:
        try:
            while True:
                self.log.append((self.now, json.loads(await self._theirs.recv())))
        except ConnectionClosed as closed:
            self.closed = closed

    async def be_served(self) -> None:
        try:
            await serve_session(self._ours, self.house.services, "s1")
        finally:
            self._ended.set()


Script = Callable[[Client], Awaitable[None]]


def call(
    script: Script,
    these: Engines | None = None,
    config: Config | None = None,
    *,
    query: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    known: dict[str, Any] | None = None,
) -> Client:
    """Play the script against a fresh house; afterwards every lease is back, and no response is left undone."""

    async def main() -> Client:
        async with open_house(these, config, known=known) as house:
            client = Client(house, query, headers)
            async with asyncio.TaskGroup() as group:
                group.create_task(client.be_served())
                listening = group.create_task(client.listen())
                with suppress(ConnectionClosed):
                    await script(client)
                if client.closed is None:
                    await client.hang_up()
                await client.gone()
                await listening
        check_nothing_left()
        return client

    client = virtual.run(main())
    check_call(client)
    return client


def check_call(client: Client) -> None:
    """One `response.done` for each `response.created`, in order, but for the one that the end of the call cut;
    nothing of a response before it was created or after it was done; each event has an id of its own."""
    created = [event["response"]["id"] for event in client.of("response.created")]
    done = [response["id"] for response in client.done]
    assert done == created[: len(done)] and len(created) - len(done) <= 1
    ids = [event["event_id"] for _, event in client.log]
    assert len(set(ids)) == len(ids)
    open_one: str | None = None
    for _, event in client.log:
        if event["type"] == "response.created":
            open_one = event["response"]["id"]
        elif event["type"] == "response.done":
            assert event["response"]["id"] == open_one
            open_one = None
        elif "response_id" in event:
            assert event["response_id"] == open_one, event["type"]
