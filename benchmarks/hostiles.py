"""Hostile clients, one kind a process: `python benchmarks/hostiles.py KIND PORT` goes on until it is ended.

None of them keeps to what a client should do; each begins anew when it is thrown out, after a tenth of a second.
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # raw frames are the tests'

from caller import LOUD

from tests.raw.client import BINARY, PING, TEXT, Raw, frame, open_raw, raw, request, say, text

AGAIN_S = 0.1
PACKET = 640
"""Bytes: 20 ms at 16 kHz."""
_draw = random.Random(7)
_LOUD = b"".join(struct.pack("<h", round(_draw.uniform(-LOUD, LOUD) * 32767)) for _ in range(PACKET // 2))


def sound(position: int, pcm: bytes = _LOUD) -> bytes:
    return frame(BINARY, struct.pack(">II", 0, position % (1 << 32)) + pcm)


async def read_all(client: Raw) -> None:
    await client.until_ended()


async def open_and(port: int, act: Callable[[Raw], Awaitable[None]], *, reads: bool = True, **how: int) -> None:
    """`act` over and over, until the server has enough."""
    async with open_raw(port, **how) as client, asyncio.TaskGroup() as group:
        reading = group.create_task(read_all(client)) if reads else None
        while not client.got.reset and (reading is None or not reading.done()):
            await act(client)
        if reading is not None:
            reading.cancel()


async def audio(port: int) -> None:
    """As fast as the socket takes it."""
    position = 0

    async def send(client: Raw) -> None:
        nonlocal position
        await client.send(b"".join(sound(position + n * PACKET // 2) for n in range(10)))
        position += 10 * PACKET // 2

    await open_and(port, send)


async def control(port: int) -> None:
    """Playback reports and the like, as fast as the socket takes them."""
    burst = text(type="playback", epoch=1, played_samples=5) * 20 + text(type="input.clear") * 5

    async def send(client: Raw) -> None:
        await client.send(burst)

    await open_and(port, send)


async def garbage(port: int) -> None:
    """Text and bytes that mean nothing, most of which cost no more than an error."""

    async def send(client: Raw) -> None:
        await client.send(text(type=_draw.choice(("bonjour", "playback", "session.update")), x=_draw.random()) * 10)

    await open_and(port, send)


async def never_reads(port: int) -> None:
    """Asks for replies, and takes nothing of them."""

    async def send(client: Raw) -> None:
        await client.send(say("Talk."))
        await asyncio.sleep(0.2)

    await open_and(port, send, reads=False, receive_bytes=4_096)


async def fragments(port: int) -> None:
    """A message a byte at a time."""
    word = b'{"type": "input.clear", "x": "' + b"y" * 900 + b'"}'
    pieces = [frame(TEXT if n == 0 else 0, word[n : n + 1], fin=n == len(word) - 1) for n in range(len(word))]
    whole = b"".join(pieces)

    async def send(client: Raw) -> None:
        await client.send(whole)

    await open_and(port, send)


async def half_frame(port: int) -> None:
    async with open_raw(port) as client:
        await client.send(frame(TEXT, b"x" * 300)[:100])
        await client.reader.read()


async def half_handshake(port: int) -> None:
    """A hundred at a time."""

    async def one() -> None:
        async with raw(port) as client:
            await client.send(request()[:60])
            with suppress(ConnectionError):
                await client.reader.read()

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(one())


async def connects(port: int) -> None:
    """Comes and goes, in turn with and without a goodbye."""
    for number in range(50):
        async with open_raw(port, started=number % 3 > 0) as client:
            if number % 2:
                client.reset()


async def pings(port: int) -> None:
    burst = frame(PING, b"x" * 125) * 50

    async def send(client: Raw) -> None:
        await client.send(burst)

    await open_and(port, send)


async def huge(port: int) -> None:
    """Messages that are as large as they may be, and one that is larger."""
    largest = text(type="input.clear", x="y" * 65_000)

    async def send(client: Raw) -> None:
        for _ in range(20):
            await client.send(largest)
        await client.send(frame(TEXT, b"x" * 200_000))

    await open_and(port, send)


async def speaks(port: int, spoken_s: float, silent_s: float) -> None:
    position, quiet = 0, bytes(PACKET)
    clock = asyncio.get_running_loop().time
    began = clock()

    async def send(client: Raw) -> None:
        nonlocal position
        at = position / 16_000
        await client.send(sound(position, _LOUD if at % (spoken_s + silent_s) < spoken_s else quiet))
        position += PACKET // 2
        await asyncio.sleep(began + position / 16_000 - clock())

    await open_and(port, send)


async def reopens(port: int) -> None:
    """Speaks on just after its turn has been committed, again and again."""
    await speaks(port, 0.3, 0.22)


async def barges_in(port: int) -> None:
    """Speaks as soon as it is answered, and never hears anything out."""
    await speaks(port, 0.4, 0.6)


KINDS: dict[str, Callable[[int], Awaitable[None]]] = {
    "audio": audio,
    "control": control,
    "garbage": garbage,
    "never-reads": never_reads,
    "fragments": fragments,
    "half-frame": half_frame,
    "half-handshake": half_handshake,
    "connects": connects,
    "pings": pings,
    "huge": huge,
    "reopens": reopens,
    "barges-in": barges_in,
}


async def go_on(kind: str, port: int) -> None:
    while True:
        with suppress(AssertionError, EOFError, ExceptionGroup, OSError):  # thrown out, or not let in
            await KINDS[kind](port)
        await asyncio.sleep(AGAIN_S)


if __name__ == "__main__":
    asyncio.run(go_on(sys.argv[1], int(sys.argv[2])))
