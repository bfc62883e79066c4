"""One reply's audio, from synthesised to heard.

Holds audio until `on_release`, then hands it out in frames against a playback clock, never more than `lead_s`
ahead of it: what has been handed out can be flushed by the client, what has not can be dropped here. The
clock starts with the first frame; where synthesis cannot keep up it is set back, and the underrun counted.
Knows which clause lies at which sample, and so what of the reply was *heard*. An acknowledgement lies in front
of the first clause: it counts in every position, and in nothing that is said about content.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

BYTES_PER_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class PlayoutSettings:
    rate_hz: int
    frame_s: float = 0.02
    lead_s: float = 0.4
    """At most this much audio lies unplayed at the client (300 to 500 ms keep a barge-in cheap)."""
    report_grace_s: float = 1.0
    """How long a client that reports its playback may take beyond the estimate before the estimate holds."""


@dataclass(frozen=True, slots=True)
class Frame:
    offset: int
    pcm: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClauseBegins:
    """The next frame is the first of this clause."""

    text: str


@dataclass(frozen=True, slots=True)
class AllSent:
    samples: int
    """Of the whole reply, an acknowledgement included; 0 where it has no content."""


@dataclass(frozen=True, slots=True)
class AllHeard:
    """The whole reply has been played, as reported or estimated."""


PlayoutCommand = Frame | ClauseBegins | AllSent | AllHeard


@dataclass(slots=True)
class _Clause:
    text: str
    start: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class PlayoutSnapshot:
    ready_samples: int
    sent_samples: int
    underruns: int
    reported: bool
    finished: bool


class Playout:
    def __init__(self, settings: PlayoutSettings) -> None:
        self.settings = settings
        self._frame_samples = max(1, round(settings.frame_s * settings.rate_hz))
        self._queue: deque[bytes] = deque()
        self._head_used = 0
        self._clauses: list[_Clause] = []
        self._announced = 0
        self._prelude = 0
        """Samples of the acknowledgement in front of the content."""
        self._ready = 0
        self._sent = 0
        self._reported: int | None = None
        self._origin: float | None = None
        self._released = False
        self._closed = False
        self._sent_told = False
        self._heard_told = False
        self._underruns = 0
        self.stalled_s = 0.0
        """How long playback has stood still within the content."""

    # events

    def on_acknowledgement(self, pcm: bytes, now: float) -> list[PlayoutCommand]:
        """A sound in front of the content, of which nothing is there yet; the reply has been released. Clauses
        whose audio is still being made come behind it."""
        assert self._released and not self._closed and not self._ready and pcm
        self._queue.append(pcm)
        self._prelude = self._ready = len(pcm) // BYTES_PER_SAMPLE
        for clause in self._clauses:
            clause.start = self._prelude
            clause.end = None if clause.end is None else self._prelude
        return self.on_timer(now)

    def on_clause(self, text: str) -> None:
        """Audio that follows belongs to this clause."""
        if self._clauses:
            self._clauses[-1].end = self._ready
        self._clauses.append(_Clause(text, self._ready))

    def on_audio(self, pcm: bytes, now: float) -> list[PlayoutCommand]:
        assert self._clauses and not self._closed and len(pcm) % BYTES_PER_SAMPLE == 0
        if pcm:
            if self._starved(now):
                began, self._origin = self._origin, now - self._sent / self.settings.rate_hz
                if self.has_content and began is not None:
                    self._underruns += 1
                    self.stalled_s += self._origin - began
            self._queue.append(pcm)
            self._ready += len(pcm) // BYTES_PER_SAMPLE
        return self.on_timer(now)

    def on_release(self, now: float) -> list[PlayoutCommand]:
        self._released = True
        return self.on_timer(now)

    def on_last(self, now: float) -> list[PlayoutCommand]:
        """No more audio will come."""
        self._closed = True
        if self._clauses:
            self._clauses[-1].end = self._ready
        return self.on_timer(now)

    def on_report(self, played_samples: int, now: float) -> list[PlayoutCommand]:
        """The client has played so many samples. Going back or beyond what was sent is ignored."""
        self._reported = max(self._reported or 0, min(played_samples, self._sent))
        return self.on_timer(now)

    def begun_s(self, played_samples: int) -> float | None:
        """How long ago the content began, of which the client says now that so many samples have been played. None
        where that does not tell: none of it has, or playback stood still meanwhile, or stands still now, all that
        was sent having been played."""
        content = min(played_samples, self._sent) - self._prelude
        stands = played_samples >= self._sent and not (self._closed and self._sent == self._ready)
        return None if content <= 0 or stands or self._underruns else content / self.settings.rate_hz

    def on_timer(self, now: float) -> list[PlayoutCommand]:
        commands: list[PlayoutCommand] = []
        if not self._released:
            return commands
        while self._sent < self._ready and self._may_send(now):
            if self._origin is None:
                self._origin = now
            self._announce(commands)
            commands.append(self._next_frame())
        if self._closed and self._sent == self._ready:
            if not self._sent_told:
                self._sent_told = True
                commands.append(AllSent(self._sent if self.has_content else 0))
            if not self._heard_told and now >= self._heard_at():
                self._heard_told = True
                commands.append(AllHeard())
        return commands

    def next_deadline(self) -> float | None:
        if not self._released or self._heard_told:
            return None
        if self._sent < self._ready:
            assert self._origin is not None
            return self._origin + self._sent / self.settings.rate_hz - self.settings.lead_s
        return self._heard_at() if self._closed else None

    # questions

    @property
    def has_content(self) -> bool:
        """Some of its content has been made."""
        return self._ready > self._prelude

    @property
    def ready_samples(self) -> int:
        """All that has been made."""
        return self._ready

    @property
    def reported_samples(self) -> int | None:
        """The client has said that so many were played; None where it has said nothing."""
        return self._reported

    @property
    def acknowledged(self) -> bool:
        return self._prelude > 0

    def until_content_s(self, now: float) -> float:
        """How long the acknowledgement still keeps what lies behind it from being heard, by the pacing clock."""
        if not self._prelude or self._origin is None:
            return 0.0
        return max(0.0, self._origin + self._prelude / self.settings.rate_hz - now)

    def ahead_s(self, now: float) -> float:
        """Seconds of audio that lie ready beyond what is estimated to be playing."""
        return (self._ready - self._played_estimate(now)) / self.settings.rate_hz

    def heard_samples(self, now: float) -> int:
        """As reported; estimated from the pacing clock where the client has reported nothing yet."""
        return self._reported if self._reported else self._played_estimate(now)

    def heard_text(self, now: float) -> str:
        """The clauses heard, the last of them cut to the share of its words that was heard."""
        return self.text_until(self.heard_samples(now))

    def text_until(self, heard: int) -> str:
        """The same, where so many samples were heard."""
        said: list[str] = []
        for clause in self._clauses:
            if heard <= clause.start:
                break
            words = clause.text.split()
            end = self._ready if clause.end is None else clause.end
            length = max(1, end - clause.start)  # a clause may be without a sound
            count = int(min(1.0, (heard - clause.start) / length) * len(words))
            if clause.end is None:  # how long it will be is not known: its last word is still to come
                count = min(count, len(words) - 1)
            said.append(" ".join(words[:count]))
        return " ".join(part for part in said if part)

    def text(self) -> str:
        return " ".join(clause.text for clause in self._clauses)

    def snapshot(self) -> PlayoutSnapshot:
        return PlayoutSnapshot(
            self._ready, self._sent, self._underruns, self._reported is not None, self._heard_told
        )

    # inner

    def _played_estimate(self, now: float) -> int:
        if self._origin is None:
            return 0
        return min(self._sent, max(0, int((now - self._origin) * self.settings.rate_hz)))

    def _starved(self, now: float) -> bool:
        if self._origin is None or self._sent < self._ready:
            return False
        return now > self._origin + self._sent / self.settings.rate_hz

    def _may_send(self, now: float) -> bool:
        if self._origin is None:
            return True
        # The same sum as in next_deadline, so that a timer that is not early always sends.
        return now >= self._origin + self._sent / self.settings.rate_hz - self.settings.lead_s

    def _heard_at(self) -> float:
        if self._sent == 0 or (self._reported is not None and self._reported >= self._sent):
            return float("-inf")
        assert self._origin is not None
        end = self._origin + self._sent / self.settings.rate_hz
        return end if self._reported is None else end + self.settings.report_grace_s

    def _announce(self, commands: list[PlayoutCommand]) -> None:
        while self._announced < len(self._clauses) and self._clauses[self._announced].start <= self._sent:
            commands.append(ClauseBegins(self._clauses[self._announced].text))
            self._announced += 1

    def _next_frame(self) -> Frame:
        """A frame of full length, or what there is; it does not cross into a clause not yet announced."""
        limit = self._frame_samples
        if self._announced < len(self._clauses):
            limit = min(limit, self._clauses[self._announced].start - self._sent)
        wanted = min(limit, self._ready - self._sent) * BYTES_PER_SAMPLE
        pieces: list[bytes] = []
        while wanted:
            head = self._queue[0]
            piece = head[self._head_used : self._head_used + wanted]
            self._head_used += len(piece)
            wanted -= len(piece)
            pieces.append(piece)
            if self._head_used == len(head):
                self._queue.popleft()
                self._head_used = 0
        frame = Frame(self._sent, b"".join(pieces))
        self._sent += len(frame.pcm) // BYTES_PER_SAMPLE
        return frame
