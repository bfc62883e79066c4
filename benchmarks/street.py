"""The same crowd in real time: a whole server, WebSockets over loopback, and callers who keep their instants.

Callers, server and, with real models, the models share one machine, and callers and server one process and event
loop: what is measured is the slower for it. How late the loop was stands beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from arrivals import Call
from caller import Played, Send, Voice, became, talk
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from voicepipe.app import Serving, serving
from voicepipe.config import Config
from voicepipe.core.events import Timing, TurnRecord, Work
from voicepipe.engines.base import Engines
from voicepipe.recorders import Recorders

END_S = 4.0

Talk = Callable[[Send, Call, float, Voice], Awaitable[None]]


class Books:
    """A recorder: keeps the server's turns, by session."""

    def __init__(self) -> None:
        self.turns: dict[str, list[TurnRecord]] = defaultdict(list)

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        """Chunks are in the turns' parts."""

    def on_record(self, session: str, record: TurnRecord) -> None:
        self.turns[session].append(record)


async def walk(
    config: Config,
    load: Callable[[], Engines],
    calls: Sequence[Call],
    voice: Voice,
    begin: float,
    end: float,
    books: Books | None = None,
    talk: Talk = talk,
) -> Played:
    """Calls that arrive, and questions that end, in [begin, end) are counted. `books`: those that the server is to
    keep. `talk`: what a caller does."""
    books = books or Books()
    async with serving(config, load, recorders=Recorders((books,))) as served:
        return await _walk(served, books, calls, voice, begin, end, talk)


async def _walk(
    served: Serving, books: Books, calls: Sequence[Call], voice: Voice, begin: float, end: float, talk: Talk
) -> Played:
    clock = asyncio.get_running_loop().time
    played, began, under_way = Played(), clock(), set[int]()
    url = f"ws://127.0.0.1:{served.server.port}/v1/voice?refuse=http"

    async def one(number: int, call: Call) -> None:
        counts = begin <= call.at < end
        await asyncio.sleep(began + call.at - clock())
        try:
            ws = await connect(url)
        except InvalidStatus as status:
            played.refusals_ms.append(1000 * (clock() - began - call.at))
            reason = json.loads(status.response.body)["refused"]["reason"]
            played.on_refused(number, call, reason, counts)
            return
        played.admitted += counts
        under_way.add(number)
        played.most = max(played.most, len(under_way))
        session: list[str] = []
        try:
            async with ws, asyncio.TaskGroup() as group:
                ears = group.create_task(_hear(ws, session))
                with suppress(ConnectionClosed):
                    await talk(ws.send, call, began, voice)
                await asyncio.wait([ears])
        finally:
            under_way.discard(number)
            played.asked += became(number, call, books.turns[session[0]] if session else [], began)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number, call)) for number, call in enumerate(calls)]
        await asyncio.sleep(began + end + END_S - clock())
        for task in tasks:
            task.cancel()
    played.asked = [asked for asked in played.asked if begin <= asked.question.end < end]
    return played


async def _hear(ws: ClientConnection, session: list[str]) -> None:
    """Until the server closes; the session's name is noted."""
    with suppress(ConnectionClosed):
        async for message in ws:
            if isinstance(message, str) and not session:
                told = json.loads(message)
                if told["type"] == "session.ready":
                    session.append(told["session"])
