"""Ask a recorded question with OpenAI's own client: python openai_sdk.py question.wav answer.wav [URL]

Needs `pip install openai`."""

import asyncio
import base64
import itertools
import os
import sys
import wave

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from voicepipe.audio import to_pcm16
from voicepipe_client import load_clip

RATE_HZ = 24_000  # of the protocol
PACKET_BYTES = RATE_HZ // 50 * 2  # 20 ms


async def speak(connection: AsyncRealtimeConnection, pcm: bytes) -> None:
    """As a microphone does: in real time, and silence when nobody speaks any more, which is what ends a turn."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in itertools.count():
        packet = pcm[number * PACKET_BYTES :][:PACKET_BYTES].ljust(PACKET_BYTES, b"\0")
        await connection.input_audio_buffer.append(audio=base64.b64encode(packet).decode())
        await asyncio.sleep(began + (number + 1) * 0.02 - loop.time())


async def main(question: str, answer: str, url: str = "http://127.0.0.1:8765/v1") -> None:
    heard = bytearray()
    client = AsyncOpenAI(base_url=url, api_key=os.environ.get("VOICEPIPE_TOKEN", "none is needed here"))
    async with client, client.realtime.connect(model="voicepipe") as connection:
        await connection.session.update(
            session={"type": "realtime", "audio": {"input": {"transcription": {"model": "voicepipe"}}}}
        )
        speaking = asyncio.create_task(speak(connection, to_pcm16(load_clip(question, RATE_HZ).samples)))
        async for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                print(f"you: {event.transcript}")
            elif event.type == "response.output_audio.delta":
                heard += base64.b64decode(event.delta)
            elif event.type == "response.output_audio_transcript.done":
                print(f"voicepipe: {event.transcript}")
            elif event.type == "response.done":
                print(f"({event.response.status})")
                break
            elif event.type == "error":
                raise SystemExit(event.error.message)
        speaking.cancel()
    with wave.open(answer, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(heard)


asyncio.run(main(*sys.argv[1:]))
