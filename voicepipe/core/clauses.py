"""A reply's text, as it is written, cut into clauses that can be spoken.

The first clause is short, because the caller waits for it; later ones are whole sentences, because they sound
better and the audio before them buys the time. Where a clause ends depends on the characters alone and not on
how they were cut into deltas: a decision is taken at the end of a word, or at the end of the next one where a
full stop may be an abbreviation's.

Nothing is lost: the clauses, joined by spaces, hold the words of `speakable(text)` in their order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from voicepipe.core.markup import CJK_ENDS, Event, Mark, Markup, Word

_CLOSERS = "\"')]}”’»›"
_OPENERS = "\"'([{“‘«‹¿¡"

_NEVER_LAST = frozenset(
    "dr mr mrs ms mx prof st mt ft vs cf gen rep sen gov capt lt col sgt rev hon pres fig eq approx"
    " e.g i.e viz".split()
)
"""Abbreviations that something always follows."""

_MAYBE_LAST = frozenset(
    "etc inc ltd co corp jr sr no a.m p.m ph.d al est dept ave blvd jan feb mar apr jun jul aug sep sept oct"
    " nov dec mon tue tues wed thu thur thurs fri sat sun".split()
)
"""Abbreviations that may end a sentence: the next word's first letter tells."""

_INITIALS = re.compile(r"[A-Z](?:\.[A-Z])*")
_STARTERS = frozenset(
    "a an and as at but by can do does for from he her his how however i if in is it it's its let's my"
    " no now of on or our she so that that's the their then there there's these they this those to we"
    " what when where which who why with yes you you're your".split()
)
"""Words that begin a sentence where they are capitalised: after "U.S." a capital alone says nothing."""

_CONNECTIVES = frozenset(
    "about after although and as at because before but by during for from if in into like on or over"
    " since so than that through to under unless until when where whether which while who with"
    " without".split()
)
"""Words before which a voice may take breath."""

_WEAK = frozenset(
    "a an and are as at be been but by can could did do does for from had has have if in into is its may"
    " might must my no not of on or our should so than the their to very was were which who will with"
    " would your".split()
)
"""Words after which it may not."""

_PRONOUNS = frozenset("he i it she that these they this those we you".split())
"""Words after which it may if a connective follows."""


class _Edge(Enum):
    """What the end of a word may end."""

    NOTHING = auto()
    PHRASE = auto()
    SENTENCE = auto()
    CAPITAL_DECIDES = auto()
    STARTER_DECIDES = auto()


@dataclass(frozen=True, slots=True)
class ClausePolicy:
    """Sizes of a clause, in words and in characters."""

    phrase_words: int
    """From here on a comma, colon, semicolon or dash ends it."""
    breath_words: int
    """From here on it may end before a connective, without punctuation."""
    words_max: int
    """Here it ends, or at the first word after that it may end with, at most three words later."""
    chars_max: int = 240
    """No clause is longer, unless a single word is."""


FIRST = ClausePolicy(phrase_words=1, breath_words=5, words_max=8)
"""A clause of six words is audio in half the time of one of thirteen, and five to eight tokens are decoded in
about 50 ms."""

SHORTEST_WORDS = 3
"""Of a first clause that is cut short: audio of 0.6 s or more, time enough to make what follows."""

HURRIED = ClausePolicy(phrase_words=1, breath_words=SHORTEST_WORDS, words_max=SHORTEST_WORDS)
"""For a first clause that is short from the start. It ends where its words say so, however they came, so that a
reply which is made anew, and begins alike, begins with the same clause."""

LATER = ClausePolicy(phrase_words=8, breath_words=14, words_max=24)


class ClauseSplitter:
    """One reply: feed deltas, then flush once. `first` holds until the first clause has been given."""

    def __init__(self, first: ClausePolicy = FIRST, later: ClausePolicy = LATER) -> None:
        self._markup = Markup()
        self._policy = first
        self._later = later
        self._text = ""
        self._words = 0
        self._last = ""
        self._edge = _Edge.NOTHING

    def feed(self, delta: str) -> list[str]:
        """The clauses that `delta` completes."""
        return [clause for event in self._markup.feed(delta) for clause in self._on(event)]

    def flush(self) -> list[str]:
        """The rest, at the end of the reply: one clause or two, or none."""
        return [clause for event in self._markup.flush() for clause in self._on(event)]

    def cut_short(self) -> list[str]:
        """End the clause in the making where it can be spoken at all, because there is no time for more of it."""
        able = self._words >= SHORTEST_WORDS and self._last not in _WEAK | _PRONOUNS
        return self._cut() if able else []

    def _on(self, event: Event) -> list[str]:
        if event is Mark.LINE:
            return self._cut()
        if event is Mark.CELL:
            return self._cut() if self._words >= self._policy.phrase_words else []
        assert isinstance(event, Word)
        before = self._cut() if self._ends_before(event) else []
        self._append(event)
        return before + (self._cut() if self._ends_here() else [])

    def _append(self, word: Word) -> None:
        separator = "" if word.glued or not self._text else " "
        self._text += separator + word.text
        if not self._words and len(self._text) > self._policy.chars_max:
            self._text = word.text  # a row of dots or dashes, with nothing to say
        if _is_spoken(word.text):
            self._words += 1
            self._last = _bare(word.text)
        self._edge = _Edge.NOTHING if word.number else _edge(word.text)

    def _ends_before(self, word: Word) -> bool:
        policy = self._policy
        if len(self._text) + 1 + len(word.text) > policy.chars_max:
            return True
        start = word.text.lstrip(_OPENERS)
        capital = start[:1].isupper()
        if self._edge is _Edge.CAPITAL_DECIDES:
            return capital
        if self._edge is _Edge.STARTER_DECIDES:
            return capital and _bare(start) in _STARTERS
        breath = self._words >= policy.breath_words and self._last not in _WEAK
        return breath and _bare(start) in _CONNECTIVES

    def _ends_here(self) -> bool:
        policy = self._policy
        if self._edge is _Edge.SENTENCE:
            return True
        if self._edge is _Edge.PHRASE and self._words >= policy.phrase_words:
            return True
        if self._edge in (_Edge.CAPITAL_DECIDES, _Edge.STARTER_DECIDES):
            return False
        weak = self._last in _WEAK | _PRONOUNS and self._words < policy.words_max + 3
        return self._words >= policy.words_max and not weak

    def _cut(self) -> list[str]:
        """End the clause, if there is anything in it to say."""
        self._edge = _Edge.NOTHING
        if not self._words:
            return []
        clause, self._text, self._words, self._last = self._text, "", 0, ""
        self._policy = self._later
        return [clause]


def is_shortened(clause: str) -> bool:
    """Would a first clause that is given its time go on after these words?"""
    return ClauseSplitter().feed(f"{clause} ") != [clause]


def speakable(text: str) -> str:
    """`text` without markup, its words separated by single spaces."""
    markup = Markup()
    spoken = ""
    for event in (*markup.feed(text), *markup.flush()):
        if isinstance(event, Word):
            spoken += event.text if event.glued else f" {event.text}"
    return spoken.strip()


def _is_spoken(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _bare(text: str) -> str:
    return text.strip(".,;:!?…—–-" + _CLOSERS + _OPENERS).lower()


def _edge(text: str) -> _Edge:
    text = text.rstrip(_CLOSERS)
    last = text[-1:]
    if last in ("!", "?", "。", "！", "？"):
        return _Edge.SENTENCE
    if last in (",", ";", ":", "—", "–") or last in CJK_ENDS or text == "-":
        return _Edge.PHRASE
    if last == "…" or text.endswith(".."):
        return _Edge.CAPITAL_DECIDES
    if last != ".":
        return _Edge.NOTHING
    stem = text[:-1].lstrip(_OPENERS)
    if stem.lower() in _NEVER_LAST:
        return _Edge.NOTHING
    if stem.lower() in _MAYBE_LAST or stem.isdecimal():
        return _Edge.CAPITAL_DECIDES
    return _Edge.STARTER_DECIDES if _INITIALS.fullmatch(stem) else _Edge.SENTENCE
