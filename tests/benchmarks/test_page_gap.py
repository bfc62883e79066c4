"""The felt gap of the page: where speech ends in what was sent, and what belongs to which question."""

from __future__ import annotations

import base64
import dataclasses

import numpy as np
import pytest
from clips import Labelled, label
from labelled import tone
from page_gap import Packet, ends_of, find, gaps, packet_before, packets_of, recording, sent_sound, table, tail_ms

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
    instants = core.Instants(
        speech_end=speech_end, soft_end=speech_end + 0.05, commit=commit, heard=speech_end + felt_s
    )
    ahead = core.Speculation(hit=True, attempts=1, saved_s=0.0, wasted_s=0.0)
    return core.TurnRecord(turn, core.Verdict.MET, felt_s, 0.01, {}, ahead, None, instants=instants)


def test_a_question_has_the_answer_behind_its_end_and_the_parts_make_the_difference() -> None:
    seen = {
        "clocks": [(1.9, 101.904), (2.1, 102.1), (9.0, 109.9)],
        "packets": [Packet(2.02, 102.035, 102.036), Packet(2.04, 102.058, 102.06), Packet(2.06, 102.07, 102.071)],
        "begun": {"2": 2.09},
        "commits": [{"turn": 1, "epoch": 1}, {"turn": 2, "epoch": 2}],
        "sounds": [{"epoch": 1, "s": 1.55, "latency_s": 0.01}, {"epoch": 2, "s": 2.15, "latency_s": 0.01}],
    }
    turns = {1: record(1, 101.4, 101.5, 0.1), 2: record(2, 102.015, 102.11, 0.14)}
    (gap,) = gaps(clips(), [1.6, 2.0], [0.0, 20.0], seen, turns)  # the first one was answered before its end
    assert (gap.name, gap.verdict, gap.tail) == ("q2", "met", 20.0)
    assert gap.page == pytest.approx(160.0)
    assert (gap.held, gap.network) == (pytest.approx(18.0), pytest.approx(2.0))
    assert gap.place == pytest.approx(-5.0)  # the server took the last of it for silence
    assert (gap.sound, gap.by) == (pytest.approx(-5.0), "report")
    assert (gap.queued, gap.loudspeaker) == (pytest.approx(60.0), pytest.approx(10.0))
    assert gap.difference == pytest.approx(gap.place + gap.held + gap.network - gap.sound) == pytest.approx(20.0)
    assert "q2" in table([gap]) and table([gap]).splitlines()[-1].startswith("difference =")


def test_where_the_servers_own_estimate_was_later_than_the_report_it_is_told() -> None:
    seen = {
        "clocks": [(2.0, 102.0)],
        "packets": [Packet(2.02, 102.035, 102.036)],
        "begun": {"1": 2.09},
        "commits": [{"turn": 1, "epoch": 1}],
        "sounds": [{"epoch": 1, "s": 2.15, "latency_s": 0.01}],
    }
    early = record(1, 102.015, 102.11, 0.14)
    early = dataclasses.replace(early, instants=dataclasses.replace(early.instants, heard=102.1))
    (gap,) = gaps(clips()[:1], [2.0], [0.0], seen, {1: early})
    assert gap.by == "estimate"


def test_packets_are_those_of_which_both_sides_know() -> None:
    frames = [base64.b64encode(bytes(4) + offset.to_bytes(4, "big") + bytes(1_920)).decode() for offset in (0, 960)]
    seen = {"frames": frames, "left": [5.03, 5.05], "rate_hz": 48_000, "began": 4_800}
    found = packets_of(seen, [(5.031, 960), (5.051, 1_920), (5.07, 2_880)])
    assert found == [Packet(0.12, 5.03, 5.031), Packet(0.14, 5.05, 5.051)]
    assert packet_before(5.051, found) is found[1] and packet_before(5.04, found) is found[0]


def test_a_tone_can_ask() -> None:
    assert label("t", tone("Is it?", 1.0), None).speech_end > 0
