"""Ask a recorded question and hear the answer: python ask.py question.wav answer.wav [URL]"""

import asyncio
import os
import sys
import wave

from voicepipe_client import ClipSource, connect, load_clip, talk

RATE_HZ = 16_000


async def main(question: str, answer: str, url: str = "ws://127.0.0.1:8765") -> None:
    heard = bytearray()
    clip = load_clip(question, RATE_HZ)
    async with connect(url, rate=RATE_HZ, token=os.environ.get("VOICEPIPE_TOKEN")) as session:
        report = await talk(session, ClipSource([clip], RATE_HZ), played=heard.extend)
    for turn in report.turns:
        gap = "" if turn.felt_ms is None else f", {turn.felt_ms:.0f} ms"
        print(f"you: {turn.transcript}\nvoicepipe: {turn.reply}\n({turn.verdict}{gap})")
    with wave.open(answer, "wb") as file:
        file.setparams((1, 2, session.ready.output_rate, 0, "NONE", ""))
        file.writeframes(heard)


asyncio.run(main(*sys.argv[1:]))
