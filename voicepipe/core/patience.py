"""How long a silence ends a turn: longer, the less complete the utterance looks.

S(p) follows the table of the operating point. `p` is the turn model's score where there is one, else a guess
from the text: recognisers punctuate what sounds finished. Text can only lengthen the wait: nobody who stops
after "and", or in the middle of a telephone number, has finished.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HARD_CAP_S = 2.5
"""No silence is waited for longer, whatever the text looks like."""

_OPEN_WORDS = frozenset(
    (
        "a an the and or but so because if when while that which who whose of to for from with without in on "
        "at by about into than as my your his her its our their this these those is are was were be um uh er "
        "erm hmm like i i'm we're you're it's what's where's how's can could would should will do does did "
        "not very"
    ).split()
)
"""English words that hardly ever end an utterance: articles, conjunctions, prepositions, auxiliaries,
fillers."""

_CLOSED_PHRASE = re.compile(r"(?i)\b(who|what|where|when|how) (?:it|that|this|they|you|we|i) (?:is|are|was|were)$")
_DIGITS = re.compile(r"(?:\d[\d\s\-,.]*)$")
_SPELLING = re.compile(r"(?i)(?:^|[\s\-])[a-z](?:[\s\-]+[a-z])+$")
_WORD = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class Patience:
    """S(p) as steps: the silence asked for at a score of at least `p`, highest first. Seconds."""

    name: str
    steps: tuple[tuple[float, float], ...]
    floor_s: float = 0.0

    def silence_s(self, score: float) -> float:
        for at_least, silence_s in self.steps:
            if score >= at_least:
                return min(max(silence_s, self.floor_s), HARD_CAP_S)
        return HARD_CAP_S


_FAST = ((0.8, 0.096), (0.5, 0.224), (0.2, 0.640), (0.0, 1.200))
OPERATING_POINTS = {
    "fast": Patience("fast", _FAST),
    "balanced": Patience("balanced", ((0.7, 0.256), (0.5, 0.448), (0.2, 1.280), (0.0, 2.400))),
    "safe": Patience("safe", _FAST, floor_s=0.600),
}


def text_score(text: str) -> float:
    """A guess at p from the words alone, in [0, 1]: finished sentence .85, no punctuation .4, open end .1."""
    stripped = text.rstrip()
    if stripped.endswith(("...", "…", ",", "-", ":", ";")):
        return 0.15
    return 0.85 if stripped.endswith((".", "!", "?")) else 0.4


def text_floor_s(text: str) -> float:
    """The least silence that the words ask for, 0 where they ask for none."""
    bare = text.strip().rstrip(".!?,;:…- ")
    if not bare:
        return 0.0
    digits = _DIGITS.search(bare)
    if (digits and 3 <= len(re.sub(r"\D", "", digits.group())) < 10) or _SPELLING.search(bare):
        return 0.9
    last = _WORD.findall(bare.lower())[-1:]
    question = text.rstrip().endswith("?")
    if last and last[0] in _OPEN_WORDS and not question and not _CLOSED_PHRASE.search(bare):
        return 0.64
    return 0.64 if text.rstrip().endswith((",", "...", "…")) else 0.0


def needed_silence_s(text: str, completeness: float | None, patience: Patience) -> float:
    """Seconds of silence after which `text` is taken as the whole of what the user wanted to say."""
    score = text_score(text) if completeness is None else completeness
    return min(max(patience.silence_s(score), text_floor_s(text)), HARD_CAP_S)
