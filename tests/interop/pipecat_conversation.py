"""Pipecat with its OpenAI Realtime service, unchanged but for the URL: a greeting, which the user interrupts, and
two spoken turns, with calls of a function. `python pipecat_conversation.py URL`; the token is in VOICEPIPE_TOKEN.
Prints what it saw as one JSON object. Runs in an environment that has pipecat-ai[openai], and no voicepipe."""

import asyncio
import json
import math
import os
import struct
import sys
import time

from loguru import logger
from pipecat.frames.frames import ErrorFrame, InputAudioRawFrame, InterruptionFrame, LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000
PACKET_S = 0.02
PACKET = round(RATE_HZ * PACKET_S)
TONE = struct.pack(f"<{PACKET}h", *(round(6500 * math.sin(0.2 * n)) for n in range(PACKET)))
called: list[str] = []
errors: list[str] = []


async def weather(params: FunctionCallParams, place: str) -> None:
    """Tells the weather of a place.

    Args:
        place: Where.
    """
    called.append(place)
    await params.result_callback("rain")


class Loudspeaker(BaseOutputTransport):
    """Plays in real time."""

    def __init__(self) -> None:
        super().__init__(TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE_HZ))
        self.audio_s = 0.0
        self.since_interruption_s = 0.0
        self._due = 0.0

    async def start(self, frame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame) -> bool:
        seconds = len(frame.audio) / 2 / RATE_HZ
        self.audio_s += seconds
        self.since_interruption_s += seconds
        self._due = max(self._due, time.monotonic()) + seconds
        await asyncio.sleep(self._due - time.monotonic())
        return True


class Ear(FrameProcessor):
    """Notes what goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.interruptions = 0

    async def process_frame(self, frame, direction) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, InterruptionFrame):
            self.interruptions += 1
        elif isinstance(frame, ErrorFrame):
            errors.append(frame.error)
        await self.push_frame(frame, direction)


class Microphone:
    """A tone while somebody speaks, else silence; in real time."""

    def __init__(self, worker: PipelineWorker) -> None:
        self._worker = worker
        self._speaking_until = 0.0

    def speak(self, seconds: float) -> None:
        self._speaking_until = time.monotonic() + seconds

    async def run(self) -> None:
        due = time.monotonic()
        while True:
            due += PACKET_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            pcm = TONE if time.monotonic() < self._speaking_until else bytes(2 * PACKET)
            await self._worker.queue_frame(InputAudioRawFrame(audio=pcm, sample_rate=RATE_HZ, num_channels=1))


async def until(what: str, is_so) -> None:
    limit = time.monotonic() + 20.0
    while not is_so():
        if time.monotonic() > limit:
            raise TimeoutError(f"{what} did not happen")
        await asyncio.sleep(0.01)


async def main(url: str) -> None:
    transcription = events.AudioInput(transcription=events.InputAudioTranscription())
    service = OpenAIRealtimeLLMService(
        api_key=os.environ["VOICEPIPE_TOKEN"],
        base_url=url,
        settings=OpenAIRealtimeLLMService.Settings(
            system_instruction="Be brief.",
            session_properties=events.SessionProperties(audio=events.AudioConfiguration(input=transcription)),
        ),
    )
    context = LLMContext([{"role": "user", "content": "Say hello."}], tools=[weather])
    aggregators = LLMContextAggregatorPair(context)
    loudspeaker, ear = Loudspeaker(), Ear()
    stages = [aggregators.user(), service, ear, loudspeaker, aggregators.assistant()]
    worker = PipelineWorker(
        Pipeline(stages),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
    )
    worker.add_event_handler("on_pipeline_error", lambda _, frame: errors.append(frame.error))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    microphone = Microphone(worker)
    running = asyncio.create_task(runner.run())
    listening = asyncio.create_task(microphone.run())
    await worker.queue_frame(LLMRunFrame())

    def said(role: str) -> list[str]:
        return [m["content"] for m in context.get_messages() if m["role"] == role and m.get("content")]

    await until("a greeting", lambda: loudspeaker.audio_s > 1.2)
    microphone.speak(0.8)  # over the greeting
    await until("the interruption", lambda: ear.interruptions >= 1)
    loudspeaker.since_interruption_s = 0.0
    await until("an answer to the first question", lambda: len(said("assistant")) == 2)
    microphone.speak(0.8)
    await until("an answer to the second question", lambda: len(said("assistant")) == 3)
    listening.cancel()
    await worker.cancel()
    await running
    saw = {
        "called": called,
        "errors": errors,
        "interruptions": ear.interruptions,
        "audio_ms": round(1000 * loudspeaker.audio_s),
        "said": said("user"),
        "answered": said("assistant"),
    }
    print(json.dumps(saw))


logger.remove()
logger.add(sys.stderr, level="WARNING")
asyncio.run(main(sys.argv[1]))
