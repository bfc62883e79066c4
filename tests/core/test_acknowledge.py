"""Which turn is acknowledged, and with what, by literal times."""

from __future__ import annotations

import pytest

from voicepipe.core.acknowledge import Acknowledger, AcknowledgeSettings

SETTINGS = AcknowledgeSettings(sounds=(b"aa", b"bb", b"cc"), one_in=3, spare_s=0.04)
DEADLINE = 10.0


def decide(
    acknowledger: Acknowledger, turn: int, *, epoch: int | None = None, content_in_s: float = 1.0
) -> bytes | None:
    """At the instant that was asked for; None where none was."""
    epoch = turn if epoch is None else epoch
    at = acknowledger.due_at(turn, epoch, DEADLINE)
    return None if at is None else acknowledger.decide(turn, epoch, DEADLINE, content_in_s, at)


def test_it_is_decided_a_little_before_the_deadline() -> None:
    """So that the sound is at the socket by then."""
    assert Acknowledger(SETTINGS).due_at(1, 1, DEADLINE) == pytest.approx(9.99)


def test_without_sounds_or_deadline_there_is_nothing_to_decide() -> None:
    """The rung is off, or the speech has not ended."""
    assert Acknowledger(AcknowledgeSettings()).due_at(1, 1, DEADLINE) is None
    assert Acknowledger(SETTINGS).due_at(1, 1, None) is None


def test_sounds_go_round() -> None:
    """Never the same twice in a row; one turn in three has one."""
    acknowledger = Acknowledger(SETTINGS)
    assert [decide(acknowledger, turn) for turn in range(1, 11)] == [
        b"aa",
        None,
        None,
        b"bb",
        None,
        None,
        b"cc",
        None,
        None,
        b"aa",
    ]


@pytest.mark.parametrize(
    ("content_in_s", "sound"), [(0.0, None), (0.04, None), (0.041, b"aa"), (float("inf"), b"aa")]
)
def test_content_in_a_moment_is_waited_for(content_in_s: float, sound: bytes | None) -> None:
    """And does not use up the turns' one acknowledgement."""
    acknowledger = Acknowledger(SETTINGS)
    assert decide(acknowledger, 1, content_in_s=content_in_s) == sound
    assert (decide(acknowledger, 2) is None) is (sound is not None)


def test_it_is_decided_once_per_commit() -> None:
    """Whatever came of it; a newer commit of the same turn is another matter."""
    acknowledger = Acknowledger(SETTINGS)
    assert decide(acknowledger, 1, epoch=1, content_in_s=0.0) is None
    assert acknowledger.due_at(1, 1, DEADLINE) is None
    assert decide(acknowledger, 1, epoch=3) == b"aa"
    assert acknowledger.due_at(1, 3, DEADLINE) is None


def test_after_the_deadline_it_is_too_late() -> None:
    """The loop stood still for longer; the next turn is not made to wait for it."""
    acknowledger = Acknowledger(SETTINGS)
    assert acknowledger.decide(1, 1, DEADLINE, 1.0, DEADLINE + 0.001) is None
    assert acknowledger.decide(2, 2, DEADLINE, 1.0, DEADLINE) == b"aa"
