"""The last while, and not more."""

from __future__ import annotations

import pytest

from tests.top.conftest import Watched
from voicepipe.core.events import Verdict
from voicepipe.top.history import TREND, History


def test_counts_are_of_the_window() -> None:
    """Of all at first; then of what has come since the first reading; then of the last ten seconds."""
    watched, history, spans = Watched(), History(10.0), []
    for at in range(0, 30, 2):
        watched.turn(Verdict.MET, 0.1)
        seen = history.add(watched.read(float(at)), 99.0)
        spans.append((seen.span_s, seen.turns))
    assert spans[:3] == [(99, 1), (2, 1), (4, 2)]
    assert spans[5:] == [(10, 5)] * 10


def test_the_trend_is_of_each_interval() -> None:
    """Nothing where no turn ended; bounded."""
    watched, history = Watched(), History(10.0)
    history.add(watched.read(0.0), None)
    watched.turn(Verdict.MET, 0.1)
    watched.turn(Verdict.MISSED, 0.3)
    history.add(watched.read(2.0), None)
    history.add(watched.read(4.0), None)
    first, second = history.trend_ms
    assert first == pytest.approx(200) and second is None
    for at in range(6, 6 + 2 * TREND):
        history.add(watched.read(float(at)), None)
    assert len(history.trend_ms) == TREND


def test_a_server_that_was_started_anew_begins_anew() -> None:
    """Its counts are not held against those of the old one."""
    old, new, history = Watched(), Watched(), History(10.0)
    for _ in range(3):
        old.turn(Verdict.MISSED, 1.0)
    history.add(old.read(0.0), 50.0)
    history.add(old.read(2.0), 52.0)
    new.turn(Verdict.MET, 0.1)
    seen = history.add(new.read(4.0), 1.0)
    assert (seen.turns, seen.in_time, seen.span_s, seen.is_since_start) == (1, 1.0, 1.0, True)
