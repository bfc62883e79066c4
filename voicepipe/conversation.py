"""The terminal's side of a conversation: recordings or the microphone, the loudspeaker, the replies' WAV."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from voicepipe.audio import Samples, from_pcm16, write_wav
from voicepipe.engines.base import Tts
from voicepipe.errors import AudioFileError, EnvironmentFailure
from voicepipe.show import Reporter
from voicepipe.warmup import OnThread, speak
from voicepipe.wire.messages import Enforcement, OperatingPoint
from voicepipe_client import Clip, ClipSource, Session, Source, TalkReport, connect, load_clip, talk
from voicepipe_client.devices import Loudspeaker, Microphone

RATE_HZ = 16_000
"""What the terminal client sends; files of other rates are resampled."""
DEMO_QUESTION = "What is the capital of France?"


@dataclass(frozen=True, slots=True)
class Call:
    """Whom to call, and with which wishes; None leaves the choice to the server."""

    url: str
    token: str | None = None
    budget_ms: float | None = None
    operating_point: OperatingPoint | None = None
    enforcement: Enforcement | None = None
    out: Path | None = None
    """Where the replies' WAV goes."""


def load_clips(paths: Sequence[Path]) -> list[Clip]:
    """Raises AudioFileError."""
    return [load_clip(path, RATE_HZ) for path in paths]


async def spoken_question(tts: Tts, folder: Path, on_thread: OnThread) -> Clip:
    """The demo's question in the engines' own voice; made once, kept as a WAV in `folder`."""
    path = folder / f"question-{re.sub(r'[^A-Za-z0-9.-]', '_', tts.name)}.wav"
    if not path.exists():
        _write(path, await speak(tts, DEMO_QUESTION, on_thread), tts.sample_rate_hz)
    return load_clip(path, RATE_HZ)


async def converse(call: Call, clips: Sequence[Clip], reporter: Reporter) -> None:
    """Say the clips, or without any what the microphone hears, until the end of them or of the session.

    Raises what `connect` raises, ConnectionLost, NoMicrophone and MissingExtra.
    """
    played = bytearray()
    async with connect(
        call.url,
        rate=RATE_HZ,
        token=call.token,
        budget_ms=call.budget_ms,
        operating_point=call.operating_point,
        enforcement=call.enforcement,
    ) as session:
        reporter.on_ready(session.ready)
        try:
            report = await _through(session, clips, played, reporter)
        finally:
            written = call.out if call.out is not None and played else None
            if written is not None:
                _write(written, from_pcm16(bytes(played)), session.ready.output_rate)
        reporter.on_end(report.summary, written)


async def _through(session: Session, clips: Sequence[Clip], played: bytearray, reporter: Reporter) -> TalkReport:
    async with AsyncExitStack() as stack:
        speaker = _loudspeaker(stack, session.ready.output_rate, reporter)
        source: Source
        if clips:
            clock = asyncio.get_running_loop().time
            source = ClipSource(clips, RATE_HZ, clock=clock, sleep=asyncio.sleep)
        else:
            source = await stack.enter_async_context(Microphone(RATE_HZ))
            reporter.say("listening; Ctrl-C ends")
        return await talk(
            session,
            source,
            speaker=speaker,
            played=played.extend,
            on_event=reporter.on_event,
            on_turn=reporter.on_turn,
        )


def _loudspeaker(stack: AsyncExitStack, rate_hz: int, reporter: Reporter) -> Loudspeaker | None:
    """None, and a word about it, where there is none."""
    try:
        return stack.enter_context(Loudspeaker(rate_hz))
    except EnvironmentFailure:
        reporter.say("(no loudspeaker here)")
        return None


def check_out(path: Path) -> None:
    """Raises AudioFileError where the WAV could not be written: before the conversation, not after it."""
    _make_folder(path)
    there = path.exists()
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as exc:
        raise AudioFileError(f"{path} cannot be written: {exc.strerror}", field="out") from None


def _write(path: Path, samples: Samples, rate_hz: int) -> None:
    _make_folder(path)
    write_wav(path, samples, rate_hz)


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise AudioFileError(f"{path.parent} cannot be made: {exc.strerror}", field="out") from None
