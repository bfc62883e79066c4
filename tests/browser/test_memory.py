"""A long conversation, compressed: the page keeps what it shows, and no more."""

from __future__ import annotations

import gc
from typing import Any

from tests.browser.house import READY, ended, telling
from tests.browser.tab import Tab, open_tab
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server

TURNS = 450
"""Half an hour of talk, at a turn every four seconds."""
SETTLED = 150
"""By then the page shows as many turns as it ever does."""
FLAT_BYTES = 2_000_000


async def talkative(connection: Connection, grant: Grant) -> None:
    """Each request is answered with a batch of turns, with everything that a turn can have."""
    await connection.recv()
    await connection.send(encode_server(READY))
    turn = epoch = 0
    sound = bytes(2 * 960)
    while True:
        if '"input.text"' not in str(await connection.recv()):
            continue
        for _ in range(SETTLED):
            turn, epoch = turn + 1, epoch + 1
            for message in (
                wire.SpeechStarted(turn),
                *(wire.TranscriptPartial(turn, "word " * n, "guess") for n in range(4)),
                wire.TranscriptFinal(turn, "word " * 5),
                wire.TurnCommitted(turn, epoch),
                wire.ReplyAcknowledged(turn, epoch, 0),
                wire.ReplyText(turn, epoch, "This is said. "),
                *(wire.AudioFrame(epoch, 960 * n, sound) for n in range(5)),
                wire.ReplyInterrupted(turn, epoch, 20.0) if turn % 3 == 0 else wire.ReplyDone(turn, epoch, 4800),
                ended(turn),
            ):
                await connection.send(encode_server(message))


async def used(tab: Tab, tools: Any) -> tuple[int, int]:
    """(bytes on the heap, nodes of the page) once everything that can go has gone."""
    gc.collect()
    await tools.send("HeapProfiler.collectGarbage")
    heap = await tools.send("Runtime.getHeapUsage")
    nodes = await tools.send("Memory.getDOMCounters")
    return int(heap["usedSize"]), int(nodes["nodes"])


async def test_memory_is_flat_over_a_long_conversation(browser: Any) -> None:
    async with telling(talkative) as url, open_tab(browser) as tab:
        tools = await tab.page.context.new_cdp_session(tab.page)
        await tab.go(url)
        await tab.click("#talk")
        await tab.until_state("live")
        seen = []
        for batch in range(1, TURNS // SETTLED + 1):
            await tab.page.evaluate("() => voicepipe.talk.say('more')")
            await tab.until(f"document.querySelector('[data-part=which]').textContent === 'Turn {batch * SETTLED}'")
            seen.append(await used(tab, tools))
        print(f"heap and nodes after each {SETTLED} turns: {seen}")
        assert len(await tab.texts(".turn")) == 100
        assert seen[-1][0] - seen[0][0] < FLAT_BYTES
        assert seen[-1][1] - seen[0][1] < 200
