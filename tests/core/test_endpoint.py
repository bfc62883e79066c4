"""Onsets, pauses and silence out of one probability per frame, in samples."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.endpoint import RATE_HZ, Endpointer, EndpointSettings
from voicepipe.core.events import EndpointEvent, Onset, Resumed, Silence, SoftEnd, Voiced

F = 512
"""Samples of a frame: 32 ms."""


def play(endpointer: Endpointer, probabilities: Iterable[float], at_frame: int = 0) -> list[EndpointEvent]:
    events: list[EndpointEvent] = []
    for index, probability in enumerate(probabilities, at_frame):
        events += endpointer.on_frame(probability, index * F, F)
    return events


def test_silence_alone_is_no_event() -> None:
    """Nobody has spoken: there is nothing to say."""
    endpointer = Endpointer()
    assert play(endpointer, [0.0] * 100) == []
    assert not endpointer.snapshot().listening


def test_a_click_of_one_frame_is_no_speech() -> None:
    """64 ms have to be voiced in a row."""
    assert play(Endpointer(), [0, 1, 0, 1, 0]) == []


def test_two_voiced_frames_are_an_onset_back_dated_by_the_pre_roll() -> None:
    """400 ms before the first voiced frame; the stretch so far is told with it."""
    endpointer = Endpointer()
    events = play(endpointer, [0.0] * 20 + [1, 1])
    assert events == [Onset(20 * F - 6400), Voiced(2 * F, 22 * F)]
    assert endpointer.snapshot().listening


def test_an_onset_at_the_very_beginning_starts_at_zero() -> None:
    """There is no sample before the first."""
    assert play(Endpointer(), [1, 1])[0] == Onset(0)


def test_every_voiced_frame_tells_how_long_the_stretch_is() -> None:
    """Speech of this stretch, silence and earlier stretches not counted."""
    assert play(Endpointer(), [1, 1, 1, 1])[-2:] == [Voiced(3 * F, 3 * F), Voiced(4 * F, 4 * F)]


def test_speech_ends_softly_at_the_first_frame_below_the_exit_threshold() -> None:
    """The silence counts from the beginning of that frame."""
    events = play(Endpointer(), [1, 1, 0.34, 0.0])
    assert events[2:] == [SoftEnd(2 * F), Silence(F), Silence(2 * F)]


@pytest.mark.parametrize("probability", [0.35, 0.4, 0.49])
def test_between_the_thresholds_speech_goes_on(probability: float) -> None:
    """Hysteresis: what would not begin speech does not end it either."""
    assert play(Endpointer(), [1, 1, probability])[-1] == Voiced(3 * F, 3 * F)


@pytest.mark.parametrize("probability", [0.35, 0.49])
def test_between_the_thresholds_a_pause_goes_on(probability: float) -> None:
    """What would not end speech does not begin it either."""
    assert play(Endpointer(), [1, 1, 0, probability, probability])[-1] == Silence(3 * F)


def test_speech_again_in_a_pause_is_resumed_from_its_first_voiced_frame() -> None:
    """No pre-roll: the audio between belongs to the utterance anyway."""
    events = play(Endpointer(), [1, 1, 0, 1, 1])
    assert events[-2:] == [Resumed(3 * F), Voiced(2 * F, 5 * F)]


def test_while_a_frame_may_be_speech_the_silence_does_not_grow() -> None:
    """Nothing can be committed on a frame that is undecided; a click is told as silence afterwards."""
    endpointer = Endpointer()
    play(endpointer, [1, 1, 0])
    assert play(endpointer, [1], 3) == []
    assert play(endpointer, [0], 4) == [Silence(3 * F)]


def test_a_broken_rise_starts_anew() -> None:
    """Two voiced frames with a silent one between are two clicks."""
    endpointer = Endpointer()
    play(endpointer, [1, 1, 0])
    events = play(endpointer, [1, 0, 1, 0], 3)
    assert all(isinstance(event, Silence) for event in events)


def test_silence_is_told_until_it_is_forgotten() -> None:
    """After 4 s the pause is over, and the next speech is an onset."""
    endpointer = Endpointer()
    events = play(endpointer, [1, 1] + [0] * 200)
    silences = [event for event in events if isinstance(event, Silence)]
    assert silences[-1].samples == pytest.approx(4 * RATE_HZ, abs=2 * F)
    assert not endpointer.snapshot().listening
    assert isinstance(play(endpointer, [1, 1], 202)[0], Onset)


def test_an_onset_is_never_dated_into_the_speech_before() -> None:
    """The pre-roll stops where the last pause began."""
    endpointer = Endpointer(EndpointSettings(pre_roll_s=60.0))
    play(endpointer, [1, 1] + [0] * 200)
    assert play(endpointer, [1, 1], 202)[0] == Onset(2 * F)


def test_a_fresh_stretch_counts_its_speech_from_its_own_start() -> None:
    """A barge-in is measured by the speech of its own stretch."""
    endpointer = Endpointer()
    play(endpointer, [1] * 50 + [0] * 10)
    assert play(endpointer, [1, 1], 60)[-1] == Voiced(2 * F, 62 * F)


def test_a_stretch_that_begins_late_counts_from_there() -> None:
    """Each further frame adds its own length, wherever the stretch began."""
    assert play(Endpointer(), [0.0] * 10 + [1, 1, 1])[-1] == Voiced(3 * F, 13 * F)


def test_the_thresholds_themselves_are_on_the_side_of_speech() -> None:
    """From the entry threshold on it begins, from the exit threshold on it goes on."""
    assert isinstance(play(Endpointer(), [0.5, 0.5])[0], Onset)
    assert play(Endpointer(), [0.499, 0.499]) == []


def test_a_pause_is_forgotten_after_its_last_told_silence() -> None:
    """At the limit it is still one, beyond it no more."""
    endpointer = Endpointer(EndpointSettings(forget_s=3 * F / RATE_HZ))
    play(endpointer, [1, 1, 0, 0, 0])
    assert endpointer.snapshot().listening
    assert play(endpointer, [0], 5) == [Silence(4 * F)]
    assert not endpointer.snapshot().listening
    assert play(endpointer, [0], 6) == []


def test_the_same_frames_give_the_same_events() -> None:
    """A recording replays bit for bit."""
    frames = [0.1, 0.9, 0.8, 0.2, 0.6, 0.7, 0.3, 0.0] * 30
    assert play(Endpointer(), frames) == play(Endpointer(), frames)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=300))
def test_events_come_in_a_legal_order(probabilities: list[float]) -> None:
    """Onset, Voiced.., SoftEnd, Silence.., Resumed, Voiced..: no event is missing, and none is back in time."""
    legal: dict[type[EndpointEvent] | None, tuple[type[EndpointEvent], ...]] = {
        None: (Onset,),
        Onset: (Voiced,),
        Voiced: (Voiced, SoftEnd),
        SoftEnd: (Silence,),
        Silence: (Silence, Resumed, Onset),
        Resumed: (Voiced,),
    }
    before: EndpointEvent | None = None
    last_end = 0
    for event in play(Endpointer(), probabilities):
        assert type(event) in legal[None if before is None else type(before)]
        if isinstance(event, Silence) and isinstance(before, Silence):
            assert event.samples > before.samples
        if isinstance(event, SoftEnd):
            last_end = event.at
        if isinstance(event, Onset | Resumed):
            assert event.start >= last_end
        before = event


def test_no_onset_is_dated_back_beyond_where_it_began_to_listen() -> None:
    endpointer = Endpointer(since=100_000)
    events = [e for n in range(4) for e in endpointer.on_frame(1.0, 100_000 + 512 * n, 512)]
    assert events[0] == Onset(100_000)
