"""How long a silence ends a turn: longer, the less complete the utterance looks.

S(p) follows the table of the operating point. `p` is a guess from the text: recognisers punctuate what sounds
finished, questions end turns, and statements are often followed by what they were made for. Words that ask for
more to come lengthen the wait: nobody who stops after "and", or in the middle of a telephone number, has finished.
So does a turn model that is certain that the speaker does not sound finished; it never shortens it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from voicepipe.core.dictation import is_half_dictated

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
"""English words that seldom end an utterance: articles, conjunctions, prepositions, auxiliaries,
fillers."""

_NEVER_LAST = frozenset("a an the and or but so because if my your his its our their um uh er erm hmm".split())
"""Words that end no question either: articles, conjunctions, possessives, fillers. "her" may: which book would
you give her?"""

_STATEMENT = re.compile(
    r"(?i)^(?:(?:and|but|so|well|okay|ok|then|yes|yeah|no|hi|hello|hey|like|actually|now)[, ]+)*"
    r"(?:i|i'm|i've|i'd|i'll|we|we're|we've|we'll|my|our|it|it's|its|there(?:'s| is| are| was| were)|he|he's|she|"
    r"she's|they|they're|his|her|their|the|this|that|that's|these|those|a|an|one|some|for|in|on|at|with|from|after|"
    r"before|last|next|today|yesterday)\b"
)
"""What begins with its subject, or with a place or a time, is no question and no request."""
_QUESTION_WORD = re.compile(r"(?i)\b(who|whom|whose|what|what's|where|which|when|why|how)\b")
_SUBORDINATE = re.compile(
    r"(?i)^(?:(?:and|but|so|well|okay|then)[, ]+)?"
    r"(?:if|when|after|before|because|although|though|while|since|unless|until|as|once|whenever)\b"
)
_BARE_MODAL = re.compile(
    r"(?i)^(?:can|could|would|will|should|do|does|did|may|is|are) (?:you|i|we|they|he|she|it)$"
)
_CLOSED_PHRASE = re.compile(
    r"(?i)\b(?:who|what|where|when|how(?: \w+)?) "
    r"(?:it|that|this|they|you|we|i|(?:the|my|your|his|her|its|our|their|this|that|these|those)(?: \w+){1,3}) "
    r"(?:is|are|was|were)$"
)
"""A question within a sentence ends with its verb: "how long the warranty is"."""
_GIVEN_TO_HER = re.compile(
    r"(?i)\b(?:gives?|gave|given|tells?|told|shows?|showed|shown|asks?|asked|sends?|sent|buy|bought) her$"
)
"""Not the beginning of what is hers."""
_WORD = re.compile(r"[\w']+")


@dataclass(frozen=True, slots=True)
class Patience:
    """S(p) as steps: the silence asked for at a score of at least `p`, highest first. Seconds."""

    name: str
    steps: tuple[tuple[float, float], ...]
    open_s: float
    """The least silence after words that ask for more to come."""
    quiet_s: float | None = None
    """After what looks finished so much quiet will do too, once the detector has confirmed the pause: counted from
    where the sound fell away, which the detector tells 30 to 100 ms later. None: its silence alone counts."""
    most_stretch: float = 3.0
    """How many times this is the most for a speaker who was cut off."""

    def silence_s(self, score: float) -> float:
        for at_least, silence_s in self.steps:
            if score >= at_least:
                return min(silence_s, HARD_CAP_S)
        return HARD_CAP_S


OPERATING_POINTS = {
    "fast": Patience(
        "fast", ((0.6, 0.096), (0.4, 0.640), (0.0, 1.400)), open_s=1.4, quiet_s=0.096, most_stretch=1.75
    ),
    "balanced": Patience(
        "balanced", ((0.9, 0.128), (0.8, 0.256), (0.6, 0.416), (0.4, 0.640), (0.0, 1.400)), open_s=1.4
    ),
    "safe": Patience("safe", ((0.6, 1.376), (0.0, 1.440)), open_s=1.44),
}
"""Tuned on one half of a labelled set whose pauses are spread evenly from 200 to 1,500 ms (`endpointing.py`).
None of those follows a question. `fast` waits no longer for statements, and not much longer for a speaker who was
cut off: it would not fit into 200 ms."""

LONGER, RELAX = 1.2, 0.9
"""A speaker who goes on after a commit gets a fifth more time than that pause has lasted, as far as the operating
point allows; each turn without a false start takes a tenth of it back."""


class Speaker:
    """How patient to be with this one speaker."""

    def __init__(self, patience: Patience) -> None:
        self._point = patience
        self._stretch = 1.0
        self.patience = patience
        """At present."""

    def _become(self, stretch: float) -> None:
        if stretch == self._stretch:
            return
        self._stretch, point = stretch, self._point
        self.patience = replace(
            point,
            steps=tuple((at_least, stretch * silence_s) for at_least, silence_s in point.steps),
            open_s=stretch * point.open_s,
            quiet_s=None if point.quiet_s is None else stretch * point.quiet_s,
        )

    def on_false_start(self, text: str, pause_s: float) -> None:
        """`text` was taken for all, and the speaker went on after `pause_s`. Where the most patience would
        not have been enough, more of it would make every turn late and no pause safe: it stays as it is."""
        asked_s = needed_silence_s(text, None, self._point)
        if self._point.quiet_s is not None and is_quiet_enough(asked_s, text, None, self._point):
            asked_s = min(asked_s, self._point.quiet_s)
        wanted = LONGER * pause_s / asked_s
        if wanted <= self._point.most_stretch:
            self._become(max(self._stretch, wanted))

    def on_clean_turn(self) -> None:
        self._become(max(1.0, RELAX * self._stretch))


STATEMENT_WORDS = 3
"""Less than that is an answer."""
FINISHED = 0.6
"""Score from which a text looks like a finished sentence."""


def text_score(text: str) -> float:
    """A guess at p from the words alone, in [0, 1]: question .95, request or answer .85, statement .7, no
    punctuation .4, open end .15."""
    stripped = text.strip()
    if stripped.endswith(("...", "…", ",", "-", ":", ";")):
        return 0.15
    if stripped.endswith("?"):
        return 0.95
    if not stripped.endswith((".", "!")):
        return 0.4
    last = stripped[max(stripped.rfind(f"{mark} ") for mark in ".!?") + 1 :].lstrip()
    return 0.7 if _STATEMENT.match(last) and len(last.split()) >= STATEMENT_WORDS else 0.85


def is_open(text: str) -> bool:
    """Do the words ask for more to come, whatever mark the recogniser has put behind them?"""
    bare = text.strip().rstrip(".!?,;:…- ")
    if not bare:
        return False
    if is_half_dictated(bare):
        return True
    question = text.rstrip().endswith("?")
    last = _WORD.findall(bare.lower())[-1:]
    if last and last[0] in _NEVER_LAST:
        return True
    # "What is it for?" ends with a preposition; "Could you play something by?" was not meant to.
    asked = question and _QUESTION_WORD.search(bare)
    closed = asked or _CLOSED_PHRASE.search(bare) or _GIVEN_TO_HER.search(bare)
    if last and last[0] in _OPEN_WORDS and not closed:
        return True
    if _BARE_MODAL.search(bare) or (_SUBORDINATE.search(bare) and "," not in bare and not question):
        return True
    return text.rstrip().endswith((",", "...", "…"))


def sounds_finished(text: str) -> bool:
    """By the words alone."""
    return text_score(text) >= FINISHED and not is_open(text)


UNFINISHED = 0.05
"""Score of a turn model below which the speaker does not sound finished. Higher ones tell the labelled set's pauses
from its ends no better than chance; at the first silent frame one end in twenty scores below 0.04."""
ANSWER_S = 0.1
"""The wait that must be left for a turn model to answer: a question takes some 50 ms, and waits for a chunk."""
LEAST_GAIN_S = 0.1
"""How much longer its answer must be able to make the wait, to be worth a question."""


def needed_silence_s(text: str, completeness: float | None, patience: Patience) -> float:
    """Seconds of silence after which `text` is taken as the whole of what the user wanted to say. `completeness` is
    the turn model's newest score in this pause; None where there is none."""
    by_words_s = max(patience.silence_s(text_score(text)), patience.open_s if is_open(text) else 0.0)
    if completeness is not None and completeness < UNFINISHED:
        by_words_s = max(by_words_s, patience.open_s)
    return min(by_words_s, HARD_CAP_S)


def is_quiet_enough(quiet_s: float, text: str, completeness: float | None, patience: Patience) -> bool:
    """Whether so much quiet, from where the sound fell away, ends an utterance that looks finished."""
    if patience.quiet_s is None or quiet_s < patience.quiet_s:
        return False
    sounds_unfinished = completeness is not None and completeness < UNFINISHED
    return sounds_finished(text) and not sounds_unfinished


def is_worth_asking(by_words_s: float, left_s: float, patience: Patience) -> bool:
    """The words ask for so much silence, and so much of the wait is left: is there time to ask a turn model, and
    could its answer matter?"""
    return left_s >= ANSWER_S and min(patience.open_s, HARD_CAP_S) - by_words_s >= LEAST_GAIN_S
