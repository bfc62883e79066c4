"""Rows become series, one for each arm."""

from __future__ import annotations

from voicepipe.sim.experiment import Row, Series, series_of

ROWS: list[Row] = [
    {"arm": "ours", "load": 1.0, "p95_ms": 100.0, "p95_ms_low": 90.0, "p95_ms_high": 110.0, "seeds": 5},
    {"arm": "theirs", "load": 1.0, "p95_ms": 300.0, "seeds": 5},
    {"arm": "ours", "load": 2.0, "p95_ms": 120.0, "seeds": 5},
    {"arm": "theirs", "load": 2.0, "p95_ms": None, "seeds": 5},
]


def test_each_arm_is_a_series_with_its_band() -> None:
    """Where a measure is the same for all seeds, the band has no width; where there is none, no point."""
    assert series_of(ROWS, "arm", "load", "p95_ms") == (
        Series("ours", (1.0, 2.0), (100.0, 120.0), (90.0, 120.0), (110.0, 120.0)),
        Series("theirs", (1.0,), (300.0,), (300.0,), (300.0,)),
    )
