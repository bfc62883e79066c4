"""Stale audio is recognised by its epoch alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voicepipe.wire.native import (
    AudioFrame,
    ReplyInterrupted,
    ServerMessage,
    TurnCommitted,
    TurnReopened,
)
from voicepipe_client.epochs import EpochGate


def frame(epoch: int) -> AudioFrame:
    return AudioFrame(epoch, 0, b"")


def test_audio_of_the_committed_epoch_passes() -> None:
    gate = EpochGate()
    gate.on_message(TurnCommitted(1, 4))
    assert gate.admits(frame(4))
    assert not gate.admits(frame(3))


def test_an_interruption_closes_the_epoch() -> None:
    gate = EpochGate()
    gate.on_message(TurnCommitted(1, 4))
    gate.on_message(ReplyInterrupted(1, 4, 100.0))
    assert not gate.admits(frame(4))
    assert gate.admits(frame(5))


def test_a_reopening_closes_the_epoch() -> None:
    gate = EpochGate()
    gate.on_message(TurnReopened(1, 2))
    assert not gate.admits(frame(2))
    gate.on_message(TurnCommitted(1, 3))
    assert gate.admits(frame(3))


def test_newer_audio_needs_no_message() -> None:
    gate = EpochGate()
    assert gate.admits(frame(7))
    assert not gate.admits(frame(6))


messages = st.one_of(
    st.builds(TurnCommitted, st.just(1), st.integers(0, 9)),
    st.builds(TurnReopened, st.just(1), st.integers(0, 9)),
    st.builds(ReplyInterrupted, st.just(1), st.integers(0, 9), st.just(0.0)),
)


@given(st.lists(messages | st.builds(frame, st.integers(0, 10))))
def test_no_admitted_epoch_is_older_than_one_before_or_closed(
    events: list[ServerMessage | AudioFrame],
) -> None:
    gate = EpochGate()
    closed, newest = -1, -1
    for event in events:
        if isinstance(event, AudioFrame):
            if gate.admits(event):
                assert event.epoch > closed
                assert event.epoch >= newest
                newest = event.epoch
            continue
        gate.on_message(event)
        if not isinstance(event, TurnCommitted):
            closed = max(closed, event.epoch)
