"""What all sessions of a process share, and whom they tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from voicepipe.audio import Samples
from voicepipe.config import Config
from voicepipe.core.blame import SHARES
from voicepipe.core.events import Stage, Timing, TurnRecord, Work
from voicepipe.core.forecast import Forecaster
from voicepipe.core.overload import Level
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import TurnSettings
from voicepipe.device import Device
from voicepipe.engines.base import Engines
from voicepipe.resumption import Resumption


class Observer(Protocol):
    """What a session tells the metrics."""

    def turn_ended(self, verdict: str, felt_s: float | None, system_s: float | None) -> None: ...
    def client_error(self, code: str) -> None: ...
    def refused(self, reason: str) -> None: ...
    def lease_taken(self, kind: str) -> None: ...
    def lease_returned(self, kind: str) -> None: ...
    def engine_failed(self, stage: str) -> None: ...
    def stale_audio_dropped(self, seconds: float) -> None: ...
    def transcript_corrected(self) -> None: ...
    def non_finite_samples(self, n_samples: int) -> None: ...
    def input_dropped(self, why: str, seconds: float) -> None: ...
    def message_dropped(self) -> None: ...


class Recorder(Protocol):
    """Keeps what chunks and turns took: a file, or whoever studies it."""

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None: ...
    def on_record(self, session: str, record: TurnRecord) -> None: ...


MakeTurns = Callable[[str, TurnSettings, Iterator[int]], Turns]
"""From the session's name, its settings, and what issues its work ids."""


@dataclass(frozen=True, slots=True)
class Services:
    """What all sessions of a process share."""

    engines: Engines
    device: Device
    config: Config
    observer: Observer
    achievable_ms: float | None = None
    work_s: float = 0.0
    """What the work of a turn takes that begins when speech ends and waits for nothing, as the warm-up found."""
    forecaster: Forecaster = field(default_factory=Forecaster)
    """What chunks and turns of the device will take; told of every chunk by the device."""
    acknowledgements: tuple[Samples, ...] = ()
    """At the voice's rate; none where the ladder has no such rung."""
    fillers: tuple[Samples, ...] = ()
    """The same, of phrases for while a tool runs."""
    shares: Mapping[Stage, float] = field(default_factory=lambda: SHARES)
    """What each stage is planned to take, as fractions of the budget."""
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when sessions shall end with their present turn."""
    drain_deadline: Callable[[], float | None] = lambda: None
    """Loop time at which the server ends them."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the time of a drain is over: what still runs ends now, and is told so."""
    resumption: Resumption = field(default_factory=Resumption)
    """Conversations of clients that may come back."""
    pressure: Callable[[], Level] = lambda: Level.NONE
    """What the server gives up at present, because it is overloaded."""
    on_record: Callable[[str, TurnRecord], None] = lambda session, record: None
    make_turns: MakeTurns = Turns
