"""The nine numbers that have to come out."""

from __future__ import annotations

import pytest

from voicepipe.sim.golden import first_answer_s, golden, slot_ratio


def test_the_nine_numbers() -> None:
    numbers = golden()
    assert list(numbers) == [
        "kv_gb",
        "hold_gb_s",
        "reprefill_s",
        "offload_s",
        "slot_ratio",
        "ttfat_s",
        "image_tokens",
        "cold_s",
        "warm_s",
    ]
    assert numbers["kv_gb"] == pytest.approx(5.28)
    assert numbers["hold_gb_s"] == pytest.approx(13.2)
    assert numbers["reprefill_s"] == pytest.approx(2.0)
    assert round(numbers["offload_s"], 2) == 0.42
    assert numbers["slot_ratio"] == pytest.approx(10.0)
    assert numbers["ttfat_s"] == pytest.approx(125.0)
    assert numbers["image_tokens"] == 1369
    assert round(numbers["cold_s"], 1) == 3.1
    assert round(numbers["warm_s"], 2) == 0.19


def test_they_follow_their_formulas() -> None:
    """With other figures others come out."""
    assert first_answer_s(0.5, 300, 0.01) == pytest.approx(3.5)
    assert slot_ratio(600, 200) == pytest.approx(3)
