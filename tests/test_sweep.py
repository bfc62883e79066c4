"""The sweep: chunks of several sizes of every kind, in bounded time, with what was leased given back."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import numpy as np
import pytest

from tests import virtual
from tests.driving import engines
from voicepipe.config import ScriptedConfig
from voicepipe.core.events import WorkKind
from voicepipe.engines.base import Engines
from voicepipe.sweep import BATCHES, ROUNDS, SWEEP_S, WINDOWS_S, Sweep, sweep

QUESTION = np.full(16_000, 0.1, np.float32)


def swept(these: Engines) -> tuple[Sweep, float]:
    """(what was measured, virtual seconds)"""

    async def story() -> tuple[Sweep, float]:
        clock = asyncio.get_running_loop().time
        began = clock()
        return await sweep(these, QUESTION, clock, asyncio.to_thread, asyncio.to_thread), clock() - began

    return virtual.run(story())


def test_every_kind_is_measured_in_several_sizes() -> None:
    """Under the keys by which sessions will price theirs."""
    sizes: dict[tuple[WorkKind, str], set[float]] = defaultdict(set)
    for chunk in swept(engines(ScriptedConfig(tts_piece_ms=100)))[0].chunks:
        sizes[chunk.kind, chunk.load.variant].add(chunk.load.units)
    assert sizes[WorkKind.HEAR, ""] == set(BATCHES)
    assert sizes[WorkKind.PARTIAL, ""] == sizes[WorkKind.FINAL, ""] == set(WINDOWS_S)
    assert len(sizes[WorkKind.SPEAK, "first"]) >= 3
    assert {(WorkKind.THINK, "prefill"), (WorkKind.THINK, "decode"), (WorkKind.SPEAK, "later")} <= set(sizes)


def test_ways_are_those_of_the_scripted_reply() -> None:
    """Prefill and the first word are the reading."""
    config = ScriptedConfig(llm_prefill_ms=30, llm_token_ms=10, reply="Yes it is. Good.")
    ways = swept(engines(config))[0].ways
    assert {round(way.read_s, 6) for way in ways} == {0.04}
    assert all(way.has_token and way.thought_s > 0 for way in ways)


def test_slow_engines_get_one_round() -> None:
    """Readiness waits for it."""
    chunks, took_s = swept(engines(ScriptedConfig(asr_ms=400)))
    finals = [chunk for chunk in chunks.chunks if chunk.kind is WorkKind.FINAL]
    assert len(finals) == len(WINDOWS_S)
    assert took_s > SWEEP_S
    quick, quick_s = swept(engines(ScriptedConfig(asr_ms=1, llm_token_ms=1, llm_prefill_ms=1, tts_ms=1)))
    assert quick_s < SWEEP_S
    assert len([c for c in quick.chunks if c.kind is WorkKind.FINAL]) == ROUNDS * len(WINDOWS_S)


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
