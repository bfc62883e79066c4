"""A session's second passes at the engine: the larger recogniser hears a committed turn again, a window at a time.

A chunk has `CHUNK_S` of sound at most: as much as a recogniser takes before it must let go of what is certain.
Sound that has left the ring by the time its chunk is asked for is gone, and with it the pass.
"""

from __future__ import annotations

from voicepipe.chunk import Call
from voicepipe.core.events import Rehear
from voicepipe.core.utterance import RATE_HZ
from voicepipe.engines.base import Asr, AsrStream, Context, Transcript, Window
from voicepipe.ingest import AudioRing

CHUNK_S = 10.0
"""The full window of the streaming recogniser (`engines.windowed`): at that length it cuts, come what may."""
_GONE = Transcript("", "", final=True, rejected="gone")


class Rehearing:
    def __init__(self, asr: Asr, ring: AudioRing) -> None:
        self._asr = asr
        self._ring = ring
        self._stream: AsrStream = asr.open()
        self._pass = Rehear(0, 0, 0, 0)
        self._utterance = 0
        self._asked_from = -1
        """Where the last chunk began; a recogniser that has let go of nothing since gets the rest at once."""

    def begin(self, task: Rehear, utterance: int) -> None:
        """`utterance`: a number of its own: a turn that was reopened is heard from its start again."""
        self._pass, self._utterance, self._asked_from = task, utterance, -1

    def call(self, ctx: Context) -> tuple[Call, bool, float]:
        """(the next chunk, whether it blocks, its seconds of sound). Its transcript is final where it reaches the
        end."""
        begun = self._asked_from >= 0
        start = max(self._pass.start, self._stream.window_start) if begun else self._pass.start
        end = min(self._pass.end, self._ring.newest)
        if start < self._ring.oldest:
            return _nothing, False, 0.0
        final = end - start <= CHUNK_S * RATE_HZ or start == self._asked_from
        self._asked_from = start
        upto = end if final else start + round(CHUNK_S * RATE_HZ)
        window = Window(self._utterance, start, self._ring.read(start, upto), self._pass.speech_samples)
        blocks, sound_s = self._asr.placement == "thread", len(window.samples) / RATE_HZ
        return lambda: self._stream.decode(window, final=final, ctx=ctx), blocks, sound_s

    def close(self) -> None:
        self._stream.close()


async def _nothing() -> Transcript:
    return _GONE
