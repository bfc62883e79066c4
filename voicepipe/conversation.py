"""The terminal's side of a conversation: recordings or the microphone, the loudspeaker, the replies' WAV."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from voicepipe.audio import from_pcm16, write_wav
from voicepipe.engines.base import Tts
from voicepipe.errors import AudioFileError, ConnectionLost, EnvironmentFailure, ServerDrained, VoicepipeError
from voicepipe.meter import OnThread
from voicepipe.show import Reporter
from voicepipe.warmup import speak
from voicepipe.wire.messages import Enforcement, OperatingPoint
from voicepipe_client import (
    Clip,
    ClipSource,
    LastingSession,
    Source,
    TalkReport,
    load_clip,
    stay_connected,
    summarise,
    talk,
)
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
    """The demo's question in the engines' own voice; kept as a WAV in `folder`, which is there, and made
    where there is none that can be read and heard: a file that was cut off in the middle must not spoil every
    later demo."""
    path = folder / f"question-{re.sub(r'[^A-Za-z0-9.-]', '_', tts.name)}.wav"
    if path.exists():
        try:
            kept = load_clip(path, RATE_HZ)
        except AudioFileError:
            kept = None
        if kept is not None and kept.speech_end:
            return kept
    write_wav(path, await speak(tts, DEMO_QUESTION, on_thread), tts.sample_rate_hz)
    return load_clip(path, RATE_HZ)


async def converse(call: Call, clips: Sequence[Clip], reporter: Reporter) -> bool:
    """Say the clips, or without any what the microphone hears, until the end of them or of the session. A
    connection that is lost is got back, if it can be (`voicepipe_client.stay_connected`).

    False if there is a clip of which came no turn in which something was said. On every path on which
    there was a session, the replies' WAV is written and the reporter gets a summary, whose fields are those of
    `summarise` and

        silent_clips    names of the clips without audible sound
        unheard_clips   of those with sound of which the server heard nothing
        wordless_clips  of those in which it heard sound and no words
        open_turns      turns that had begun and were not answered to their end
        ended           "done", "drained" (the server went away in order), "lost" (the connection),
                        "interrupted" (cancelled) or "failed"
        error           {code, close_code, message} of what ended it; null for "done" and "interrupted"

    Raises what `connect` raises, ConnectionLost, NoMicrophone and MissingExtra; ServerDrained only where
    something was left unanswered.
    """
    played = bytearray()
    last = TalkReport([], summarise([]))
    ended, error = "failed", None

    def on_end(report: TalkReport) -> None:
        nonlocal last
        last = report

    async with stay_connected(
        call.url,
        rate=RATE_HZ,
        wishes={"token": call.token, "budget_ms": call.budget_ms, "on_waiting": reporter.on_waiting},
        operating_point=call.operating_point,
        enforcement=call.enforcement,
    ) as session:
        reporter.on_ready(session.ready)
        try:
            await _through(session, clips, played, reporter, on_end)
            ended = "done"
        except asyncio.CancelledError:
            ended = "interrupted"
            raise
        except ServerDrained as drained:
            left = _left_text(last.open_turns, len(_unsaid(clips, last)["unheard_clips"]))
            end = ServerDrained(f"{drained.message}; {left or 'all that was said had been answered'}")
            ended, error = "drained", _told(end, session)
            if left:
                raise end from None
        except ConnectionLost as lost:
            ended, error = "lost", _told(lost, session)
            raise
        except VoicepipeError as failure:
            error = _told(failure, session)
            raise
        finally:
            summary = {
                **last.summary,
                **_unsaid(clips, last),
                "open_turns": last.open_turns,
                "ended": ended,
                "error": error,
            }
            written = None
            try:
                if call.out is not None and played:
                    write_wav(call.out, from_pcm16(bytes(played)), session.ready.output_rate)
                    written = call.out
            finally:
                reporter.on_end(summary, written)
    return not any(_unsaid(clips, last).values())


def _unsaid(clips: Sequence[Clip], report: TalkReport) -> dict[str, list[str]]:
    """Names of those of which came no turn in which something was said, by the reason."""
    why: dict[str, list[str]] = {"silent_clips": [], "unheard_clips": [], "wordless_clips": []}
    said = {record.clip for record in report.turns if record.verdict != "empty"}
    for number, clip in enumerate(clips):
        if number in said:
            continue
        if not clip.speech_end:
            why["silent_clips"].append(clip.name)
        elif number not in report.heard_clips:
            why["unheard_clips"].append(clip.name)
        elif not report.open_turns:
            why["wordless_clips"].append(clip.name)
    return why


def _left_text(open_turns: int, unheard_clips: int) -> str:
    """ "" where nothing was left."""
    counts = {"turn": open_turns, "recording": unheard_clips}
    parts = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count]
    return f"{' and '.join(parts)} left unanswered" if parts else ""


def _told(error: VoicepipeError, session: LastingSession) -> dict[str, object]:
    return {"code": error.code, "close_code": session.close_code, "message": error.message}


async def _through(
    session: LastingSession,
    clips: Sequence[Clip],
    played: bytearray,
    reporter: Reporter,
    on_end: Callable[[TalkReport], None],
) -> None:
    async with AsyncExitStack() as stack:
        speaker = _loudspeaker(stack, session.ready.output_rate, reporter)
        source: Source
        if clips:
            clock = asyncio.get_running_loop().time
            source = ClipSource(clips, RATE_HZ, clock=clock, sleep=asyncio.sleep)
        else:
            source = await stack.enter_async_context(Microphone(RATE_HZ))
            reporter.say("listening; Ctrl-C ends")
        await talk(
            session,
            source,
            speaker=speaker,
            played=played.extend,
            on_event=reporter.on_event,
            on_turn=reporter.on_turn,
            on_end=on_end,
        )


def _loudspeaker(stack: AsyncExitStack, rate_hz: int, reporter: Reporter) -> Loudspeaker | None:
    """None, and a word about it, where there is none."""
    try:
        return stack.enter_context(Loudspeaker(rate_hz))
    except EnvironmentFailure:
        reporter.say("(no loudspeaker here)")
        return None


def check_suffix(path: Path) -> None:
    """Raises AudioFileError where the WAV would be taken for something else."""
    if path.suffix.lower() not in ("", ".wav"):
        raise AudioFileError(f"--out {path}: a WAV is written; give it a name that ends in .wav", field="out")


def check_out(path: Path) -> None:
    """Raises AudioFileError where the WAV could not be written: before the conversation, not after it."""
    there = path.exists()
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as exc:
        raise AudioFileError(f"{path} cannot be written: {exc.strerror}", field="out") from None
