"""Numbers and spellings: half of one asks for time, a whole one does not."""

from __future__ import annotations

import pytest

from voicepipe.core.dictation import LONGEST, is_half_dictated


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("I have 12", False),
        ("The number is 12", True),
        ("It is 123", True),
        ("My number is 555-012-347", True),
        ("My number is 555-012-3478", False),
        ("My card ends in 66", True),
        ("My card ends in 664", True),
        ("My card ends in 66-41", False),
        ("The last four digits of it are 66", True),
        ("The last four digits of it are 6641", False),
        ("My account is ending with 664, 1", False),
        ("My PIN is 40", True),
        ("My PIN code is 4011", False),
        ("My zip code is 902", True),
        ("My zip code is 90210", False),
        ("The code on the card is 4.1.72", True),
        ("The code on the card is 4.1.72.96", False),
        ("The order number is 803-225", True),
    ],
)
def test_digits_are_whole_at_the_number_that_such_a_thing_has(text: str, half: bool) -> None:
    assert is_half_dictated(text) is half


def test_ten_digits_are_a_whole_number_of_any_kind() -> None:
    assert is_half_dictated("Call " + "7" * (LONGEST - 1))
    assert not is_half_dictated("Call " + "7" * LONGEST)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("My name is Keller, that is K, E", True),
        ("My name is Keller, that is K-E-L-L", True),
        ("My name is Keller, that is K-E-L-L-E-R", False),
        ("It is Anna. A N N A", False),
        ("That is K, E, L, L, E, R", True),
        ("A", False),
        ("I got an A", False),
    ],
)
def test_a_spelling_is_whole_when_it_is_that_of_a_word_that_was_said(text: str, half: bool) -> None:
    assert is_half_dictated(text) is half
