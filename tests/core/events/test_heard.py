"""What the ears tell."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from voicepipe.core.events import EndpointEvent, Hearing, LaneTiming, Listened, Silence


def test_it_is_known_what_there_was_to_hear_once_the_last_chunk_was_taken_up() -> None:
    """One chunk after the other."""
    chunks = tuple(Listened(LaneTiming(0.0, 0.0, at, 0.0, 0.0), 0.01, at + 0.001) for at in (1.0, 1.1))
    assert Hearing(0.9, chunks).taken == 1.101


@pytest.mark.parametrize("kind", get_args(EndpointEvent), ids=lambda kind: kind.__name__)
def test_events_are_frozen_values(kind: type) -> None:
    """They are handed from the ears to the turns, and to a recording."""
    event = kind(*range(len(kind.__match_args__)))  # type: ignore[attr-defined]
    assert event == kind(*range(len(kind.__match_args__)))  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        setattr(event, kind.__match_args__[0], 9)  # type: ignore[attr-defined]


def test_a_silence_has_no_score_where_none_was_asked_for() -> None:
    assert Silence(512).completeness is None
