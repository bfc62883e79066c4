"""Knocks at a full server, over real sockets."""

from __future__ import annotations

import asyncio

import door
import pytest
from jobs import config_of


def test_every_knock_at_a_full_house_is_timed() -> None:
    took = asyncio.run(door.refusals_ms(config_of("count", 1), 3))
    assert len(took) == 3 and all(0.0 < one_ms < 5_000.0 for one_ms in took)


def test_where_nobody_is_refused_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MOST", 2)
    assert asyncio.run(door.refusals_ms(config_of("none", 8), 3)) == []
