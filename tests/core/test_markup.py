"""Markdown in, words out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.clauses import speakable
from voicepipe.core.markup import WORD_CHARS_MAX, Event, Mark, Markup, Word


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("plain text, as it is.", "plain text, as it is."),
        ("**bold** and *leaning* and ***both***!", "bold and leaning and both!"),
        ("__bold__ and _leaning_, (_so_).", "bold and leaning, (so)."),
        ("~~gone~~ but ~5 stays", "gone but ~5 stays"),
        ("**two words** and **bold**text", "two words and boldtext"),
        ("snake_case and 2*3 and 2 * 3", "snake_case and 2*3 and 2 * 3"),
        ("a lone * is none", "a lone is none"),
        ("# Title\n### Sub-title\nText", "Title Sub-title Text"),
        ("#1 of 3 # here", "#1 of 3 # here"),
        ("use `a_b * c` now", "use a_b * c now"),
        ("a stray ` tick\n*ends* here", "a stray tick ends here"),
        ("before\n```python\nx = 1\n  # no\n```\nafter", "before after"),
        ("before\n~~~\n``` is *data* here\n~~~\nafter", "before after"),
        ("```x = 1``` is code", "is code"),
        ("open\n```\nnever closed. 1 2 3", "open"),
        ("[the docs](https://x.y/z) say", "the docs say"),
        ('see [it](https://x.y/a_(b) "Title here"), please', "see it, please"),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("[1] and [x", "1 and x"),
        ("<https://x.y/z> or <me@x.y>", "https://x.y/z or me@x.y"),
        ("- one\n* two\n+ three\n• four", "one two three four"),
        ("- [ ] open\n- [x] done", "open done"),
        ("1. one\n2) two", "1. one 2) two"),
        ("> quoted\n>> twice\n>no space", "quoted twice no space"),
        ("above\n---\n***\n===\nbelow", "above below"),
        ("| a | b c |\n|:--|---:|\n|1|**2**|", "a b c 1 2"),
        ("left | right", "left right"),
        (r"2 \* 3 \_ \# C:\dir", r"2 * 3 _ # C:\dir"),
        ("Done 🎉! 👩‍👩‍👧 1️⃣ 🇩🇪 ❤️ ok 👍🏽", "Done ! 1 ok"),
        ("20 °C © ½ € 日本", "20 °C © ½ € 日本"),
        ("क्‍ष", "क्‍ष"),
        ("<think>hm. no</think>Yes, <think> is a tag", "Yes,"),
        ("a<think>b</think>", "a<think>b</think>"),
        ("[a b](c 'd e')f. g", "a bf. g"),
        ("5 < 6 and 7 > 6", "5 < 6 and 7 > 6"),
        ("", ""),
        (" \n\n ", ""),
    ],
)
def test_what_is_spoken(written: str, spoken: str) -> None:
    assert speakable(written) == spoken


def events(*deltas: str) -> list[Event]:
    markup = Markup()
    return [event for delta in deltas for event in markup.feed(delta)] + list(markup.flush())


def test_lines_and_cells_are_marked() -> None:
    assert events("# A\n\n\n1. b\n|c|d|\n") == [
        Word("A"),
        Mark.LINE,
        Word("1.", number=True),
        Word("b"),
        Mark.LINE,
        Word("c"),
        Mark.CELL,
        Word("d"),
        Mark.CELL,
        Mark.LINE,
    ]


def test_a_word_is_known_at_the_white_space_after_it() -> None:
    markup = Markup()
    assert list(markup.feed("Sure,")) == []
    assert list(markup.feed(" I")) == [Word("Sure,")]


def test_text_without_spaces_is_cut() -> None:
    assert events("はい。元気、です") == [
        Word("はい。"),
        Word("元気、", glued=True),
        Word("です", glued=True),
        Mark.LINE,
    ]
    assert [len(e.text) for e in events("x" * 999) if isinstance(e, Word)] == [400, 400, 199]
    assert WORD_CHARS_MAX == 400


MARKS = [*"ab1 .\n", *"*_`~#[]()|>-!\\<", "```", "](", "<think>", "</think>", "🎉", "\u200d", "。"]
MARKUP = st.lists(st.sampled_from(MARKS), max_size=60).map("".join)


@given(MARKUP, st.lists(st.integers(0, 60), max_size=8))
def test_cuts_do_not_matter(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(text)]
    assert events(*(text[a:b] for a, b in pairwise(edges))) == events(text)


@given(st.text(st.sampled_from("ab1.,!?'()-_*~`[]\\<>|# \n。é🎉"), max_size=40))
def test_words_in_one_piece_are_as_those_that_come_by_characters(text: str) -> None:
    """A word without a mark in it is taken as it is; it must be one that the slow way leaves as it is."""
    at_once, by_characters = Markup(), Markup()
    slow = [event for char in text for event in by_characters.feed(char)]
    assert [*at_once.feed(text), *at_once.flush()] == [*slow, *by_characters.flush()]


@given(st.text(st.sampled_from("abz09.,;:?!'\"()/%$&+=@#-"), min_size=1, max_size=12))
def test_a_plain_word_is_left_as_it_is_by_the_slow_way_too(word: str) -> None:
    """Told apart by a pattern; a tick behind the word makes it go the slow way."""
    markup = Markup()
    plain, slow = markup._inline(word), markup._inline(f"{word}``")
    assert plain == slow == word
