"""The cut of a reply into clauses: early first, whole later, nothing lost, whatever the deltas."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from voicepipe.core.clauses import FIRST, LATER, ClausePolicy, ClauseSplitter, speakable

WHOLE = ClausePolicy(phrase_words=99, breath_words=99, words_max=99, chars_max=9999)


def clauses(*deltas: str, first: ClausePolicy = FIRST, later: ClausePolicy = LATER) -> list[str]:
    splitter = ClauseSplitter(first, later)
    return [clause for delta in deltas for clause in splitter.feed(delta)] + splitter.flush()


def sentences(text: str) -> list[str]:
    return clauses(text, first=WHOLE, later=WHOLE)


class TestSentences:
    @pytest.mark.parametrize(
        "text",
        [
            "One. | Two! | Three? | Four",
            "He said “Go.” | She went. | (Yes.) | “No!” | Good.",
            "Dr. Smith and Mrs. Jones met Prof. Li vs. St. John. | Then they left.",
            "Fruit, e.g. apples, i.e. food. | Cf. Fig. 3 for more.",
            "It costs $3.14 or 1,000.50 in all. | Version 1.2.3 is out.",
            "Meet at 5:30 p.m. on Monday. | Or at 6 a.m. | The door is open.",
            "The U.S. Army and the U.K. have it. | He lives in the U.S. | The end.",
            "J. R. R. Tolkien wrote it. | So do I. | You know.",
            "Apples, pears, etc. are fruit. | Bring pears, etc. | Then go.",
            "It is No. 5 of 7. | No. | That is wrong.",
            "On Jan. 5 it began. | It ended in Dec. | Nobody knew.",
            "There are 3. | Then 4. and 5 in 2024. | Good.",
            "Acme Inc. is old. | He runs Acme Inc. | It is big.",
            "Well... maybe. | Or... | Not. | And… so it goes… | Yes.",
            "See https://a.b/c.d?e=f. | Or mail me@x.org, or try example.com today. | Bye.",
            "What?! | No!! | Really?!",
        ],
    )
    def test_ends(self, text: str) -> None:
        expected = text.split(" | ")
        assert sentences(" ".join(expected)) == expected

    def test_list_numbers_end_nothing(self) -> None:
        assert sentences("1. foo bar\n2. Baz.\n3) last") == ["1. foo bar", "2. Baz.", "3) last"]

    def test_scripts_without_spaces(self) -> None:
        assert sentences("こんにちは。元気ですか？はい") == ["こんにちは。", "元気ですか？", "はい"]

    def test_lines_end_a_clause(self) -> None:
        assert sentences("# Title\nRoses are red\nViolets, blue\n\n- one\n- two") == [
            "Title",
            "Roses are red",
            "Violets, blue",
            "one",
            "two",
        ]

    def test_a_mark_that_says_nothing_is_no_clause(self) -> None:
        assert sentences("Yes. ... !? -- 🎉") == ["Yes."]
        assert sentences("... \n---\n") == []
        assert clauses(". " * 999 + "Yes.")[-1].endswith("Yes.")


class TestFirst:
    @pytest.mark.parametrize(
        ("fed", "given"),
        [
            ("Sure, I", ["Sure,"]),
            ("Yes. It", ["Yes."]),
            ("Paris! ", ["Paris!"]),
            ("Well — that", ["Well —"]),
            ("Here you are: one", ["Here you are:"]),
            ("The capital of France is Paris. It", ["The capital of France is Paris."]),
            ("I went to the old market because ", ["I went to the old market"]),
            ("My old friend really likes you and ", ["My old friend really likes you"]),
            ("one two three four five six seven eight ", ["one two three four five six seven eight"]),
            ("one two three four five six seven the ", []),
            ("the the the the the the the the the the the ", ["the " * 10 + "the"]),
            ("one two three four five six seven", []),
            ("| a | b |", ["a"]),
        ],
    )
    def test_it_comes_as_early_as_that(self, fed: str, given: list[str]) -> None:
        assert ClauseSplitter().feed(fed) == given

    def test_it_waits_no_longer_than_the_word_after(self) -> None:
        splitter = ClauseSplitter()
        assert splitter.feed("Sure,") == []
        assert splitter.feed(" ") == ["Sure,"]
        splitter = ClauseSplitter()
        assert splitter.feed("It is 5 p.m. ") == []
        assert splitter.feed("The ") == ["It is 5 p.m."]

    def test_a_shorter_one_can_be_asked_for(self) -> None:
        short = ClausePolicy(phrase_words=1, breath_words=2, words_max=3)
        assert clauses("Cats sleep in old warm houses today.", first=short) == [
            "Cats sleep",
            "in old warm houses today.",
        ]


class TestLater:
    def test_they_are_whole_sentences(self) -> None:
        text = "Sure. I like it, and you do, too. We both know that it is good to sit in the sun."
        assert clauses(text) == [
            "Sure.",
            "I like it, and you do, too.",
            "We both know that it is good to sit in the sun.",
        ]

    def test_a_long_one_is_cut_at_a_comma(self) -> None:
        text = "Sure. When the long day is over and done, we go home, and we sleep."
        assert clauses(text)[1:] == [
            "When the long day is over and done,",
            "we go home, and we sleep.",
        ]

    def test_an_endless_one_is_cut(self) -> None:
        parts = clauses("Sure. " + "word " * 100)[1:]
        assert [len(part.split()) for part in parts] == [24, 24, 24, 24, 4]
        assert all(len(part) <= LATER.chars_max for part in clauses("x" * 99 + " " + "longword " * 200))


PIECES = [
    *("Sure,", "the", "and", "Paris", "It", "word", "because", "Dr.", "U.S.", "p.m.", "e.g.", "3.14"),
    *("1.", "5.", "end.", "What?", "...", "—", "-", "**b**", "`c_d*`", "# ", "[x](y z)", "|", "🎉"),
    *("```", "日本。", "(so.)", "https://a.b/c.", "J.", "\n", "\n\n", " ", "*", "_x_", "\\*", ">"),
]
REPLIES = st.lists(st.sampled_from(PIECES), max_size=40).flatmap(
    lambda pieces: st.sampled_from(["".join(pieces), " ".join(pieces)])
) | st.text(max_size=80)


def cut(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(REPLIES, st.lists(st.integers(0, 200), max_size=12))
@example("It is 5 p.m. The end, Dr. No.", list(range(30)))
def test_clauses_do_not_depend_on_the_deltas(text: str, cuts: list[int]) -> None:
    assert clauses(*cut(text, cuts)) == clauses(text) == clauses(*text)


def spoken(text: str) -> list[str]:
    return [word for word in text.split() if any(char.isalnum() for char in word)]


@given(REPLIES)
def test_no_word_is_lost_or_made_up(text: str) -> None:
    said = " ".join(clauses(text))
    if not any(glue in text for glue in ("。", "](", "，", "、", "！", "？", "；")):
        assert spoken(said) == spoken(speakable(text))
    # Where words may follow each other without a space, a cut between them adds one.
    assert "".join(filter(str.isalnum, said)) == "".join(filter(str.isalnum, speakable(text)))


@given(REPLIES)
def test_every_clause_says_something_and_is_bounded(text: str) -> None:
    for clause in clauses(text):
        assert any(char.isalnum() for char in clause)
        assert clause == clause.strip() and "\n" not in clause
        assert len(clause) <= LATER.chars_max or max(map(len, clause.split())) > 100
        assert len(clause.split()) <= 3 * LATER.words_max


@given(REPLIES)
def test_the_first_clause_is_short(text: str) -> None:
    for clause in clauses(text)[:1]:
        assert len(spoken(clause)) <= FIRST.words_max + 3
