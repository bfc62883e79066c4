"""Labels take a bounded number of values, whatever comes."""

from __future__ import annotations

import pytest

from voicepipe.metrics.labels import BLAME_KINDS, MOST_WORDS, REFUSALS, STAGES, Words, known


def test_words_from_elsewhere_are_bounded() -> None:
    """The first ones are kept apart; a sentence never is one."""
    words = Words()
    assert words("what the user said, word by word") == "other"
    kept = {words(f"code_{number}") for number in range(1_000)}
    assert len(kept) == MOST_WORDS + 1 and "other" in kept
    assert words("code_0") == "code_0" and words("x" * 41) == "other" and words("Loud") == "other"


def test_known_words_take_their_places_first() -> None:
    words = Words(REFUSALS)
    assert words("burst") == "burst"
    assert {words(f"new-{number}") for number in range(100)} > {"other"}
    assert words("unauthorized") == "unauthorized"


def test_our_own_are_checked() -> None:
    assert known("asr", STAGES) == "asr"
    with pytest.raises(AssertionError, match="'mouth' is none of endpoint, asr"):
        known("mouth", STAGES)


def test_nothing_is_blamed_on_what_was_left() -> None:
    assert "unused" not in BLAME_KINDS and "service" in BLAME_KINDS and "unattributed" in BLAME_KINDS
