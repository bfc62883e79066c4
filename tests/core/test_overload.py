"""Levels of overload: entered at once, left slowly, and not for a single spike."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.overload import WINDOW, Level, Overload, OverloadSettings, Signals

EVERY_S = 0.1


def look(overload: Overload, loads: Iterable[float], start: float = 0.0) -> list[tuple[float, Level]]:
    """A look per 0.1 s, with the loop's lag as that share of its limit; each change, and when."""
    changes = []
    for number, load in enumerate(loads):
        now = start + number * EVERY_S
        level = overload.on_signals(Signals(loop_lag_s=load * 0.010), now)
        if level is not None:
            changes.append((pytest.approx(now), level))
    return changes


def test_one_spike_is_nothing() -> None:
    overload = Overload()
    assert look(overload, [0.1] * 20 + [50.0] * (WINDOW - 1) + [0.1] * 20) == []
    assert overload.snapshot().level is Level.NONE


def test_what_stays_high_for_a_window_is_overload() -> None:
    assert look(Overload(), [0.1] * 10 + [3.0] * WINDOW) == [(1.0 + 0.4, Level.REFUSE)]


@pytest.mark.parametrize(
    ("load", "level"),
    [(0.91, Level.NONE), (0.93, Level.SHED_SPECULATION), (0.96, Level.SHED_BACKGROUND), (1.01, Level.REFUSE)],
)
def test_more_is_given_up_the_higher_the_load(load: float, level: Level) -> None:
    overload = Overload()
    look(overload, [load] * WINDOW)
    assert overload.level is level


def test_levels_are_left_one_by_one_after_their_dwell() -> None:
    overload = Overload()
    look(overload, [2.0] * WINDOW)
    changes = look(overload, [0.1] * 200, start=10.0)
    assert [level for _, level in changes] == [Level.SHED_BACKGROUND, Level.SHED_SPECULATION, Level.NONE]
    assert [at for at, _ in changes] == [15.0, 20.0, 25.0]


def test_between_leaving_and_entering_nothing_changes() -> None:
    """What is below 92 % and above 80 % keeps the level, for as long as it likes."""
    overload = Overload()
    look(overload, [0.93] * WINDOW)
    assert look(overload, [0.85] * 1_000, start=10.0) == []
    assert overload.level is Level.SHED_SPECULATION


def test_calm_that_is_interrupted_begins_anew() -> None:
    overload = Overload()
    look(overload, [0.93] * WINDOW)
    assert look(overload, ([0.1] * 45 + [0.9] * WINDOW) * 4, start=10.0) == []
    assert look(overload, [0.1] * 51, start=100.0) == [(105.0, Level.NONE)]


def test_every_signal_counts_and_the_worst_one_is_the_load() -> None:
    for signals, used in (
        (Signals(input_age_s=0.2), "input-age"),
        (Signals(backlog_s=0.5), "backlog"),
        (Signals(loop_lag_s=0.02), "loop-lag"),
    ):
        overload = Overload()
        for number in range(WINDOW):
            overload.on_signals(signals, number * EVERY_S)
        snapshot = overload.snapshot()
        assert snapshot.level is Level.REFUSE and snapshot.load == 2.0
        assert snapshot.uses == {"loop-lag": 0.0, "input-age": 0.0, "backlog": 0.0, used: 2.0}


def test_different_signals_in_turn_are_no_overload() -> None:
    """Each has drained in between."""
    overload = Overload()
    for number in range(100):
        signals = Signals(loop_lag_s=0.02) if number % 2 else Signals(backlog_s=0.5)
        assert overload.on_signals(signals, number * EVERY_S) is None


@given(st.lists(st.floats(0.0, 2.0), max_size=400))
def test_it_never_flaps(loads: list[float]) -> None:
    """However the load moves, a level that was left had been calm for its dwell."""
    overload = Overload()
    changes = look(overload, loads)
    level, falls = Level.NONE, []
    for number, (_, new) in enumerate(changes):
        if new < level:
            assert new == level - 1
            falls.append(number)
        level = new
    assert len(falls) <= len(loads) * EVERY_S / OverloadSettings().dwell_s


@pytest.mark.parametrize(
    "values",
    [{"leave": 0.93}, {"enter": (0.95, 0.92, 1.0)}, {"loop_lag_s": 0.0}, {"backlog_s": 0.0}, {"dwell_s": -1.0}],
)
def test_impossible_settings_are_refused_at_birth(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"limits|levels"):
        OverloadSettings(**values)  # type: ignore[arg-type]
