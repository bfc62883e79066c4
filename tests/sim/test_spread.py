"""Means are exact, samples agree with them, and what is wrong is named."""

from __future__ import annotations

from random import Random

import pytest

from voicepipe.errors import ConfigError
from voicepipe.sim.spread import Spread, parse_spread
from voicepipe.sim.tables import Table

SPREADS = [
    Spread("constant", 7),
    Spread("constant", 7, most=5),
    Spread("uniform", 2, 10),
    Spread("uniform", 2, 10, 6),
    Spread("uniform", 2, 10, 1),
    Spread("exponential", 5),
    Spread("exponential", 5, most=6),
    Spread("lognormal", 10, 0.8),
    Spread("lognormal", 10, 0.8, 15),
    Spread("lognormal", 10, 0.0, 15),
    Spread("geometric", 4),
    Spread("geometric", 4, most=5),
    Spread("geometric", 1),
]


@pytest.mark.parametrize("spread", SPREADS, ids=str)
def test_samples_have_the_mean_that_is_said(spread: Spread) -> None:
    """Of 20,000, within four standard errors."""
    rng, count = Random(1), 20_000
    found = [spread.sample(rng) for _ in range(count)]
    mean = sum(found) / count
    error = (sum((value - mean) ** 2 for value in found) / count / count) ** 0.5
    assert mean == pytest.approx(spread.mean, abs=4 * error + 1e-9)
    assert max(found) <= spread.most


def test_whole_numbers_are_no_less_than_the_least() -> None:
    assert Spread("constant", 0.2).whole(Random(1), least=1) == 1
    assert Spread("constant", 2.6).whole(Random(1)) == 3


def parsed(value: object) -> Spread:
    return parse_spread(Table({"x": value}, "chat", ("x",)), "x", 100)


def test_numbers_and_tables_are_read() -> None:
    assert parsed(3) == Spread("constant", 3)
    assert parsed({"kind": "lognormal", "median": 3, "sigma": 0.5, "max": 9}) == Spread("lognormal", 3, 0.5, 9)
    assert parsed({"kind": "exponential", "mean": 4}) == Spread("exponential", 4, 0, 100)
    assert parse_spread(Table({}, "chat", ("x",)), "x", 100, 5) == Spread("constant", 5)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (101, "chat.x"),
        ("long", "chat.x"),
        ({}, "chat.x.kind"),
        ({"kind": "normal", "mean": 3}, "chat.x.kind"),
        ({"kind": "lognormal", "median": 3}, "chat.x.sigma"),
        ({"kind": "lognormal", "median": 0, "sigma": 1}, "chat.x.median"),
        ({"kind": "lognormal", "median": 3, "sigma": 6}, "chat.x.sigma"),
        ({"kind": "lognormal", "median": 3, "sigma": 1, "mean": 3}, "chat.x.mean"),
        ({"kind": "geometric", "mean": 0.5}, "chat.x.mean"),
        ({"kind": "uniform", "low": 5, "high": 4}, "chat.x.high"),
        ({"kind": "uniform", "low": 5, "high": 101}, "chat.x.high"),
        ({"kind": "exponential", "mean": 5, "max": 0}, "chat.x.max"),
        ({"kind": "exponential", "mena": 5}, "chat.x.mena"),
    ],
)
def test_wrong_parts_are_refused_by_name(value: object, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(value)
    assert caught.value.field == field
