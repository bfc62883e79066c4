"""What a recogniser makes of an utterance, as far as it has heard it: the words that have been said, and mistakes.

The same sound gives the same words, whenever it is decoded: what is misheard was drawn with the utterance.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from voicepipe.sim.caller import WRONG, Utterance

TAIL_S = 0.06
"""So much of the end of a word may be missing."""
STABLE_WORDS = 2
"""The newest ones may still change."""


class Heard(NamedTuple):
    stable: str
    tentative: str


class Recogniser(Protocol):
    def hear(self, said: Sequence[Utterance], start: float, upto: float, *, full: bool) -> Heard:
        """What of these utterances, one after the other, is heard in the sound from `start` to `upto`. `full`: as
        if there were nothing more to come."""


class WordByWord:
    """Words are heard when they have been said. Those of a decode that may be all are punctuated as what they look
    like; on their way, as often as the utterance says. The last word is another one now and then."""

    def hear(self, said: Sequence[Utterance], start: float, upto: float, *, full: bool) -> Heard:
        *before, newest = said
        words = [word for utterance in before for word in _whole(utterance)]
        count = bisect_right(newest.ends, upto + TAIL_S)
        words += self._of(newest, count, full=full)
        if full:
            return Heard(" ".join(words), "")
        stable = max(0, len(words) - STABLE_WORDS)
        return Heard(" ".join(words[:stable]), " ".join(words[stable:]))

    def _of(self, said: Utterance, count: int, *, full: bool) -> list[str]:
        words, last = list(said.words[:count]), count - 1
        if not words:
            return words
        if count == len(said.words):
            if said.rethought and full:
                words[last] = WRONG
            words[last] += said.mark
            return words
        if said.misheard[last]:
            words[last] = WRONG
        if said.marked[last]:
            words[last] += "."
        return words


def _whole(said: Utterance) -> list[str]:
    if not said.words:
        return []
    last = WRONG if said.rethought else said.words[-1]
    return [*said.words[:-1], f"{last}{said.mark}"]


class Scripted:
    """As scripted engines hear: a word for every 0.3 s of sound, and all of them where it may be all."""

    SECONDS_PER_WORD = 0.3

    def hear(self, said: Sequence[Utterance], start: float, upto: float, *, full: bool) -> Heard:
        first = said[0]
        words = [*first.words[:-1], f"{first.words[-1]}{first.mark}"] if first.words else []
        if full:
            return Heard(" ".join(words), "")
        heard = words[: int((upto - start) / self.SECONDS_PER_WORD)]
        return Heard(" ".join(heard[:-1]), " ".join(heard[-1:]))
