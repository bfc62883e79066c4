"""The turns of one session, in order: the only writer of epoch and revision.

    SPEECH    -- soft end ---------------------------->  PAUSE      a final decode is asked for
    PAUSE     -- resumed ----------------------------->  SPEECH
    PAUSE     -- final text known and silence enough -->  COMMITTED  epoch + 1; the ready reply is released
    PAUSE     -- final is empty and silence enough --->  ENDED      `empty`
    COMMITTED -- speech within the grace time -------->  SPEECH     epoch + 1; both halves become one turn
    COMMITTED -- speech after it, or a cancel -------->  ENDED      epoch + 1; history keeps what was heard
    COMMITTED -- reply heard ------------------------->  ENDED
    any       -- an engine fails or hangs ------------>  ENDED      `failed`

At most one turn is not ENDED. While the user pauses, the reply is made ahead, under the epoch that the commit
would open; whenever the text that it answers changes, the revision rises and it is made anew. Nothing of it
leaves before the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from voicepipe.core.budget import Ledger
from voicepipe.core.events import (
    Committed,
    EndpointEvent,
    FinalTranscript,
    Line,
    Onset,
    PartialTranscript,
    Promote,
    Reopened,
    ReplyInterrupted,
    Resumed,
    Retire,
    Silence,
    SoftEnd,
    SpeechStarted,
    Stage,
    Submit,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    Voiced,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.patience import Patience, needed_silence_s
from voicepipe.core.reply import Reply, ReplyId, ReplySettings

RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class TurnSettings:
    reply: ReplySettings
    patience: Patience
    instructions: str
    budget_s: float = 0.2
    downlink_s: float = 0.002
    """Estimated time from the socket to audibility; a loopback's."""
    manual: bool = False
    """Turns end by `on_commit_asked` alone."""
    auto_reply: bool = True
    interruptible: bool = True
    reopen_speech_s: float = 0.096
    """Speech that takes a commit back within the grace time."""
    barge_in_speech_s: float = 0.256
    """Speech that interrupts a reply after it (192 to 384 ms are usual)."""
    grace_s: float = 0.8
    """Grace lasts from the commit until so long after the first reply audio."""
    first_partial_s: float = 0.5
    """Less speech than this decodes to noise."""
    min_hop_s: float = 0.24
    max_hop_s: float = 0.96
    max_turn_s: float = 300.0
    engine_timeout_s: float = 10.0
    """A turn whose engines have shown no progress for so long has failed."""
    max_lines: int = 200
    """Lines of history kept."""


class Hearing(Enum):
    SPEECH = auto()
    PAUSE = auto()
    COMMITTED = auto()
    ENDED = auto()


@dataclass(slots=True)
class _Turn:
    number: int
    start: int
    ledger: Ledger
    progress: float
    """When an engine last delivered, or was first asked."""
    hearing: Hearing = Hearing.SPEECH
    text: str | None = None
    """Text of the final decode of this pause; None while there is none."""
    answered: str | None = None
    """The normalised text that `reply` answers."""
    reply: Reply | None = None
    final: int | None = None
    """Work id of the final decode that counts."""
    partial: Work | None = None
    """The partial in flight."""
    decoded_to: int = 0
    """Media position that the last decode was asked for."""
    shown: tuple[str, str] = ("", "")
    silence_s: float = 0.0
    completeness: float | None = None
    voiced_before: int = 0
    voiced: int = 0
    commit_asked: bool = False
    grace_until: float | None = None
    typed: bool = False
    """Not spoken: speech cannot go on with it."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the recogniser is to hear."""

    turn: int
    start: int
    speech_samples: int


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    epoch: int
    revision: int
    turn: int
    hearing: Hearing
    history: tuple[Line, ...]


def normalised(text: str) -> str:
    """Words only: two texts that sound alike get one reply."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


class Turns:
    def __init__(self, session: str, settings: TurnSettings, serial: Iterator[int]) -> None:
        """`serial` issues work ids; the session may draw from it too."""
        self._session = session
        self._settings = settings
        self._serial = serial
        self._epoch = 0
        self._revision = 0
        self._turn: _Turn | None = None
        self._number = 0
        self._candidate: int | None = None
        """Where speech began that may become a barge-in."""
        self._step_s = 0.0
        self._history: list[Line] = []

    # the user's voice

    def on_endpoint(self, event: EndpointEvent, when: float, now: float) -> list[TurnCommand]:
        """`when`: scheduler time at which the event's sample was spoken, as far as arrival shows it."""
        match event:
            case Onset(start) | Resumed(start):
                return self._on_speech(start, now)
            case Voiced(samples, at):
                return self._on_voiced(samples, at, now)
            case SoftEnd(at):
                return self._on_soft_end(at, when, now)
            case Silence(samples, completeness):
                return self._on_silence(samples / RATE_HZ, completeness, now)

    def on_commit_asked(self, now: float) -> list[TurnCommand]:
        """The client says that the user has finished."""
        turn = self._turn
        if turn is None or turn.hearing not in (Hearing.SPEECH, Hearing.PAUSE):
            return []
        turn.commit_asked = True
        if turn.hearing is Hearing.SPEECH:
            return self._pause(turn, now, now)
        return self._maybe_commit(turn, now)

    # engines

    def on_transcript(
        self, work: Work, stable: str, tentative: str, timing: Timing, now: float
    ) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or work.turn != turn.number:
            return []
        turn.progress = now
        if work == turn.partial:
            turn.partial = None
            self._step_s += 0.3 * (timing.service_s - self._step_s)
        if work.id == turn.final and turn.hearing is Hearing.PAUSE:
            turn.final = None
            turn.ledger.on_service(Stage.ASR, timing)
            return self._on_final(turn, f"{stable} {tentative}".strip(), now)
        is_new = work.kind is WorkKind.PARTIAL and (stable, tentative) != turn.shown
        if turn.hearing is Hearing.SPEECH and is_new:
            turn.shown = (stable, tentative)
            return [PartialTranscript(turn.number, stable, tentative)]
        return []

    def on_thought(
        self, work: Work, text: str, finished: bool, timing: Timing, now: float
    ) -> list[TurnCommand]:
        reply = self._reply_of(work, timing, now)
        return [] if reply is None else self._settle(reply.on_thought(text, finished, now), now)

    def on_spoken(
        self, work: Work, pcm: bytes, last: bool, timing: Timing, now: float
    ) -> list[TurnCommand]:
        reply = self._reply_of(work, timing, now)
        return [] if reply is None else self._settle(reply.on_spoken(pcm, last, now), now)

    def on_engine_failed(self, work: Work, code: str, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or work.turn != turn.number or turn.hearing is Hearing.ENDED:
            return []
        if work == turn.partial:
            turn.partial = None  # the next one, or the final, will do
        elif work.id == turn.final:
            return self._fail(turn, code, Stage.ASR, now)
        elif turn.reply is not None and self._is_current(turn.reply, work):
            if turn.hearing is Hearing.COMMITTED:
                return self._fail(turn, code, work.kind.stage, now)
            return self._drop_reply(turn)  # begun again at the commit
        return []

    def on_discarded(self, work: Work) -> None:
        """It waited at the device and will not run."""
        if self._turn is not None and work == self._turn.partial:
            self._turn.partial = None

    # the client

    def on_sent(self, epoch: int, now: float) -> list[TurnCommand]:
        """The first audio of this epoch's reply was handed to the socket."""
        turn = self._turn
        if turn is not None and turn.hearing is Hearing.COMMITTED and epoch == self._epoch:
            turn.ledger.on_sent(now)
            turn.grace_until = now + self._settings.downlink_s + self._settings.grace_s
        return []

    def on_report(self, epoch: int, played_samples: int, now: float) -> list[TurnCommand]:
        """Playback report; one about an older epoch says nothing any more."""
        turn = self._turn
        if turn is None or turn.reply is None or epoch != self._epoch:
            return []
        return self._settle(turn.reply.on_report(played_samples, now), now)

    def on_cancel(self, now: float) -> list[TurnCommand]:
        """The client wants no more of the present reply."""
        turn = self._turn
        if turn is None or turn.hearing is not Hearing.COMMITTED:
            return []
        return self._interrupt(turn, now)

    def on_text(self, text: str, now: float) -> list[TurnCommand]:
        """A typed turn: committed at once; it interrupts whatever goes on."""
        commands = self._make_way(now)
        turn = self._open(0, now)
        turn.text, turn.typed = text, True
        return commands + self._commit(turn, now)

    def on_create(self, now: float) -> list[TurnCommand]:
        """Reply to the conversation as it stands."""
        commands = self._make_way(now)
        turn = self._open(0, now)
        turn.typed = True
        return commands + self._commit(turn, now, reply=True)

    def on_closed(self, now: float) -> list[TurnCommand]:
        """The client has gone; the present turn gets its verdict all the same."""
        return self._make_way(now)

    def on_line(self, line: Line) -> None:
        """Put a line into the history."""
        self._history.append(line)
        del self._history[: -self._settings.max_lines]

    # time

    def next_deadline(self) -> float | None:
        turn = self._turn
        if turn is None or turn.hearing is Hearing.ENDED:
            return None
        deadlines = [turn.reply.next_deadline() if turn.reply is not None else None]
        if self._owed(turn):
            deadlines.append(turn.progress + self._settings.engine_timeout_s)
        return min((d for d in deadlines if d is not None), default=None)

    def on_timer(self, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.hearing is Hearing.ENDED:
            return []
        if self._owed(turn) and now >= turn.progress + self._settings.engine_timeout_s:
            stage = Stage.ASR if turn.final is not None else Stage.LLM
            return self._fail(turn, "engine_timeout", stage, now)
        return [] if turn.reply is None else self._settle(turn.reply.on_timer(now), now)

    # questions

    @property
    def epoch(self) -> int:
        return self._epoch

    def utterance(self) -> Utterance | None:
        """What a decode that starts now should hear; None where no turn is heard."""
        turn = self._turn
        if turn is None:
            return None
        return Utterance(turn.number, turn.start, turn.voiced_before + turn.voiced)

    def snapshot(self) -> TurnSnapshot:
        turn = self._turn
        hearing = Hearing.ENDED if turn is None else turn.hearing
        return TurnSnapshot(
            self._epoch, self._revision, self._number, hearing, tuple(self._history)
        )

    # hearing

    def _on_speech(self, start: int, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.hearing is Hearing.ENDED:
            return [SpeechStarted(self._open(start, now).number)]
        if turn.hearing is Hearing.PAUSE:
            self._resume(turn)
        elif turn.hearing is Hearing.COMMITTED and self._settings.interruptible:
            self._candidate = start
        return []

    def _on_voiced(self, samples: int, at: int, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None:
            return []
        if turn.hearing is Hearing.COMMITTED:
            return self._weigh_candidate(turn, samples, now)
        if turn.hearing is not Hearing.SPEECH:
            return []
        turn.voiced = samples
        if at - turn.start >= self._settings.max_turn_s * RATE_HZ:
            turn.commit_asked = True
            return self._pause(turn, now, now)
        return self._maybe_partial(turn, at, now)

    def _weigh_candidate(self, turn: _Turn, samples: int, now: float) -> list[TurnCommand]:
        if self._candidate is None:
            return []
        speech_s = samples / RATE_HZ
        in_grace = not turn.typed and (turn.grace_until is None or now < turn.grace_until)
        if in_grace and speech_s >= self._settings.reopen_speech_s:
            self._candidate = None
            return self._reopen(turn)
        if not in_grace and speech_s >= self._settings.barge_in_speech_s:
            return self._interrupt(turn, now)  # ends the turn, which opens the next at the candidate
        return []

    def _maybe_partial(self, turn: _Turn, at: int, now: float) -> list[TurnCommand]:
        hop_s = min(max(1.5 * self._step_s, self._settings.min_hop_s), self._settings.max_hop_s)
        fresh_s = (at - max(turn.decoded_to, turn.start)) / RATE_HZ
        spoken_s = (turn.voiced_before + turn.voiced) / RATE_HZ
        if turn.partial is not None or fresh_s < hop_s or spoken_s < self._settings.first_partial_s:
            return []
        turn.decoded_to = at
        work = self._asr_work(turn, WorkKind.PARTIAL, WorkClass.ASR)
        turn.partial, turn.progress = work, now
        return [Submit(work)]

    def _on_soft_end(self, at: int, when: float, now: float) -> list[TurnCommand]:
        turn = self._turn
        self._candidate = None  # too short to have been one
        if turn is None or turn.hearing is not Hearing.SPEECH:
            return []
        return self._pause(turn, when, now)

    def _pause(self, turn: _Turn, speech_end: float, now: float) -> list[TurnCommand]:
        turn.hearing = Hearing.PAUSE
        turn.silence_s, turn.completeness, turn.text = 0.0, None, None
        turn.ledger.on_soft_end(speech_end, now)
        work = self._asr_work(turn, WorkKind.FINAL, WorkClass.STARTED)
        turn.final, turn.progress = work.id, now
        commands: list[TurnCommand] = [Submit(work)]
        return commands if turn.partial is None else [Withdraw(turn.partial), *commands]

    def _resume(self, turn: _Turn) -> None:
        """Speech again. A reply that was made ahead stays valid as long as the text does not change."""
        turn.hearing = Hearing.SPEECH
        turn.voiced_before += turn.voiced
        turn.voiced = 0
        turn.final = None

    def _on_silence(
        self, silence_s: float, completeness: float | None, now: float
    ) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.hearing is not Hearing.PAUSE:
            return []
        turn.silence_s = silence_s
        if completeness is not None:
            turn.completeness = completeness
        return self._maybe_commit(turn, now)

    def _on_final(self, turn: _Turn, text: str, now: float) -> list[TurnCommand]:
        turn.text = text
        commands: list[TurnCommand] = []
        if text and self._settings.auto_reply and normalised(text) != turn.answered:
            commands += self._drop_reply(turn)
            commands += self._begin_reply(turn, self._epoch + 1, now)
        return commands + self._maybe_commit(turn, now)

    def _maybe_commit(self, turn: _Turn, now: float) -> list[TurnCommand]:
        if turn.text is None:
            return []
        if not turn.commit_asked:
            needed_s = needed_silence_s(turn.text, turn.completeness, self._settings.patience)
            if self._settings.manual or turn.silence_s < needed_s:
                return []
        if not turn.text:
            commands = self._drop_reply(turn)
            return commands + self._end(turn, now, empty=True)
        return self._commit(turn, now)

    # deciding

    def _commit(self, turn: _Turn, now: float, *, reply: bool = False) -> list[TurnCommand]:
        self._epoch += 1
        turn.hearing = Hearing.COMMITTED
        turn.ledger.on_commit(now)
        commands: list[TurnCommand] = []
        if turn.text is not None:
            commands.append(FinalTranscript(turn.number, turn.text))
        commands.append(Committed(turn.number, self._epoch))
        if not (self._settings.auto_reply or reply):
            assert turn.text is not None
            self.on_line(Line("user", turn.text))
            return commands + self._end(turn, now, expects_reply=False)
        if turn.reply is None:
            commands += self._begin_reply(turn, self._epoch, now)
        else:
            commands.append(Promote(self._epoch))
        if turn.text is not None:
            self.on_line(Line("user", turn.text))
        assert turn.reply is not None
        return commands + self._settle(turn.reply.on_release(now), now)

    def _reopen(self, turn: _Turn) -> list[TurnCommand]:
        """The commit was a false start: the user had not finished."""
        self._epoch += 1
        commands: list[TurnCommand] = [Reopened(turn.number, self._epoch)]
        commands += self._drop_reply(turn)
        commands.append(Retire(self._epoch, 0))
        if turn.text is not None:
            self._history.pop()  # the user's line; the reply had not entered
        turn.ledger.on_reopen()
        turn.commit_asked, turn.grace_until = False, None
        self._resume(turn)
        return commands

    def _interrupt(self, turn: _Turn, now: float) -> list[TurnCommand]:
        """The reply stops here; history keeps what was heard of it."""
        reply, epoch = turn.reply, self._epoch
        self._epoch += 1
        commands: list[TurnCommand] = []
        if reply is not None:
            heard = reply.playout.heard_samples(now)
            heard_ms = round(1000 * heard / self._settings.reply.playout.rate_hz)
            commands.append(ReplyInterrupted(turn.number, epoch, heard_ms))
            text = reply.playout.heard_text(now)
            if text:
                self.on_line(Line("assistant", f"{text} …"))
        commands.append(Retire(self._epoch, 0))
        return commands + self._end(turn, now)

    def _fail(self, turn: _Turn, code: str, stage: Stage, now: float) -> list[TurnCommand]:
        turn.ledger.on_failed()
        commands: list[TurnCommand] = [TurnFailed(turn.number, code, stage)]
        if turn.hearing is Hearing.COMMITTED:
            return commands + self._interrupt(turn, now)
        return commands + self._drop_reply(turn) + self._end(turn, now)

    def _make_way(self, now: float) -> list[TurnCommand]:
        """End the present turn, because something else begins."""
        turn = self._turn
        self._candidate = None
        if turn is None or turn.hearing is Hearing.ENDED:
            return []
        if turn.hearing is Hearing.COMMITTED:
            return self._interrupt(turn, now)
        return self._drop_reply(turn) + self._end(turn, now)

    def _open(self, start: int, now: float) -> _Turn:
        self._number += 1
        ledger = Ledger(self._number, self._settings.budget_s, self._settings.downlink_s)
        self._turn = _Turn(self._number, start, ledger, now)
        return self._turn

    def _end(
        self, turn: _Turn, now: float, *, empty: bool = False, expects_reply: bool = True
    ) -> list[TurnCommand]:
        turn.hearing, turn.final, turn.partial = Hearing.ENDED, None, None
        ended = TurnEnded(turn.ledger.record(empty=empty, expects_reply=expects_reply))
        turn.reply = None
        start, self._candidate = self._candidate, None
        if start is None:
            return [ended]
        return [ended, SpeechStarted(self._open(start, now).number)]

    # the reply

    def _begin_reply(self, turn: _Turn, epoch: int, now: float) -> list[TurnCommand]:
        lines = [Line("system", self._settings.instructions), *self._history]
        if turn.text is not None:
            lines.append(Line("user", turn.text))
            turn.answered = normalised(turn.text)
        ident = ReplyId(self._session, turn.number, epoch, self._revision)
        turn.reply = Reply(ident, self._settings.reply, turn.ledger, self._serial)
        turn.progress = now
        return turn.reply.begin(tuple(lines), now)

    def _drop_reply(self, turn: _Turn) -> list[TurnCommand]:
        """Forget what was made ahead; the revision rises, so that none of it can be released."""
        if turn.reply is None:
            return []
        turn.ledger.on_reply_dropped()
        turn.reply = turn.answered = None
        self._revision += 1
        return [Retire(self._epoch + 1, self._revision)]

    def _reply_of(self, work: Work, timing: Timing, now: float) -> Reply | None:
        """The reply that this result belongs to; None, and the waste noted, if it is history."""
        turn = self._turn
        if turn is None or work.turn != turn.number:
            return None
        if turn.reply is None or not self._is_current(turn.reply, work):
            turn.ledger.on_late_service(timing)
            return None
        turn.ledger.on_service(work.kind.stage, timing)
        turn.progress = now
        return turn.reply

    @staticmethod
    def _is_current(reply: Reply, work: Work) -> bool:
        return (work.epoch, work.revision) == (reply.ident.epoch, reply.ident.revision)

    def _settle(self, commands: list[TurnCommand], now: float) -> list[TurnCommand]:
        """After the reply moved: has it been heard to its end?"""
        turn = self._turn
        assert turn is not None
        reply = turn.reply
        if reply is None or not reply.finished or turn.hearing is not Hearing.COMMITTED:
            return commands
        if reply.silent:
            return commands + self._fail(turn, "empty_reply", Stage.LLM, now)
        self.on_line(Line("assistant", reply.playout.text()))
        return commands + self._end(turn, now)

    @staticmethod
    def _owed(turn: _Turn) -> bool:
        """Does an engine owe this turn a result that it cannot do without?"""
        return turn.final is not None or (turn.reply is not None and turn.reply.waiting)

    def _asr_work(self, turn: _Turn, kind: WorkKind, klass: WorkClass) -> Work:
        return Work(
            id=next(self._serial),
            session=self._session,
            turn=turn.number,
            epoch=self._epoch + 1,
            revision=self._revision,
            kind=kind,
            klass=klass,
            deadline=turn.ledger.deadline,
        )
