"""Talk to it, with a headset, until Ctrl-C: python microphone.py [URL]. Needs the extra `mic`."""

import asyncio
import contextlib
import os
import sys

from voicepipe.wire.messages import ReplyInterrupted, ReplyText, TranscriptFinal, TurnEnded
from voicepipe_client import Event, connect, talk
from voicepipe_client.devices import Loudspeaker, Microphone

RATE_HZ = 16_000


def show(event: Event, at_s: float) -> None:
    match event:
        case TranscriptFinal(text=text):
            print(f"you: {text}")
        case ReplyText(text=text):
            print(text, end="", flush=True)
        case ReplyInterrupted():
            print(" ... you went on")
        case TurnEnded(verdict=verdict):
            print(f" ({verdict})")


async def main(url: str = "ws://127.0.0.1:8765") -> None:
    token = os.environ.get("VOICEPIPE_TOKEN")
    async with connect(url, rate=RATE_HZ, token=token) as session, Microphone(RATE_HZ) as microphone:
        with Loudspeaker(session.ready.output_rate) as loudspeaker:
            await talk(session, microphone, speaker=loudspeaker, on_event=show)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(*sys.argv[1:]))
