"""Rows become series, one for each arm."""

from __future__ import annotations

from voicepipe.sim.experiment import Row, Series, crossing, series_of

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


def test_where_a_line_reaches_a_level() -> None:
    """Between two points, the first time, from below; not beyond the points."""
    xs = (1.0, 2.0, 4.0, 6.0, 8.0)
    assert crossing(xs, (0.0, 100.0, 300.0, 100.0, 400.0), 200.0) == 3.0
    assert crossing(xs, (0.0, 100.0, 100.0, 50.0, 0.0), 100.0) == 2.0
    assert crossing(xs, (300.0, 100.0, 100.0, 50.0, 0.0), 200.0) is None
    assert crossing((1.0,), (5.0,), 3.0) is None
