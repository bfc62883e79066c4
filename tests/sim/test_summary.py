"""Percentiles over all that were offered."""

from __future__ import annotations

from voicepipe.sim.requests import Request
from voicepipe.sim.summary import hit_rate, mean, quantile, warm


def test_who_was_never_served_has_waited_for_ever() -> None:
    assert quantile([1.0, 2.0, 3.0, None], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0, None], 0.75) == 3.0
    assert quantile([1.0, 2.0, 3.0, None], 0.95) is None
    assert quantile([], 0.5) is None
    assert quantile([4.0], 0.0) == 4.0


def test_a_mean_of_nothing_is_none() -> None:
    assert (mean([1, 2]), mean([])) == (1.5, None)


def test_what_came_before_is_left_out() -> None:
    early, late = Request(1.0, 10, 1), Request(2.0, 10, 1)
    assert warm([early, late], 2.0) == [late]


def test_hits_are_tokens_of_the_prompts_that_began() -> None:
    one, other, refused = Request(0.0, 100, 1), Request(0.0, 300, 1), Request(0.0, 1000, 1)
    one.started_s = other.started_s = 0.0
    other.cached_tokens = 200
    assert hit_rate([one, other, refused]) == 0.5
    assert hit_rate([refused]) is None
