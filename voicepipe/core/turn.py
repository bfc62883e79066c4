"""The turns of one session, in order: the only writer of epoch and revision.

    HEARING   -- final text known and silence enough -->  COMMITTED  epoch + 1; the ready reply is released
    HEARING   -- final is empty and silence enough --->  ENDED      `empty`
    COMMITTED -- speech within the grace time -------->  HEARING    epoch + 1; both halves become one turn
    COMMITTED -- speech after it, or a cancel -------->  ENDED      epoch + 1; history keeps what was heard
    COMMITTED -- reply heard ------------------------->  ENDED
    COMMITTED -- deadline without content, if enforced >  ENDED      epoch + 1; `refused`, unless acknowledged
    any       -- an engine fails or hangs ------------>  ENDED      `failed`

At most one turn is not ENDED. Where what was heard sounds like all of it, the reply is made ahead, under the epoch
that the commit would open; whenever the text that it answers changes, the revision rises and it is made anew.
Nothing of it leaves before the commit. Until then, the model reads what has been heard so far.
"""

from __future__ import annotations

from collections.abc import Iterator

from voicepipe.core.budget import Ledger
from voicepipe.core.events import (
    Committed,
    Corrected,
    EndpointEvent,
    FinalTranscript,
    Hearing,
    Line,
    Lull,
    Onset,
    PartialTranscript,
    Promote,
    Quiet,
    Reopened,
    ReplyInterrupted,
    Resumed,
    Retire,
    Silence,
    SoftEnd,
    SpeechStarted,
    Stage,
    Submit,
    Swell,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    Voiced,
    Way,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.history import History
from voicepipe.core.ladder import Ladder
from voicepipe.core.patience import Speaker, sounds_finished
from voicepipe.core.reading import Reading
from voicepipe.core.reply import Reply, ReplyId
from voicepipe.core.turn_state import Phase, Turn, TurnSettings, TurnSnapshot
from voicepipe.core.utterance import RATE_HZ, Ahead, Final, Partial, Span, Speaking, Utterance, normalised

STEP_SMOOTHING = 0.3
"""Weight of the newest step in the mean that sizes the hop between partials."""


class Turns:
    def __init__(self, session: str, settings: TurnSettings, serial: Iterator[int]) -> None:
        """`serial` issues work ids; the session may draw from it too."""
        self._outlook = Outlook()
        self._shed = False
        self._session = session
        self._settings = settings
        self._serial = serial
        self._epoch = 0
        self._revision = 0
        self._turn: Turn | None = None
        self._number = 0
        self._candidate: int | None = None
        """Where speech began that may become a barge-in."""
        self._reading = Reading(
            serial, wanted=settings.warm and settings.auto_reply, least_words=settings.read_words
        )
        self._ladder = Ladder(session, settings, serial)
        self._speaker = Speaker(settings.patience)
        self._step_s = 0.0
        self._history = History(settings.max_lines)

    def on_opened(self, now: float) -> list[TurnCommand]:
        """The session begins: read the instructions before anybody speaks."""
        return self._read()

    def on_outlook(self, outlook: Outlook) -> None:
        """What is typical on the device by now; before the first, nothing is expected to take any time."""
        self._outlook = outlook

    def on_shed(self, shed: bool) -> None:
        """While it holds, nothing is begun before a pause: the server is overloaded. What was begun goes on."""
        self._shed = shed

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
            case Voiced(samples, at):
                return self._on_voiced(samples, at, when, now)
            case Lull():
                turn = self._hearing(Speaking.SPEECH)
                return [] if turn is None else self._on_lull(turn, event, now)
            case Swell():
                turn = self._turn
                if turn is not None and turn.phase is Phase.HEARING:
                    turn.utterance.on_swell()
                return []
            case Quiet(samples):
                turn = self._turn
                if turn is None or turn.phase is not Phase.HEARING:
                    return []
                turn.utterance.on_quiet(samples / RATE_HZ)
                return self._maybe_commit(turn, now)
            case SoftEnd(at):
                self._candidate = None  # too short to have been one
                turn = self._hearing(Speaking.SPEECH)
                return [] if turn is None else self._pause(turn, at, when, now)
            case Silence(samples, completeness):
                turn = self._hearing(Speaking.PAUSE)
                if turn is None:
                    return []
                turn.utterance.on_silence(samples / RATE_HZ, completeness)
                return self._maybe_commit(turn, now) or self._judge(turn)

    def on_commit_asked(self, now: float, hearing: Hearing | None = None) -> list[TurnCommand]:
        """The client says, or has said at `hearing.since`, that the user has finished; since then the ears have
        listened to what had come before."""
        turn = self._turn
        if turn is None or turn.phase is not Phase.HEARING:
            return []
        self._note(hearing)
        turn.utterance.commit_asked = True
        if turn.utterance.state is Speaking.SPEECH:
            return self._pause(turn, None, now if hearing is None else hearing.since, now)
        return self._maybe_commit(turn, now)

    # engines

    def on_expected(self, work: Work, service_s: float, running: bool, now: float) -> list[TurnCommand]:
        """A decode was handed to the device, and what it has to do is known by now; or it begins to run."""
        turn = self._turn
        if turn is None or work.turn != turn.number:
            return []
        if turn.utterance.on_expected(work, service_s, now, running=running) and not running:
            self._predict(turn, now)
        return []

    def on_transcript(
        self, work: Work, stable: str, tentative: str, upto: int, timing: Timing, now: float
    ) -> list[TurnCommand]:
        """What a decode has brought; what was said up to sample `upto` is in it, 0 where that is not known."""
        turn = self._turn
        if turn is None or work.turn != turn.number or turn.phase is Phase.ENDED:
            return []
        turn.progress = now
        self._step_s += STEP_SMOOTHING * (timing.finished - timing.queued - self._step_s)
        heard = turn.utterance.on_transcript(work, stable, tentative, upto)
        if work.kind is WorkKind.FINAL or isinstance(heard, Final):
            turn.ledger.on_service(Stage.ASR, timing, bound_s=work.bound_s, now=now)
        match heard:
            case Final(text, unneeded):
                return [*map(Withdraw, unneeded), *self._on_final(turn, text, now)]
            case Ahead(text, unneeded):
                return [*map(Withdraw, unneeded), *self._on_ahead(turn, text, now)]
            case Partial(stable, tentative) as partial:
                return self._told(turn, partial) + self._on_partial(turn, partial, now)
        return []

    def on_score(self, work: Work, score: float, now: float) -> list[TurnCommand]:
        """The turn model's answer, in [0, 1]. It lets a turn wait longer, or takes that back."""
        turn = self._turn
        if turn is None or work.turn != turn.number or not turn.utterance.on_score(work, score):
            return []
        return self._maybe_commit(turn, now)

    def on_thought(self, work: Work, text: str, finished: bool, timing: Timing, now: float) -> list[TurnCommand]:
        if work.kind is WorkKind.WARM:
            return self._reading.on_step(work, finished)
        reply = self._reply_of(work, timing, now)
        if reply is None:
            return []
        return self._settle(reply.on_thought(text, finished, now, timing.service_s), now)

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
        turn = self._turn
        if turn is None or work.turn != turn.number or turn.phase is Phase.ENDED:
            return []
        if work.kind is WorkKind.JUDGE:
            turn.utterance.on_lost(work)  # the words go on alone
            return []
        if work.kind.stage is Stage.ASR:
            final_lost = turn.utterance.on_lost(work)
            return self._fail(turn, code, Stage.ASR, now) if final_lost else []
        if work.kind is WorkKind.WARM or turn.reply is None or not turn.reply.owns(work):
            return []
        if turn.phase is Phase.COMMITTED:
            return self._fail(turn, code, work.kind.stage, now)
        return self._drop_reply(turn)  # begun again at the commit

    def on_deaf(self, code: str, now: float) -> list[TurnCommand]:
        """The ears have failed: what the user says in this turn is not known any more."""
        turn = self._turn
        if turn is None or turn.phase is not Phase.HEARING:
            return []
        return self._fail(turn, code, Stage.ENDPOINT, now)

    def on_discarded(self, work: Work) -> list[TurnCommand]:
        """It waited at the device and will not run."""
        if work.kind is WorkKind.SECOND_PASS:
            return self._ladder.second_passes.on_lost(work)
        if self._turn is not None and work.turn == self._turn.number:
            self._turn.utterance.on_lost(work)
        return []

    # the client

    def on_sent(self, epoch: int, now: float) -> list[TurnCommand]:
        """The first content of this epoch's reply was handed to the socket."""
        turn = self._turn
        if turn is not None and turn.phase is Phase.COMMITTED and epoch == self._epoch:
            behind_s = 0.0 if turn.reply is None else turn.reply.playout.until_content_s(now)
            turn.ledger.on_sent(now, behind_s)
            turn.grace_until = now + behind_s + self._settings.downlink_s + self._settings.grace_s
        return []

    def on_acknowledged(self, epoch: int, now: float) -> list[TurnCommand]:
        """The first of this epoch's acknowledgement was handed to the socket. It begins no grace time: the user
        has not been answered, and may well go on."""
        turn = self._turn
        if turn is not None and turn.phase is Phase.COMMITTED and epoch == self._epoch:
            turn.ledger.on_acknowledged(now)
        return []

    def on_report(self, epoch: int, played_samples: int, now: float) -> list[TurnCommand]:
        """Playback report: so much has been played by now. One about an older epoch says nothing any more."""
        turn = self._turn
        if turn is None or turn.reply is None or epoch != self._epoch:
            return []
        content_s = turn.reply.playout.content_s(played_samples)
        if content_s > 0.0:
            turn.ledger.on_heard(now, content_s)
        return self.on_truncate(epoch, played_samples, now)

    def on_truncate(self, epoch: int, played_samples: int, now: float) -> list[TurnCommand]:
        """So much of the reply was heard, at some time or other."""
        turn = self._turn
        if turn is None or turn.reply is None or turn.phase is not Phase.COMMITTED or epoch != self._epoch:
            return []
        return self._settle(turn.reply.on_report(played_samples, now), now)

    def on_cancel(self, now: float) -> list[TurnCommand]:
        """The client wants no more of the present reply."""
        turn = self._turn
        if turn is None or turn.phase is not Phase.COMMITTED:
            return []
        return self._interrupt(turn, now)

    def on_text(self, text: str, now: float) -> list[TurnCommand]:
        """A typed turn: committed at once; it interrupts whatever goes on."""
        commands = self._make_way(now)
        turn = self._open(0, now)
        turn.utterance.text, turn.typed = text, True
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
        self._history.add(line)

    # time

    def next_deadline(self) -> float | None:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return None
        deadlines = [turn.reply.next_deadline() if turn.reply is not None else None]
        if turn.owed is not None:
            deadlines.append(turn.progress + self._settings.engine_timeout_s)
        deadlines += [self._ladder.acknowledge_at(turn, self._epoch), self._refuse_at(turn)]
        return min((d for d in deadlines if d is not None), default=None)

    def on_timer(self, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return []
        user_sounds = self._candidate is not None
        commands = self._ladder.acknowledge(turn, self._epoch, now, user_sounds=user_sounds)
        refuse_at = self._refuse_at(turn)
        if refuse_at is not None and now >= refuse_at:
            return commands + self._refuse(turn, now)
        stage = turn.owed
        if stage is not None and now >= turn.progress + self._settings.engine_timeout_s:
            if turn.phase is Phase.HEARING and stage is not Stage.ASR:
                return self._drop_reply(turn)  # begun again at the commit
            return commands + self._fail(turn, "engine_timeout", stage, now)
        return commands if turn.reply is None else self._settle(commands + turn.reply.on_timer(now), now)

    # questions

    @property
    def epoch(self) -> int:
        return self._epoch

    def span(self) -> Span | None:
        """What a decode that starts now should hear; None before the first turn."""
        turn = self._turn
        if turn is None:
            return None
        return Span(turn.number, turn.utterance.start, turn.utterance.speech_samples)

    def latest_start(self, now: float) -> float | None:
        """By when the next chunk of the present turn has to begin; None where none is to be expected: between
        turns, and once all of the reply has been made.

        While the user may go on, the turn may end at any moment: the earliest deadline that it can have is that of
        speech which ended with the last sound that was heard, so that this moves on with every frame. From the
        pause on the deadline stands, until the first content is ready; after that, another clause has to be made
        before playback, which can begin now at the earliest, has come to the end of what there is."""
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return None
        reply, deadline = turn.reply, turn.ledger.deadline
        if turn.phase is Phase.COMMITTED:
            if reply is None or reply.made:
                return None
            if reply.playout.has_content:
                return now + reply.playout.ahead_s(now) - self._outlook.needed_s(Way())
            return now if deadline is None else deadline - self._outlook.needed_s(reply.way)
        if turn.utterance.state is Speaking.SPEECH or deadline is None:
            return turn.ledger.due(turn.voiced) - self._outlook.needed_s(Way(), final=True)
        if reply is not None and reply.way.has_audio:
            return turn.ledger.due(now) - self._outlook.needed_s(Way(), final=True)
        way = Way() if reply is None or turn.utterance.awaiting_final else reply.way
        return deadline - self._outlook.needed_s(way)

    def snapshot(self) -> TurnSnapshot:
        phase = Phase.ENDED if self._turn is None else self._turn.phase
        return TurnSnapshot(self._epoch, self._revision, self._number, phase, self._history.lines)

    # hearing

    def _note(self, hearing: Hearing | None) -> None:
        turn = self._turn
        if hearing is not None and turn is not None and turn.phase is Phase.HEARING:
            turn.ledger.on_hearing(hearing)

    def _hearing(self, state: Speaking) -> Turn | None:
        """The present turn, if it is being heard and the user is in this state."""
        turn = self._turn
        if turn is None or turn.phase is not Phase.HEARING or turn.utterance.state is not state:
            return None
        return turn

    def _on_speech(self, start: int, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.phase is Phase.ENDED:
            return self._open_spoken(start, now)
        if turn.phase is Phase.HEARING and not turn.utterance.commit_asked:
            # A reply that was made ahead stays valid as long as the text does not change.
            turn.voiced = now
            return turn.utterance.on_resumed()
        elif self._settings.interruptible:
            self._candidate = start
        return []

    def _on_voiced(self, samples: int, at: int, when: float, now: float) -> list[TurnCommand]:
        turn = self._hearing(Speaking.SPEECH)
        if turn is None:
            return self._weigh_candidate(samples / RATE_HZ, now)
        turn.voiced = when
        commands = turn.utterance.on_voiced(samples, at, self._step_s)
        if at - turn.utterance.start >= self._settings.max_turn_s * RATE_HZ:
            turn.utterance.commit_asked = True
            return commands + self._pause(turn, None, now, now)
        return commands

    def _weigh_candidate(self, speech_s: float, now: float) -> list[TurnCommand]:
        turn = self._turn
        if turn is None or turn.phase is not Phase.COMMITTED or self._candidate is None:
            return []
        if turn.in_grace(now):
            return self._reopen(turn) if speech_s >= self._settings.reopen_speech_s else []
        if speech_s >= self._settings.barge_in_speech_s:
            return self._interrupt(turn, now)  # ends the turn; the next one opens at the candidate
        return []

    def _pause(self, turn: Turn, at: int | None, speech_end: float, now: float) -> list[TurnCommand]:
        turn.ledger.on_soft_end(speech_end, now)
        turn.progress = now
        commands = turn.utterance.on_pause(at)
        text = turn.utterance.text
        if text is not None:
            return commands + self._on_final(turn, text, now)
        self._predict(turn, now)
        return commands

    def _predict(self, turn: Turn, now: float) -> None:
        """The first content, where the final text is still to come and its decode is at the device."""
        final_s = turn.utterance.final_left_s(now)
        if final_s is not None and self._settings.auto_reply:
            turn.ledger.on_predicted(Stage.ASR, final_s + self._outlook.left_s(Way()), now)

    def _on_final(self, turn: Turn, text: str, now: float) -> list[TurnCommand]:
        turn.ledger.on_asr_final(now)
        commands = self._answer_ahead(turn, text, now)
        if turn.reply is not None:
            turn.reply.predict(now)
        return commands + (self._maybe_commit(turn, now) or self._judge(turn))

    def _on_lull(self, turn: Turn, lull: Lull, now: float) -> list[TurnCommand]:
        match turn.utterance.on_lull(lull, self._step_s):
            case Ahead(text):
                return self._on_ahead(turn, text, now)
            case commands:
                return commands

    def _on_ahead(self, turn: Turn, text: str, now: float) -> list[TurnCommand]:
        """What was said before a lull is known: about once a second, it may be all there is."""
        return self._told(turn, turn.utterance.show("", text)) + self._guess(turn, text, text, now)

    def _on_partial(self, turn: Turn, partial: Partial, now: float) -> list[TurnCommand]:
        """Several a second: answered only as long as that has not been in vain too often."""
        text = f"{partial.stable} {partial.tentative}".strip()
        if turn.ledger.wasted_s <= self._settings.max_waste * (now - turn.opened):
            return self._guess(turn, text, partial.stable, now)
        return self._read_on(turn, text, partial.stable)

    def _guess(self, turn: Turn, text: str, certain: str, now: float) -> list[TurnCommand]:
        """What sounds finished is answered; one attempt is kept for the pause. A model that keeps no prefix is
        somebody else's, and may charge for each attempt: it waits for the pause."""
        if self._settings.warm and not self._shed and sounds_finished(text):
            return self._answer_ahead(turn, text, now, kept=1)
        return self._read_on(turn, text, certain)

    def _read_on(self, turn: Turn, text: str, certain: str) -> list[TurnCommand]:
        """The model reads what of `text` is not to change."""
        commands = self._drop_outdated(turn, text)
        if turn.reply is None and not self._shed and self._reading.is_worth(certain):
            commands += self._read(certain)
        return commands

    def _drop_outdated(self, turn: Turn, text: str) -> list[TurnCommand]:
        """A reply to fewer words than have been said by now is not going to be released."""
        return [] if turn.answered is None or normalised(text) == turn.answered else self._drop_reply(turn)

    def _answer_ahead(self, turn: Turn, text: str, now: float, kept: int = 0) -> list[TurnCommand]:
        """`kept`: attempts that are to be left afterwards."""
        if not text or not self._settings.auto_reply or normalised(text) == turn.answered:
            return []
        commands = self._drop_reply(turn)
        if turn.attempts + kept < self._settings.attempts.allowed(now - turn.opened):
            commands += self._begin_reply(turn, text, self._epoch + 1, now)
        return commands

    def _told(self, turn: Turn, partial: Partial | None) -> list[TurnCommand]:
        return [] if partial is None else [PartialTranscript(turn.number, partial.stable, partial.tentative)]

    def _maybe_commit(self, turn: Turn, now: float) -> list[TurnCommand]:
        patience = None if self._settings.manual else self._speaker.patience
        if not turn.utterance.is_over(patience):
            return []
        if not turn.utterance.text:
            return self._drop_reply(turn) + self._end(turn, now, empty=True)
        return self._commit(turn, now)

    def _judge(self, turn: Turn) -> list[TurnCommand]:
        """In a pause that is waited out: does the speaker sound finished?"""
        if not self._settings.turn_model or self._settings.manual:
            return []
        return turn.utterance.judge(self._speaker.patience)

    # deciding

    def _commit(self, turn: Turn, now: float, *, reply: bool = False) -> list[TurnCommand]:
        self._epoch += 1
        turn.phase = Phase.COMMITTED
        turn.ledger.on_commit(now)
        text = turn.utterance.text
        commands: list[TurnCommand] = [] if text is None else [FinalTranscript(turn.number, text)]
        commands += [Committed(turn.number, self._epoch), *turn.utterance.on_decided()]
        if turn.reply is not None:
            commands.append(Promote(self._epoch))
        elif self._settings.auto_reply or reply:
            commands += self._begin_reply(turn, text, self._epoch, now)
        if text is not None:
            turn.said = Line("user", text)
            self.on_line(turn.said)
        if turn.reply is None:
            again = self._ladder.hear_again(turn, self._epoch, now)
            return commands + again + self._end(turn, now, expects_reply=False)
        refuse_at = self._refuse_at(turn)
        if refuse_at is not None and now >= refuse_at:
            return commands + self._refuse(turn, now)
        turn.reply.predict(now)
        commands += turn.reply.on_release(now)
        return self._settle(commands + self._ladder.hear_again(turn, self._epoch, now), now)

    def _reopen(self, turn: Turn) -> list[TurnCommand]:
        """The commit was a false start: the user had not finished."""
        self._epoch += 1
        start, self._candidate = self._candidate, None
        commands: list[TurnCommand] = [Reopened(turn.number, self._epoch)]
        commands += self._drop_reply(turn) + self._ladder.second_passes.drop(turn.number)
        # Nothing of the reply has entered the history, but the client may have added to it.
        self._history.remove(turn.said)
        turn.ledger.on_reopen()
        turn.reopened = True
        if start is not None and turn.utterance.text:
            self._speaker.on_false_start(turn.utterance.text, turn.utterance.pause_s(start))
        turn.phase, turn.grace_until = Phase.HEARING, None
        return commands + turn.utterance.on_resumed()

    def _interrupt(self, turn: Turn, now: float) -> list[TurnCommand]:
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

    def _fail(self, turn: Turn, code: str, stage: Stage, now: float) -> list[TurnCommand]:
        turn.ledger.on_failed()
        commands: list[TurnCommand] = [TurnFailed(turn.number, code, stage)]
        if turn.phase is Phase.COMMITTED:
            return commands + self._interrupt(turn, now)
        return commands + self._drop_reply(turn) + self._end(turn, now)

    def _refuse_at(self, turn: Turn) -> float | None:
        """When this turn is refused: at its deadline, where that is enforced, unless content is on its way."""
        reply = turn.reply
        if not self._settings.enforce or turn.phase is not Phase.COMMITTED or reply is None or reply.on_its_way:
            return None
        return None if reply.playout.acknowledged else turn.ledger.deadline

    def _refuse(self, turn: Turn, now: float) -> list[TurnCommand]:
        """Nothing of the reply is said; what the user said stays in the history."""
        turn.ledger.on_refused()
        self._epoch += 1
        return [Retire(self._epoch, 0), *self._end(turn, now)]

    def _make_way(self, now: float) -> list[TurnCommand]:
        """End the present turn, because something else begins."""
        turn = self._turn
        self._candidate = None
        if turn is None or turn.phase is Phase.ENDED:
            return []
        if turn.phase is Phase.COMMITTED:
            return self._interrupt(turn, now)
        return self._drop_reply(turn) + self._end(turn, now)

    def _open_spoken(self, start: int, now: float) -> list[TurnCommand]:
        return [SpeechStarted(self._open(start, now).number), *self._read()]

    def _open(self, start: int, now: float) -> Turn:
        self._number += 1
        number = self._number
        settings = self._settings
        ledger = Ledger(number, settings.budget_s, settings.downlink_s, settings.shares)

        def make_work(kind: WorkKind, klass: WorkClass) -> Work:
            return Work(
                id=next(self._serial),
                session=self._session,
                turn=number,
                epoch=self._epoch + 1,
                revision=self._revision,
                kind=kind,
                klass=klass,
                deadline=ledger.deadline,
            )

        utterance = Utterance(start, make_work, self._settings.decode)
        self._turn = Turn(number, utterance, ledger, opened=now, progress=now, voiced=now, outlook=self._outlook)
        return self._turn

    def _end(self, turn: Turn, now: float, *, empty: bool = False, expects_reply: bool = True) -> list[TurnCommand]:
        if turn.reply is not None:
            turn.reply.on_dropped()
        turn.phase, turn.reply = Phase.ENDED, None
        if not (turn.reopened or turn.typed):
            self._speaker.on_clean_turn()
        commands = turn.utterance.on_decided()
        commands.append(TurnEnded(turn.ledger.record(empty=empty, expects_reply=expects_reply, now=now)))
        start, self._candidate = self._candidate, None
        return commands if start is None else commands + self._open_spoken(start, now)

    # the reply

    def _read(self, heard: str = "") -> list[TurnCommand]:
        work = Work(
            id=next(self._serial),
            session=self._session,
            turn=self._number,
            epoch=self._epoch + 1,
            revision=self._revision,
            kind=WorkKind.WARM,
            klass=WorkClass.SPECULATION,
        )
        return self._reading.begin(work, self._lines(), heard)

    def _lines(self) -> list[Line]:
        return [Line("system", self._settings.instructions), *self._history.lines]

    def _begin_reply(self, turn: Turn, text: str | None, epoch: int, now: float) -> list[TurnCommand]:
        lines = self._lines()
        if text is not None:
            lines.append(Line("user", text))
            turn.answered = normalised(text)
        ident = ReplyId(self._session, turn.number, epoch, self._revision)
        small = self._ladder.wants_small_model(turn, now)
        turn.reply = Reply(ident, self._settings.reply, turn.ledger, self._serial, turn.outlook)
        turn.progress = now
        turn.attempts += 1
        return self._reading.stop() + turn.reply.begin(tuple(lines), now, small=small)

    def _drop_reply(self, turn: Turn) -> list[TurnCommand]:
        """Forget what was made ahead; the revision rises, so that none of it can be released."""
        if turn.reply is None:
            return []
        turn.ledger.on_reply_dropped()
        turn.reply.on_dropped()
        turn.reply = turn.answered = None
        self._revision += 1
        return [Retire(self._epoch + 1, self._revision)]

    def _reply_of(self, work: Work, timing: Timing, now: float) -> Reply | None:
        """The reply that this result belongs to; None, and the waste noted, if it is history."""
        turn = self._turn
        if turn is None or work.turn != turn.number:
            return None
        if turn.reply is None or not turn.reply.owns(work):
            turn.ledger.on_late_service(timing)
            return None
        turn.ledger.on_service(work.kind.stage, timing, bound_s=work.bound_s, now=now)
        turn.progress = now
        return turn.reply

    def _settle(self, commands: list[TurnCommand], now: float) -> list[TurnCommand]:
        """After the reply moved: has it been heard to its end?"""
        turn = self._turn
        assert turn is not None
        if any(isinstance(command, Submit) for command in commands):
            turn.progress = now  # who is asked only now has all of its time
        reply = turn.reply
        if reply is None or not reply.finished or turn.phase is not Phase.COMMITTED:
            return commands
        if reply.silent:
            return commands + self._fail(turn, "empty_reply", Stage.LLM, now)
        self.on_line(Line("assistant", reply.playout.text()))
        commands += self._end(turn, now)
        return commands if self._turn is not turn else commands + self._read()
