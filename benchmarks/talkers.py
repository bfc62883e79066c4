"""Good clients: they speak at their instants, hear what is answered, and write down what became of each turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from arrivals import Question
from caller import PACKET_S, RATE_HZ, Voice, noise
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client


@dataclass(slots=True)
class Heard:
    """What a session told its client."""

    session: str = ""
    committed: dict[int, float] = field(default_factory=dict)
    """By turn, when that was told. Loop time."""
    ended: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By turn, every `turn.ended`; there should be one."""
    errors: list[str] = field(default_factory=list)
    sound_bytes: int = 0
    closed: int | None = None
    """The close code; 1006 where there was none."""


async def listen(ws: ClientConnection, heard: Heard, on_sound: Callable[[int], None] = lambda epoch: None) -> None:
    """To the end."""
    clock = asyncio.get_running_loop().time
    try:
        async for data in ws:
            if isinstance(data, bytes):
                heard.sound_bytes += len(data)
                on_sound(int.from_bytes(data[:4], "big"))
                continue
            message = json.loads(data)
            match message["type"]:
                case "session.ready":
                    heard.session = message["session"]
                case "turn.committed":
                    heard.committed.setdefault(message["turn"], clock())
                case "turn.ended":
                    heard.ended.setdefault(message["turn"], []).append(message)
                case "error":
                    heard.errors.append(message["code"])
        heard.closed = ws.close_code
    except ConnectionClosed as closed:
        heard.closed = closed.rcvd.code if closed.rcvd is not None else 1006


async def start(ws: ClientConnection, **settings: Any) -> None:
    audio = wire.AudioFormat(rate=RATE_HZ, channels=1)
    await ws.send(encode_client(wire.SessionStart(audio=audio, protocol="voicepipe.v1", **settings)))


@dataclass(slots=True)
class Mouth:
    """A client's microphone: it sends packets at their instants, sound or silence."""

    ws: ClientConnection
    voice: Voice = noise
    position: int = 0
    paused: bool = False

    async def say(self, begun: float, question: Question, seconds: float) -> None:
        """`question` within so many seconds of sound from `begun`, loop time, on. What is late is sent at once."""
        clock = asyncio.get_running_loop().time
        for packet in range(round(seconds / PACKET_S)):
            at = packet * PACKET_S
            await self.ws.send(encode_client(wire.AudioFrame(0, self.position, self.voice(question, at))))
            self.position = (self.position + round(PACKET_S * RATE_HZ)) % (1 << 32)
            await asyncio.sleep(begun + at + PACKET_S - clock())


async def talk_for_ever(url: str, heard: Heard, *, phase_s: float, cycle_s: float, speech_s: float) -> None:
    """One good client, until it is cancelled: a question a cycle, the first one `phase_s` from now."""
    clock = asyncio.get_running_loop().time
    begun = clock() + phase_s
    async with connect(url, proxy=None) as ws, asyncio.TaskGroup() as group:
        group.create_task(listen(ws, heard))
        await start(ws)
        mouth, question = Mouth(ws), Question(0.1, 0.1 + speech_s)
        while True:
            await asyncio.sleep(begun - clock())
            await mouth.say(begun, question, cycle_s)
            begun += cycle_s
