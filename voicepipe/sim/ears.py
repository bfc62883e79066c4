"""What the server's ears would tell of an utterance, and when: endpoint events without frames.

Sound comes in packets, is looked at in blocks of 10 ms, and is listened to in frames of a detector; each event is
told when the packet has come that decides it, and those of the detector when its chunk has run as well. The rules
are those of `core.lull` and `core.endpoint`. Where speech just goes on, a frame is told of only every so often:
nothing hangs on single ones from 0.25 s on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

from voicepipe.core.endpoint import RATE_HZ, EndpointSettings
from voicepipe.core.events import (
    EndpointEvent,
    Hearing,
    LaneTiming,
    Listened,
    Lull,
    Onset,
    Quiet,
    Resumed,
    Silence,
    SoftEnd,
    Swell,
    Voiced,
)
from voicepipe.core.lull import LullSettings
from voicepipe.sim.caller import Gap, Utterance

BLOCK = LullSettings().block_samples
HOLD = round(LullSettings().hold_s * RATE_HZ)
ONSET_FRAMES = 2
PRE_ROLL = round(EndpointSettings().pre_roll_s * RATE_HZ)
FORGET = round(EndpointSettings().forget_s * RATE_HZ)
LAST_QUIET = round(0.2 * RATE_HZ)
"""Longer quiet decides nothing: the longest that an operating point asks for is 0.17 s."""
NOTICED_S = (-0.064, 0.25)
"""Quiet that began so long before the detector's first silent frame is what it noticed (`voicepipe.ears`)."""


@dataclass(frozen=True, slots=True)
class Ears:
    packet_s: float = 0.02
    uplink_s: float = 0.001
    """From the end of a packet to its arrival."""
    frame_samples: int = 512
    voiced_every_s: float = 0.32
    """How often it is told that speech goes on, 0.25 s after it has begun; the server does with every frame."""


class Told(NamedTuple):
    at: float
    event: EndpointEvent
    spoken_at: float
    """When its sample was spoken, as far as arrival shows."""
    early: bool = False
    """It means nothing but over a reply."""


_FIRST_FRAMES = (3, 4, 6, 8)
"""After which it is also told that speech goes on: what takes a commit back, or interrupts a reply."""


class Listener:
    """One session's, whose sample clock begins at `origin`."""

    def __init__(self, ears: Ears, origin: float) -> None:
        self._ears = ears
        self._origin = origin
        self._packet = round(ears.packet_s * RATE_HZ)
        self._paused_at = 0
        """The first silent frame behind the newest speech."""
        self._quiet_from = 0
        self._listen_s = 0.0
        self._every = max(1, round(ears.voiced_every_s * RATE_HZ / ears.frame_samples)) * ears.frame_samples
        self._voiced_since = self._next_mark = 0
        """Where the present speech began, and the next sample at which it is told that it goes on."""

    def newest(self, now: float) -> int:
        """The sample up to which sound has arrived."""
        arrived_s = now - self._ears.uplink_s - self._origin
        return max(0, floor(arrived_s / self._ears.packet_s + 1e-9)) * self._packet

    def time_of(self, sample: int) -> float:
        """When it was spoken."""
        return self._origin + sample / RATE_HZ

    def told(self, said: Utterance, listen_s: float, *, over_reply: bool = True) -> list[Told]:
        """All up to 0.3 s behind the end of an utterance, in the order in which it is told. `listen_s`: from the
        arrival of a frame until it has been listened to. `over_reply`: what may interrupt one is told early, as is
        what may take a commit back."""
        self._listen_s = listen_s
        first = self._first_frame(said.begin)
        resumes = self._paused_at > 0 and first - self._paused_at <= FORGET
        told = self._begin(said.begin, resumes=resumes, early=over_reply)
        for gap in said.gaps:
            told += self._stretch(gap.begin)
            if gap.noticed_s:
                told += self._pause(gap.noticed_s, gap.end)
                told += self._begin(gap.end, resumes=True, early=True)
            else:
                told += self._swell(gap.end)
        told += self._stretch(said.end)
        told += self._pause(said.noticed_s, None)
        told.sort(key=_at)
        return told

    def silence(self) -> Iterator[Told]:
        """What follows, if nobody speaks."""
        frame = self._ears.frame_samples
        for samples in range((_SILENT_FRAMES + 1) * frame, FORGET + frame + 1, frame):
            yield self._detected(Silence(samples), self._paused_at + samples)

    def hearing(self, told: Told, begin_s: float, end_s: float) -> Hearing:
        """How it came to be heard: `begin_s` and `end_s` are the hand-offs around the detector's chunk."""
        since = told.at - self._listen_s
        started, finished = since + begin_s, max(since + begin_s, told.at - end_s)
        timing = LaneTiming(since, started, finished, granted=since, blocked_s=0.0)
        return Hearing(since, (Listened(timing, 0.0, told.at),))

    # inner

    def _begin(self, begin: float, *, resumes: bool, early: bool) -> list[Told]:
        """The detector notices speech."""
        frame, first = self._ears.frame_samples, self._first_frame(begin)
        heard = first + ONSET_FRAMES * frame
        start = Resumed(first) if resumes else Onset(max(first - PRE_ROLL, self._paused_at))
        self._voiced_since, self._next_mark = first, first + self._every
        while self._next_mark <= heard:
            self._next_mark += self._every
        told = [
            *self._swell(begin),
            self._detected(start, heard),
            self._detected(Voiced(heard - first, heard), heard),
        ]
        if early:
            ends = (first + frame * number for number in _FIRST_FRAMES)
            told += [self._detected(Voiced(at - first, at), at, early=True) for at in ends]
        return told

    def _stretch(self, end: float) -> list[Told]:
        """Speech goes on until the sound falls away."""
        quiet_from = self._quiet_from = ceil(self._sample(end) / BLOCK) * BLOCK
        lull = quiet_from + HOLD
        return [*self._voiced(quiet_from), self._seen(Lull(quiet_from, lull), lull, quiet_from)]

    def _voiced(self, upto: int) -> Iterator[Told]:
        """Speech goes on."""
        while self._next_mark <= upto:
            at, self._next_mark = self._next_mark, self._next_mark + self._every
            yield self._detected(Voiced(at - self._voiced_since, at), at)

    def _pause(self, noticed_s: float, until: float | None) -> list[Told]:
        """The detector notices silence, and somebody goes on at `until`; None: nobody knows when."""
        frame, quiet_from = self._ears.frame_samples, self._quiet_from
        at = self._paused_at = ceil((quiet_from + round(noticed_s * RATE_HZ)) / frame) * frame
        least_s, most_s = NOTICED_S
        spoken = quiet_from if least_s <= (at - quiet_from) / RATE_HZ <= most_s else at
        told = [*self._voiced(at), self._detected(SoftEnd(at), at + frame, spoken)]
        last = _SILENT_FRAMES * frame if until is None else self._first_frame(until) - at
        told += [self._detected(Silence(samples), at + samples) for samples in range(frame, last + 1, frame)]
        end = quiet_from + LAST_QUIET if until is None else min(quiet_from + LAST_QUIET, self._sample(until))
        before = max(quiet_from + HOLD, at + frame - self._packet)  # the last one that is known in the soft end
        for packet in range(ceil(before / self._packet) * self._packet, end, self._packet):
            told.append(self._seen(Quiet(packet // BLOCK * BLOCK - quiet_from), packet, packet))
        return told

    def _first_frame(self, when: float) -> int:
        """Of speech that begins then."""
        frame = self._ears.frame_samples
        return ceil(self._sample(when) / frame) * frame

    def _swell(self, at: float) -> list[Told]:
        block = floor(self._sample(at) / BLOCK) * BLOCK
        return [self._seen(Swell(block), block + BLOCK, block)]

    def _sample(self, when: float) -> int:
        return round((when - self._origin) * RATE_HZ)

    def _arrives(self, sample: int) -> float:
        """When all sound up to there has come."""
        return self._origin + ceil(sample / self._packet) * self._ears.packet_s + self._ears.uplink_s

    def _spoken(self, sample: int) -> float:
        return self._origin + sample / RATE_HZ + self._ears.uplink_s

    def _seen(self, event: EndpointEvent, needed: int, about: int) -> Told:
        return Told(self._arrives(needed), event, self._spoken(about))

    def _detected(
        self, event: EndpointEvent, needed: int, about: int | None = None, *, early: bool = False
    ) -> Told:
        spoken = self._spoken(needed if about is None else about)
        return Told(self._arrives(needed) + self._listen_s, event, spoken, early)


_SILENT_FRAMES = 9
"""Of a pause, that are told in any case: 0.3 s."""


def _at(told: Told) -> float:
    return told.at


__all__ = ["Ears", "Gap", "Listener", "Told"]
