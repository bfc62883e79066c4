"""Turns arrive at their rate, in order, the same for a seed; a trace gives what its lines say."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from voicepipe.errors import ConfigError
from voicepipe.sim.shapes import Shape, shipped_shapes
from voicepipe.sim.traffic import Turn, parse_trace, traffic

SHAPES = shipped_shapes()


def made(shape: Shape, seconds: float = 600, seed: int = 1, rate: float = 2.0) -> list[Turn]:
    return traffic(shape, seconds, Random(seed), rate)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_turns_come_at_their_rate_from_the_first_moment_on(shape: Shape) -> None:
    """Over twenty seeds, in both halves."""
    halves = [[0, 0] for _ in range(20)]
    for seed, half in enumerate(halves):
        for turn in made(shape, 300, seed):
            assert 0 <= turn.at_s < 300
            half[turn.at_s >= 150] += 1
    first, second = (sum(half[which] for half in halves) / 20 / 150 for which in (0, 1))
    assert first == pytest.approx(2.0, rel=0.15) and second == pytest.approx(2.0, rel=0.15)


def test_the_same_seed_gives_the_same_turns() -> None:
    assert made(SHAPES["agent"]) == made(SHAPES["agent"]) != made(SHAPES["agent"], seed=2)


def test_a_session_grows_by_what_was_new_and_answered() -> None:
    """Thoughts are not a part of its history."""
    for name in ("agent", "reasoning"):
        by_session: dict[str, list[Turn]] = {}
        for turn in made(SHAPES[name]):
            by_session.setdefault(turn.session, []).append(turn)
        followed = 0
        for turns in by_session.values():
            for before, turn in pairwise(turns):
                followed += 1
                assert turn.number == before.number + 1 and turn.at_s > before.at_s
                assert turn.history_tokens == before.history_tokens + before.new_tokens + before.answer_tokens
        assert followed > 50


def test_regular_and_bursty_arrivals_have_their_variance() -> None:
    """Of the number of single turns in ten seconds, by its mean: 0 in step, 1 by chance, more in bursts."""
    dispersion = {}
    for arrivals, burstiness in (("regular", 1.0), ("poisson", 1.0), ("bursty", 3.0)):
        shape = replace(SHAPES["vision"], arrivals=arrivals, burstiness=burstiness, turns=SHAPES["agent"].tool_s)
        shape = replace(shape, turns=replace(shape.turns, kind="constant", first=1))
        counts = [0] * 200
        for turn in made(shape, 2000):
            counts[int(turn.at_s / 10)] += 1
        mean = sum(counts) / len(counts)
        dispersion[arrivals] = sum((count - mean) ** 2 for count in counts) / len(counts) / mean
    assert dispersion["regular"] < 0.05 < 0.7 < dispersion["poisson"] < 1.4 < 4 < dispersion["bursty"]


def test_pictures_repeat_as_often_as_is_said() -> None:
    shape = SHAPES["vision"]
    assert shape.image is not None
    shape = replace(shape, image=replace(shape.image, share=0.5, repeats=0.4))
    turns = made(shape, 2000)
    shown = [turn for turn in turns if turn.image is not None]
    assert len(shown) / len(turns) == pytest.approx(0.5, abs=0.05)
    assert all(turn.image_tokens == 4 * 1369 < turn.new_tokens for turn in shown)
    assert len({turn.image for turn in shown}) / len(shown) == pytest.approx(0.6, abs=0.07)


def lines(*values: object) -> list[str]:
    return [json.dumps(value) for value in values]


def test_a_trace_is_read_with_its_sessions() -> None:
    turns = parse_trace(
        [
            *lines({"at_s": 0, "session": "a", "shape": "chat", "prompt_tokens": 900, "answer_tokens": 100}),
            "",
            *lines(
                {"at_s": 1.5, "prompt_tokens": 50, "answer_tokens": 9, "thinking_tokens": 7, "tool": True},
                {"at_s": 3, "session": "a", "prompt_tokens": 1200, "prefix_tokens": 100, "answer_tokens": 1},
                {"at_s": 3, "session": "a", "prompt_tokens": 800, "answer_tokens": 1},
            ),
        ]
    )
    first, alone, second, cut = turns
    assert (first.number, second.number, cut.number, alone.number) == (1, 2, 3, 1)
    assert (first.history_tokens, first.new_tokens) == (0, 900)
    assert (second.prefix_tokens, second.history_tokens, second.new_tokens) == (100, 1000, 100)
    assert (cut.history_tokens, cut.new_tokens) == (799, 1)  # a prompt that has been cut is new in its last token
    assert (alone.thinking_tokens, alone.output_tokens, alone.tool, alone.shape) == (7, 16, True, "trace")


@pytest.mark.parametrize(
    ("trace", "field"),
    [
        ([], "trace"),
        (["{"], "line 1"),
        (["[1]"], "line 1"),
        (lines({"at_s": 0, "prompt_tokens": 5}), "line 1.answer_tokens"),
        (lines({"at_s": -1, "prompt_tokens": 5, "answer_tokens": 5}), "line 1.at_s"),
        (lines({"at_s": 0, "prompt_tokens": 5, "answer_tokens": 5, "image": "x"}), "line 1.image"),
        (lines({"at_s": 0, "prompt_token": 5, "answer_tokens": 5}), "line 1.prompt_token"),
        (lines({"at_s": 0, "prompt_tokens": 5, "prefix_tokens": 5, "answer_tokens": 5}), "line 1.prefix_tokens"),
        (
            lines(*({"at_s": at, "prompt_tokens": 5, "answer_tokens": 5} for at in (2, 1))),
            "line 2.at_s",
        ),
    ],
)
def test_what_is_wrong_in_a_trace_is_named_with_its_line(trace: list[str], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_trace(trace)
    assert caught.value.field == field
