"""Closed forms of steps, and what fits into memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.sim.gpu import A100, BLOCK_TOKENS, GPUS, SMALL, Gpu


@given(st.integers(1, 50), st.integers(1, 20), st.integers(0, 10_000))
def test_steps_are_the_sum_of_single_ones(steps: int, sequences: int, context: int) -> None:
    """Each makes each context one token longer."""
    single = sum(SMALL.steps_s(1, sequences, context + sequences * step) for step in range(steps))
    assert SMALL.steps_s(steps, sequences, context) == pytest.approx(single, rel=1e-12)


def test_one_step_is_the_formula() -> None:
    """W + H n (context / context0)."""
    assert A100.steps_s(1, 4, 4 * 8192) == pytest.approx(0.008 + 4 * 0.00065)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS.keys())
def test_memory_is_whole_blocks_and_holds_what_it_says(gpu: Gpu) -> None:
    assert gpu.kv_gb_of(gpu.kv_tokens) <= gpu.kv_gb < gpu.kv_gb_of(gpu.kv_tokens + 1)
    assert gpu.kv_blocks == gpu.kv_tokens // BLOCK_TOKENS
    assert gpu.chunk_tokens > gpu.slots  # else sequences would leave no token for a prompt


def test_alone_a_request_is_its_chunks_and_its_steps() -> None:
    """1,000 tokens are two chunks of 512, the second of which gives the first token."""
    expected = 2 * 0.004 + 1000 / 8000 + SMALL.steps_s(9, 1, 1000)
    assert SMALL.alone_s(1000, 10) == pytest.approx(expected)
