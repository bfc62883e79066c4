"""LiveKit Agents with its OpenAI Realtime plugin, unchanged but for the URL: two spoken turns, calls of a function,
an interruption. `python livekit_conversation.py URL`; the token is in VOICEPIPE_TOKEN. Prints what it saw as one
JSON object. Runs in an environment that has livekit-agents and livekit-plugins-openai, and no voicepipe."""

import asyncio
import json
import math
import os
import struct
import sys
import time

from livekit import rtc
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities
from livekit.plugins.openai.realtime import RealtimeModel

RATE_HZ = 24_000
PACKET_S = 0.02
PACKET = round(RATE_HZ * PACKET_S)
TONE = struct.pack(f"<{PACKET}h", *(round(6500 * math.sin(0.2 * n)) for n in range(PACKET)))


class Microphone(AudioInput):
    """A tone while somebody speaks, else silence; in real time."""

    def __init__(self) -> None:
        super().__init__(label="microphone")
        self._due = time.monotonic()
        self._speaking_until = 0.0

    def speak(self, seconds: float) -> None:
        self._speaking_until = time.monotonic() + seconds

    async def __anext__(self) -> rtc.AudioFrame:
        self._due += PACKET_S
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        pcm = TONE if time.monotonic() < self._speaking_until else bytes(2 * PACKET)
        return rtc.AudioFrame(pcm, RATE_HZ, 1, PACKET)


class Loudspeaker(AudioOutput):
    """Plays in real time, and says how far it has come."""

    def __init__(self) -> None:
        super().__init__(
            label="loudspeaker", capabilities=AudioOutputCapabilities(pause=False), sample_rate=RATE_HZ
        )
        self.audio_s = 0.0
        self.cleared = 0
        self._segment_s = 0.0
        self._since = 0.0
        self._end: asyncio.TimerHandle | None = None

    @property
    def heard_s(self) -> float:
        """Of what is played now."""
        return min(self._segment_s, time.monotonic() - self._since) if self._segment_s else 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._segment_s:
            self._since = time.monotonic()
            self.on_playback_started(created_at=time.time())
        self._segment_s += frame.duration
        self.audio_s += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._segment_s and self._end is None:
            rest_s = max(0.0, self._since + self._segment_s - time.monotonic())
            self._end = asyncio.get_running_loop().call_later(rest_s, self._finish, False)

    def clear_buffer(self) -> None:
        if self._segment_s:
            self.cleared += 1
            self._finish(True)

    def _finish(self, interrupted: bool) -> None:
        if self._end is not None:
            self._end.cancel()
        heard_s, self._segment_s, self._end = self.heard_s, 0.0, None
        self.on_playback_finished(playback_position=heard_s, interrupted=interrupted)


async def until(what: str, is_so) -> None:
    limit = time.monotonic() + 20.0
    while not is_so():
        if time.monotonic() > limit:
            raise TimeoutError(f"{what} did not happen")
        await asyncio.sleep(0.01)


async def main(url: str) -> None:
    called: list[str] = []
    errors: list[str] = []

    @function_tool
    async def weather(place: str) -> str:
        """Tells the weather of a place."""
        called.append(place)
        return "rain"

    model = RealtimeModel(base_url=url, api_key=os.environ["VOICEPIPE_TOKEN"])
    session = AgentSession(llm=model, aec_warmup_duration=None)  # there is no echo: speech counts from the start
    session.on("error", lambda event: errors.append(str(event.error)))
    microphone, loudspeaker = Microphone(), Loudspeaker()
    session.input.audio, session.output.audio = microphone, loudspeaker
    agent = Agent(instructions="Be brief.", tools=[weather])
    await session.start(agent)

    def answers() -> int:
        items = session.history.items
        return sum(item.type == "message" and item.role == "assistant" for item in items)

    microphone.speak(0.8)
    await until("an answer to the first question", lambda: loudspeaker.heard_s > 1.2)
    microphone.speak(0.8)  # over the answer
    await until("the interruption", lambda: loudspeaker.cleared == 1)
    await until("an answer to the second question", lambda: answers() == 2)
    mirror = [item.text_content for item in agent.realtime_llm_session.chat_ctx.items if item.type == "message"]
    await session.aclose()
    await model.aclose()
    history = [
        {"role": item.role, "text": item.text_content, "interrupted": item.interrupted}
        for item in session.history.items
        if item.type == "message" and item.role != "system"
    ]
    audio_ms = round(1000 * loudspeaker.audio_s)
    saw = {"called": called, "errors": errors, "audio_ms": audio_ms, "history": history, "mirror": mirror}
    print(json.dumps(saw))


asyncio.run(main(sys.argv[1]))
