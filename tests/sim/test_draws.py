"""Luck that hangs on the piece of work: the same for the same, evenly spread, and independent."""

from __future__ import annotations

from statistics import correlation, mean

import pytest

from voicepipe.sim.draws import Draws, drawn


def test_the_same_piece_has_the_same_luck_in_whatever_order() -> None:
    one, other = Draws("a seed"), Draws("a seed")
    names = [("s1", 1, "final  1"), ("s1", 2, "final  1"), ("s2", 1, "final  1"), ("s1", 1, "final  2")]
    found = {name: one.of(*name) for name in names}
    assert {name: other.of(*name) for name in reversed(names)} == found
    assert len(set(found.values())) == len(names)
    assert Draws("another").of(*names[0]) != found[names[0]]


def test_shares_are_evenly_spread_and_independent() -> None:
    """20,000 of them, whose mean is within four standard errors of a half, and each tenth within 10 % of its due;
    neighbours and the parts of one draw do not hang together."""
    draws = Draws("7 chunks")
    found = [draws.of("s3", at // 20, f"think decode {at % 20}") for at in range(20_000)]
    shares = [draw.service for draw in found]
    assert min(map(min, found)) >= 0.0 and max(map(max, found)) < 1.0
    assert mean(shares) == pytest.approx(0.5, abs=4 * 0.289 / 20_000**0.5)
    tenths = [sum(int(10 * share) == at for share in shares) for at in range(10)]
    assert all(1800 < count < 2200 for count in tenths), tenths
    for others in (shares[1:] + shares[:1], [draw.begin for draw in found], [draw.end for draw in found]):
        assert abs(correlation(shares, others)) < 0.03


def test_between_quantiles_it_is_even() -> None:
    quantiles = (1.0, 2.0, 4.0)
    assert [drawn(quantiles, share) for share in (0.0, 0.25, 0.5, 0.75)] == [1.0, 1.5, 2.0, 3.0]
    assert drawn((7.0,), 0.9) == 7.0
