"""From the Markdown that language models write to the words that a voice should say.

Decides nothing before a word has ended, so what comes out does not depend on how the text was cut into deltas. A
word is known when the white space after it comes; no decision waits for more than that.

Dropped: emphasis marks, heading marks, bullets, quote marks, rules, table lines, link targets, fenced code,
emoji, and what a model thinks aloud between <think> and </think>. Kept: the text of links and images, the
content of `inline code`, list numbers, and every other word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

WORD_CHARS_MAX = 400
"""Text without white space is cut here: no input may hold output back without bound."""

CJK_ENDS = frozenset("。！？；、，")
"""Punctuation of scripts that put no space after it."""

_ESCAPABLE = frozenset("\\`*_{}[]()#+-.!|~<>\"'$%&,/:;=?@^")
_BULLETS = frozenset("-*+•‣◦–")
_RUNS = re.compile(r"\n|[^\S\n]+|\S+")
_PLAIN = re.compile(r"[A-Za-z0-9.,;:?!'\"()/%$&+=@#-]+")
"""A word in which nothing can be a mark."""
_RULE = re.compile(r"([-*_=])\1{2,}")
_TABLE_RULE = re.compile(r":?-+:?")
_NUMBER = re.compile(r"\d{1,3}[.)]")
_CHECKBOXES = frozenset(("[", "]", "[]", "[x]", "[X]"))
_FENCES = ("```", "~~~")
_THINK, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """Never empty."""
    number: bool = False
    """The number of a list item."""
    glued: bool = False
    """Follows the word before without a space."""


class Mark(Enum):
    LINE = auto()
    """A line with words in it has ended."""
    CELL = auto()
    """A table cell has ended."""


Event = Word | Mark


class _Skip(Enum):
    NOTHING = auto()
    FENCE_LINE = auto()
    """The line that opens a fenced block: it may close it too."""
    FENCE = auto()
    THOUGHT = auto()


class Markup:
    """One reply's text: feed it, then flush it once."""

    def __init__(self) -> None:
        self._word: list[str] = []
        """In pieces, as they came."""
        self._length = 0
        """Of all of them."""
        self._skip = _Skip.NOTHING
        self._fence = ""
        self._at_start = True
        self._said = False
        self._table = False
        self._code = False
        self._target = 0
        self._glued = False
        self._after_digit = False

    def feed(self, text: str) -> Iterator[Event]:
        for run in _RUNS.findall(text):
            if run == "\n":
                yield from self._end_word()
                yield from self._end_line()
            elif run.isspace():
                yield from self._end_word()
                self._glued = False
            elif run.isascii() and self._length + len(run) < WORD_CHARS_MAX:
                self._word.append(run)
                self._length += len(run)
            else:
                yield from self._feed_word(run)

    def _feed_word(self, run: str) -> Iterator[Event]:
        """What may hold the end of a word without white space."""
        for char in run:
            self._word.append(char)
            self._length += 1
            if char in CJK_ENDS or self._length == WORD_CHARS_MAX:
                yield from self._end_word()
                self._glued = True

    def flush(self) -> Iterator[Event]:
        yield from self._end_word()
        yield from self._end_line()

    def _end_line(self) -> Iterator[Event]:
        if self._skip is _Skip.FENCE_LINE:
            self._skip = _Skip.FENCE
        self._at_start = True
        self._table = self._code = self._glued = self._after_digit = False
        self._target = 0
        if self._said:
            self._said = False
            yield Mark.LINE

    def _end_word(self) -> Iterator[Event]:
        if not self._word:
            return
        raw = "".join(self._word)
        self._word.clear()
        self._length = 0
        raw = self._unskipped(raw)
        if raw and self._at_start:
            raw = self._block(raw)
        if not raw:
            return
        self._glued |= self._target > 0  # what follows a link whose title had spaces
        number = self._at_start and _NUMBER.fullmatch(raw) is not None
        self._at_start = False
        if not self._table:
            yield from self._say("" if raw == "|" else self._inline(raw), number)
            return
        first, *cells = raw.split("|")
        yield from self._say(self._cell(first), number)
        for cell in cells:
            if self._said:
                yield Mark.CELL
            yield from self._say(self._cell(cell), False)

    def _say(self, text: str, number: bool) -> Iterator[Event]:
        if text:
            yield Word(text, number, self._glued)
            self._said = True
            self._glued = False
            self._after_digit = text[-1].isdigit()

    def _unskipped(self, raw: str) -> str:
        """What is left of a word outside code blocks and thoughts."""
        if self._skip is _Skip.THOUGHT:
            _, end, rest = raw.partition(_THOUGHT)
            if end:
                self._skip = _Skip.NOTHING
            return rest
        if self._skip is _Skip.NOTHING:
            before, begin, rest = raw.partition(_THINK)
            if begin and not before:
                self._skip = _Skip.THOUGHT
                return self._unskipped(rest)
            return raw
        ends = self._skip is _Skip.FENCE_LINE and raw.endswith(self._fence)
        closes = self._skip is _Skip.FENCE and self._at_start and raw.startswith(self._fence)
        if ends or (closes and len(set(raw)) == 1):
            self._skip = _Skip.NOTHING
        self._at_start = False
        return ""

    def _block(self, raw: str) -> str:
        """What is left of a line's first word without the marks of its block."""
        for fence in _FENCES:
            if raw.startswith(fence) and raw.count(fence) == 1:
                self._skip, self._fence = _Skip.FENCE_LINE, fence
                self._at_start = False
                return ""
        raw = raw.lstrip(">")
        if raw in _BULLETS or raw in _CHECKBOXES or _RULE.fullmatch(raw):
            return ""
        if len(raw) <= 6 and not raw.strip("#"):
            return ""
        self._table = raw.startswith("|")
        return raw

    def _cell(self, raw: str) -> str:
        return "" if _TABLE_RULE.fullmatch(raw) else self._inline(raw)

    def _inline(self, raw: str) -> str:
        """A word without emphasis, code ticks, link targets, escapes and emoji."""
        if raw == "*" and self._after_digit and not self._code:
            return raw  # a product, not a mark
        if not (self._target or self._code) and _PLAIN.fullmatch(raw):
            return raw
        out: list[str] = []
        i = 0
        while i < len(raw):
            i += self._mark(raw, i, out)
        return "".join(out)

    def _mark(self, raw: str, i: int, out: list[str]) -> int:
        """Take the mark or character at `i`; returns how many characters that are."""
        char, following = raw[i], raw[i + 1 : i + 2]
        if self._target:
            self._target += (char == "(") - (char == ")")
            return 1
        if char == "`":
            self._code = not self._code
            return _run(raw, i)
        if self._code:
            out.append(char)
            return 1
        if char == "\\" and following in _ESCAPABLE and following:
            out.append(following)
            return 2
        if char == "]" and following == "(":
            self._target = 1
            return 2
        if char in "[]" or (char == "!" and following == "[") or _is_emoji(raw, i):
            return 1
        if char in "<>" and ("://" in raw or "@" in raw):
            return 1
        size = _run(raw, i)
        if char in "*_" or (char == "~" and size > 1):
            if char != "~" and size == 1 and _is_inside(raw, i):
                out.append(char)
            return size
        out.append(char)
        return 1


def _run(raw: str, i: int) -> int:
    """Length of the run of equal characters that begins at `i`."""
    return len(raw) - i - len(raw[i:].lstrip(raw[i]))


def _is_inside(raw: str, i: int) -> bool:
    """True in snake_case and 2*3: a mark that opens or closes has a letter on one side only."""
    return i > 0 and raw[i - 1].isalnum() and raw[i + 1 : i + 2].isalnum()


def _is_emoji(raw: str, i: int) -> bool:
    """True for pictographs, and for the selectors and joiners that belong to one."""
    code = ord(raw[i])
    if code in (0xFE0E, 0xFE0F, 0x20E3):
        return True
    if code == 0x200D:  # also shapes letters in some scripts
        return i > 0 and _is_emoji(raw, i - 1)
    return (
        0x1F000 <= code <= 0x1FAFF
        or 0x2600 <= code <= 0x27BF
        or 0x2B05 <= code <= 0x2B55
        or 0x231A <= code <= 0x23FF
        or 0xE0020 <= code <= 0xE007F
    )
