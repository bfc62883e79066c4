"""The sweep: chunks of several sizes of every kind, in bounded time, with what was leased given back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from tests import virtual
from tests.driving import engines
from voicepipe.config import ScriptedConfig
from voicepipe.core.background import text_variant
from voicepipe.core.batches import BATCH
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Load, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.engines.base import Context, Engines, Samples, StepSize, Transcript, Window, whole_window
from voicepipe.engines.scripted import ScriptedTexts
from voicepipe.sweep import BATCHES, BEHIND_S, ROUNDS, SWEEP_S, WINDOWS_S, WRITING, Sweep, sweep

QUESTION = np.full(16_000, 0.1, np.float32)
RECHECKS = 2
"""Finals right behind a partial, in a round."""


def swept(these: Engines, question: Samples = QUESTION) -> tuple[Sweep, float]:
    """(what was measured, virtual seconds)"""

    async def story() -> tuple[Sweep, float]:
        clock = asyncio.get_running_loop().time
        began = clock()
        return await sweep(these, question, clock, asyncio.to_thread, asyncio.to_thread), clock() - began

    return virtual.run(story())


def test_every_kind_is_measured_in_several_sizes() -> None:
    """Under the keys by which sessions will price theirs."""
    sizes: dict[tuple[WorkKind, str], set[float]] = defaultdict(set)
    for chunk in swept(engines(ScriptedConfig(tts_piece_ms=100)))[0].chunks:
        sizes[chunk.kind, chunk.load.variant].add(chunk.load.units)
    assert sizes[WorkKind.HEAR, ""] == set(BATCHES)
    question_s = len(QUESTION) / RATE_HZ
    assert sizes[WorkKind.PARTIAL, ""] == {*WINDOWS_S, question_s}
    assert sizes[WorkKind.FINAL, ""] == {*WINDOWS_S, question_s + BEHIND_S}
    assert len(sizes[WorkKind.SPEAK, "first"]) >= 3
    assert {(WorkKind.THINK, "prefill"), (WorkKind.THINK, "decode"), (WorkKind.SPEAK, "later")} <= set(sizes)


def test_ways_are_those_of_the_scripted_reply() -> None:
    """Prefill and the first word are the reading."""
    config = ScriptedConfig(llm_prefill_ms=30, llm_token_ms=10, reply="Yes it is. Good.")
    ways = swept(engines(config))[0].ways
    assert {round(way.read_s, 6) for way in ways} == {0.04}
    assert all(way.has_token and way.thought_s > 0 for way in ways)


def test_a_decode_step_in_which_the_reply_ends_is_no_sample() -> None:
    """It does less than it was to; what it took is a part of the way all the same."""
    config = ScriptedConfig(llm_prefill_ms=30, llm_token_ms=10, reply="Yes indeed it is", llm_batch=1)
    told = swept(engines(config))[0]
    steps = [chunk.load.variant for chunk in told.chunks if chunk.kind is WorkKind.THINK]
    assert steps.count("decode") == 3 * steps.count("prefill") > 0
    assert {round(way.read_s + way.thought_s, 6) for way in told.ways} == {0.07}


def test_steps_of_several_replies_are_measured_together() -> None:
    """Of two, three and four, as long as none of them ends in the step: what each further one costs can be told."""
    config = ScriptedConfig(llm_token_ms=10, llm_more_ms=2, reply="One two three four five six seven eight nine.")
    told = swept(engines(config, slots=5))[0]
    batches = {
        (chunk.load.batch, chunk.load.units, round(chunk.service_s, 6))
        for chunk in told.chunks
        if chunk.load.variant == BATCH
    }
    assert batches == {(2, 2, 0.012), (3, 3, 0.014), (4, 4, 0.016)}
    forecaster = Forecaster()
    forecaster.seed(told.chunks)
    work = Work(1, "a", 1, 1, 0, WorkKind.THINK, WorkClass.STARTED)
    priced = forecaster.price(work, Load("scripted", 1, 4, "decode", batch=8))
    assert priced.more_s == pytest.approx(0.002, rel=0.2)
    assert not forecaster.price(work, Load("scripted", 1, 4, "decode")).more_s


def test_an_engine_without_batches_is_asked_for_none() -> None:
    told = swept(engines(ScriptedConfig(llm_batch=1)))[0]
    assert all(chunk.load.variant != BATCH for chunk in told.chunks)


def test_slow_engines_get_one_round() -> None:
    """Readiness waits for it."""
    chunks, took_s = swept(engines(ScriptedConfig(asr_ms=400)))
    finals = [chunk for chunk in chunks.chunks if chunk.kind is WorkKind.FINAL]
    assert len(finals) == len(WINDOWS_S) + RECHECKS
    assert took_s > SWEEP_S
    quick, quick_s = swept(engines(ScriptedConfig(asr_ms=1, llm_token_ms=1, llm_prefill_ms=1, tts_ms=1)))
    assert quick_s < SWEEP_S
    assert len([c for c in quick.chunks if c.kind is WorkKind.FINAL]) == ROUNDS * (len(WINDOWS_S) + RECHECKS)


class Rechecking:
    """Takes a final that comes right behind a partial, in its utterance, for one that may hold what that has heard:
    which it does if the sound begins alike."""

    placement = "loop"
    name = "rechecking"
    window_start = 0

    def __init__(self) -> None:
        self.heard: Window | None = None

    def open(self) -> Rechecking:
        return self

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        again = final and self.heard is not None and self.heard.utterance == window.utterance
        return replace(whole_window(window), variant="recheck" if again else "")

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        variant, heard = self.next_size(window, final=final).variant, self.heard
        self.heard = window
        holds = heard is not None and np.array_equal(heard.samples, window.samples[: len(heard.samples)])
        await asyncio.sleep(0.1 if not variant else 0.04 if holds else 0.14)
        return Transcript("heard", "", final)

    def close(self) -> None:
        """Nothing is held."""


def test_a_final_that_may_find_nothing_new_is_measured_both_ways() -> None:
    """Where what was heard before holds, and where it does not and is decoded after all."""
    question = np.linspace(0.0, 0.2, 16_000, dtype=np.float32)
    chunks = swept(engines(asr=Rechecking()), question)[0].chunks
    took = {round(chunk.service_s, 6) for chunk in chunks if chunk.load.variant == "recheck"}
    assert took == {0.04, 0.14}


def test_a_model_that_keeps_no_prefix_is_not_asked() -> None:
    """It is somebody else's."""
    these = engines()
    these.llm.keeps_prefix = False
    result, _ = swept(these)
    assert not [chunk for chunk in result.chunks if chunk.kind is WorkKind.THINK]
    assert result.ways == ()


@pytest.mark.parametrize("occupy", ["sleep", "spin"])
def test_the_slot_comes_back(occupy: str) -> None:
    """Blocking or not."""
    quick = ScriptedConfig(occupy=occupy, asr_ms=0.1, llm_token_ms=0.1, llm_prefill_ms=0.1, tts_ms=0.1)
    these = engines(quick, slots=1)
    swept(these)
    assert these.llm.leased == 0  # type: ignore[attr-defined]


def test_texts_are_measured_in_every_number_of_rows() -> None:
    """Under the keys that the pool will ask for; all slots are given back."""
    pool = ScriptedTexts(ScriptedConfig(), 3)
    chunks = swept(replace(engines(ScriptedConfig()), texts=pool))[0].chunks
    texts = [chunk.load for chunk in chunks if chunk.kind is WorkKind.GENERATE]
    assert {load.variant for load in texts} == {"split", "prefill", "decode-1", "decode-2", "decode-3"}
    assert {load.units for load in texts if load.variant == text_variant(2)} == set(WRITING)
    assert all(load.model == pool.name for load in texts)
    alone = [load.context / load.units for load in texts if load.variant == text_variant(1)]
    assert max(alone) > 2 * min(alone), "what a long context costs is measured, not guessed"
    assert pool.leased == 0
