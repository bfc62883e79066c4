from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.spelling import as_before, normalised


@pytest.mark.parametrize(
    ("before", "text", "shown"),
    [
        ("how long should I boil and", "How long should I boil an egg?", "how long should I boil an egg?"),
        (
            "The spring of hope, it was",
            "the spring of hope. It was the winter.",
            "The spring of hope, it was the winter.",
        ),
        ("It was. The", "It was the spring.", "It was the spring."),
        ("What is this?", "What is this thing?", "What is this thing?"),
        ("I do I get", "How do I get it?", "How do I get it?"),
        ("", "Hello there.", "Hello there."),
        ("Hello there.", "", ""),
    ],
    ids=["case", "marks", "a sentence that goes on", "the last word", "another word", "nothing before", "nothing"],
)
def test_words_are_written_as_they_were_first_shown(before: str, text: str, shown: str) -> None:
    """As long as they are the same words."""
    assert as_before(text, before) == shown


WORDS = st.lists(st.sampled_from(["a", "A", "b.", "b", "c,", "it's", "—", "d?"]), max_size=8).map(" ".join)


@given(WORDS, WORDS)
def test_the_words_themselves_never_change(text: str, before: str) -> None:
    assert normalised(as_before(text, before)) == normalised(text)


@pytest.mark.parametrize(("one", "other"), [("Hello, there!", "hello there"), ("It's  5.", "it's 5"), ("", "...")])
def test_texts_that_sound_alike_are_the_same(one: str, other: str) -> None:
    """Case, punctuation and spaces are not heard."""
    assert normalised(one) == normalised(other)


def test_texts_with_other_words_are_not_the_same() -> None:
    """A word more, a word less, an apostrophe."""
    assert len({normalised(text) for text in ("we are", "we're", "we are here", "we")}) == 4
