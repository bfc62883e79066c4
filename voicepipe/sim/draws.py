"""Chance that hangs on what is done, and not on when: the same piece of work has the same luck in every arm.

What a chunk will take is a function of the seed, the session, its question and which piece of the turn it is: the
second decode while somebody speaks, the third step of the reply, the first piece of audio. A reply that is begun
anew has the luck of the one before it, step by step. So arms that are compared see the same times in whatever
order they run their chunks, and who knows the function knows beforehand what every turn will take.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import unpack
from typing import NamedTuple


class Draw(NamedTuple):
    """Where in their ranges the times of one piece of work lie: shares in [0, 1)."""

    begin: float
    """Of the hand-off before it."""
    service: float
    end: float
    """Of the hand-off behind it."""


class Draws:
    def __init__(self, seed: str) -> None:
        self._seeded = blake2b(seed.encode(), digest_size=24)

    def of(self, session: str, question: int, piece: str) -> Draw:
        """`question`: number of what the caller said last when the turn began; the same arguments draw the same."""
        digest = self._seeded.copy()
        digest.update(f"|{session}|{question}|{piece}".encode())
        begin, service, end = unpack("<3Q", digest.digest())
        return Draw(_below_one(begin), _below_one(service), _below_one(end))


def drawn(quantiles: Sequence[float], share: float) -> float:
    """Of quantiles that are evenly spread from the least to the largest; `share` in [0, 1)."""
    last = len(quantiles) - 1
    if not last:
        return quantiles[0]
    at = share * last
    index = int(at)
    low = quantiles[index]
    return low + (at - index) * (quantiles[index + 1] - low)


def _below_one(bits: int) -> float:
    """53 of 64 bits: all 64 would round to 1."""
    return (bits >> 11) * 2.0**-53
