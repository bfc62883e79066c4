"""Felt gap through each dialect beside the native one's, on scripted engines and a real loopback socket.

The same turns are said through each dialect, one turn at a time and one dialect after the other, in one server: a
tone whose length differs from turn to turn. Packets have 20 ms, the detector's frames 32 and the blocks in which
levels are measured 10, so that how long one of those waits for its last sample depends on where it lies among the
packets: up to a packet, and a millisecond that a resampler holds back can cost a packet, or nothing. So each turn
begins at a multiple of 160 ms of its session's sound, where all of them begin anew, and a little later each time:
the same turn lies in the same place in every dialect, and 16 turns in 16 places that are spread over a packet.

    felt     the packet with the last voiced sample leaves -> the first audible sample of the reply arrives
    behind   felt - the native one's, of the same turn; its median is what the dialect costs

Client and server share one process and one event loop: a dialect's work at the client is in its gap, too. The
replies differ from turn to turn, as a model's do, so that no sound is there from the turn before.

    python benchmarks/dialect_gap.py                # 16 turns of each: about five minutes
    python benchmarks/dialect_gap.py --turns 4      # a glance
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from replies import WORDS, scripted_engines
from websockets.asyncio.client import ClientConnection, connect

from voicepipe import g711
from voicepipe.app import serving
from voicepipe.audio import first_audible, from_pcm16
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.scripted import SECONDS_PER_WORD
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server, encode_client
from voicepipe_client import spread

PACKET_S = 0.02
GRID_PACKETS = 8
"""160 ms: five frames of 512 samples at 16 kHz, eight packets."""
SHIFT_S = PACKET_S / 16
"""By so much more each turn is late; whole samples at all rates."""
TURNS = 16
SPEECH_S, STEP_S = 0.7, 0.013
"""The shortest turn, and how much longer each next one is."""
PATIENCE_S = 5.0
WITHIN_MS = 10.0
LEVEL, TONE_HZ = 0.2, 220.0


@dataclass
class Native:
    name: str = "native"
    path: str = "/v1/voice"
    rate_hz: int = 16_000
    tail_s: float = 0.0
    """What is left to be heard of a reply when `is_over` tells that it is."""
    _position: int = 0

    def opening(self) -> list[str | bytes]:
        return [encode_client(wire.SessionStart(wire.AudioFormat(self.rate_hz), "voicepipe.v1"))]

    def sound(self, pcm: bytes) -> str | bytes:
        frame = encode_client(wire.AudioFrame(0, self._position, pcm))
        self._position += len(pcm) // 2
        return frame

    def heard(self, frame: str | bytes) -> tuple[bytes, int]:
        """Sound, PCM16, and its rate."""
        message = decode_server(frame)
        return (message.pcm, 24_000) if isinstance(message, wire.AudioFrame) else (b"", 24_000)

    def is_over(self, frame: str | bytes) -> bool:
        return isinstance(decode_server(frame), wire.TurnEnded)


@dataclass
class Realtime:
    """OpenAI's; with a law, on a phone line."""

    name: str = "realtime"
    path: str = "/v1/realtime"
    law: g711.Law | None = None
    tail_s: float = 0.0
    rate_hz: int = field(init=False)

    def __post_init__(self) -> None:
        self.rate_hz = 24_000 if self.law is None else g711.RATE_HZ

    def opening(self) -> list[str | bytes]:
        if self.law is None:
            return []
        form = {"format": {"type": "audio/pcmu" if self.law == "ulaw" else "audio/pcma"}}
        session = {"type": "realtime", "audio": {"input": form, "output": form}}
        return [json.dumps({"type": "session.update", "session": session})]

    def sound(self, pcm: bytes) -> str | bytes:
        data = pcm if self.law is None else g711.encode(pcm, self.law)
        return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()})

    def heard(self, frame: str | bytes) -> tuple[bytes, int]:
        event = json.loads(frame)
        if event["type"] != "response.output_audio.delta":
            return b"", self.rate_hz
        data = base64.b64decode(event["delta"])
        return (data if self.law is None else g711.decode(data, self.law)), self.rate_hz

    def is_over(self, frame: str | bytes) -> bool:
        return bool(json.loads(frame)["type"] == "response.done")


@dataclass
class Twilio:
    """A phone call. Marks are not sent back, so that what has been heard is estimated. A caller is not told when a
    reply ends: it does with the mark behind its last sample, and has then been heard `tail_s` later."""

    name: str = "twilio"
    path: str = "/v1/twilio"
    rate_hz: int = g711.RATE_HZ
    tail_s: float = 0.6
    """More than sound is sent ahead of its playing."""
    _position: int = 0

    def opening(self) -> list[str | bytes]:
        form = {"encoding": "audio/x-mulaw", "sampleRate": self.rate_hz, "channels": 1}
        body = {"streamSid": "MZ1", "tracks": ["inbound"], "mediaFormat": form}
        return [
            json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}),
            json.dumps({"event": "start", "sequenceNumber": "1", "streamSid": "MZ1", "start": body}),
        ]

    def sound(self, pcm: bytes) -> str | bytes:
        payload = base64.b64encode(g711.encode(pcm, "ulaw")).decode()
        timestamp = str(1000 * self._position // self.rate_hz)
        self._position += len(pcm) // 2
        media = {"track": "inbound", "timestamp": timestamp, "payload": payload}
        return json.dumps({"event": "media", "streamSid": "MZ1", "media": media})

    def heard(self, frame: str | bytes) -> tuple[bytes, int]:
        event = json.loads(frame)
        if event["event"] != "media":
            return b"", self.rate_hz
        return g711.decode(base64.b64decode(event["media"]["payload"]), "ulaw"), self.rate_hz

    def is_over(self, frame: str | bytes) -> bool:
        event = json.loads(frame)
        whole = round(WORDS * SECONDS_PER_WORD * self.rate_hz)
        return bool(event["event"] == "mark" and event["mark"]["name"].endswith(f":{whole}"))


Dialect = Native | Realtime | Twilio
DIALECTS = (Native, Realtime, partial(Realtime, "realtime, G.711", law="ulaw"), Twilio)


class Line:
    """One session, in which one turn after the other is said."""

    def __init__(self, dialect: Dialect, ws: ClientConnection) -> None:
        self.dialect = dialect
        self._ws = ws
        self._clock = asyncio.get_running_loop().time
        self._packets = 0
        self._voiced_until = -1
        """Packets up to there hold a voice."""
        self.spoke_at = 0.0
        self.audible_at: float | None = None
        self._over = asyncio.Event()
        self._is_new = False
        """Another turn is to be said."""

    async def say(self, seconds: float) -> float | None:
        """Felt gap of one turn in ms; None where there was no answer."""
        self.audible_at = None
        self._over.clear()
        voiced = round(seconds * self.dialect.rate_hz)
        begin = self._packets + (-self._packets) % GRID_PACKETS
        self._voice, self._is_new = self._tone(voiced), True
        self._begin, self._voiced_until = begin, begin + -(-voiced // self._size)
        try:
            async with asyncio.timeout(seconds + PATIENCE_S):
                await self._over.wait()
        except TimeoutError:
            return None
        return None if self.audible_at is None else 1000 * (self.audible_at - self.spoke_at)

    async def speak(self) -> None:
        """A packet every 20 ms, of voice or of silence."""
        self._voice, self._begin = b"", 0
        await self._shift(SHIFT_S / 2)
        began = self._clock()
        while True:
            if self._is_new:
                self._is_new = False
                await self._shift(SHIFT_S)
            at = (self._packets - self._begin) * self._size * 2
            speaks = self._begin <= self._packets < self._voiced_until
            pcm = self._voice[at : at + 2 * self._size] if speaks else b""
            await self._ws.send(self.dialect.sound(pcm.ljust(2 * self._size, b"\0")))
            if speaks and self._packets == self._voiced_until - 1:
                self.spoke_at = self._clock()
            self._packets += 1
            await asyncio.sleep(max(0.0, began + self._packets * PACKET_S - self._clock()))

    async def listen(self) -> None:
        async for frame in self._ws:
            now = self._clock()
            pcm, rate_hz = self.dialect.heard(frame)
            if pcm and self.audible_at is None and first_audible(from_pcm16(pcm), rate_hz) is not None:
                self.audible_at = now
            if self.dialect.is_over(frame):
                asyncio.get_running_loop().call_later(self.dialect.tail_s, self._over.set)

    async def _shift(self, seconds: float) -> None:
        """What follows lies so much later among the packets."""
        await self._ws.send(self.dialect.sound(bytes(2 * round(seconds * self.dialect.rate_hz))))

    @property
    def _size(self) -> int:
        return round(PACKET_S * self.dialect.rate_hz)

    def _tone(self, samples: int) -> bytes:
        time_s = np.arange(samples) / self.dialect.rate_hz
        return (LEVEL * np.sin(2 * np.pi * TONE_HZ * time_s) * 32767).astype("<i2").tobytes()


async def measure(turns: int) -> dict[str, list[float | None]]:
    """Felt gaps in ms by dialect, turn by turn."""
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig()),
        limits=LimitsConfig(max_sessions=len(DIALECTS), grace_s=0.1),
        admission=AdmissionConfig(policy="count"),
    )
    gaps: dict[str, list[float | None]] = {}
    async with serving(config, partial(scripted_engines, config)) as served, AsyncExitStack() as stack:
        lines: list[Line] = []
        for make in DIALECTS:
            dialect: Dialect = make()
            url = f"ws://127.0.0.1:{served.server.port}{dialect.path}"
            ws = await stack.enter_async_context(connect(url, compression=None, proxy=None))
            for frame in dialect.opening():
                await ws.send(frame)
            lines.append(Line(dialect, ws))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(part) for line in lines for part in (line.speak(), line.listen())]
        await asyncio.sleep(0.5)
        for turn in range(turns):
            for line in lines:
                felt_ms = await line.say(SPEECH_S + STEP_S * turn)
                gaps.setdefault(line.dialect.name, []).append(felt_ms)
                await asyncio.sleep(0.3)
            print(f"{turn + 1}/{turns}", file=sys.stderr)
        for task in tasks:
            task.cancel()
    return gaps


def summarise(gaps: dict[str, list[float | None]]) -> dict[str, Any]:
    """`behind_ms`: the median over the turns that were answered through both."""
    native = gaps["native"]
    behind = {
        name: [a - b for a, b in zip(felt, native, strict=True) if a is not None and b is not None]
        for name, felt in gaps.items()
        if name != "native"
    }
    medians = {name: round(median(values), 2) if values else None for name, values in behind.items()}
    return {
        "n": len(native),
        "unanswered": sum(value is None for felt in gaps.values() for value in felt),
        "felt_ms": {name: spread([value for value in felt if value is not None]) for name, felt in gaps.items()},
        "behind_ms": medians,
        "within_ms": WITHIN_MS,
        "within": all(value is not None and abs(value) <= WITHIN_MS for value in medians.values()),
    }


def table(summary: dict[str, Any]) -> list[str]:
    lines = [f"{'dialect':<18}{'felt p50':>10}{'p95':>8}{'max':>8}{'behind native':>16}   ms"]
    for name, felt in summary["felt_ms"].items():
        behind = summary["behind_ms"].get(name)
        told = "" if behind is None else f"{behind:+.1f}"
        lines.append(f"{name:<18}{felt['p50']:>10.1f}{felt['p95']:>8.1f}{felt['max']:>8.1f}{told:>16}")
    return lines


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, help="of each dialect")
    return parser.parse_args(argv)


def main() -> None:
    summary = summarise(asyncio.run(measure(arguments().turns)))
    print("\n".join(table(summary)))
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
