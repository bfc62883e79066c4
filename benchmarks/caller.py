"""One caller of a crowd, and what became of its questions: the same in virtual and in real time.

A caller sends sound while it speaks and for `TAIL_S` after that, like a client that does not send silence. It asks
at its own instants, whatever it hears, and leaves at the end of its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from arrivals import Call, Question

from voicepipe.audio import Samples
from voicepipe.core.events import TurnRecord, Verdict
from voicepipe.core.turn_state import DOWNLINK_S
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

RATE_HZ = 16_000
PACKET_S = 0.02
LOUD = 0.2
"""Of full scale: -14 dBFS at the peaks."""
LEAD_S = 0.1
TAIL_S = 0.5
"""Of silence that is sent behind a question."""
NEAR_S = 0.3
"""A turn belongs to a question if its speech ends so near to the question's end."""
_SIZE = round(PACKET_S * RATE_HZ)
_NOISE = (np.random.default_rng(1).uniform(-LOUD, LOUD, _SIZE) * 32767).astype("<i2").tobytes()
_SILENCE = bytes(2 * _SIZE)

Send = Callable[[str | bytes], Awaitable[None]]
Voice = Callable[[Question, float], bytes]
"""The packet of this question that begins at this instant, in seconds since the crowd began."""


def noise(question: Question, at: float) -> bytes:
    """What scripted engines take for speech."""
    return _NOISE if question.begin <= at + 1e-6 < question.end else _SILENCE


def voice_of(clips: Sequence[Samples]) -> Voice:
    """Recordings at 16 kHz; a question says the one that it names."""
    spoken = [(np.clip(clip, -1.0, 1.0) * 32767).astype("<i2") for clip in clips]

    def packet(question: Question, at: float) -> bytes:
        begin = round((at - question.begin) * RATE_HZ)
        clip, out = spoken[question.clip], np.zeros(_SIZE, "<i2")
        first, last = max(0, -begin), min(_SIZE, len(clip) - begin)
        if first < last:
            out[first:last] = clip[begin + first : begin + last]
        return out.tobytes()

    return packet


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question."""

    call: int
    question: Question
    refused: str = ""
    """Why its session was refused; "" where it was not."""
    record: TurnRecord | None = None
    """Of its turn; None where there was none, as when it ran into the turn before it."""
    felt_s: float = inf
    """From the intended end of the question to the first content, as the server estimates that; infinite without
    content."""

    @property
    def kept(self) -> bool:
        return self.record is not None and self.record.verdict in (Verdict.MET, Verdict.DEGRADED)

    @property
    def counts(self) -> bool:
        """Of a session that was admitted, and not given up by its caller."""
        excused = (Verdict.EMPTY, Verdict.INTERRUPTED)
        return not self.refused and (self.record is None or self.record.verdict not in excused)


@dataclass(slots=True)
class Played:
    """What became of a crowd."""

    asked: list[Asked] = field(default_factory=list)
    admitted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    most: int = 0
    """Sessions at a time."""
    refusals_ms: list[float] = field(default_factory=list)
    """From the intended instant of a call to the refusal; empty in virtual time, where deciding takes none."""
    correction: float | None = None
    """Of the policy `deadline`, at the end: what happened over what was predicted."""

    def on_refused(self, number: int, call: Call, reason: str, counts: bool) -> None:
        if counts:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        self.asked += [Asked(number, question, reason) for question in call.questions]


async def talk(send: Send, call: Call, began: float, voice: Voice) -> None:
    """`began`: when the crowd did, on the loop's clock. Packets leave at their instants, or at once if those have
    passed."""
    clock = asyncio.get_running_loop().time
    audio = wire.AudioFormat(rate=RATE_HZ, channels=1)
    await send(encode_client(wire.SessionStart(audio=audio, protocol="voicepipe.v1")))
    position = 0
    for index, question in enumerate(call.questions):
        following = call.questions[index + 1].begin if index + 1 < len(call.questions) else inf
        begin, until = question.begin - LEAD_S, min(question.end + TAIL_S, following - LEAD_S)
        await asyncio.sleep(began + begin - clock())
        for packet in range(round((until - begin) / PACKET_S)):
            at = begin + packet * PACKET_S
            await send(encode_client(wire.AudioFrame(0, position, voice(question, at))))
            position += _SIZE
            await asyncio.sleep(began + at + PACKET_S - clock())
    await asyncio.sleep(began + call.end - clock())
    await send(encode_client(wire.SessionEnd()))


def became(number: int, call: Call, records: Sequence[TurnRecord], began: float) -> list[Asked]:
    """Of each question of a call that was let in."""
    return [_asked(number, question, records, began) for question in call.questions]


def _asked(number: int, question: Question, records: Sequence[TurnRecord], began: float) -> Asked:
    for record in records:
        end = record.instants.speech_end
        if end is not None and abs(end - began - question.end) < NEAR_S:
            sent = record.instants.sent
            felt_s = inf if sent is None else sent + DOWNLINK_S - began - question.end
            return Asked(number, question, "", record, felt_s)
    return Asked(number, question)
