"""The turns of one session, in order: the only one to raise epoch and revision.

    HEARING   -- final text known and silence enough -->  COMMITTED  epoch + 1; the ready reply is released
    HEARING   -- final is empty and silence enough --->  ENDED      `empty`
    COMMITTED -- speech within the grace time -------->  HEARING    epoch + 1; both halves become one turn
    COMMITTED -- speech after it, or a cancel -------->  ENDED      epoch + 1; history keeps what was heard
    COMMITTED -- reply heard ------------------------->  ENDED
    COMMITTED -- deadline without content, if enforced >  ENDED      epoch + 1; `refused`, unless acknowledged
    any       -- an engine fails or hangs ------------>  ENDED      `failed`

At most one turn is not ENDED. Here it goes from phase to phase, by what parts that know one thing each have to say:
`listening` hears it, `answering` has its reply made, mostly ahead of the commit, `pauses` tells whether it is over,
`barge_in` what speech over a reply means, `ladder` what is given up where it will be late, `closing` what is left
when it ends. Nothing of a reply leaves before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator

from voicepipe.core.answering import Answering
from voicepipe.core.barge_in import BargeIn, Finding
from voicepipe.core.closing import Closing, user_line
from voicepipe.core.events import (
    Ask,
    Call,
    Committed,
    Corrected,
    EndpointEvent,
    FinalTranscript,
    Hearing,
    Line,
    Lull,
    Onset,
    Promote,
    Quiet,
    RefusedFor,
    Reopened,
    Resumed,
    Silence,
    SoftEnd,
    SpeechStarted,
    Stage,
    Submit,
    Swell,
    Timing,
    TurnCommand,
    Voiced,
    Way,
    Work,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.headroom import latest_start
from voicepipe.core.history import History, Kept
from voicepipe.core.ladder import Ladder
from voicepipe.core.listening import Listening
from voicepipe.core.numbering import Numbering
from voicepipe.core.pauses import Pauses
from voicepipe.core.reply import Reply
from voicepipe.core.second_try import takes_second_try
from voicepipe.core.spelling import as_before
from voicepipe.core.turn_state import Phase, Turn, TurnSettings, TurnSnapshot, open_turn
from voicepipe.core.utterance import RATE_HZ, Final, Span, Speaking


class Turns:
    def __init__(self, session: str, settings: TurnSettings, serial: Iterator[int]) -> None:
        """`serial` issues work ids; the session may draw from it too."""
        self._settings = settings
        self._outlook = Outlook()
        self._turn: Turn | None = None
        self._numbers = Numbering(session, serial)
        self._history = History(settings.max_lines, settings.max_chars)
        self._ladder = Ladder(session, settings, serial)
        self._pauses = Pauses(settings)
        self._barge_in = BargeIn(settings)
        self._answering = Answering(self._numbers, settings, self._history, self._ladder)
        self._spare_s: float | None = None
        self._listening = Listening(self._numbers, self._answering)
        self._closing = Closing(self._numbers, self._history, self._answering, self._pauses)

    def on_opened(self, now: float) -> list[TurnCommand]:
        """The session begins: read the instructions before anybody speaks."""
        return self._answering.read()

    def on_settings(self, settings: TurnSettings) -> list[TurnCommand]:
        """Others hold from now on; a reply that is given stays what it is, one that was made ahead is made anew."""
        self._settings = settings
        self._pauses.on_settings(settings)
        self._barge_in.on_settings(settings)
        self._ladder.on_settings(settings)
        if not self._answering.on_settings(settings):
            return []
        turn = self._in(Phase.HEARING)
        commands = [] if turn is None else self._answering.drop(turn)
        return commands if self._in(Phase.COMMITTED) is not None else commands + self._answering.read()

    def on_outlook(self, outlook: Outlook) -> None:
        """What is typical on the device by now; before the first, nothing is expected to take any time."""
        self._outlook = outlook

    def on_shed(self, shed: bool) -> None:
        """While it holds, nothing is begun before a pause: the server is overloaded. What was begun goes on."""
        self._answering.on_shed(shed)

    def on_spare(self, spare_s: float | None) -> None:
        """So long may a turn of this session keep the device before another one that waits is late; None: nobody
        is."""
        self._spare_s = spare_s

    # the user's voice

    def on_endpoint(
        self, event: EndpointEvent, when: float, now: float, hearing: Hearing | None = None
    ) -> list[TurnCommand]:
        """`when`: scheduler time at which the event's sample was spoken, as far as arrival shows it. `hearing`: how
        it came to be heard, of a soft end and of silence."""
        self._note(hearing)
        match event:
            case Onset(start) | Resumed(start):
                return self._on_speech(start, now)
            case Voiced():
                return self._on_voiced(event, when, now)
            case Lull():
                turn = self._hearing(Speaking.SPEECH)
                return [] if turn is None else self._listening.on_lull(turn, event, now)
            case Swell():
                turn = self._in(Phase.HEARING)
                if turn is not None:
                    turn.utterance.on_swell()
                return []
            case Quiet(samples):
                turn = self._in(Phase.HEARING)
                if turn is None:
                    return []
                turn.utterance.on_quiet(samples / RATE_HZ)
                return self._maybe_commit(turn, now)
            case SoftEnd(at):
                self._barge_in.on_pause()
                turn = self._hearing(Speaking.SPEECH)
                return [] if turn is None else self._pause(turn, at, when, now)
            case Silence(samples, completeness):
                turn = self._hearing(Speaking.PAUSE)
                if turn is None:
                    return []
                turn.utterance.on_silence(samples / RATE_HZ, completeness)
                return self._decide(turn, now)

    def on_commit_asked(
        self, now: float, hearing: Hearing | None = None, even_empty: bool = False
    ) -> list[TurnCommand]:
        """The client says, or has said at `hearing.since`, that the user has finished; since then the ears have
        listened to what had come before. `even_empty`: there is a turn by it in any case, be it one in which
        nothing was heard, or one that was spoken over a reply, which ends then."""
        commands: list[TurnCommand] = []
        answered = self._in(Phase.COMMITTED)
        if even_empty and answered is not None:
            commands = self._interrupt(answered, now)
        turn = self._in(Phase.HEARING)
        if turn is None:
            return commands + self._closing.nothing_said(self._open(0, now), now) if even_empty else []
        self._note(hearing)
        turn.utterance.commit_asked = True
        if turn.utterance.state is Speaking.SPEECH:
            return commands + self._pause(turn, None, now if hearing is None else hearing.since, now)
        return commands + self._maybe_commit(turn, now)

    def on_clear(self, now: float) -> list[TurnCommand]:
        """What the user has said in the present turn is to be forgotten, as if nothing had been heard."""
        self._barge_in.forget()
        turn = self._in(Phase.HEARING)
        return [] if turn is None else self._then(self._closing.nothing_said(turn, now), now)

    # engines

    def on_expected(self, work: Work, service_s: float, running: bool, now: float) -> list[TurnCommand]:
        """A decode was handed to the device, and what it has to do is known by now; or it begins to run."""
        turn = self._turn_of(work)
        if turn is None:
            return []
        if turn.utterance.on_expected(work, service_s, now, running=running) and not running:
            self._predict(turn, now)
        return []

    def on_transcript(
        self, work: Work, stable: str, tentative: str, upto: int, timing: Timing, now: float
    ) -> list[TurnCommand]:
        """What a decode has brought; what was said up to sample `upto` is in it, 0 where that is not known."""
        turn = self._turn_of(work)
        if turn is None or turn.phase is Phase.ENDED:
            return []
        turn.progress = now
        self._listening.on_step(timing)
        heard = turn.utterance.on_transcript(work, stable, tentative, upto)
        if work.kind is WorkKind.FINAL or isinstance(heard, Final):
            turn.ledger.on_service(Stage.ASR, timing, bound_s=work.bound_s, now=now)
        commands = self._listening.on_heard(turn, heard, now)
        return commands + self._decide(turn, now) if isinstance(heard, Final) else commands

    def on_score(self, work: Work, score: float, now: float) -> list[TurnCommand]:
        """The turn model's answer, in [0, 1]. It lets a turn wait longer, or takes that back."""
        turn = self._turn_of(work)
        if turn is None or not turn.utterance.on_score(work, score):
            return []
        return self._maybe_commit(turn, now)

    def on_thought(
        self, work: Work, text: str, finished: bool, timing: Timing, now: float, calls: tuple[Call, ...] = ()
    ) -> list[TurnCommand]:
        if work.kind is WorkKind.WARM:
            return self._answering.on_read(work, finished)
        reply = self._reply_of(work, timing, now)
        if reply is None:
            return []
        reply.spare_s = self._spare_s
        return self._settle(reply.on_thought(text, finished, now, timing.service_s, calls), now)

    def on_spoken(self, work: Work, pcm: bytes, last: bool, timing: Timing, now: float) -> list[TurnCommand]:
        reply = self._reply_of(work, timing, now)
        return [] if reply is None else self._settle(reply.on_spoken(pcm, last, now), now)

    def on_reheard(self, work: Work, text: str, finished: bool) -> list[TurnCommand]:
        """A chunk of a second pass has ended: the turn's text so far, all of it when it is finished."""
        commands, correction = self._ladder.second_passes.on_reheard(work, text, finished)
        if correction is None or not self._history.replace(correction.wrong, correction.right):
            return commands
        if self._turn is not None and self._turn.said is correction.wrong:
            self._turn.said = correction.right
        return [*commands, Corrected(correction.turn, correction.right.text)]

    def on_engine_failed(self, work: Work, code: str, now: float) -> list[TurnCommand]:
        if work.kind is WorkKind.SECOND_PASS:
            return self._ladder.second_passes.on_lost(work)
        turn = self._turn_of(work)
        if turn is None or turn.phase is Phase.ENDED:
            return []
        if work.kind is WorkKind.JUDGE:
            turn.utterance.on_lost(work)  # the words go on alone
            return []
        if work.kind.stage is Stage.ASR:
            if not turn.utterance.on_lost(work):
                return []
            if takes_second_try(turn, code):
                turn.progress = now
                return turn.utterance.decode_again()
            return self._fail(turn, code, Stage.ASR, now)
        if work.kind is WorkKind.WARM or turn.reply is None or not turn.reply.owns(work):
            return []
        if turn.phase is not Phase.COMMITTED:
            return self._answering.drop(turn)  # begun again at the commit
        if not takes_second_try(turn, code):
            return self._fail(turn, code, work.kind.stage, now)
        commands = self._answering.begin_again(turn, now)
        return self._settle(commands + turn.reply.on_release(now), now)

    def on_deaf(self, code: str, now: float) -> list[TurnCommand]:
        """The ears have failed: what the user says in this turn is not known any more."""
        turn = self._in(Phase.HEARING)
        return [] if turn is None else self._fail(turn, code, Stage.ENDPOINT, now)

    def on_discarded(self, work: Work) -> list[TurnCommand]:
        """It waited at the device and will not run."""
        if work.kind is WorkKind.SECOND_PASS:
            return self._ladder.second_passes.on_lost(work)
        turn = self._turn_of(work)
        if turn is not None:
            turn.utterance.on_lost(work)
        return []

    # the client

    def on_sent(self, epoch: int, now: float) -> list[TurnCommand]:
        """The first content of this epoch's reply was handed to the socket."""
        turn = self._replying(epoch)
        if turn is not None:
            behind_s = 0.0 if turn.reply is None else turn.reply.playout.until_content_s(now)
            turn.ledger.on_sent(now, behind_s)
            turn.grace_until = now + behind_s + self._settings.downlink_s + self._settings.grace_s
            if turn.reply is not None:
                turn.reply.on_sent()
                return self._settle([], now)
        return []

    def on_acknowledged(self, epoch: int, now: float) -> list[TurnCommand]:
        """The first of this epoch's acknowledgement was handed to the socket. It begins no grace time: the user
        has not been answered, and may well go on."""
        turn = self._replying(epoch)
        if turn is not None:
            turn.ledger.on_acknowledged(now)
        return []

    def on_report(self, epoch: int, played_samples: int, now: float) -> list[TurnCommand]:
        """Playback report: so much has been played by now. One about an older epoch says nothing any more."""
        turn = self._replying(epoch)
        if turn is None or turn.reply is None:
            return []
        content_s = turn.reply.playout.begun_s(played_samples)
        if content_s is not None:
            turn.ledger.on_heard(now, content_s)
        return self.on_truncate(epoch, played_samples, now)

    def on_truncate(self, epoch: int, played_samples: int, now: float) -> list[TurnCommand]:
        """So much of the reply was heard, at some time or other, and as far as is known."""
        turn = self._replying(epoch)
        if turn is None or turn.reply is None:
            return []
        return self._settle(turn.reply.on_report(played_samples, now), now)

    def on_cut(self, epoch: int, heard_samples: int, now: float) -> list[TurnCommand]:
        """Of the reply of this epoch, be it over or not, no more than that was heard, nor will be."""
        turn = self._replying(epoch)
        if turn is None or turn.reply is None:
            return self._after_change() if self._closing.truncate(epoch, heard_samples) else []
        turn.reply.cut_at = heard_samples
        return self.on_truncate(epoch, heard_samples, now)

    def on_cancel(self, now: float) -> list[TurnCommand]:
        """The client wants no more of the present reply."""
        turn = self._in(Phase.COMMITTED)
        return [] if turn is None else self._interrupt(turn, now)

    def on_text(self, text: str, now: float) -> list[TurnCommand]:
        """A typed turn: committed at once; it interrupts whatever goes on."""
        commands = self._make_way(now)
        turn = self._open(0, now)
        turn.utterance.text, turn.typed = text, True
        return commands + self._commit(turn, now)

    def on_create(self, now: float, ask: Ask | None = None) -> list[TurnCommand]:
        """Reply to the conversation as it stands, or to what is asked."""
        commands = self._no_longer_filled(now) + self._make_way(now)
        turn = self._open(0, now)
        turn.typed = True
        if ask is not None:
            turn.ask = ask
        return commands + self._commit(turn, now, reply=True)

    def on_closed(self, now: float) -> list[TurnCommand]:
        """The client has gone; the present turn gets its verdict all the same."""
        return self._make_way(now)

    def on_lost(self, now: float) -> list[TurnCommand]:
        """The client has gone and may come back: as `on_closed`, and of its newest reply only what it has reported
        as played stays, if it reports."""
        commands = self._make_way(now)
        self._closing.cut_unconfirmed()
        return commands

    def on_restored(self, kept: Kept) -> list[TurnCommand]:
        """Go on with a conversation whose session is over. Before anything else."""
        self._history.restore(kept.entries)
        self._numbers.restore(kept.turn, kept.epoch)
        return []

    def on_line(self, line: Line, name: str = "", after: str | None = None) -> list[TurnCommand]:
        """Put a line into the history, under a name by which it can be deleted; see `History.add`. The result of a
        tool that the present reply has called comes behind that reply."""
        turn = self._in(Phase.COMMITTED)
        called = () if turn is None or turn.reply is None else turn.reply.called
        if turn is not None and line.role == "tool" and any(call.call_id == line.call_id for call in called):
            turn.results.append(line)
            return []
        self._history.add(line, name, after)
        return self._after_change()

    def on_delete(self, name: str) -> list[TurnCommand]:
        """Take the line of that name out of the history, if it is there."""
        if not self._history.has(name):
            return []
        self._history.delete(name)
        return self._after_change()

    # time

    def next_deadline(self) -> float | None:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return None
        deadline = None if turn.reply is None else turn.reply.next_deadline()
        if turn.owed is not None:
            deadline = _earlier(deadline, turn.progress + self._settings.engine_timeout_s)
        if turn.phase is Phase.COMMITTED:
            deadline = _earlier(deadline, self._ladder.acknowledge_at(turn, self.epoch))
            deadline = _earlier(deadline, self._ladder.refuse_at(turn))
        return deadline

    def on_timer(self, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return []
        user_sounds = self._barge_in.user_sounds
        commands = self._ladder.acknowledge(turn, self.epoch, now, user_sounds=user_sounds)
        if self._ladder.is_refused(turn, now):
            return commands + self._refuse(turn, RefusedFor.NO_CONTENT, now)
        stage = turn.owed
        if stage is not None and now >= turn.progress + self._settings.engine_timeout_s:
            if turn.phase is Phase.HEARING and stage is not Stage.ASR:
                return self._answering.drop(turn)  # begun again at the commit
            return commands + self._fail(turn, "engine_timeout", stage, now)
        return commands if turn.reply is None else self._settle(commands + turn.reply.on_timer(now), now)

    # questions

    @property
    def epoch(self) -> int:
        return self._numbers.epoch

    @property
    def phase(self) -> Phase:
        """Of the newest turn; before the first one it is as if one had ended."""
        return Phase.ENDED if self._turn is None else self._turn.phase

    def kept(self) -> Kept:
        """What another session needs to go on, once no turn is open."""
        return Kept(self._history.entries, self._numbers.turn, self._numbers.epoch)

    def has_line(self, name: str) -> bool:
        """Of the history."""
        return self._history.has(name)

    def span(self) -> Span | None:
        """What a decode that starts now should hear; None before the first turn."""
        turn = self._turn
        if turn is None:
            return None
        return Span(turn.number, turn.utterance.start, turn.utterance.speech_samples)

    @property
    def heard_to(self) -> int:
        """16 kHz sample up to which something was said in the newest turn, as far as is known."""
        return 0 if self._turn is None else self._turn.utterance.upto

    def latest_start(self, now: float) -> float | None:
        """By when the next chunk of the present turn has to begin; None where none is to be expected: between
        turns, and once all of the reply has been made."""
        return None if self._turn is None else latest_start(self._turn, self._outlook, now)

    def snapshot(self) -> TurnSnapshot:
        numbers = self._numbers
        return TurnSnapshot(numbers.epoch, numbers.revision, numbers.turn, self.phase, self._history.lines)

    # which turn

    def _in(self, phase: Phase) -> Turn | None:
        """The present turn, if it is in this phase."""
        return self._turn if self._turn is not None and self._turn.phase is phase else None

    def _replying(self, epoch: int) -> Turn | None:
        """The present turn, if `epoch` is that of its commit."""
        return self._in(Phase.COMMITTED) if epoch == self.epoch else None

    def _hearing(self, state: Speaking) -> Turn | None:
        """The present turn, if it is being heard and the user is in this state."""
        turn = self._in(Phase.HEARING)
        return turn if turn is not None and turn.utterance.state is state else None

    def _turn_of(self, work: Work) -> Turn | None:
        """The present turn, if this was done for it."""
        return self._turn if self._turn is not None and self._turn.number == work.turn else None

    def _reply_of(self, work: Work, timing: Timing, now: float) -> Reply | None:
        turn = self._turn_of(work)
        return None if turn is None else self._answering.reply_of(turn, work, timing, now)

    # hearing

    def _note(self, hearing: Hearing | None) -> None:
        turn = self._in(Phase.HEARING)
        if hearing is not None and turn is not None:
            turn.ledger.on_hearing(hearing)

    def _on_speech(self, start: int, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return self._open_spoken(start, now)
        if turn.phase is Phase.HEARING and not turn.utterance.commit_asked:
            # A reply that was made ahead stays valid as long as the text does not change.
            turn.voiced = now
            if turn.reply is not None:
                turn.reply.awaited = False
            return turn.utterance.on_resumed()
        self._barge_in.on_speech(start)
        return []

    def _on_voiced(self, voiced: Voiced, when: float, now: float) -> list[TurnCommand]:
        turn = self._hearing(Speaking.SPEECH)
        if turn is None:
            return self._weigh(voiced.speech_samples / RATE_HZ, now)
        commands = self._listening.on_voiced(turn, voiced, when)
        if voiced.at - turn.utterance.start >= self._settings.max_turn_s * RATE_HZ:
            turn.utterance.commit_asked = True
            return commands + self._pause(turn, None, now, now)
        return commands

    def _weigh(self, speech_s: float, now: float) -> list[TurnCommand]:
        turn = self._in(Phase.COMMITTED)
        if turn is None:
            return []
        match self._barge_in.weigh(turn, speech_s, now):
            case Finding.FALSE_START:
                return self._reopen(turn)
            case Finding.BARGE_IN:
                return self._interrupt(turn, now)  # ends the turn; the next one opens where the speech began
            case None:
                return []

    def _pause(self, turn: Turn, at: int | None, speech_end: float, now: float) -> list[TurnCommand]:
        commands = self._listening.on_pause(turn, at, speech_end, now)
        if turn.utterance.text is not None:
            return commands + self._decide(turn, now)
        self._predict(turn, now)
        return commands

    def _predict(self, turn: Turn, now: float) -> None:
        """The first content, where the final text is still to come and its decode is at the device."""
        final_s = turn.utterance.final_left_s(now)
        if final_s is not None and self._settings.auto_reply:
            turn.ledger.on_predicted(Stage.ASR, final_s + self._outlook.left_s(Way()), now)

    def _decide(self, turn: Turn, now: float) -> list[TurnCommand]:
        """In a pause whose words are known: is it the end, and if it is not, does the speaker sound finished?"""
        return self._maybe_commit(turn, now) or self._pauses.judge(turn.utterance)

    def _maybe_commit(self, turn: Turn, now: float) -> list[TurnCommand]:
        if not self._pauses.is_over(turn.utterance):
            return []
        if not turn.utterance.text:
            return self._then(self._closing.nothing_said(turn, now), now)
        return self._commit(turn, now)

    # from phase to phase

    def _open_spoken(self, start: int, now: float) -> list[TurnCommand]:
        return [SpeechStarted(self._open(start, now).number), *self._answering.read()]

    def _open(self, start: int, now: float) -> Turn:
        self._turn = open_turn(self._numbers, self._settings, start, self._outlook, now)
        return self._turn

    def _commit(self, turn: Turn, now: float, *, reply: bool = False) -> list[TurnCommand]:
        epoch = self._numbers.begin_epoch()
        turn.phase = Phase.COMMITTED
        turn.ledger.on_commit(now)
        text = turn.utterance.text
        commands: list[TurnCommand] = [] if text is None else [FinalTranscript(turn.number, text)]
        commands += [Committed(turn.number, epoch), *turn.utterance.on_decided()]
        if turn.reply is not None:
            commands.append(Promote(epoch))
        elif self._settings.auto_reply or reply:
            commands += self._answering.begin(turn, text, epoch, now)
        if text is not None:
            turn.said = Line("user", as_before(text, turn.shown))
            self._history.add(turn.said, user_line(turn.number))
        if turn.reply is None:
            commands += self._ladder.hear_again(turn, epoch, now)
            return self._then(commands + self._closing.unanswered(turn, now), now)
        if self._ladder.is_refused(turn, now):
            return commands + self._refuse(turn, RefusedFor.LATE_COMMIT, now)
        turn.reply.predict(now)
        commands += turn.reply.on_release(now)
        return self._settle(commands + self._ladder.hear_again(turn, epoch, now), now)

    def _reopen(self, turn: Turn) -> list[TurnCommand]:
        """The commit was a false start: the user had not finished."""
        commands: list[TurnCommand] = [Reopened(turn.number, self._numbers.begin_epoch())]
        commands += self._answering.drop(turn) + self._ladder.second_passes.drop(turn.number)
        # Nothing of the reply has entered the history, but the client may have added to it.
        self._history.remove(turn.said)
        turn.ledger.on_reopen()
        turn.reopened = True
        self._pauses.on_false_start(turn.utterance, self._barge_in.take())
        turn.phase, turn.grace_until = Phase.HEARING, None
        return commands + turn.utterance.on_resumed()

    def _settle(self, commands: list[TurnCommand], now: float) -> list[TurnCommand]:
        """After the reply moved: has it been heard to its end?"""
        turn = self._turn
        assert turn is not None
        if any(isinstance(command, Submit) for command in commands):
            turn.progress = now  # who is asked only now has all of its time
        reply = turn.reply
        if reply is not None and reply.may_be_filled:
            commands += self._ladder.fill(turn, now, user_sounds=self._barge_in.user_sounds)
        if reply is None or not reply.finished or turn.phase is not Phase.COMMITTED:
            return commands
        if reply.silent:
            return commands + self._fail(turn, "empty_reply", Stage.LLM, now)
        commands = self._then(commands + self._closing.heard_out(turn, now), now)
        return commands if self._turn is not turn else commands + self._answering.read()

    def _interrupt(self, turn: Turn, now: float) -> list[TurnCommand]:
        return self._then(self._closing.interrupt(turn, now), now)

    def _fail(self, turn: Turn, code: str, stage: Stage, now: float) -> list[TurnCommand]:
        return self._then(self._closing.fail(turn, code, stage, now), now)

    def _refuse(self, turn: Turn, reason: RefusedFor, now: float) -> list[TurnCommand]:
        return self._then(self._closing.refuse(turn, reason, now), now)

    def _then(self, commands: list[TurnCommand], now: float) -> list[TurnCommand]:
        """A turn has ended: speech that goes on is the next one."""
        start, speech_s = self._barge_in.take(), self._barge_in.speech_s
        if start is None:
            return commands
        commands += self._open_spoken(start, now)
        if self._turn is not None:
            self._turn.utterance.on_voiced_before(round(speech_s * RATE_HZ))
        return commands

    def _after_change(self) -> list[TurnCommand]:
        """The history is another one: what was made ahead of a commit answers what it was before."""
        turn = self._in(Phase.HEARING)
        return [] if turn is None else self._answering.drop(turn)

    def _no_longer_filled(self, now: float) -> list[TurnCommand]:
        """A turn that only called a tool is complete when its answer is asked for, be a filler heard to its end or
        not: nobody has interrupted it."""
        turn = self._in(Phase.COMMITTED)
        if turn is None or turn.reply is None or not turn.reply.only_calls:
            return []
        return self._closing.heard_out(turn, now)

    def _make_way(self, now: float) -> list[TurnCommand]:
        """End the present turn, because something else begins."""
        self._barge_in.forget()
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return []
        if turn.phase is Phase.HEARING:
            self._barge_in.keep(turn.utterance.start, turn.utterance.ended_samples / RATE_HZ)
        return self._closing.make_way(turn, now)


def _earlier(one: float | None, other: float | None) -> float | None:
    """Of two instants of which either may never come."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
