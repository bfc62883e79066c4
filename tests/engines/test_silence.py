"""The gate around a piece of speech: literal signals in, literal signals out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.engines.base import Samples
from voicepipe.engines.silence import SILENCE_DBFS, SilenceGate

RATE_HZ = 1_000
WINDOW = 10
"""10 ms at that rate."""


def sound(n: int) -> Samples:
    return np.full(n, 0.1, np.float32)


def silence(n: int, level: float = 0.001) -> Samples:
    return np.full(n, level, np.float32)


def passed(signal: Samples, *cuts: int, pause: int = 0) -> Samples:
    """What comes out if the signal arrives cut at these places."""
    gate = SilenceGate(RATE_HZ)
    pieces = [gate.push(piece) for piece in np.split(signal, sorted(cuts))]
    return np.concatenate([*pieces, gate.finish(pause)])


def test_nothing_of_the_leading_silence_stays() -> None:
    out = passed(np.concatenate((silence(200), sound(50))))
    assert len(out) == 50
    assert np.all(out[2:] == np.float32(0.1))


def test_the_first_sound_is_faded_in() -> None:
    out = passed(np.concatenate((silence(200), sound(50))))
    assert out[0] == 0.0
    assert np.all(np.diff(out[:2]) > 0)


def test_the_first_window_is_loud_enough_to_be_heard() -> None:
    """Though a fade weakens it: the felt gap ends with it."""
    barely = sound(50) * np.float32(10 ** ((SILENCE_DBFS + 2 + 20) / 20))
    out = passed(np.concatenate((silence(200), barely)))
    assert 10 * np.log10(np.mean(out[:WINDOW] ** 2)) > SILENCE_DBFS


def test_sound_from_the_first_sample_loses_nothing_but_a_fade() -> None:
    out = passed(sound(50))
    assert len(out) == 50
    assert out[0] == 0.0
    assert np.all(out[5:] == np.float32(0.1))


def test_silence_inside_stays_whole() -> None:
    signal = np.concatenate((sound(30), silence(500), sound(30)))
    out = passed(signal, 100, 200, 300)
    assert np.array_equal(out[5:], signal[5:])


def test_silence_inside_is_held_back_until_sound_follows() -> None:
    gate = SilenceGate(RATE_HZ)
    assert len(gate.push(np.concatenate((sound(30), silence(40))))) == 30
    assert len(gate.push(silence(40))) == 0
    assert len(gate.push(sound(10))) == 90


def test_a_long_trailing_silence_is_cut_to_the_pause_and_faded_out() -> None:
    out = passed(np.concatenate((sound(30), silence(300))), pause=100)
    assert len(out) == 130
    assert np.all(out[30:125] == np.float32(0.001))
    assert out[-1] == 0.0
    assert np.all(np.diff(out[125:]) < 0)


def test_a_short_trailing_silence_is_filled_up_to_the_pause() -> None:
    out = passed(np.concatenate((sound(30), silence(20))), pause=100)
    assert len(out) == 130
    assert np.all(out[50:] == 0.0)


def test_a_silent_piece_is_nothing_at_all() -> None:
    assert len(passed(silence(500), 100, pause=100)) == 0
    assert len(passed(np.zeros(0, np.float32), pause=100)) == 0


def test_a_last_window_that_is_not_full_is_still_heard() -> None:
    out = passed(np.concatenate((sound(20), silence(20), sound(5))), pause=50)
    assert np.all(out[40:45] == np.float32(0.1))


@given(
    runs=st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    pause=st.integers(0, 80),
)
def test_how_the_piece_is_cut_makes_no_difference(
    runs: list[tuple[bool, int]], cuts: list[int], pause: int
) -> None:
    parts = [sound(n) if loud else silence(n) for loud, n in runs]
    signal = np.concatenate([*parts, np.zeros(0, np.float32)])
    assert np.array_equal(passed(signal, *cuts, pause=pause), passed(signal, pause=pause))
