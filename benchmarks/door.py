"""How long a refusal takes: a real server, real sockets, real time, and a full house that talks.

Client and server share one process and one event loop, so that what is measured is the slower for it. Sessions that
speak without a break are opened until the policy refuses one; then somebody knocks at fixed instants, whatever
became of the knock before, and each refusal counts from its instant.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial

from arrivals import Question
from caller import PACKET_S, RATE_HZ, noise
from replies import scripted_engines
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from voicepipe.app import serving
from voicepipe.config import Config
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

KNOCK_S = 0.05
_SPEECH = Question(0.0, 2.0)
MOST = 64
"""Sessions at which a policy that refuses nobody is taken at its word."""


async def refusals_ms(config: Config, knocks: int) -> list[float]:
    """Of each knock that was refused, from its intended instant to the answer; empty where nobody is refused."""

    async with serving(config, partial(scripted_engines, config)) as served, AsyncExitStack() as stack:
        url = f"ws://127.0.0.1:{served.server.port}/v1/voice?refuse=http"
        talking = await stack.enter_async_context(_Talking())
        for _ in range(MOST):
            try:
                ws = await stack.enter_async_context(connect(url))
            except InvalidStatus:
                break
            talking.begin(ws)
        else:
            return []
        return [took for took in await _knock(url, knocks) if took is not None]


async def _knock(url: str, knocks: int) -> list[float | None]:
    clock = asyncio.get_running_loop().time
    began = clock()

    async def once(at: float) -> float | None:
        await asyncio.sleep(at - clock())
        try:
            async with connect(url):
                return None
        except InvalidStatus:
            return 1000 * (clock() - at)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(once(began + number * KNOCK_S)) for number in range(knocks)]
    return [task.result() for task in tasks]


class _Talking:
    """Sessions that speak for two seconds, and are silent for three, again and again."""

    async def __aenter__(self) -> _Talking:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._tasks: list[asyncio.Task[None]] = []
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def begin(self, ws: ClientConnection) -> None:
        self._tasks += [self._group.create_task(_speak(ws)), self._group.create_task(_hear(ws))]


async def _speak(ws: ClientConnection) -> None:
    clock = asyncio.get_running_loop().time
    start = wire.SessionStart(audio=wire.AudioFormat(rate=RATE_HZ, channels=1), protocol="voicepipe.v1")
    with suppress(ConnectionClosed):
        await ws.send(encode_client(start))
        began, packet = clock(), 0
        while True:
            position = packet * round(PACKET_S * RATE_HZ)
            await ws.send(encode_client(wire.AudioFrame(0, position, noise(_SPEECH, packet % 250 * PACKET_S))))
            packet += 1
            await asyncio.sleep(began + packet * PACKET_S - clock())


async def _hear(ws: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        async for _ in ws:
            pass
