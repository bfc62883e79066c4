"""The official `openai` client against a real server on a real socket: nothing is changed but the URL."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime.realtime_server_event import RealtimeServerEvent

from tests.realtime_server import CALL, QUESTIONS, REPLY, TOKEN, base_url, server

RATE_HZ = 24_000
PACKET_S = 0.02
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}


class Caller:
    """Sends what the microphone hears, all the time; keeps what comes; plays it, and stops when the user speaks."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self._connection = connection
        self._clock = asyncio.get_running_loop().time
        self._speaking_until = 0.0
        self.events: list[RealtimeServerEvent] = []
        self._came = asyncio.Condition()
        self._taken: dict[str, int] = {}
        self._playing: tuple[str, float] | None = None
        """The item that is played, and since when."""

    def speak(self, seconds: float) -> None:
        self._speaking_until = self._clock() + seconds

    async def microphone(self) -> None:
        size, at = round(PACKET_S * RATE_HZ), self._clock()
        voice = (0.2 * np.sin(np.arange(size) * 0.2) * 32767).astype("<i2").tobytes()
        while True:
            pcm = voice if self._clock() < self._speaking_until else bytes(2 * size)
            await self._connection.input_audio_buffer.append(audio=base64.b64encode(pcm).decode())
            at += PACKET_S
            await asyncio.sleep(max(0.0, at - self._clock()))

    async def loudspeaker(self) -> None:
        async for event in self._connection:
            if event.type == "response.output_audio.delta" and self._playing is None:
                self._playing = event.item_id, self._clock()
            elif event.type == "input_audio_buffer.speech_started" and self._playing is not None:
                (item_id, since), self._playing = self._playing, None
                heard_ms = round(1000 * (self._clock() - since))
                await self._connection.conversation.item.truncate(
                    item_id=item_id, content_index=0, audio_end_ms=heard_ms
                )
            elif event.type == "response.done":
                self._playing = None
            async with self._came:
                self.events.append(event)
                self._came.notify_all()

    async def take(self, kind: str) -> Any:
        """The next event of this kind that was not taken before."""
        number = self._taken.get(kind, 0)
        async with asyncio.timeout(20), self._came:
            await self._came.wait_for(lambda: len(self.of(kind)) > number)
        self._taken[kind] = number + 1
        return self.of(kind)[number]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]


async def test_two_spoken_turns_with_a_function_call_and_an_interruption() -> None:
    """A question that needs a function; its answer, which the user interrupts; and the answer to that."""
    async with server(transcripts=QUESTIONS, reply=REPLY, calls=(CALL,)) as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key=TOKEN)
        async with client, client.realtime.connect(model="gpt-realtime") as connection:
            caller = Caller(connection)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(caller.microphone()), group.create_task(caller.loudspeaker())]
                await hold(caller, connection)
                for task in tasks:
                    task.cancel()
    assert not caller.of("error")
    said = [event.transcript for event in caller.of("conversation.item.input_audio_transcription.completed")]
    assert said == list(QUESTIONS)
    called, interrupted, answered = (event.response for event in caller.of("response.done"))
    assert [item.type for item in called.output] == ["function_call"]
    assert (interrupted.status, interrupted.status_details.reason) == ("cancelled", "turn_detected")
    assert answered.status == "completed" and answered.output[0].content[0].transcript == REPLY
    assert answered.usage.total_tokens > 0
    assert answered.voicepipe["verdict"] in ("met", "missed")
    (truncated,) = caller.of("conversation.item.truncated")
    assert truncated.item_id == interrupted.output[0].id
    assert len({event.event_id for event in caller.events}) == len(caller.events)


async def hold(caller: Caller, connection: AsyncRealtimeConnection) -> None:
    assert (await caller.take("session.created")).session.type == "realtime"
    transcribed: Any = {"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}}
    await connection.session.update(session={"type": "realtime", "tools": [TOOL], "audio": transcribed})
    assert (await caller.take("session.updated")).session.tools[0].name == "weather"

    caller.speak(0.8)
    call = await caller.take("response.function_call_arguments.done")
    assert (call.name, json.loads(call.arguments)) == ("weather", {"place": "Oslo"})
    await caller.take("response.done")
    await connection.conversation.item.create(
        item={"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    )
    await connection.session.update(session={"type": "realtime", "tool_choice": "none"})
    await connection.response.create()

    await caller.take("response.output_audio.delta")
    await asyncio.sleep(1.2)
    caller.speak(0.8)
    assert (await caller.take("response.done")).response.status == "cancelled"
    assert (await caller.take("response.done")).response.status == "completed"


async def test_the_clients_typed_turn_in_text_alone() -> None:
    """As in the first example of the client's own page."""
    async with server(reply="Four five.") as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key=TOKEN)
        async with client, client.realtime.connect(model="gpt-realtime") as connection:
            await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
            await connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say hello!"}]}
            )
            await connection.response.create()
            text = ""
            async with asyncio.timeout(20):
                async for event in connection:
                    if event.type == "response.output_text.delta":
                        text += event.delta
                    elif event.type == "response.done":
                        break
    assert text == "Four five."


@pytest.mark.parametrize("by", ["address", "update"])
async def test_a_transcription_session_hears_two_turns_and_answers_none(by: str) -> None:
    """Begun by `intent=transcription`, or by an update of the type."""
    query: Any = {"intent": "transcription"} if by == "address" else {}
    heard: Any = {"transcription": {"model": "gpt-4o-transcribe"}, "turn_detection": {"type": "server_vad"}}
    async with server(transcripts=QUESTIONS) as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key=TOKEN)
        async with client, client.realtime.connect(model="gpt-realtime", extra_query=query) as connection:
            caller = Caller(connection)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(caller.microphone()), group.create_task(caller.loudspeaker())]
                first = (await caller.take("session.created")).session.type
                assert first == ("transcription" if by == "address" else "realtime")
                await connection.session.update(session={"type": "transcription", "audio": {"input": heard}})
                assert (await caller.take("session.updated")).session.type == "transcription"
                said = []
                for _ in range(2):
                    caller.speak(0.8)
                    completed = await caller.take("conversation.item.input_audio_transcription.completed")
                    said.append(completed.transcript)
                    assert completed.usage.type == "duration" and completed.usage.seconds > 0.5
                for task in tasks:
                    task.cancel()
    assert said == list(QUESTIONS)
    assert caller.of("conversation.item.input_audio_transcription.delta")
    assert len(caller.of("input_audio_buffer.committed")) == 2
    assert not [event.type for event in caller.events if event.type.startswith(("response.", "error"))]


async def test_in_the_waiting_room_the_client_is_still_connecting() -> None:
    """Until there is a place; it notices nothing else, and what it sends first is answered."""
    async with server(sessions=1, waiting_places=1) as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key=TOKEN)
        async with client:
            first = await client.realtime.connect(model="gpt-realtime").enter()
            second = asyncio.create_task(client.realtime.connect(model="gpt-realtime").enter())
            async with asyncio.timeout(20):
                done, _ = await asyncio.wait({second}, timeout=0.5)
                assert not done
                await first.close()
                connection = await second
                await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
                kinds = [(await connection.recv()).type for _ in range(3)]
            await connection.close()
    assert kinds == ["session.created", "conversation.created", "session.updated"]


async def test_without_a_place_the_client_is_refused_with_a_time_to_come_back() -> None:
    async with server(sessions=1, waiting_places=1, waiting_s=0.2) as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key=TOKEN)
        async with client, client.realtime.connect(model="gpt-realtime"):
            with pytest.raises(Exception, match="503") as caught:
                await client.realtime.connect(model="gpt-realtime").enter()
    assert int(caught.value.response.headers["Retry-After"]) > 0  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
async def test_the_synchronous_client_holds_one_too() -> None:
    """On a thread of its own."""

    def converse(url: str) -> list[str]:
        kinds: list[str] = []
        with OpenAI(base_url=url, api_key=TOKEN).realtime.connect(model="gpt-realtime") as connection:
            connection.conversation.item.create(
                item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
            )
            connection.response.create()
            for event in connection:
                kinds.append(event.type)
                if event.type == "response.done":
                    return kinds
        return kinds

    async with server(reply="Yes.") as served:
        kinds = await asyncio.to_thread(converse, base_url(served))
    assert "response.output_audio.delta" in kinds


async def test_a_wrong_key_is_refused_before_there_is_a_session() -> None:
    async with server() as served:
        client = AsyncOpenAI(base_url=base_url(served), api_key="barley")
        with pytest.raises(Exception, match="401"):
            async with client, client.realtime.connect(model="gpt-realtime"):
                pass


def test_it_is_the_official_client() -> None:
    assert openai.__title__ == "openai"
