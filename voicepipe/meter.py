"""Chunks that are run outside any session, for warming up, and what they took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from voicepipe.core.events import Load, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.engines.base import MaybeAwaitable, Placement, StepSize

T = TypeVar("T")


class OnThread(Protocol):
    """Runs a blocking call where it holds nobody up."""

    async def __call__(self, call: Callable[[], T]) -> T: ...


class Meter:
    def __init__(self, clock: Callable[[], float], on_thread: OnThread) -> None:
        """`clock`: seconds, to be read on any thread."""
        self.chunks: list[Measured] = []
        self._clock = clock
        self._on_thread = on_thread

    async def run(
        self, kind: WorkKind, load: Load, placement: Placement, call: Callable[[], MaybeAwaitable[T]]
    ) -> tuple[T, float]:
        """(what it returned, its service in seconds)"""
        began = ended = self._clock()

        def timed() -> MaybeAwaitable[T]:
            nonlocal began, ended
            began = self._clock()
            try:
                return call()
            finally:
                ended = self._clock()

        if placement == "thread":
            value = await self._on_thread(timed)
        else:
            value = timed()
        if isinstance(value, Awaitable):
            value = await value
            ended = self._clock()
        service_s = ended - began
        self.chunks.append(Measured(kind, load, service_s))
        return value, service_s


def load_of(model: str, size: StepSize) -> Load:
    """What an engine said of its next step, as the core takes it."""
    return Load(model, size.units, size.context, size.variant, size.batch)
