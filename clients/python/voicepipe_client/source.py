"""Where the microphone's frames come from when there is no microphone: recordings in real time."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from voicepipe.audio import (
    Samples,
    first_audible,
    last_audible,
    read_wav,
    resample,
    silence,
    to_pcm16,
)
from voicepipe.errors import AudioFileError

FRAME_S = 0.020
LEAD_IN_S = 0.2
"""Silence before the first recording: nobody speaks at the sample at which a line opens."""
MAX_CLIP_S = 600.0
STALL_S = 0.1
"""A frame that is so late comes from a client that stood still."""
CATCH_UP_S = 0.01
"""After that it listens for so long before it speaks on: what had arrived meanwhile was said first."""


@dataclass(frozen=True, slots=True)
class OutFrame:
    """20 ms on their way to the server."""

    pcm: bytes
    voiced: bool
    """It holds audible sound that belongs to the speech. Never set for a live microphone."""
    clip: int | None
    """Number of the recording that it is cut from, from 0; None between recordings."""
    goes_on: bool = False
    """The recording's speech has not ended with this frame, however silent the frame is."""


class Source(Protocol):
    """Frames in real time."""

    labelled: bool
    """Whether `voiced` says where speech is, so that a gap can be measured from its end."""

    async def frame(self) -> OutFrame | None:
        """The next frame when it is due, None at the end. Cancellation loses nothing."""
        ...

    def advance(self) -> None:
        """What was said has been answered: go on to the next recording, or to the end."""
        ...


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording at the session's rate."""

    name: str
    samples: Samples
    speech_end: int
    """One past the last sample of speech; 0 where there is none."""


def make_clip(name: str, samples: Samples, rate_hz: int, *, speech_end: int | None = None) -> Clip:
    """Without a label, speech ends with the last 10 ms window above -50 dBFS."""
    if speech_end is None:
        speech_end = last_audible(samples, rate_hz) or 0
    return Clip(name, samples, min(speech_end, len(samples)))


def load_clip(path: Path | str, rate_hz: int) -> Clip:
    """Raises AudioFileError."""
    _check_file(Path(path))
    samples, file_rate_hz = read_wav(path, max_seconds=MAX_CLIP_S)
    if file_rate_hz != rate_hz:
        samples = resample(samples, file_rate_hz, rate_hz)
    return make_clip(Path(path).name, samples, rate_hz)


def _check_file(path: Path) -> None:
    """A folder and a pipe are there, and are no recordings. Raises AudioFileError."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise AudioFileError(f"{path}: no such file") from None
    except OSError as error:
        raise AudioFileError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
        raise AudioFileError(f"{path} is {what}, not a recording")


class Feed:
    """Cuts recordings into 20 ms frames and says when each is due. Sans-I/O.

    A frame is due when its last sample would have been spoken. The schedule counts frames from
    `start`: a late frame makes none after it late, so there is no drift.
    """

    def __init__(self, clips: Sequence[Clip], rate_hz: int, start: float) -> None:
        self._clips = clips
        self._frame_samples = round(rate_hz * FRAME_S)
        self._rate_hz = rate_hz
        self._start = start
        self._taken = 0
        self._lead_in = round(LEAD_IN_S / FRAME_S)
        self._clip = 0
        self._position: int | None = None
        """In the current recording; None in the silence after it, and before the first."""
        self.max_late_s = 0.0
        """The worst delay of a frame so far."""

    @property
    def over(self) -> bool:
        return self._clip >= len(self._clips)

    def due(self) -> float:
        return self._start + (self._taken + 1) * self._frame_samples / self._rate_hz

    def take(self, now: float) -> OutFrame:
        """The frame that is due. Silence once the recording is over."""
        self.max_late_s = max(self.max_late_s, now - self.due())
        self._taken += 1
        if self._taken == self._lead_in + 1 and not self.over:
            self._position = 0
        if self._position is None:
            return OutFrame(bytes(2 * self._frame_samples), voiced=False, clip=None)
        return self._cut(self._clips[self._clip], self._position)

    def advance(self) -> None:
        """Start the next recording. Nothing happens while one is being played."""
        if self._position is None and self._taken > self._lead_in and not self.over:
            self._clip += 1
            self._position = None if self.over else 0

    def _cut(self, clip: Clip, start: int) -> OutFrame:
        end = start + self._frame_samples
        piece = clip.samples[start:end]
        self._position = end if end < len(clip.samples) else None
        padded = np.concatenate([piece, silence(self._frame_samples - len(piece))])
        return OutFrame(to_pcm16(padded), self._voiced(clip, start, end), self._clip, end < clip.speech_end)

    def _voiced(self, clip: Clip, start: int, end: int) -> bool:
        if start >= clip.speech_end:
            return False
        return end >= clip.speech_end or (first_audible(clip.samples[start:end], self._rate_hz) is not None)


class ClipSource:
    """Recordings, each played when the one before has been answered; silence in between.

    Frames that became due while the process stood still (stopped, swapped out) go out in one burst, each
    stamped by its user with the time at which it really leaves. Before the burst the source waits for
    `CATCH_UP_S`, so that what the server had said by then is read before anything new is said: else a
    commit about the old frames would be taken for one about the new ones.
    """

    labelled = True

    def __init__(
        self,
        clips: Sequence[Clip],
        rate_hz: int,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """The recordings have this rate (`load_clip`). `clock` gives monotonic seconds; the running event loop's by
        default."""
        clock = clock or asyncio.get_running_loop().time
        self.feed = Feed(clips, rate_hz, clock())
        self._clock = clock
        self._sleep = sleep
        self._late_s = 0.0
        """Of the last frame: within a burst it only falls."""

    async def frame(self) -> OutFrame | None:
        if self.feed.over:
            return None
        while (wait_s := self.feed.due() - self._clock()) > 0:
            await self._sleep(wait_s)
        late_s = self._clock() - self.feed.due()
        if late_s - self._late_s >= STALL_S:
            await self._sleep(CATCH_UP_S)
        self._late_s = max(0.0, late_s)
        return self.feed.take(self._clock())

    def advance(self) -> None:
        self.feed.advance()
