"""A client that plays: how far it is, and that it stalls where nothing is left."""

from __future__ import annotations

from voicepipe.sim.playback import Playback

RATE = 1000


def test_it_plays_what_has_come_and_no_more() -> None:
    playback = Playback(1, RATE, 10.0)
    playback.on_audio(500, 10.0)
    assert [playback.played(at) for at in (9.9, 10.0, 10.25, 10.5, 11.0)] == [0, 0, 250, 500, 500]
    assert playback.ends == 10.5 and not playback.is_over(11.0)
    playback.whole = 500
    assert not playback.is_over(10.4) and playback.is_over(10.5)


def test_where_nothing_is_left_it_goes_on_with_what_comes_next() -> None:
    """And not where it would have been by then."""
    playback = Playback(1, RATE, 10.0)
    playback.on_audio(500, 10.0)
    playback.on_audio(500, 10.2)
    assert playback.ends == 11.0
    playback.on_audio(500, 12.0)
    assert playback.ends == 12.5 and playback.played(12.25) == 1250
