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
LAST_QUIET = round(0.24 * RATE_HZ)
"""Longer quiet decides nothing: the longest that an operating point asks for is 0.17 s."""
NOTICED_S = (-0.064, 0.25)
"""Quiet that began so long before the detector's first silent frame is what it noticed (`voicepipe.ears`)."""


@dataclass(frozen=True, slots=True)
class Ears:
    packet_s: float = 0.02
    uplink_s: float = 0.001
    """From the end of a packet to its arrival."""
    frame_samples: int = 512
    voiced_every_s: float = 0.256
    """How often it is told that speech goes on, 0.25 s after it has begun; the server does with every frame."""


class Told(NamedTuple):
    at: float
    event: EndpointEvent
    spoken_at: float
    """When its sample was spoken, as far as arrival shows."""
    heard: bool
    """By the detector, so that there is a chunk of it."""


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

    def newest(self, now: float) -> int:
        """The sample up to which sound has arrived."""
        arrived_s = now - self._ears.uplink_s - self._origin
        return max(0, floor(arrived_s / self._ears.packet_s + 1e-9)) * self._packet

    def time_of(self, sample: int) -> float:
        """When it was spoken."""
        return self._origin + sample / RATE_HZ

    def told(self, said: Utterance, listen_s: float) -> list[Told]:
        """All up to 0.3 s behind the end of an utterance, in the order in which it is told. `listen_s`: from the
        arrival of a frame until it has been listened to."""
        self._listen_s = listen_s
        told: list[Told] = []
        begin, resumes = said.begin, False
        for gap in (*said.gaps, None):
            end = said.end if gap is None else gap.begin
            lasts = gap is None or gap.noticed_s > 0.0
            told += self._speech(begin, end, resumes=resumes, new=begin == said.begin or resumes)
            if lasts:
                noticed_s = said.noticed_s if gap is None else gap.noticed_s
                until = said.end + 10.0 if gap is None else gap.end
                told += self._pause(noticed_s, until)
            if gap is not None:
                begin, resumes = gap.end, lasts
                told += self._swell(begin)
        told.sort(key=_at)
        return told

    def silence(self) -> Iterator[Told]:
        """What follows, if nobody speaks."""
        frame = self._ears.frame_samples
        for samples in range(_SILENT_FRAMES * frame, FORGET + frame, frame):
            yield self._detected(Silence(samples), self._paused_at + samples)

    def hearing(self, told: Told, begin_s: float, end_s: float) -> Hearing:
        """How it came to be heard: `begin_s` and `end_s` are the hand-offs around the detector's chunk."""
        since = told.at - self._listen_s
        started, finished = since + begin_s, max(since + begin_s, told.at - end_s)
        timing = LaneTiming(since, started, finished, granted=since, blocked_s=0.0)
        return Hearing(since, (Listened(timing, 0.0, told.at),))

    # inner

    def _speech(self, begin: float, end: float, *, resumes: bool, new: bool) -> list[Told]:
        """A stretch without a gap. `new`: the detector has to notice it; else it never noticed the gap before."""
        ears, frame = self._ears, self._ears.frame_samples
        first = ceil(self._sample(begin) / frame) * frame
        told = []
        if new:
            heard = first + ONSET_FRAMES * frame
            start = Resumed(first) if resumes else Onset(max(first - PRE_ROLL, self._paused_at))
            told += [self._detected(start, heard), self._detected(Voiced(heard - first, heard), heard)]
            if not resumes:
                told += self._swell(begin)
            self._voiced_since = first
        self._quiet_from = ceil(self._sample(end) / BLOCK) * BLOCK
        since, last = self._voiced_since, self._quiet_from
        marks = [since + frame * number for number in _FIRST_FRAMES] if new else []
        every = round(ears.voiced_every_s * RATE_HZ / frame) * frame
        marks += range(since + every * max(1, ceil((first - since + 1) / every)), last, every)
        told += [self._detected(Voiced(at - since, at), at) for at in sorted(set(marks)) if first < at < last]
        lull = self._quiet_from + HOLD
        return [*told, self._seen(Lull(self._quiet_from, lull), lull, self._quiet_from)]

    def _pause(self, noticed_s: float, until: float) -> list[Told]:
        frame, quiet_from = self._ears.frame_samples, self._quiet_from
        at = ceil((quiet_from + round(noticed_s * RATE_HZ)) / frame) * frame
        self._paused_at = at
        end = self._sample(until)
        least_s, most_s = NOTICED_S
        spoken = quiet_from if least_s <= (at - quiet_from) / RATE_HZ <= most_s else at
        told = [self._detected(SoftEnd(at), at + frame, spoken)]
        # Where it goes on within the pause, every frame until then counts.
        silent = min(_SILENT_FRAMES * frame, end - at) if end > at + FORGET else end - at
        told += [self._detected(Silence(samples), at + samples) for samples in range(frame, silent, frame)]
        first = ceil((quiet_from + HOLD) / self._packet) * self._packet
        for packet in range(first, min(quiet_from + LAST_QUIET, end), self._packet):
            block = packet // BLOCK * BLOCK
            told.append(self._seen(Quiet(block - quiet_from), packet, packet))
        return told

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
        return Told(self._arrives(needed), event, self._spoken(about), heard=False)

    def _detected(self, event: EndpointEvent, needed: int, about: int | None = None) -> Told:
        spoken = self._spoken(needed if about is None else about)
        return Told(self._arrives(needed) + self._listen_s, event, spoken, heard=True)


_SILENT_FRAMES = 10
"""Of a pause, that are told in any case: 0.3 s."""


def _at(told: Told) -> float:
    return told.at


__all__ = ["Ears", "Gap", "Listener", "Told"]
