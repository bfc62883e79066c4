"""The felt gap of the page: where speech ends in what was sent, and what belongs to which question."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from clips import RATE_HZ, Labelled, label
from labelled import tone
from page_gap import ends_of, find, gaps, recording, sent_sound, table

PAGE_HZ = 48_000


def clips() -> list[Labelled]:
    rng = np.random.default_rng(5)
    noise = [rng.normal(0, 0.1, n).astype(np.float32) for n in (9_000, 14_000)]
    return [label(f"q{number}", samples, None) for number, samples in enumerate(noise, 1)]


def test_a_clip_is_found_where_it_lies_also_softer_and_in_noise() -> None:
    clip = clips()[0].samples
    sound = np.random.default_rng(6).normal(0, 0.02, 40_000).astype(np.float32)
    sound[12_345 : 12_345 + len(clip)] += 0.3 * clip
    assert find(clip, sound) == 12_345


def test_each_clip_is_found_anew_so_that_clocks_may_drift() -> None:
    asked = clips()
    wav, starts = recording(asked)
    late = np.concatenate([np.zeros(4_000, np.float32), wav])
    second = starts[1] + 4_000
    drifted = np.concatenate([late[: second - 800], np.zeros(100, np.float32), late[second - 800 :]])
    ends = ends_of(asked, starts, drifted)
    assert ends[0] == pytest.approx((starts[0] + 4_000 + asked[0].speech_end) / RATE_HZ, abs=1 / RATE_HZ)
    assert ends[1] == pytest.approx((starts[1] + 4_100 + asked[1].speech_end) / RATE_HZ, abs=1 / RATE_HZ)


def test_what_was_sent_lies_where_its_offsets_say() -> None:
    """A frame that was left out is silence."""
    frame = np.full(960, 8_192, "<i2").tobytes()
    frames = [base64.b64encode(bytes(4) + offset.to_bytes(4, "big") + frame).decode() for offset in (0, 1_920)]
    sound = sent_sound(frames, PAGE_HZ)
    levels = [float(np.abs(sound[at : at + 100]).mean()) for at in (100, 420, 740)]
    assert levels == pytest.approx([0.25, 0.0, 0.25], abs=0.02)


def test_a_question_has_the_answer_behind_its_end_and_the_parts_add_up() -> None:
    asked = clips()
    record = {"verdict": "met", "system_ms": 10.0}
    seen = {
        "commits": [{"turn": 1, "epoch": 1, "s": 1.5}, {"turn": 2, "epoch": 2, "s": 2.1}],
        "sounds": [{"epoch": 1, "s": 1.55, "latency_s": 0.01}, {"epoch": 2, "s": 2.15, "latency_s": 0.01}],
        "ended": [
            {**record, "turn": 1, "felt_estimate_ms": 99.0},
            {**record, "turn": 2, "felt_estimate_ms": 140.0},
        ],
    }
    (gap,) = gaps(asked, [1.6, 2.0], seen)  # the first one was answered before its end
    assert gap.name == "q2"
    assert gap.page == pytest.approx(150.0)
    assert gap.difference == pytest.approx(10.0)
    assert gap.hearing + gap.sounding == pytest.approx(gap.difference)
    assert gap.hearing == pytest.approx(100.0 - (140.0 - 12.0))
    assert "q2" in table([gap]) and table([gap]).splitlines()[-1].startswith("median")


def test_a_tone_can_ask() -> None:
    assert label("t", tone("Is it?", 1.0), None).speech_end > 0
