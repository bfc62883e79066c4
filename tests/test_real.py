"""The whole pipeline on the real models, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from voicepipe.app import Serving, serving
from voicepipe.audio import Samples, read_wav, resample
from voicepipe.config import AdmissionConfig, Config, LimitsConfig, OperatingPoint
from voicepipe.core.events import Timing, Work, WorkKind
from voicepipe.core.events import TurnRecord as LedgerRecord
from voicepipe.engines.table import Models, load
from voicepipe.recorders import Recorders, open_recorders
from voicepipe.replay import as_lines, replay
from voicepipe.warmup import speak
from voicepipe.wire.messages import (
    InputText,
    SessionUpdate,
    ToolCall,
    ToolSpec,
    TranscriptFinal,
    TurnEnded,
)
from voicepipe_client import ClipSource, Event, Session, TurnRecord, connect, make_clip, talk

pytestmark = pytest.mark.models
RATE_HZ = 16_000


@pytest.fixture
def models(whisper_dir: Path, smollm2_path: Path, piper_voice_path: Path) -> Models:
    return Models(whisper_dir, smollm2_path, piper_voice_path)


@asynccontextmanager
async def house(
    models: Models, sessions: int, recorders: Recorders | None = None, *, point: OperatingPoint = "fast"
) -> AsyncIterator[Serving]:
    limits = LimitsConfig(max_sessions=sessions, grace_s=1.0)
    config = Config(port=0, operating_point=point, limits=limits, admission=AdmissionConfig(policy="count"))
    loader = lambda: load(config.engines, models, sessions=sessions, api_key=None)  # noqa: E731
    async with serving(config, loader, recorders=recorders) as served:
        yield served


async def question(served: Serving, text: str) -> Samples:
    tts = served.engines.tts
    return resample(await speak(tts, text, served.on_thread), tts.sample_rate_hz, RATE_HZ)


async def converse(
    served: Serving, *clips: Samples, on_event: Callable[[Event, float], None] | None = None
) -> list[TurnRecord]:
    loop = asyncio.get_running_loop()
    made = [make_clip(str(number), clip, RATE_HZ) for number, clip in enumerate(clips)]
    source = ClipSource(made, RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
    async with connect(f"ws://127.0.0.1:{served.server.port}", rate=RATE_HZ) as session:
        return (await talk(session, source, on_event=on_event)).turns


def words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


async def test_a_question_is_answered_and_noise_is_not(models: Models) -> None:
    """A spoken question gets its words and a spoken answer; room tone, hiss and music get no transcript and no
    reply, at most an `empty` turn."""
    rng = np.random.default_rng(3)
    seconds = np.arange(4 * RATE_HZ) / RATE_HZ
    chord = sum(np.sin(2 * np.pi * f * seconds) for f in (220.0, 277.2, 329.6, 440.0))
    tremolo = 0.1 * chord * (1 + np.sin(2 * np.pi * 6 * seconds))
    sounds = [
        np.zeros(3 * RATE_HZ),
        rng.normal(0, 0.003, 4 * RATE_HZ),
        rng.normal(0, 0.1, 4 * RATE_HZ),
        tremolo,
    ]
    async with house(models, 1) as served:
        asked = await question(served, "What is the capital of France?")
        (turn,) = await converse(served, asked)
        assert words(turn.transcript) == {"what", "is", "the", "capital", "of", "france"}
        assert turn.reply and turn.felt_ms is not None
        for sound in sounds:
            turns = await converse(served, sound.astype(np.float32))
            assert all(t.verdict == "empty" and not t.transcript and not t.reply for t in turns)


async def test_a_recorded_session_is_decided_the_same_again(models: Models, tmp_path: Path) -> None:
    """Real texts, real timings, chunks on threads."""
    path = tmp_path / "r.jsonl"
    with open_recorders(None, None, path) as recorders:
        async with house(models, 1, recorders) as served:
            asked = await question(served, "What is the capital of France?")
            (turn,) = await converse(served, asked)
    with path.open("rb") as file:
        report = replay(file, "r")
    assert report.agreed and report.whole, as_lines(report)
    assert report.sessions == 1 and report.inputs > 100
    assert turn.transcript in path.read_text(encoding="utf-8")


class Questions:
    """A recorder of what the turn model took. Seconds."""

    def __init__(self) -> None:
        self.service_s: list[float] = []

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        if work.kind is WorkKind.JUDGE:
            self.service_s.append(timing.service_s)

    def on_record(self, session: str, record: LedgerRecord) -> None:
        """Nothing of a turn is looked at."""


async def test_a_turn_model_is_asked_in_a_session(models: Models, model: Callable[[str], Path]) -> None:
    """At `balanced`, behind a statement: the turn is answered, and the question took a bounded time. Behind a
    request there is time for one only where decodes are quick."""
    asked = Questions()
    with_one = replace(models, turn_model=model("smart-turn-v3.2"))
    async with house(with_one, 1, point="balanced", recorders=Recorders((asked,))) as served:
        assert served.warm.judge_s > 0
        (turn,) = await converse(served, await question(served, "I have a problem with my phone."))
    assert turn.reply and {"problem", "phone"} <= words(turn.transcript)
    assert asked.service_s and max(asked.service_s) < 1.0


async def test_two_speakers_at_once_are_kept_apart(models: Models, speech_dir: Path) -> None:
    """A synthetic questioner and a human reader, together: each hears its own words and no other's."""
    reading, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=60)
    human = resample(reading[int(21.2 * rate_hz) : int(24.4 * rate_hz)], rate_hz, RATE_HZ)
    async with house(models, 2) as served:
        asked = await question(served, "How long should I boil an egg?")
        async with asyncio.TaskGroup() as group:
            one = group.create_task(converse(served, asked))
            two = group.create_task(converse(served, human))
    egg = words(" ".join(t.transcript for t in one.result()))
    everything = words(" ".join(t.transcript for t in two.result()))
    assert {"boil", "egg"} <= egg and not {"everything", "nothing", "before"} & egg
    assert {"everything", "before", "us"} <= everything and not {"boil", "egg"} & everything
    assert all(t.reply for t in [*one.result(), *two.result()] if t.verdict in ("met", "missed"))


async def test_a_larger_recogniser_corrects_the_first_one(models: Models, whisper_base_dir: Path) -> None:
    """Gothenburg is beyond the smallest Whisper. The correction comes while the reply is played."""
    events: list[Event] = []
    async with house(replace(models, asr_second=whisper_base_dir), 1) as served:
        asked = await question(served, "Could you book a table at the Vietnamese restaurant in Gothenburg?")
        (turn,) = await converse(served, asked, on_event=lambda event, at: events.append(event))
    finals = [(event.turn, words(event.text)) for event in events if isinstance(event, TranscriptFinal)]
    assert [number for number, _ in finals] == [1] * len(finals) and len(finals) >= 2
    assert "gothenburg" not in finals[0][1] and "gothenburg" in finals[-1][1]
    assert words(turn.transcript) == finals[-1][1] and turn.reply


async def test_a_small_model_that_is_offered_tools_costs_its_turns_and_no_more(models: Models) -> None:
    """The default model hardly ever writes a call, whatever it is asked for; what it writes instead is spoken, or
    fails its turn. Each turn has its verdict, a call that is told fits its schema, and the session goes on."""
    weather = ToolSpec(
        "weather",
        "The weather at a place.",
        {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    )
    questions = (
        "What is the weather in Oslo?",
        "Please look it up with the tool.",
        "What is the capital of France?",
    )
    ended: list[TurnEnded] = []
    called: list[ToolCall] = []
    async with house(models, 1) as served, connect(f"ws://127.0.0.1:{served.server.port}", rate=RATE_HZ) as session:
        for choice in ("auto", "required"):
            await session.send(SessionUpdate(tools=(weather,), tool_choice=choice, max_reply_tokens=24))
            for question in questions:
                await session.send(InputText(question))
                await next_verdict(session, ended, called)
        await session.send(SessionUpdate())
        await session.send(InputText("What is the capital of France?"))
        await next_verdict(session, ended, called)
    assert len(ended) == 7 and all(turn.reason in (None, "bad_tool_call", "empty_reply") for turn in ended)
    assert ended[-1].verdict in ("met", "missed", "degraded"), ended[-1]
    assert all(set(json.loads(call.arguments)) == {"place"} for call in called)


async def next_verdict(session: Session, ended: list[TurnEnded], called: list[ToolCall]) -> None:
    async with asyncio.timeout(60):
        async for event in session:
            if isinstance(event, ToolCall):
                called.append(event)
            elif isinstance(event, TurnEnded):
                ended.append(event)
                return
