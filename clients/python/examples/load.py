"""Callers who come by chance, each with one question: python load.py question.wav CALLERS PER_MINUTE [URL]"""

import asyncio
import json
import os
import random
import sys
from collections import Counter

from voicepipe.errors import Refused, VoicepipeError
from voicepipe_client import Clip, ClipSource, TurnRecord, connect, load_clip, summarise, talk

RATE_HZ = 16_000


async def call(url: str, clip: Clip, turns: list[TurnRecord], lost: Counter[str]) -> None:
    """However it goes, the others go on."""
    try:
        async with connect(url, rate=RATE_HZ, token=os.environ.get("VOICEPIPE_TOKEN")) as session:
            await talk(session, ClipSource([clip], RATE_HZ), on_turn=turns.append)
    except VoicepipeError as error:
        lost[error.reason if isinstance(error, Refused) else error.code] += 1


async def main(question: str, callers: str, per_minute: str, url: str = "ws://127.0.0.1:8765") -> None:
    clip, turns, lost = load_clip(question, RATE_HZ), list[TurnRecord](), Counter[str]()
    async with asyncio.TaskGroup() as group:
        for _ in range(int(callers)):
            group.create_task(call(url, clip, turns, lost))
            await asyncio.sleep(
                random.expovariate(float(per_minute) / 60)
            )  # whatever the server does: an open loop
    print(json.dumps({"callers": int(callers), "lost": lost, **summarise(turns)}))


asyncio.run(main(*sys.argv[1:]))
