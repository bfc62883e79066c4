"""The memory that a device has for context, in blocks: what running sequences hold, and what is kept of those that
have ended, for whoever begins with the same.

Kept is a prefix that sessions share, or what a session had when its last turn ended. What was used longest ago goes
first, from its end, a block at a time; a prefix in use and what is pinned stay.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from voicepipe.sim.gpu import BLOCK_TOKENS


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


@dataclass(slots=True)
class _Kept:
    tokens: int
    blocks: int
    ready: bool = True
    """False while the sequence that brings it has not computed it yet."""
    users: int = 0
    pinned_until_s: float = 0.0
    fixed: bool = False
    """It counts as one that stays."""


@dataclass(frozen=True, slots=True)
class KvCounts:
    running_blocks: int
    kept_blocks: int
    evicted_tokens: int
    """Kept ones that had to go, since the beginning."""
    broken_pins: int
    """Kept although nothing else could have run."""


class KvPool:
    def __init__(self, blocks: int) -> None:
        """Raises ValueError without a single block."""
        if blocks < 1:
            raise ValueError(f"blocks: expected 1 or more, got {blocks}")
        self.blocks = blocks
        self.running = 0
        """Blocks of sequences, without prefixes that they share."""
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._kept_blocks = 0
        self._fixed_blocks = 0
        self._pins: list[tuple[float, str]] = []
        self._evicted_tokens = 0
        self._broken_pins = 0

    @property
    def used(self) -> int:
        """Blocks that are not to be had: of sequences, in use or pinned."""
        return self.running + self._fixed_blocks

    def counts(self) -> KvCounts:
        return KvCounts(self.running, self._kept_blocks, self._evicted_tokens, self._broken_pins)

    def here(self, name: str) -> int:
        """Tokens kept under that name and computed; whole blocks count, or all of it."""
        kept = self._kept.get(name)
        return kept.tokens if kept is not None and kept.ready else 0

    def available(self, now: float) -> int:
        """Blocks that a sequence could get, what is kept for nobody's use included."""
        while self._pins and self._pins[0][0] <= now:
            self._settle(heappop(self._pins)[1], now)
        return self.blocks - self.used

    def next_pin_s(self) -> float | None:
        """When one ends that has an end; there may be more available then."""
        return self._pins[0][0] if self._pins else None

    def take(self, blocks: int, now: float) -> None:
        """For a sequence; no more than `available`."""
        if blocks > self.available(now):
            raise AssertionError(f"{blocks} blocks are not available")
        self.running += blocks
        self._evict(self.running + self._kept_blocks - self.blocks)

    def give(self, blocks: int) -> None:
        if blocks > self.running:
            raise AssertionError(f"{blocks} blocks were not taken")
        self.running -= blocks

    def keep(self, name: str, tokens: int, blocks: int, now: float, until_s: float = 0.0) -> None:
        """So many of a sequence's blocks, as what is remembered under that name, instead of what was; pinned until
        then. Nothing is kept of less than a token."""
        self.drop(name)
        held = min(blocks, blocks_of(tokens))
        self.give(held)
        if held:
            self._kept[name] = _Kept(tokens, held, pinned_until_s=until_s)
            self._kept_blocks += held
            self._settle(name, now)
            if now < until_s < inf:
                heappush(self._pins, (until_s, name))

    def claim(self, name: str, now: float) -> tuple[int, int]:
        """(tokens, blocks) of what is kept there: from now on a sequence's own."""
        kept = self._kept.get(name)
        if kept is None:
            return 0, 0
        tokens, blocks = kept.tokens, kept.blocks
        self.drop(name)
        self.take(blocks, now)
        return tokens, blocks

    def drop(self, name: str) -> None:
        """Nothing is kept there any more."""
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._kept_blocks -= kept.blocks
            if kept.fixed:
                self._fixed_blocks -= kept.blocks

    def share_blocks(self, name: str, tokens: int) -> int:
        """How many of the available blocks `share` would need."""
        kept = self._kept.get(name)
        return max(0, blocks_of(tokens) - (kept.blocks if kept is not None and kept.fixed else 0))

    def pinned(self, name: str) -> int:
        """Blocks kept under that name that are not among the available ones."""
        kept = self._kept.get(name)
        return kept.blocks if kept is not None and kept.fixed else 0

    def share(self, name: str, tokens: int, now: float) -> int:
        """One more sequence begins with that prefix: how much of it is here. What is missing of it is brought by
        the sequence, which says so with `brought`."""
        kept = self._kept.get(name)
        if kept is None or kept.tokens < tokens:
            found = kept.tokens if kept is not None and kept.ready else 0
            users = kept.users if kept is not None else 0
            self.drop(name)
            self.take(blocks_of(tokens), now)
            self.give(blocks_of(tokens))
            kept = self._kept[name] = _Kept(tokens, blocks_of(tokens), ready=False, users=users)
            self._kept_blocks += kept.blocks
        else:
            found = tokens if kept.ready else 0
        kept.users += 1
        self._settle(name, now)
        return found

    def preload(self, name: str, tokens: int, now: float) -> None:
        """That prefix is here, for nobody yet."""
        self.share(name, tokens, now)
        self.brought(name)
        self.leave(name, now)

    def brought(self, name: str) -> None:
        self._kept[name].ready = True

    def leave(self, name: str, now: float) -> None:
        """The sequence has ended; a prefix that was never brought and has no other user is not kept."""
        kept = self._kept[name]
        kept.users -= 1
        if kept.users == 0 and not kept.ready:
            self.drop(name)
        else:
            self._settle(name, now)

    def touch(self, name: str) -> None:
        """Used just now."""
        if name in self._kept:
            self._kept.move_to_end(name)

    def break_pin(self, now: float) -> bool:
        """The least recently used of those pinned is so no longer. False: none is."""
        for name, kept in self._kept.items():
            if kept.pinned_until_s > now:
                kept.pinned_until_s = now
                self._broken_pins += 1
                self._settle(name, now)
                return True
        return False

    def _settle(self, name: str, now: float) -> None:
        """Whether it stays, once more."""
        kept = self._kept.get(name)
        if kept is None:
            return
        fixed = kept.users > 0 or kept.pinned_until_s > now
        if fixed != kept.fixed:
            self._fixed_blocks += kept.blocks if fixed else -kept.blocks
            kept.fixed = fixed

    def _evict(self, blocks: int) -> None:
        while blocks > 0:
            name, kept = next((name, kept) for name, kept in self._kept.items() if not kept.fixed)
            gone = min(blocks, kept.blocks)
            left = (kept.blocks - gone) * BLOCK_TOKENS
            self._evicted_tokens += max(0, kept.tokens - left)
            kept.blocks -= gone
            kept.tokens = min(kept.tokens, left)
            self._kept_blocks -= gone
            blocks -= gone
            if not kept.blocks:
                del self._kept[name]
