"""Second passes at the engine: windows of a bounded length, a final at the end, and sound that has gone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests import virtual
from voicepipe.core.events import Rehear
from voicepipe.core.utterance import RATE_HZ
from voicepipe.engines.base import Context, StepSize, Transcript, Window, whole_window
from voicepipe.ingest import AudioRing
from voicepipe.rehearing import CHUNK_S, Rehearing

CTX = Context("s", 1, 1, 0)
CHUNK = round(CHUNK_S * RATE_HZ)


class Cutting:
    """Lets go of all but two seconds of each full window, like the real one; `cuts` off: of nothing."""

    placement = "loop"
    name = "cutting"

    def __init__(self, *, cuts: bool = True) -> None:
        self.window_start = 0
        self.windows: list[tuple[int, int, int, bool]] = []
        self._cuts = cuts
        self.closed = 0

    def open(self) -> Cutting:
        return self

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        return whole_window(window)

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        end = window.start + len(window.samples)
        self.windows.append((window.utterance, window.start, end, final))
        if not final and self._cuts:
            self.window_start = end - 2 * RATE_HZ
        return Transcript("heard", "", final)

    def close(self) -> None:
        self.closed += 1


def ring(seconds: float, kept_s: float = 60.0) -> AudioRing:
    one = AudioRing(kept_s)
    one.append(np.zeros(round(seconds * RATE_HZ), np.float32))
    return one


def chunk(rehearing: Rehearing) -> Transcript:
    call, blocking, _ = rehearing.call(CTX)
    assert not blocking

    async def main() -> Any:
        return await call()

    heard: Transcript = virtual.run(main())
    return heard


def test_a_short_turn_is_one_chunk() -> None:
    """Up to the end that was asked for, or as far as there is sound."""
    asr = Cutting()
    rehearing = Rehearing(asr, ring(4.0))  # type: ignore[arg-type]
    rehearing.begin(Rehear(1, 8_000, 40_000, 30_000), 5)
    assert chunk(rehearing).final
    rehearing.begin(Rehear(2, 40_000, 99_000, 30_000), 6)
    assert chunk(rehearing).final
    assert asr.windows == [(5, 8_000, 40_000, True), (6, 40_000, 64_000, True)]
    rehearing.close()
    assert asr.closed == 1


def test_a_long_turn_is_heard_a_window_at_a_time() -> None:
    """Each begins where the recogniser has cut, and only the last is final."""
    asr = Cutting()
    rehearing = Rehearing(asr, ring(30.0))  # type: ignore[arg-type]
    rehearing.begin(Rehear(1, 0, 25 * RATE_HZ, RATE_HZ), 5)
    assert [chunk(rehearing).final for _ in range(3)] == [False, False, True]
    assert [(start / RATE_HZ, end / RATE_HZ) for _, start, end, _ in asr.windows] == [(0, 10), (8, 18), (16, 25)]


def test_a_recogniser_that_lets_go_of_nothing_gets_the_rest_at_once() -> None:
    """A pass always ends."""
    asr = Cutting(cuts=False)
    rehearing = Rehearing(asr, ring(30.0))  # type: ignore[arg-type]
    rehearing.begin(Rehear(1, 0, 25 * RATE_HZ, RATE_HZ), 5)
    assert [chunk(rehearing).final for _ in range(2)] == [False, True]
    assert asr.windows[-1] == (5, 0, 25 * RATE_HZ, True)


def test_a_pass_begins_at_its_own_start_whatever_the_one_before_has_cut() -> None:
    """A turn that was reopened is heard from its beginning again."""
    asr = Cutting()
    rehearing = Rehearing(asr, ring(30.0))  # type: ignore[arg-type]
    rehearing.begin(Rehear(1, 0, 15 * RATE_HZ, RATE_HZ), 5)
    chunk(rehearing)
    rehearing.begin(Rehear(1, 0, 9 * RATE_HZ, RATE_HZ), 6)
    chunk(rehearing)
    assert asr.windows[-1] == (6, 0, 9 * RATE_HZ, True)


def test_sound_that_has_gone_is_not_heard() -> None:
    """The pass ends without a word, and the recogniser is not asked."""
    asr = Cutting()
    rehearing = Rehearing(asr, ring(8.0, kept_s=5.0))  # type: ignore[arg-type]
    rehearing.begin(Rehear(1, RATE_HZ, 2 * RATE_HZ, RATE_HZ), 5)
    heard = chunk(rehearing)
    assert (heard.text, heard.final, heard.rejected) == ("", True, "gone") and asr.windows == []
