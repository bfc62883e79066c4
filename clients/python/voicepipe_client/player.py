"""The playback clock: what a loudspeaker that starts at the first frame has said by now. Sans-I/O.

A reply is played from its first frame on, in real time; where the next frame comes too late there
is a gap. Times are seconds on any monotonic clock, always an argument; positions are samples of the
reply at the session's output rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from voicepipe.wire.native import (
    AudioFrame,
    Playback,
    ReplyAcknowledged,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    ServerMessage,
    TurnReopened,
)
from voicepipe_client.audible import BYTES_PER_SAMPLE, Audible, WindowScan
from voicepipe_client.epochs import EpochGate

REPORT_EVERY_S = 0.1
_REPLIES_REMEMBERED = 8
"""Replies whose first sound can still be asked for after a newer one has begun."""
_ROUNDING_SAMPLES = 1e-4
"""0.1 s must be 1,600 samples at 16 kHz, where a difference of clock readings says 1,599.99."""


@dataclass(frozen=True, slots=True)
class _Segment:
    offset_samples: int
    start: float
    pcm: bytes
    gap_samples: int
    """Silence in front of it, because it came late."""

    @property
    def samples(self) -> int:
        return len(self.pcm) // BYTES_PER_SAMPLE


@dataclass(slots=True)
class _Reply:
    epoch: int
    scan: WindowScan
    next_report: float
    end: float
    """When everything received has been played."""
    received: int = 0
    """One past the last sample received."""
    played: int = 0
    """One past the last sample of the segments that are over."""
    total: int | None = None
    reported: int = 0
    content_from: int | None = None
    """Where its content begins to sound; None while nothing has said so: at 0."""
    segments: deque[_Segment] = field(default_factory=deque)
    first_sound: Audible | None = None
    first_content: Audible | None = None


@dataclass(frozen=True, slots=True)
class PlayerSnapshot:
    epoch: int | None
    played_samples: int
    queued_samples: int
    underruns: int
    """Gaps inside replies so far."""
    dropped_samples: int
    """Received and never played: stale or flushed."""


class Player:
    """Plays one reply at a time; a newer epoch, an interruption or a reopening ends the one before.

    `sink` is given what has been played, in order, as PCM16: gaps inside a reply as silence, a cut
    where it was cut, replies in a row. `latency_s` is how long a sample takes from here to the ear.
    """

    def __init__(
        self,
        rate_hz: int,
        *,
        latency_s: float = 0.0,
        report_every_s: float = REPORT_EVERY_S,
        sink: Callable[[bytes], None] | None = None,
    ) -> None:
        self._rate_hz = rate_hz
        self._latency_s = latency_s
        self._report_every_s = report_every_s
        self._sink = sink
        self._gate = EpochGate()
        self._current: _Reply | None = None
        self._replies: dict[int, _Reply] = {}
        self._content_marks: dict[int, int] = {}
        self._underruns = 0
        self._dropped = 0

    # --- events

    def on_frame(self, frame: AudioFrame, now: float) -> list[Playback]:
        """Queue a frame behind what is queued, or drop it. Returns reports to send."""
        reports = self.on_timer(now)
        if not self._gate.admits(frame):
            self._dropped += len(frame.pcm) // BYTES_PER_SAMPLE
            return reports
        reply = self._current
        if reply is None or reply.epoch != frame.epoch:
            reports += self._stop(now)
            reply = self._begin(frame.epoch, now)
        self._queue(reply, frame, now)
        return reports

    def on_message(self, message: ServerMessage, now: float) -> list[Playback]:
        """Returns reports to send; the last one of a reply that is cut says where."""
        self._gate.on_message(message)
        match message:
            case ReplyInterrupted(epoch=epoch) | TurnReopened(epoch=epoch):
                if self._current is not None and self._current.epoch <= epoch:
                    return self._stop(now)
            case (
                ReplyAcknowledged(epoch=epoch, samples=offset) | ReplyText(epoch=epoch, offset_samples=int(offset))
            ):
                self._mark_content(epoch, offset)
            case ReplyDone(epoch=epoch, samples=samples):
                if self._current is not None and self._current.epoch == epoch:
                    self._current.total = samples
            case _:
                pass
        return self.on_timer(now)

    def next_deadline(self) -> float | None:
        """When the next playback report is due."""
        reply = self._current
        if reply is None or reply.reported >= reply.received:
            return None
        if reply.total is None:
            return reply.next_report
        return min(reply.next_report, reply.end)

    def on_timer(self, now: float) -> list[Playback]:
        reply = self._current
        deadline = self.next_deadline()
        if reply is None or deadline is None or now < deadline:
            return []
        self._retire(reply, now)
        reply.next_report += self._report_every_s * (
            1 + max(0, int((now - reply.next_report) / self._report_every_s))
        )
        return self._report(reply, self._position(reply, now))

    def on_disconnected(self, now: float) -> None:
        """The connection is lost: the reply ends here, and nobody can be told where."""
        self._stop(now)

    def on_new_session(self) -> None:
        """Another session begins, whose epochs are counted anew."""
        self._gate = EpochGate()
        self._replies.clear()
        self._content_marks.clear()

    def finish(self, now: float) -> None:
        """The session is over: what has been played goes to the sink, the rest is dropped."""
        self._stop(now)

    # --- questions

    def played_samples(self, now: float) -> int:
        """Position in the current reply."""
        return 0 if self._current is None else self._position(self._current, now)

    def is_silent(self, now: float) -> bool:
        """Whether everything that was received has been played."""
        return self._current is None or now >= self._current.end

    def first_sound(self, epoch: int) -> Audible | None:
        """The first audible window of that reply that has sounded or will, as things stand."""
        reply = self._replies.get(epoch)
        return None if reply is None else reply.first_sound

    def first_content(self, epoch: int) -> Audible | None:
        """The same for the reply's content: an acknowledgement in front of it is passed over."""
        reply = self._replies.get(epoch)
        return None if reply is None else reply.first_content

    def snapshot(self, now: float) -> PlayerSnapshot:
        reply = self._current
        played = self.played_samples(now)
        return PlayerSnapshot(
            epoch=None if reply is None else reply.epoch,
            played_samples=played,
            queued_samples=0 if reply is None else reply.received - played,
            underruns=self._underruns,
            dropped_samples=self._dropped,
        )

    # --- inside

    def _begin(self, epoch: int, now: float) -> _Reply:
        start = now + self._latency_s
        reply = _Reply(epoch, WindowScan(self._rate_hz), start + self._report_every_s, end=start)
        reply.content_from = self._content_marks.pop(epoch, None)
        self._current = self._replies[epoch] = reply
        if len(self._replies) > _REPLIES_REMEMBERED:
            del self._replies[min(self._replies)]
        return reply

    def _queue(self, reply: _Reply, frame: AudioFrame, now: float) -> None:
        self._retire(reply, now)
        pcm = frame.pcm[max(0, reply.received - frame.offset_samples) * BYTES_PER_SAMPLE :]
        if not pcm:
            return
        offset = max(reply.received, frame.offset_samples)
        start = max(now + self._latency_s, reply.end)
        gap = round((start - reply.end) * self._rate_hz) if reply.received else 0
        self._underruns += gap > 0
        segment = _Segment(offset, start, pcm, gap)
        reply.segments.append(segment)
        reply.received = offset + segment.samples
        reply.end = start + segment.samples / self._rate_hz
        if reply.first_content is None:
            self._note(reply, reply.scan.push(offset, pcm, start, now))

    def _note(self, reply: _Reply, windows: list[Audible]) -> None:
        for window in windows:
            reply.first_sound = reply.first_sound or window
            if reply.first_content is None and window.offset_samples >= (reply.content_from or 0):
                reply.first_content = window

    def _mark_content(self, epoch: int, offset: int) -> None:
        """An acknowledgement, or the first text says where a reply's content begins; later texts begin later."""
        reply = self._replies.get(epoch)
        if reply is None:
            self._content_marks = {epoch: self._content_marks.get(epoch, offset)}
        elif reply.content_from is None:
            reply.content_from = offset
            if reply.first_content is not None and reply.first_content.offset_samples < offset:
                reply.first_content = None

    def _position(self, reply: _Reply, now: float) -> int:
        position = reply.played
        for segment in reply.segments:
            elapsed = int((now - segment.start) * self._rate_hz + _ROUNDING_SAMPLES)
            if elapsed <= 0:
                break
            position = segment.offset_samples + min(elapsed, segment.samples)
        return position

    def _retire(self, reply: _Reply, now: float) -> None:
        """Hand the segments that are over to the sink."""
        while reply.segments:
            segment = reply.segments[0]
            end = segment.offset_samples + segment.samples
            if self._position(reply, now) < end:
                return
            reply.segments.popleft()
            reply.played = end
            self._emit(segment, segment.pcm)

    def _stop(self, now: float) -> list[Playback]:
        """Cut the current reply at `now`: the rest is never played."""
        reply, self._current = self._current, None
        if reply is None:
            return []
        position = self._position(reply, now)
        self._retire(reply, now)
        if reply.segments and position > reply.segments[0].offset_samples:
            head = reply.segments[0]
            self._emit(head, head.pcm[: (position - head.offset_samples) * BYTES_PER_SAMPLE])
        self._dropped += reply.received - position
        reply.segments.clear()
        if reply.first_sound is not None and reply.first_sound.at >= now:
            reply.first_sound = None
        if reply.first_content is not None and reply.first_content.at >= now:
            reply.first_content = None
        return self._report(reply, position)

    def _emit(self, segment: _Segment, pcm: bytes) -> None:
        if self._sink is not None:
            self._sink(bytes(segment.gap_samples * BYTES_PER_SAMPLE) + pcm)

    @staticmethod
    def _report(reply: _Reply, position: int) -> list[Playback]:
        if position <= reply.reported:
            return []
        reply.reported = position
        return [Playback(reply.epoch, position)]
