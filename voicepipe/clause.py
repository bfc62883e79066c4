"""One clause of a reply, spoken a piece at a time, and each reply's way through it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from voicepipe.audio import Resampler, to_pcm16
from voicepipe.chunk import Chunk, OnLost
from voicepipe.core.events import Load
from voicepipe.engines.base import Synthesis, Tts, TtsStep
from voicepipe.meter import load_of


@dataclass(frozen=True, slots=True)
class Spoken:
    """A piece of a clause, at the session's output rate."""

    pcm: bytes
    last: bool
    cut: bool = False
    """Cancelled before it was done, or made before it was begun: how long it took says nothing."""


class Clause:
    """One clause being spoken. Replies that are made anew and begin with the same words share it: what has been
    made of it by then is not made twice."""

    def __init__(self, synthesis: Synthesis, resampler: Resampler) -> None:
        self._synthesis = synthesis
        self._resampler = resampler
        self._made: list[Spoken] = []
        self._awaited = False

    @property
    def can_be_shared(self) -> bool:
        """Not while somebody awaits a piece of it. Pieces that block a thread are made one after the other."""
        return not self._awaited

    def has(self, number: int) -> bool:
        """Whether that piece has been made; numbers count from 0."""
        return number < len(self._made)

    def load(self, number: int, model: str) -> Load:
        """What making that piece costs: nothing where it has been made."""
        if self.has(number):
            return Load(model, 0, variant="made")
        return load_of(model, self._synthesis.next_size())

    def piece(self, number: int) -> Spoken | Awaitable[Spoken]:
        """The first that has not been made is made, where this is called."""
        if number < len(self._made):
            return self._made[number]
        step = self._synthesis.step()
        return self._waited(step) if inspect.isawaitable(step) else self._finish(step)

    def cancel(self) -> None:
        self._synthesis.cancel()

    async def _waited(self, step: Awaitable[TtsStep]) -> Spoken:
        self._awaited = True
        try:
            return self._finish(await step)
        finally:
            self._awaited = False

    def _finish(self, step: TtsStep) -> Spoken:
        pcm = to_pcm16(self._resampler.push(step.samples))
        if step.last:
            pcm += to_pcm16(self._resampler.flush())
        spoken = Spoken(pcm, step.last, step.cut)
        if not step.cut:
            self._made.append(spoken)
        return spoken


class Reading:
    """One reply's way through a clause."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self._next = 0

    def chunk(self, tts: Tts, on_lost: OnLost) -> Chunk:
        """The next piece."""
        number, self._next = self._next, self._next + 1
        known = self.clause.has(number)

        def call() -> Spoken | Awaitable[Spoken]:
            made_meanwhile = not known and self.clause.has(number)
            piece = self.clause.piece(number)
            return replace(piece, cut=True) if made_meanwhile and isinstance(piece, Spoken) else piece

        return Chunk(call, tts.placement == "thread", self.clause.load(number, tts.name), on_lost=on_lost)
