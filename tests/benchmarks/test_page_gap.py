"""The felt gap of the page: where speech ends in what was sent, and what belongs to which question."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from clips import Labelled, label
from labelled import tone
from page_gap import ends_of, find, gaps, recording, sent_sound, table, tail_ms

from voicepipe.core import events as core

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
    assert ends == [starts[0] + 4_000 + asked[0].speech_end, starts[1] + 4_100 + asked[1].speech_end]


def test_a_tail_is_what_stays_audible_behind_the_end() -> None:
    sound = np.zeros(16_000, np.float32)
    sound[:8_000] = 0.1
    assert tail_ms(sound, 8_000) == 0.0
    sound[8_000:8_320] = 0.01
    assert tail_ms(sound, 8_000) == pytest.approx(20.0)


def test_what_was_sent_lies_where_its_offsets_say() -> None:
    """A frame that was left out is silence."""
    frame = np.full(960, 8_192, "<i2").tobytes()
    frames = [base64.b64encode(bytes(4) + offset.to_bytes(4, "big") + frame).decode() for offset in (0, 1_920)]
    sound = sent_sound(frames, PAGE_HZ)
    levels = [float(np.abs(sound[at : at + 100]).mean()) for at in (100, 420, 740)]
    assert levels == pytest.approx([0.25, 0.0, 0.25], abs=0.02)


def record(turn: int, speech_end: float, commit: float, felt_s: float) -> core.TurnRecord:
    instants = core.Instants(speech_end=speech_end, commit=commit)
    ahead = core.Speculation(hit=True, attempts=1, saved_s=0.0, wasted_s=0.0)
    return core.TurnRecord(turn, core.Verdict.MET, felt_s, 0.01, {}, ahead, None, instants=instants)


def test_a_question_has_the_answer_behind_its_end_and_the_parts_make_the_difference() -> None:
    seen = {
        "clocks": [(1.9, 101.904), (2.1, 102.1), (9.0, 109.9)],
        "begins_s": [1.96, 1.98, 2.0, 2.02],
        "left": [101.99, 102.0, 102.023, 102.04],
        "commits": [{"turn": 1, "epoch": 1}, {"turn": 2, "epoch": 2}],
        "sounds": [{"epoch": 1, "s": 1.55, "latency_s": 0.01}, {"epoch": 2, "s": 2.15, "latency_s": 0.01}],
    }
    turns = {1: record(1, 101.4, 101.5, 0.1), 2: record(2, 102.015, 102.11, 0.14)}
    (gap,) = gaps(clips(), [1.6, 2.0], [0.0, 20.0], seen, turns)  # the first one was answered before its end
    assert (gap.name, gap.verdict, gap.tail) == ("q2", "met", 20.0)
    assert gap.page == pytest.approx(160.0)
    assert gap.way == pytest.approx(23.0)
    assert (gap.end, gap.sound) == (pytest.approx(15.0), pytest.approx(-5.0))
    assert gap.difference == pytest.approx(gap.end - gap.sound) == pytest.approx(20.0)
    assert "q2" in table([gap]) and table([gap]).splitlines()[-1].startswith("median")


def test_a_tone_can_ask() -> None:
    assert label("t", tone("Is it?", 1.0), None).speech_end > 0
