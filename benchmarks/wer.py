"""Word error rate over a corpus: all errors by all words of the references, after folding what is not an error.

Case, punctuation and the way numbers are written are folded: "twenty-five", "25" and "two five" are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ONES = {
    word: value
    for value, word in enumerate(
        [
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
            *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
            *("seventeen", "eighteen", "nineteen"),
        ]
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_WORD = re.compile(r"[^\W\d_]+|\d")


@dataclass(frozen=True, slots=True)
class Wer:
    """Errors over a corpus. `hallucinated` words were heard where the reference is silent: in no rate."""

    words: int
    substitutions: int
    deletions: int
    insertions: int
    hallucinated: int

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per word of the references; 0.0 without any word."""
        return self.errors / self.words if self.words else 0.0


def fold(text: str) -> list[str]:
    """Words in lower case without punctuation; numbers as single digits."""
    spelled = text.casefold().replace("'", "").replace("’", "")
    folded: list[str] = []
    tens = 0
    for word in _WORD.findall(spelled):
        ones = _ONES.get(word)
        if tens and ones is not None and 0 < ones < 10:
            folded += str(tens + ones)
            tens = 0
            continue
        folded += str(tens) if tens else ""
        tens = _TENS.get(word, 0)
        if not tens:
            folded += [word] if ones is None else str(ones)
    return folded + list(str(tens) if tens else "")


def count_errors(reference: Sequence[str], heard: Sequence[str]) -> tuple[int, int, int]:
    """(substitutions, deletions, insertions) of a cheapest alignment."""
    row = [(0, 0, count) for count in range(len(heard) + 1)]
    for word in reference:
        above = row
        substitutions, deletions, insertions = above[0]
        row = [(substitutions, deletions + 1, insertions)]
        for column, other in enumerate(heard):
            diagonal, up, left = above[column], above[column + 1], row[column]
            row.append(
                min(
                    (diagonal[0] + (word != other), diagonal[1], diagonal[2]),
                    (up[0], up[1] + 1, up[2]),
                    (left[0], left[1], left[2] + 1),
                    key=sum,
                )
            )
    return row[-1]


def corpus_wer(pairs: Iterable[tuple[str, str]]) -> Wer:
    """`pairs` of (reference, heard)."""
    words = hallucinated = 0
    errors = (0, 0, 0)
    for reference, heard in pairs:
        expected, got = fold(reference), fold(heard)
        if not expected:
            hallucinated += len(got)
            continue
        words += len(expected)
        more = count_errors(expected, got)
        errors = (errors[0] + more[0], errors[1] + more[1], errors[2] + more[2])
    return Wer(words, *errors, hallucinated)
