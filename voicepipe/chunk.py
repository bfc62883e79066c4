"""A chunk: what its owner asks of the device, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from voicepipe.core.events import LaneTiming, Load, Work
from voicepipe.errors import VoicepipeError

Call = Callable[[], Any]
"""A chunk: blocking, or returning an awaitable."""


@dataclass(frozen=True, slots=True)
class Together:
    """How a work is done in one chunk with its like (`core.batches`)."""

    call: Callable[[Sequence[Any]], Any]
    """Of the engine that is theirs: blocking, or returning an awaitable. Takes each work's `member`, and gives as
    many results."""
    member: Any


@dataclass(frozen=True, slots=True)
class Done:
    """The chunk ran and returned `result`."""

    work: Work
    timing: LaneTiming
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The chunk raised, took too long, was not begun because its engine is in no state for it, or its lane had no
    room for it."""

    work: Work
    error: VoicepipeError
    still: asyncio.Future[Any] | None = None
    """Of a call that could not be stopped: done when it has ended. Until then its engine handles are its own."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The chunk waited and will not run."""

    work: Work


Outcome = Done | Failed | Dropped


OnLost = Callable[[asyncio.Future[Any]], None]
"""Told of a call that does not end, by what is done when it has. What it uses is left to it until then."""


def nothing_lost(still: asyncio.Future[Any]) -> None:
    """The call uses nothing that others do."""


def nothing_before() -> None:
    """There is nothing to be done before."""


class Chunk(NamedTuple):
    """What a work comes to at the engines."""

    call: Call
    blocks: bool
    load: Load
    before: Callable[[], None] = nothing_before
    """To be done on the loop's thread, just before the call."""
    together: Together | None = None
    on_lost: OnLost = nothing_lost
    """To be told where the call could not be stopped."""
