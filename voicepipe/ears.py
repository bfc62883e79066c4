"""A session's ears: bytes become samples, samples become blocks and frames, these become endpoint events.

Levels are looked at as soon as sound arrives, speech is looked for on the device, a little later.
At most one HEAR chunk of a session is at the device; frames that arrive meanwhile wait and are taken
together, at most `MAX_FRAMES` at a time. Should they ever wait for longer than the session lets them, the oldest
are passed over and counted: hearing late is worse than hearing with a gap.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from voicepipe.audio import Samples
from voicepipe.chunk import Done, Failed, Outcome
from voicepipe.core.endpoint import RATE_HZ, Endpointer
from voicepipe.core.events import (
    EndpointEvent,
    Hearing,
    Listened,
    Load,
    Lull,
    Onset,
    Quiet,
    Resumed,
    Silence,
    SoftEnd,
    Swell,
    Voiced,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Forecaster
from voicepipe.core.lull import LullSettings, LullTracker
from voicepipe.device import Device
from voicepipe.engines.base import Vad, VadStream
from voicepipe.errors import EngineTimeout, SessionLimit
from voicepipe.ingest import AudioRing, Ingest

MAX_FRAMES = 16
"""Half a second of Silero frames: some 2 ms of work."""
MAX_BACKLOG_S = 4.0
"""Of a client that sends as it records."""
MAX_WAITING = 64
"""Commits and the like that wait for sound to be listened to: far more than anybody asks for, as long as it is."""
QUIET_BEFORE_SOFT_END_S = (-0.064, 0.25)
"""Quiet that began so long before the detector's first silent frame is what it noticed."""
STARVED_S = 0.3
"""With no sound for so long in the middle of speech, the missing time is taken as silence."""

_BLOCK_SAMPLES = LullSettings().block_samples
_NO_POWER = 1e-12

Heard = Callable[[EndpointEvent, float, float, Hearing | None], None]
"""(event, scheduler time at which its sample was spoken as far as arrival shows, now, how it came to be heard where
that was by the Vad's chunks)"""
Act = Callable[[float, Hearing | None], None]
"""(now, what was waited for; None where nothing was)"""


class _Frame(NamedTuple):
    start: int
    samples: Samples
    arrived: float


class Ears:
    def __init__(
        self,
        session: str,
        ingest: Ingest,
        vad: Vad,
        device: Device,
        forecaster: Forecaster,
        serial: Iterator[int],
        *,
        heard: Heard,
        deaf: Callable[[str], None],
        guarded: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        timeout_s: float,
        max_backlog_s: float = MAX_BACKLOG_S,
        behind: Callable[[], None] = lambda: None,
    ) -> None:
        """`behind` is told when sound begins to be passed over, and again only once half of the backlog has
        gone. `deaf` is told the code of an error, where the Vad fails or has not answered for `timeout_s`.
        `guarded` runs a callback of ours and keeps its faults in the session."""
        self.ingest = ingest
        self.ring = AudioRing()
        self.passed_over_frames = 0
        self._session = session
        self._vad = vad
        self._stream = vad.open()
        self._device = device
        self._forecaster = forecaster
        self._serial = serial
        self._heard = heard
        self._deaf = deaf
        self._guarded = guarded
        self._clock = clock
        self._timeout_s = timeout_s
        self._max_backlog_s = max_backlog_s
        self._behind = behind
        self._is_behind = False
        self._max_backlog = round(max_backlog_s * RATE_HZ / self._stream.frame_samples)
        self._endpointer = Endpointer()
        self._lulls = LullTracker()
        self._next_block = 0
        self._next_frame = 0
        self._frames: deque[_Frame] = deque()
        self._busy = False
        self._listened: deque[Listened] = deque()
        """The newest chunk, and those before it that ran while one of its frames waited."""
        self._waiting: list[tuple[float, Act]] = []
        self._overdue_at: float | None = None
        """When a chunk that is at the device has taken too long; None where that has been told."""
        self._arrived = clock()
        self._fed_to = self._arrived
        """Up to when media time has been advanced, by sound or by `on_timer`."""

    def on_audio(self, pcm: bytes, offset_samples: int | None) -> None:
        """Raises BadField where the client's clock jumps."""
        samples = self.ingest.push(pcm, offset_samples)
        self._arrived = self._fed_to = self._clock()
        self._append(samples)

    def after_what_arrived(self, act: Act) -> None:
        """Run `act` once all sound that has arrived so far has been listened to: at once, or after the backlog.
        Raises SessionLimit where too many wait for that already."""
        now = self._clock()
        if self._busy and len(self._waiting) == MAX_WAITING:
            raise SessionLimit(f"{MAX_WAITING} input.commit and input.clear wait for what was said before them")
        if self._busy:
            self._waiting.append((now, act))
        else:
            act(now, None)

    def forget(self) -> None:
        """What has been listened to so far means nothing any more: speech that goes on begins anew."""
        self._endpointer = Endpointer(since=self._next_frame)
        self._lulls = LullTracker()

    def next_deadline(self) -> float | None:
        deadlines = [d for d in (self._starved_at(), self._overdue_at) if d is not None]
        return min(deadlines, default=None)

    def on_timer(self) -> None:
        now = self._clock()
        starved_at = self._starved_at()
        if starved_at is not None and now >= starved_at:
            missing_s = min(now - self._fed_to, self._max_backlog_s)  # however long this process stood still
            self._fed_to = now
            self._append(self.ingest.stall(round(missing_s * self.ingest.rate_hz)))
        if self._overdue_at is not None and now >= self._overdue_at:
            self._overdue_at = None
            self._deaf(EngineTimeout.code)

    def _starved_at(self) -> float | None:
        """When sound is missing, in the middle of speech or of a pause that is being measured."""
        return self._fed_to + STARVED_S if self._endpointer.snapshot().listening else None

    def _append(self, samples: Samples) -> None:
        self.ring.append(samples)
        self._look_at_levels()
        size, arrived = self._stream.frame_samples, self._clock()
        while self.ring.newest - self._next_frame >= size:
            start, self._next_frame = self._next_frame, self._next_frame + size
            self._frames.append(_Frame(start, self.ring.read(start, start + size), arrived))
        passed_over = len(self._frames) - self._max_backlog
        for _ in range(passed_over):
            self._frames.popleft()
            self.passed_over_frames += 1
        self._listen()
        if passed_over > 0 and not self._is_behind:
            self._is_behind = True
            if self._overdue_at is not None:  # else the client knows already that nobody listens
                self._behind()

    def _look_at_levels(self) -> None:
        size = _BLOCK_SAMPLES
        count = (self.ring.newest - self._next_block) // size
        start, self._next_block = self._next_block, self._next_block + count * size
        blocks = self.ring.read(start, self._next_block).reshape(count, size)
        levels = 10.0 * np.log10(np.mean(blocks**2, axis=1) + _NO_POWER)
        now = self._clock()
        for index, level_db in enumerate(levels.tolist()):
            for event in self._lulls.on_level(level_db, start + index * size):
                self._heard(event, self._spoken_at(event), now, None)
        quiet_from = self._lulls.snapshot().quiet_from
        if count and quiet_from is not None and self._endpointer.snapshot().listening:
            quiet = Quiet(self._next_block - quiet_from)
            self._heard(quiet, self._spoken_at(quiet), now, None)

    def _listen(self) -> None:
        if self._busy or not self._frames:
            return
        self._busy = True
        self._is_behind &= len(self._frames) > self._max_backlog // 2
        self._overdue_at = self._clock() + self._timeout_s
        batch = [self._frames.popleft() for _ in range(min(MAX_FRAMES, len(self._frames)))]
        work = Work(next(self._serial), self._session, 0, 0, 0, WorkKind.HEAR, WorkClass.ASR)
        blocking = self._vad.placement == "thread"
        call = _probabilities if blocking else self._awaited_probabilities
        stream, frames = self._stream, [frame.samples for frame in batch]
        self._device.submit(
            self._forecaster.price(work, Load(self._vad.name, len(frames))),
            lambda: call(stream, frames),
            blocking=blocking,
            answer=lambda outcome: self._guarded(lambda: self._on_outcome(outcome, batch)),
        )

    async def _awaited_probabilities(self, stream: VadStream, frames: list[Samples]) -> list[float]:
        results = []
        for frame in frames:
            value = stream.probability(frame)
            results.append(await value if inspect.isawaitable(value) else value)
        return results

    def _on_outcome(self, outcome: Outcome, batch: list[_Frame]) -> None:
        self._busy, self._overdue_at = False, None
        now = self._clock()
        if isinstance(outcome, Failed):
            if outcome.still is not None:  # the call goes on with the old one
                self._stream = self._vad.open()
            self._deaf(outcome.error.code)
        elif isinstance(outcome, Done):
            while self._listened and self._listened[0].taken <= batch[0].arrived:
                self._listened.popleft()
            self._listened.append(Listened(outcome.timing, outcome.work.bound_s, now))
            for frame, probability in zip(batch, outcome.result, strict=True):
                for event in self._endpointer.on_frame(probability, frame.start, len(frame.samples)):
                    decides = isinstance(event, SoftEnd | Silence)
                    hearing = self._hearing(frame.arrived) if decides else None
                    self._heard(event, self._spoken_at(event), now, hearing)
        self._listen()
        if not self._busy:
            waiting, self._waiting = self._waiting, []
            for asked, act in waiting:
                act(now, self._hearing(asked))

    def _hearing(self, since: float) -> Hearing | None:
        """Of what came at `since`; None where no chunk has listened to it."""
        chunks = tuple(one for one in self._listened if one.taken > since)
        return Hearing(since, chunks) if chunks else None

    def _spoken_at(self, event: EndpointEvent) -> float:
        """Arrival shows when a sample was spoken: the newest one just now, older ones before it."""
        return self._arrived - (self.ring.newest - self._position(event)) / RATE_HZ

    def _position(self, event: EndpointEvent) -> int:
        match event:
            case SoftEnd(at):
                lull = self._lulls.snapshot()
                quiet_from = lull.quiet_from
                least_s, most_s = QUIET_BEFORE_SOFT_END_S
                if quiet_from is not None and least_s <= (at - quiet_from) / RATE_HZ <= most_s:
                    return quiet_from if lull.faded_from is None else max(quiet_from, min(lull.faded_from, at))
                return at - round(self._vad.lag_s * RATE_HZ)
            case Voiced(_, at) | Swell(at):
                return at
            case Onset(start) | Resumed(start):
                return start
            case Lull(quiet_from):
                return quiet_from
            case Silence() | Quiet():
                return self.ring.newest


def _probabilities(stream: VadStream, frames: list[Samples]) -> list[Any]:
    return [stream.probability(frame) for frame in frames]
