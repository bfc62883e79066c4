"""The text of one utterance while it grows: what left the window, what is stable, what may change.

    released      words whose audio is no longer in the window; never touched again
    committed     words of the window that two successive hypotheses agreed on (LocalAgreement-2, Liu et al.,
                  arXiv 2005.11185); append-only until a final replaces them
    tentative     the rest of the last hypothesis

Hypotheses are decoded without a forced prefix, so each is first laid against the committed words: the best
match by edit distance says where in it the new words begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voicepipe.engines.hypothesis import ends_sentence, join_words, normalise_all, with_space

ANCHOR_WORDS = 3
"""How many words at the cut edge of the window tell remains of released words from new ones."""
EDGE_WORDS = 2
"""Words this close to the end of the window are not cut off."""
SETTLED_S = 1.0
"""A word that ended this long before the end of the window is followed by a pause: it is whole."""


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common prefix."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def match_length(known: Sequence[str], heard: Sequence[str]) -> int:
    """How many words of `heard` say what `known` says: the prefix of least edit distance, of several one that
    ends in the same word, then the one nearest in length. Both normalised."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(known, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            cost = min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
            diagonal, row[j] = row[j], cost
    last = known[-1] if known else None
    return min(
        range(len(row)),
        key=lambda j: (row[j], j > 0 and heard[j - 1] != last, abs(j - len(known))),
    )


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word of a hypothesis and when it ends, in seconds from the start of the window."""

    text: str
    end_s: float


class Utterance:
    """Collects the hypotheses of one utterance. Lists hold words with the space before them."""

    def __init__(self) -> None:
        self._released: list[str] = []
        self._committed: list[str] = []
        self._tentative: list[str] = []
        self._votes: list[str] = []
        """What the next hypothesis must agree with. Empty after a rejected one."""
        self._anchor: list[str] = []
        """Normalised first words of a window that was cut."""

    @property
    def stable(self) -> str:
        return join_words([*self._released, *self._committed])

    @property
    def tentative(self) -> str:
        return join_words(self._tentative)

    @property
    def text(self) -> str:
        return join_words([*self._released, *self._committed, *self._tentative])

    def on_partial(self, words: Sequence[str]) -> None:
        """Take a hypothesis for the whole window: commit what it shares with the one before, except for its
        last word, whose audio may be cut."""
        new = self._beyond_committed(self._mended(words))
        agreed = common_prefix(normalise_all(self._votes), normalise_all(new))
        agreed = min(agreed, max(0, len(new) - 1))
        self._committed += new[:agreed]
        self._tentative = new[agreed:]
        self._votes = self._tentative

    def on_rejected(self, words: Sequence[str]) -> None:
        """Take what is left of a hypothesis that a guard cut: it is shown, but it never commits a word."""
        self._tentative = self._beyond_committed(self._mended(words)) if words else []
        self._votes = []

    def on_final(self, words: Sequence[str]) -> None:
        """Take the decode at a pause: it replaces the window's words. Speech may go on after it."""
        mended = self._mended(words)
        kept = min(len(self._committed), len(mended))
        self._committed = mended[:kept]
        self._tentative = mended[kept:]
        self._votes = self._tentative
        if self._anchor:
            self._anchor = normalise_all(mended[:ANCHOR_WORDS])

    def wants_cut(self) -> bool:
        """Whether a sentence inside the window is finished and stable."""
        inner = len(self._committed) + min(0, len(self._tentative) - EDGE_WORDS)
        return any(ends_sentence(word) for word in self._committed[: max(0, inner)])

    def cut_points(self, words: Sequence[TimedWord]) -> list[int]:
        """Numbers of words of the last hypothesis after which the window may be cut without losing one: all
        before the cut are committed, and those after it are known to be the same on both sides."""
        heard = normalise_all([word.text for word in words])
        known = normalise_all(self._committed)
        matched = match_length(known, heard)
        points: list[int] = []
        for count in range(min(matched, len(words) - EDGE_WORDS), 0, -1):
            behind = matched - count
            if behind >= len(known) or heard[count:matched] != known[len(known) - behind :]:
                break
            points.append(count)
        return points[::-1]

    def release(self, words: Sequence[TimedWord], count: int) -> None:
        """The window now starts after the first `count` words of the last hypothesis."""
        heard = [word.text for word in words]
        matched = match_length(normalise_all(self._committed), normalise_all(heard))
        if count > matched:
            self._committed += heard[matched:count]
            self._tentative = heard[count:]
            matched = count
        keep = matched - count
        split = max(0, len(self._committed) - keep)
        self._released += self._committed[:split]
        self._committed = self._committed[split:]
        self._anchor = normalise_all([*self._committed, *self._tentative][:ANCHOR_WORDS])
        self._votes = self._tentative

    def release_all(self) -> None:
        """The window was emptied: what was committed in it stays, the rest is forgotten."""
        self._released += self._committed
        self._committed, self._tentative, self._votes, self._anchor = [], [], [], []

    def _beyond_committed(self, words: Sequence[str]) -> list[str]:
        known = normalise_all(self._committed)
        return list(words[match_length(known, normalise_all(words)) :])

    def _mended(self, hypothesis: Sequence[str]) -> list[str]:
        """Undo what the cut did to the first word: remains of a released word in front of the anchor go, a
        first word that got lost comes back. Whole words are compared, and only with what was heard in the same
        audio before, so no word of the speaker's can be eaten."""
        words = with_space(hypothesis)
        anchor, heard = self._anchor, normalise_all(words)
        if len(anchor) < 2 or heard[: len(anchor)] == anchor:
            return words
        for offset in (1, 2):
            if heard[offset : offset + len(anchor)] == anchor:
                return words[offset:]
        if heard[: len(anchor) - 1] == anchor[1:]:
            first = [*self._committed, *self._tentative][:1]
            return [*first, *words]
        return words


def forced_points(words: Sequence[TimedWord], window_s: float) -> list[int]:
    """Where a window that is full may be cut although its words are not stable yet."""
    return [
        count
        for count, word in enumerate(words, 1)
        if count <= len(words) - EDGE_WORDS or word.end_s < window_s - SETTLED_S
    ]
