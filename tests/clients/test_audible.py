"""The 10 ms windows of a reply, wherever its frames were cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.audio import first_audible, from_pcm16
from voicepipe_client.audible import Audible, WindowScan

RATE = 16_000
WINDOW = 160


def tone(samples: int, level: int) -> bytes:
    """A square wave, so that its RMS is its level."""
    return np.where(np.arange(samples) % 2, level, -level).astype("<i2").tobytes()


LOUD = tone(WINDOW, 200)  # -44 dBFS
SOFT = tone(WINDOW, 80)  # -52 dBFS


def test_only_windows_above_minus_50_dbfs_count() -> None:
    scan = WindowScan(RATE)
    assert scan.push(0, SOFT + LOUD + SOFT + LOUD, at=1.0, now=0.9) == [
        Audible(160, pytest.approx(1.01), 0.9),
        Audible(480, pytest.approx(1.03), 0.9),
    ]


def test_a_window_over_two_frames_is_received_with_the_second_and_sounds_with_the_first() -> None:
    scan = WindowScan(RATE)
    assert scan.push(0, LOUD[:100], at=1.0, now=1.0) == []
    assert scan.push(50, LOUD[100:], at=1.5, now=1.4) == [Audible(0, 1.0, 1.4)]


def test_the_rest_of_a_frame_keeps_its_own_time() -> None:
    scan = WindowScan(RATE)
    scan.push(0, SOFT + LOUD[:100], at=1.0, now=1.0)
    assert scan.push(210, LOUD[100:] + LOUD, at=2.0, now=2.0) == [
        Audible(160, pytest.approx(1.01), 2.0),
        Audible(320, pytest.approx(2.0 + 110 / RATE), 2.0),
    ]


def test_a_jump_begins_a_new_window() -> None:
    scan = WindowScan(RATE)
    scan.push(0, LOUD[:100], at=1.0, now=1.0)
    assert scan.push(800, LOUD, at=2.0, now=2.0) == [Audible(800, 2.0, 2.0)]


@given(
    levels=st.lists(st.sampled_from([0, 50, 150, 5000]), max_size=6),
    cuts=st.lists(st.integers(0, 960), max_size=5),
)
def test_cutting_changes_nothing(levels: list[int], cuts: list[int]) -> None:
    """However a reply is cut into frames, its first audible window is that of the whole."""
    pcm = b"".join(tone(WINDOW, level) for level in levels)
    edges = [0, *sorted(min(cut, len(pcm) // 2) for cut in cuts), len(pcm) // 2]
    scan = WindowScan(RATE)
    found: list[Audible] = []
    for start, end in pairwise(edges):
        found += scan.push(start, pcm[2 * start : 2 * end], at=start / RATE, now=end / RATE)
    expected = first_audible(from_pcm16(pcm), RATE)
    assert (found[0].offset_samples if found else None) == expected
    if found:
        assert found[0].at == pytest.approx(found[0].offset_samples / RATE)
