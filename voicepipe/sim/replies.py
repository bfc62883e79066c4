"""What the simulated model says: replies of one sentence to four, and how a model's steps cut them.

Which words they are does not matter, how many and where sentences end does: clauses are cut from the text by the
core itself. Replies are few and shared, so that a step of one is a string that is there already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol
from zlib import crc32

SECOND_PER_WORD = 0.3

_NOUNS = (
    "river garden window music engine harbour letter winter morning bridge forest village kitchen number "
    "station summer market island silver valley"
).split()
_OPENINGS = ("Well", "Sure", "Good question", "Let me see", "Certainly")
_LENGTHS = (
    (6,),
    (8,),
    (9,),
    (7, 5),
    (11,),
    (6, 8),
    (8, 7),
    (13,),
    (5, 9),
    (7, 6, 5),
    (9, 9),
    (6, 12),
    (8, 7, 6),
    (10, 11),
    (7, 8, 9),
    (6, 7, 8, 9),
)
"""Words of each sentence: 14 at the mean."""


@dataclass(frozen=True)
class Reply:
    text: str

    @cached_property
    def words(self) -> int:
        return len(self.text.split())

    @property
    def seconds(self) -> float:
        """Of speech, at `SECOND_PER_WORD`."""
        return SECOND_PER_WORD * self.words


@cache
def steps_of(reply: Reply, step_tokens: int, tokens_per_word: float) -> tuple[tuple[str, int], ...]:
    """(text, tokens) of each step that makes so many tokens; the last one may make fewer. A word belongs to the
    step that makes its last token, so that the text of one may be empty."""
    words = reply.text.split()
    ends = [round((index + 1) * tokens_per_word) or 1 for index in range(len(words))]
    steps, made, index = [], 0, 0
    while index < len(words):
        made += step_tokens
        first = index
        while index < len(words) and ends[index] <= made:
            index += 1
        text = "".join(f"{word} " for word in words[first:index])
        tokens = step_tokens - max(0, made - ends[-1])
        steps.append((text if index < len(words) else text.rstrip(), tokens))
    return tuple(steps)


def reply_to(said: str, own: Reply, *, whole: bool) -> Reply:
    """`own` is that to the whole question. To other words, every other time a model begins otherwise; the same
    words always have the same reply."""
    told = crc32(said.encode())
    return own if whole or told & 1 else REPLIES[(told >> 1) % len(REPLIES)]


class ReplyTo(Protocol):
    def __call__(self, said: str, own: Reply, *, whole: bool) -> Reply: ...


def _sentence(number: int, words: int, opening: str) -> str:
    noun = [_NOUNS[(number * 7 + place * 3) % len(_NOUNS)] for place in range(words)]
    body = [f"the {noun[place]}" if place % 3 == 0 else noun[place] for place in range(words)]
    said = " ".join([*opening.split(), *" ".join(body).split()][:words])
    return f"{said[0].upper()}{said[1:]}."


def _reply(number: int, lengths: tuple[int, ...]) -> Reply:
    opening = _OPENINGS[number % len(_OPENINGS)]
    sentences = [_sentence(number + place, words, opening * (not place)) for place, words in enumerate(lengths)]
    return Reply(" ".join(sentences))


REPLIES = tuple(_reply(number, lengths) for number, lengths in enumerate(_LENGTHS))
