"""Blocks are taken and given back, and what is kept goes in order, from its end, unless it is in use or pinned."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.sim.kv import KvPool, blocks_of


def kept(pool: KvPool, name: str, tokens: int, until_s: float = 0.0) -> None:
    pool.take(blocks_of(tokens), 0.0)
    pool.keep(name, tokens, blocks_of(tokens), 0.0, until_s)


def test_tokens_fill_blocks() -> None:
    assert [blocks_of(tokens) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]
    with pytest.raises(ValueError, match="blocks"):
        KvPool(0)


def test_what_was_used_longest_ago_goes_first_and_from_its_end() -> None:
    pool = KvPool(10)
    kept(pool, "a", 60)
    kept(pool, "b", 60)
    pool.touch("a")
    pool.take(3, 0.0)
    assert (pool.here("a"), pool.here("b")) == (60, 48)
    assert pool.counts().evicted_tokens == 12
    pool.take(5, 0.0)
    assert (pool.here("a"), pool.here("b")) == (32, 0)


def test_whoever_claims_it_has_it() -> None:
    pool = KvPool(10)
    kept(pool, "a", 60)
    assert pool.claim("a", 0.0) == (60, 4)
    assert (pool.running, pool.here("a"), pool.claim("a", 0.0)) == (4, 0, (0, 0))


def test_a_pin_holds_until_its_time_or_until_it_is_broken() -> None:
    pool = KvPool(10)
    kept(pool, "a", 60, until_s=5.0)
    kept(pool, "b", 60, until_s=inf)
    assert (pool.available(4.0), pool.next_pin_s()) == (2, 5.0)
    assert pool.pinned("a") == 4
    assert (pool.available(5.0), pool.pinned("a")) == (6, 0)
    assert pool.break_pin(6.0) and not pool.break_pin(6.0)
    assert (pool.available(6.0), pool.counts().broken_pins) == (10, 1)
    with pytest.raises(AssertionError):
        pool.take(11, 6.0)
    with pytest.raises(AssertionError):
        pool.give(1)


def test_a_shared_prefix_is_held_once_and_is_there_when_it_has_been_brought() -> None:
    pool = KvPool(10)
    assert pool.share_blocks("tools", 40) == 3
    assert pool.share("tools", 40, 0.0) == 0
    assert (pool.share_blocks("tools", 40), pool.share_blocks("tools", 60)) == (0, 1)
    assert pool.share("tools", 40, 0.0) == 0  # who comes meanwhile computes it too, and needs no memory for it
    assert pool.available(0.0) == 7
    pool.brought("tools")
    assert pool.share("tools", 40, 0.0) == 40
    for _ in range(3):
        pool.leave("tools", 0.0)
    assert (pool.available(0.0), pool.here("tools")) == (10, 40)


def test_a_prefix_that_nobody_has_brought_is_not_kept() -> None:
    pool = KvPool(10)
    pool.share("tools", 40, 0.0)
    pool.leave("tools", 0.0)
    assert pool.counts().kept_blocks == 0


def test_a_longer_prefix_of_that_name_begins_with_what_is_there() -> None:
    pool = KvPool(10)
    pool.share("tools", 40, 0.0)
    pool.brought("tools")
    assert pool.share("tools", 60, 0.0) == 40
    pool.leave("tools", 0.0)
    pool.leave("tools", 0.0)
    assert pool.counts().kept_blocks == 0 and pool.available(0.0) == 10


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("take", "keep", "claim", "drop", "give")), st.integers(0, 3), st.integers(1, 90)
        ),
        max_size=60,
    )
)
def test_blocks_are_never_more_than_there_are(actions: list[tuple[str, int, int]]) -> None:
    """Whatever is done in whatever order; and at the end all of them are to be had again."""
    pool, now = KvPool(20), 0.0
    for action, who, tokens in actions:
        now += 1.0
        name, blocks = f"session-{who}", blocks_of(tokens)
        if action == "take" and blocks <= pool.available(now):
            pool.take(blocks, now)
        elif action == "keep" and blocks <= pool.running:
            pool.keep(name, tokens, blocks, now, now + who)
        elif action == "claim":
            pool.claim(name, now)
        elif action == "drop":
            pool.drop(name)
        elif action == "give":
            pool.give(min(blocks, pool.running))
        counts = pool.counts()
        assert 0 <= counts.running_blocks + counts.kept_blocks <= 20
        available = pool.available(now)
        assert available >= 0 and pool.used + available == 20
    pool.give(pool.running)
    for who in range(4):
        pool.drop(f"session-{who}")
    assert pool.counts().kept_blocks == 0 and pool.available(now) == 20


def test_what_is_preloaded_is_kept_for_nobody_yet() -> None:
    pool = KvPool(10)
    pool.preload("tools", 40, 0.0)
    assert (pool.here("tools"), pool.available(0.0), pool.counts().kept_blocks) == (40, 10, 3)
