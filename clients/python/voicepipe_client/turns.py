"""What the client saw of each turn, and how long the speaker waited for it. Sans-I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import msgspec

from voicepipe.errors import Refused
from voicepipe.wire.native import (
    AudioFrame,
    Blame,
    Draining,
    Playback,
    ReplyInterrupted,
    ReplyText,
    Speculation,
    SpeechStarted,
    Stages,
    TranscriptFinal,
    TranscriptPartial,
    TurnCommitted,
    TurnEnded,
    TurnReopened,
    Verdict,
)
from voicepipe_client.events import Disconnected, Event, Reconnected
from voicepipe_client.player import Player
from voicepipe_client.source import OutFrame

Fate = Literal["answered", "cut_off", "unanswered", "empty"]
"""What the speaker got for a turn."""
FATES: Final[tuple[Fate, ...]] = get_args(Fate)

SILENCE_S = 3.0
"""Silence, or speech of which something was heard, is not waited for any longer without a turn."""
GIVE_UP_S = 20.0
"""Without a sound of the recording or a word from the server for this long, neither an open turn is waited for nor
a sign that audible speech was heard: a server under load may be far behind the sound."""
DECIDABLE_FRAMES = 2
"""Frames of 20 ms that must be silent before anybody can hear that speech has ended: a VAD's window is 32 ms.
A commit that arrives sooner was decided in an earlier pause."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One finished turn."""

    turn: int
    transcript: str
    reply: str
    verdict: Verdict
    felt_ms: float | None
    """Last voiced frame out -> first audible content heard; None without content that stayed, and after a
    false cutoff."""
    system_ms: float | None
    stages: Stages
    speculation: Speculation
    blame: Blame | None
    received_ms: float | None = None
    """As `felt_ms`, to the content's arrival instead of its sound."""
    clip: int | None = None
    """The recording that was played last when the turn was committed, or ended without a commit."""
    cutoff: bool = False
    """The commit that stood was decided before the labelled end of the recording's speech. There is no gap
    then: what the reply followed was a pause, not the end of what was said."""
    felt_estimate_ms: float | None = None
    """The gap as the server counts it, by which it judges: the sum of `stages`."""
    measured: bool = True
    """`felt_ms` was measured here. False: it is the server's estimate, since nobody told where the speech ended."""
    reason: str | None = None
    """Why it was refused, or the code of the error by which it failed."""

    def as_dict(self) -> dict[str, object]:
        """What `--json` prints."""
        return {
            "turn": self.turn,
            "transcript": self.transcript,
            "reply": self.reply,
            "verdict": self.verdict,
            "reason": self.reason,
            "felt_ms": _rounded(self.felt_ms),
            "measured": self.measured,
            "felt_estimate_ms": _rounded(self.felt_estimate_ms),
            "system_ms": _rounded(self.system_ms),
            "stages": msgspec.to_builtins(self.stages),
            "speculation": msgspec.to_builtins(self.speculation),
            "blame": msgspec.to_builtins(self.blame),
            "cutoff": self.cutoff,
        }


@dataclass(slots=True)
class _Turn:
    epoch: int | None = None
    """Of its last commit; None before the first, and after a reopening."""
    committed_at: float = 0.0
    speech_end_at: float | None = None
    cutoff: bool = False
    clip: int | None = None
    transcript: str = ""
    reply: list[str] = field(default_factory=list)


class Turns:
    """Follows a session from the client's side: sent frames and events in, records out.

    A turn's speech end is the instant at which the last voiced frame before its (last) commit was really
    sent, which is later than it was due where the client stood still. It counts if it is the labelled end of
    the recording's speech and the commit can have been decided after it: at least `DECIDABLE_FRAMES` silent
    frames had followed, and the content came no sooner after it than the server took from its commit to the
    content (`system_ms`). Else the turn is a false cutoff. Sources without labels have neither; the server's
    estimate stands in for the measured gap.
    """

    def __init__(self, player: Player, *, labelled: bool, now: float) -> None:
        self._player = player
        self._labelled = labelled
        self._open: dict[int, _Turn] = {}
        self._last_ended = 0
        self._lost_turns = 0
        self._draining = False
        self._clip: int | None = None
        self._playing_clip = False
        self._goes_on = False
        self._silent_frames = 0
        """Since the last voiced one."""
        self._unheard = False
        """The recording has sounded, and no turn has come of it so far."""
        self._heard_clips: set[int] = set()
        self._speech_end_at: float | None = None
        self._answered = False
        """A turn that can hold the last voiced frame has ended."""
        self._last_sound_at = now
        """Last frame out of a recording, sign of speech, or end of a turn."""
        self._last_event_at = now
        self.records: list[TurnRecord] = []

    def on_sent(self, frame: OutFrame, now: float) -> None:
        self._playing_clip = frame.clip is not None
        self._goes_on = frame.goes_on
        self._silent_frames = 0 if frame.voiced else self._silent_frames + 1
        if self._playing_clip:
            self._clip = frame.clip
            self._last_sound_at = now
        if frame.voiced:
            self._speech_end_at = now
            self._answered = False
            self._unheard = frame.clip is not None and frame.clip not in self._heard_clips

    def on_event(self, event: Event, now: float) -> list[Playback]:
        """Returns playback reports to send."""
        self._last_event_at = now
        match event:
            case AudioFrame():
                return self._player.on_frame(event, now)
            case Disconnected():
                self._on_disconnected(now)
                return []
            case Reconnected(resumed=resumed):
                self._on_reconnected(resumed=resumed)
                return []
        reports = self._player.on_message(event, now)
        match event:
            case SpeechStarted(turn=started):
                self._heard(now)
                self._sign()
                if started is not None:
                    self._of(started)
            case TranscriptPartial(turn=turn, stable=stable, tentative=tentative):
                self._heard(now)
                self._of(turn).transcript = f"{stable} {tentative}".strip()
            case TranscriptFinal(turn=turn, text=text):
                self._of(turn).transcript = text
            case TurnCommitted(turn=turn, epoch=epoch):
                self._commit(self._of(turn), epoch, now)
            case TurnReopened(turn=turn):
                self._heard(now)
                self._sign()
                self._of(turn).epoch = None
                self._of(turn).cutoff = False
                self._of(turn).reply.clear()
            case ReplyText(turn=turn, epoch=epoch, text=text):
                if self._of(turn).epoch == epoch:
                    self._of(turn).reply.append(text)
            case Draining():
                self._draining = True
            case ReplyInterrupted() if self._draining:
                self._lost_turns += 1
            case TurnEnded():
                self._end(event, now)
            case _:
                pass
        return reports

    def next_deadline(self) -> float | None:
        return self._player.next_deadline()

    def on_timer(self, now: float) -> list[Playback]:
        return self._player.on_timer(now)

    def settled(self, now: float) -> bool:
        """Whether what was said has been answered and the answer played, or never will be."""
        if self._playing_clip or not self._player.is_silent(now):
            return False
        if self._open or (self._draining and self._lost_turns):  # cut off by a server that closes any moment now
            return now - max(self._last_event_at, self._last_sound_at) >= GIVE_UP_S
        return self._answered or now - self._last_sound_at >= (GIVE_UP_S if self._unheard else SILENCE_S)

    @property
    def heard_clips(self) -> frozenset[int]:
        """Recordings of which the server has shown that it heard something."""
        return frozenset(self._heard_clips)

    @property
    def open_turns(self) -> int:
        """Turns that have begun and of which no end was told, or will be, and those whose answer was cut off by a
        server that goes away."""
        return len(self._open) + self._lost_turns

    # --- inside

    def _of(self, turn: int) -> _Turn:
        """The open turn of that number; a late message about an ended one opens nothing."""
        if turn <= self._last_ended:
            return _Turn()
        if turn not in self._open:
            self._sign()
        return self._open.setdefault(turn, _Turn())

    def _on_disconnected(self, now: float) -> None:
        """Nobody will be told how the turn that was going on ended."""
        self._player.on_disconnected(now)
        self._lost_turns += len(self._open)
        self._open.clear()

    def _on_reconnected(self, *, resumed: bool) -> None:
        self._draining = False
        if not resumed:
            self._last_ended = 0
            self._player.on_new_session()

    def _sign(self) -> None:
        if self._clip is not None:
            self._heard_clips.add(self._clip)
        self._unheard = False

    def _heard(self, now: float) -> None:
        self._last_sound_at = now
        self._answered = False

    def _commit(self, turn: _Turn, epoch: int, now: float) -> None:
        turn.epoch, turn.committed_at = epoch, now
        turn.clip = self._clip
        turn.speech_end_at = self._speech_end_at
        turn.cutoff = self._labelled and (
            self._goes_on or (self._clip is not None and self._silent_frames < DECIDABLE_FRAMES)
        )
        turn.reply.clear()

    def _end(self, ended: TurnEnded, now: float) -> None:
        turn = self._of(ended.turn)
        self._open.pop(ended.turn, None)
        self._last_ended = max(self._last_ended, ended.turn)
        covered = turn.committed_at if turn.epoch is not None else now
        self._answered = self._speech_end_at is not None and covered >= self._speech_end_at
        self._last_sound_at = now
        felt_ms, received_ms = self._gaps(turn)
        sooner_than_decided = received_ms is not None and received_ms < (ended.system_ms or 0.0)
        cutoff = turn.cutoff or (self._labelled and sooner_than_decided)
        if cutoff:
            felt_ms = received_ms = None
        clip = self._clip if turn.epoch is None else turn.clip
        if clip is not None:
            self._heard_clips.add(clip)
        self.records.append(
            TurnRecord(
                turn=ended.turn,
                transcript=turn.transcript,
                reply="".join(turn.reply).strip(),
                verdict=ended.verdict,
                felt_ms=felt_ms if self._labelled else ended.felt_estimate_ms,
                system_ms=ended.system_ms,
                stages=ended.stages,
                speculation=ended.speculation,
                blame=ended.blame,
                received_ms=received_ms if self._labelled else None,
                clip=clip,
                cutoff=cutoff,
                felt_estimate_ms=ended.felt_estimate_ms,
                measured=self._labelled,
                reason=ended.reason,
            )
        )

    def _gaps(self, turn: _Turn) -> tuple[float | None, float | None]:
        """(felt, received) in ms."""
        content = None if turn.epoch is None else self._player.first_content(turn.epoch)
        if content is None or turn.speech_end_at is None:
            return None, None
        return (
            (content.at - turn.speech_end_at) * 1000.0,
            (content.received_at - turn.speech_end_at) * 1000.0,
        )


def summarise(records: Sequence[TurnRecord]) -> dict[str, object]:
    """What the last line of `--json` holds.

    turns               that have ended: answered + cut_off + unanswered + empty
    answered            a reply was heard that stayed, in time or late
    cut_off             false cutoffs: the reply came before the labelled end of the recording's speech
    unanswered          a reply was owed, and nothing of it was heard: `refused`, `failed`, `interrupted`
    empty               nothing was said in it
    verdicts            the server's, each with its count; false cutoffs are not among them
    answered_felt_ms    p50, p95, p99, min and max of the felt gap of the answered turns, and of no others: how
                        many are missing here, `cut_off` and `unanswered` say. None where no turn was answered
    answered_system_ms  from the commit to the socket, likewise
    """
    counts = Counter(_fate(record) for record in records)
    verdicts = Counter(record.verdict for record in records if not record.cutoff)
    answered = [record for record in records if _fate(record) == "answered"]
    return {
        "turns": len(records),
        **{fate: counts[fate] for fate in FATES},
        "verdicts": {verdict: verdicts[verdict] for verdict in get_args(Verdict)},
        "answered_felt_ms": spread([record.felt_ms for record in answered]),
        "answered_system_ms": spread([record.system_ms for record in answered]),
    }


def _fate(record: TurnRecord) -> Fate:
    """Exactly one per turn."""
    if record.cutoff:
        return "cut_off"
    if record.felt_ms is not None:
        return "answered"
    return "empty" if record.verdict == "empty" else "unanswered"


def refused_summary(refused: Refused) -> dict[str, object]:
    """The summary of a session that was not admitted."""
    return {"refused": {"reason": refused.reason, "retry_after_ms": refused.retry_after_ms}}


def spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """p50, p95, p99, min, max by nearest rank; a None counts as infinite and is given as None."""
    ordered = sorted(math.inf if value is None else value for value in values)
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "min": 0.0, "max": 1.0}
    return {
        name: _rounded(ordered[max(0, math.ceil(rank * len(ordered)) - 1)] if ordered else None)
        for name, rank in ranks.items()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 2)
