"""The playback clock, with literal times. 16 kHz: 20 ms are 320 samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.wire.native import (
    AudioFrame,
    Playback,
    ReplyAcknowledged,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    TurnCommitted,
    TurnReopened,
)
from voicepipe_client.audible import Audible
from voicepipe_client.player import Player, PlayerSnapshot

RATE = 16_000


def pcm(samples: int, level: int = 1000) -> bytes:
    return np.full(samples, level, "<i2").tobytes()


def frame(offset: int, samples: int = 320, *, epoch: int = 1, level: int = 1000) -> AudioFrame:
    return AudioFrame(epoch, offset, pcm(samples, level))


def test_plays_in_real_time_from_the_first_frame() -> None:
    player = Player(RATE)
    player.on_frame(frame(0), 10.0)
    player.on_frame(frame(320), 10.001)
    assert [player.played_samples(t) for t in (9.0, 10.0, 10.01, 10.02, 10.03, 10.04, 99.0)] == [
        0,
        0,
        160,
        320,
        480,
        640,
        640,
    ]
    assert not player.is_silent(10.039)
    assert player.is_silent(10.041)


def test_a_late_frame_leaves_a_gap() -> None:
    played = bytearray()
    player = Player(RATE, sink=played.extend)
    player.on_frame(frame(0), 0.0)
    player.on_frame(frame(320), 0.03)
    assert player.played_samples(0.029) == 320
    assert player.played_samples(0.04) == 480
    assert player.snapshot(0.04) == PlayerSnapshot(
        epoch=1, played_samples=480, queued_samples=160, underruns=1, dropped_samples=0
    )
    player.finish(1.0)
    assert bytes(played) == pcm(320) + bytes(2 * 160) + pcm(320)


def test_latency_puts_everything_later() -> None:
    player = Player(RATE, latency_s=0.5)
    player.on_frame(frame(0), 1.0)
    assert player.played_samples(1.5) == 0
    assert player.played_samples(1.51) == 160
    assert player.first_content(1) == Audible(0, 1.5, 1.0)


def test_reports_every_100_ms_and_at_the_end() -> None:
    player = Player(RATE)
    assert player.next_deadline() is None
    assert player.on_frame(frame(0, 4000), 1.0) == []
    assert player.next_deadline() == pytest.approx(1.1)
    assert player.on_timer(1.05) == []
    assert player.on_timer(1.1) == [Playback(1, 1600)]
    assert player.on_timer(1.1) == []
    assert player.next_deadline() == pytest.approx(1.2)
    assert player.on_timer(1.21) == [Playback(1, 3360)]
    assert player.on_message(ReplyDone(1, 1, 4000), 1.22) == []
    assert player.next_deadline() == pytest.approx(1.25)
    assert player.on_timer(1.25) == [Playback(1, 4000)]
    assert player.next_deadline() is None
    assert player.on_timer(9.0) == []


def test_done_after_the_end_reports_at_once() -> None:
    player = Player(RATE)
    player.on_frame(frame(0), 1.0)
    assert player.on_message(ReplyDone(1, 1, 320), 1.05) == [Playback(1, 320)]


def test_a_late_timer_skips_what_it_missed() -> None:
    player = Player(RATE)
    player.on_frame(frame(0, 16_000), 0.0)
    assert player.on_timer(0.35) == [Playback(1, 5600)]
    assert player.next_deadline() == pytest.approx(0.4)


@pytest.mark.parametrize("message", [ReplyInterrupted(1, 1, 100.0), TurnReopened(1, 1)])
def test_a_flush_drops_what_is_unplayed(message: ReplyInterrupted | TurnReopened) -> None:
    """3 s are in the buffer when the user speaks: they are never played, nor what still arrives."""
    played = bytearray()
    player = Player(RATE, sink=played.extend)
    player.on_frame(frame(0, 48_000), 0.0)
    assert player.on_message(message, 0.05) == [Playback(1, 800)]
    assert player.is_silent(0.05)
    assert player.on_frame(frame(48_000), 0.06) == []
    assert player.next_deadline() is None
    assert player.snapshot(1.0) == PlayerSnapshot(
        epoch=None, played_samples=0, queued_samples=0, underruns=0, dropped_samples=47_200 + 320
    )
    player.finish(2.0)
    assert bytes(played) == pcm(800)


def test_an_interruption_of_an_older_reply_leaves_the_newer_one_alone() -> None:
    player = Player(RATE)
    player.on_frame(frame(0, epoch=3), 0.0)
    assert player.on_message(ReplyInterrupted(1, 2, 0.0), 0.01) == []
    assert player.played_samples(0.02) == 320


@pytest.mark.parametrize("first_offset", [0, 48_000])
def test_the_next_reply_starts_without_a_gap(first_offset: int) -> None:
    """Barge-in, then another reply whose offsets restart or go on: it sounds when it arrives."""
    player = Player(RATE)
    player.on_frame(frame(0, 48_000), 0.0)
    player.on_message(ReplyInterrupted(1, 1, 50.0), 0.05)
    player.on_message(TurnCommitted(2, 3), 1.0)
    player.on_frame(frame(first_offset, epoch=3), 1.1)
    assert player.played_samples(1.11) == first_offset + 160
    assert player.first_content(3) == Audible(first_offset, 1.1, 1.1)
    assert player.snapshot(1.2).underruns == 0


def test_a_newer_epoch_cuts_the_older_reply() -> None:
    played = bytearray()
    player = Player(RATE, sink=played.extend)
    player.on_frame(frame(0, 3200), 0.0)
    assert player.on_frame(frame(0, epoch=2, level=7), 0.01) == [Playback(1, 160)]
    player.finish(1.0)
    assert bytes(played) == pcm(160) + pcm(320, 7)


def test_what_was_sent_twice_is_played_once() -> None:
    player = Player(RATE)
    player.on_frame(frame(0), 0.0)
    player.on_frame(frame(160), 0.0)
    assert player.played_samples(1.0) == 480
    player.on_frame(frame(0), 0.5)
    assert player.played_samples(1.0) == 480
    assert player.snapshot(1.0).queued_samples == 0


def test_first_content_is_when_it_sounds_not_when_it_arrives() -> None:
    player = Player(RATE)
    player.on_frame(frame(0, 640, level=10), 2.0)
    player.on_frame(frame(640, 320), 2.005)
    assert player.first_content(1) == Audible(640, pytest.approx(2.04), 2.005)
    assert player.first_content(9) is None


def test_content_that_is_flushed_before_it_sounds_was_never_heard() -> None:
    player = Player(RATE)
    player.on_frame(frame(0, 640, level=10), 2.0)
    player.on_frame(frame(640, 320), 2.005)
    player.on_message(ReplyInterrupted(1, 1, 0.0), 2.03)
    assert player.first_content(1) is None


def test_content_that_sounded_stays_after_an_interruption() -> None:
    player = Player(RATE)
    player.on_frame(frame(0), 2.0)
    player.on_message(ReplyInterrupted(1, 1, 10.0), 2.01)
    assert player.first_content(1) == Audible(0, 2.0, 2.0)


def test_an_acknowledgement_is_sound_but_no_content() -> None:
    """The reply's text says where its sound begins; the "mm-hm" in front of it does not count."""
    player = Player(RATE)
    player.on_frame(frame(0), 1.0)
    player.on_message(ReplyText(1, 1, "It is ", 320), 1.5)
    assert player.first_content(1) is None
    player.on_frame(frame(320), 1.6)
    player.on_message(ReplyText(1, 1, "noon.", 640), 1.61)
    assert player.first_sound(1) == Audible(0, 1.0, 1.0)
    assert player.first_content(1) == Audible(320, 1.6, 1.6)


def test_an_acknowledgement_is_told_before_it_sounds() -> None:
    """So that it is no content even where none comes after it; a text without an offset changes nothing."""
    player = Player(RATE)
    player.on_message(ReplyAcknowledged(1, 1, 320), 0.9)
    player.on_frame(frame(0), 1.0)
    assert player.first_sound(1) == Audible(0, 1.0, 1.0)
    assert player.first_content(1) is None
    player.on_message(ReplyText(1, 1, "It is noon."), 1.5)
    player.on_frame(frame(320), 1.6)
    assert player.first_content(1) == Audible(320, 1.6, 1.6)


def test_content_at_zero_stays_at_zero() -> None:
    player = Player(RATE)
    player.on_message(ReplyText(1, 1, "Yes. ", 0), 0.9)
    player.on_message(ReplyText(1, 1, "It is.", 320), 0.95)
    player.on_frame(frame(0), 1.0)
    player.on_message(ReplyText(1, 1, " Noon.", 640), 1.0)
    assert player.first_content(1) == Audible(0, 1.0, 1.0)


def test_only_a_few_replies_are_remembered() -> None:
    player = Player(RATE)
    for epoch in range(1, 20):
        player.on_frame(frame(0, epoch=epoch), float(epoch))
    assert player.first_content(19) is not None
    assert player.first_content(12) is not None
    assert player.first_content(11) is None


@given(
    arrivals=st.lists(st.tuples(st.floats(0.0, 0.2), st.integers(0, 900)), min_size=1, max_size=12),
    stop_after=st.floats(0.0, 1.0),
)
def test_nothing_is_lost_or_played_twice(arrivals: list[tuple[float, int]], stop_after: float) -> None:
    """Whatever the arrivals: position only grows, and the sink gets the played prefix exactly."""
    played: list[int] = []
    player = Player(RATE, sink=lambda data: played.extend(np.frombuffer(data, "<i2").tolist()))
    now, offset, last = 0.0, 0, 0
    for wait, samples in arrivals:
        now += wait
        data = (np.arange(offset, offset + samples) + 1).astype("<i2").tobytes()
        player.on_frame(AudioFrame(1, offset, data), now)
        assert player.played_samples(now) >= last
        last = player.played_samples(now)
        offset += samples
    now += stop_after
    position = player.played_samples(now)
    player.finish(now)
    assert [value for value in played if value] == list(range(1, position + 1))


def test_what_was_still_to_be_played_when_the_connection_was_lost_is_not_played() -> None:
    """Nor what comes of an older epoch after it; a newer one is."""
    played = bytearray()
    player = Player(RATE, sink=played.extend)
    player.on_frame(frame(0, 3200, epoch=4), 0.0)
    player.on_disconnected(0.05)
    assert player.is_silent(0.05) and len(played) == 2 * 800
    player.on_frame(frame(0, epoch=3), 1.0)
    assert player.is_silent(1.0)
    player.on_frame(frame(0, epoch=6), 2.0)
    assert not player.is_silent(2.0)


def test_the_epochs_of_another_session_begin_anew() -> None:
    player = Player(RATE)
    player.on_frame(frame(0, epoch=9), 0.0)
    player.on_disconnected(1.0)
    player.on_new_session()
    player.on_frame(frame(0, epoch=1), 2.0)
    assert not player.is_silent(2.0) and player.first_sound(1) is not None
