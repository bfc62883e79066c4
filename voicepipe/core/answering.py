"""The reply of the present turn, mostly ahead of the commit: when one is begun, read for, and dropped.

Where what was heard sounds like all of it, it is answered; whenever the text that is answered changes, the reply is
dropped and made anew. Until then, the model reads what has been heard so far.
"""

from __future__ import annotations

from dataclasses import replace

from voicepipe.core.events import Ask, Line, Timing, TurnCommand, Work, WorkClass, WorkKind
from voicepipe.core.history import History
from voicepipe.core.ladder import Ladder
from voicepipe.core.numbering import Numbering
from voicepipe.core.patience import sounds_finished
from voicepipe.core.reading import Reading
from voicepipe.core.reply import Reply, ReplyId, ReplySettings
from voicepipe.core.spelling import as_before, normalised
from voicepipe.core.turn_state import Phase, Turn, TurnSettings
from voicepipe.core.utterance import Partial, Speaking


class Answering:
    def __init__(self, numbers: Numbering, settings: TurnSettings, history: History, ladder: Ladder) -> None:
        self._numbers = numbers
        self._settings = settings
        self._history = history
        self._ladder = ladder
        self._reading = Reading(
            numbers.serial, wanted=settings.warm and settings.auto_reply, least_words=settings.read_words
        )
        self._shed = False

    def on_settings(self, settings: TurnSettings) -> bool:
        """Others hold for replies that are begun from now on. Would one that was begun before read or be something
        else?"""
        before, self._settings = self._settings, settings
        self._reading.on_wanted(settings.warm and settings.auto_reply)
        return _of_reply(settings) != _of_reply(before)

    def on_shed(self, shed: bool) -> None:
        """While it holds, nothing is begun before a pause. What was begun goes on."""
        self._shed = shed

    # what was heard

    def on_partial(self, turn: Turn, partial: Partial, now: float) -> list[TurnCommand]:
        """Several a second: answered only as long as that has not been in vain too often."""
        text = f"{partial.stable} {partial.tentative}".strip()
        if turn.ledger.wasted_s <= self._settings.max_waste * (now - turn.opened):
            return self._guess(turn, text, partial.stable, now)
        return self._read_on(turn, text, partial.stable)

    def on_ahead(self, turn: Turn, text: str, now: float) -> list[TurnCommand]:
        """What was said before a lull: about once a second, it may be all there is."""
        return self._guess(turn, text, text, now)

    def on_final(self, turn: Turn, text: str, now: float) -> list[TurnCommand]:
        """What was said before the pause."""
        commands = self._answer_ahead(turn, text, now)
        if turn.reply is not None:
            turn.reply.predict(now)
            if sounds_finished(text) and not turn.reply.awaited:  # it was a guess, and a good one
                turn.reply.awaited = True
                due = turn.ledger.deadline
                commands.append(self._numbers.promote_ahead(due, WorkKind.THINK, WorkKind.SPEAK))
        return commands

    # the model

    def read(self, heard: str = "") -> list[TurnCommand]:
        """The instructions, the history, and what the user has said so far."""
        work = self._numbers.work(self._numbers.turn, WorkKind.WARM, WorkClass.SPECULATION)
        return self._reading.begin(work, self._lines(), heard, self._settings.tools)

    def on_read(self, work: Work, finished: bool) -> list[TurnCommand]:
        """A step of reading has ended."""
        return self._reading.on_step(work, finished)

    def begin(self, turn: Turn, text: str | None, epoch: int, now: float) -> list[TurnCommand]:
        """Answer `text`, or the conversation as it stands, under `epoch`."""
        ask = turn.ask
        lines = self._lines(ask)
        if text is not None:
            lines.append(Line("user", self._shown(turn, text)))
            turn.answered = normalised(text)
        numbers = self._numbers
        ident = ReplyId(numbers.session, turn.number, epoch, numbers.revision)
        small = self._ladder.wants_small_model(turn, now)
        turn.reply = Reply(ident, self._reply_settings(ask), turn.ledger, numbers.serial, turn.outlook)
        in_pause = turn.utterance.state is Speaking.PAUSE and text is not None and sounds_finished(text)
        turn.reply.awaited = in_pause or turn.phase is Phase.COMMITTED
        turn.progress = now
        turn.attempts += 1
        tools = self._settings.tools if ask.tools is None else ask.tools
        return self._reading.stop() + turn.reply.begin(tuple(lines), now, small=small, tools=tools)

    def begin_again(self, turn: Turn, now: float) -> list[TurnCommand]:
        """The reply to a committed turn has failed before any of it was told."""
        assert turn.reply is not None
        turn.ledger.on_reply_dropped()
        turn.reply.on_dropped()
        turn.reply = None
        return [self._numbers.retire_reply(), *self.begin(turn, turn.utterance.text, self._numbers.epoch, now)]

    def drop(self, turn: Turn) -> list[TurnCommand]:
        """Forget what was made ahead; the revision rises, so that none of it can be released."""
        if turn.reply is None:
            return []
        turn.ledger.on_reply_dropped()
        turn.reply.on_dropped()
        turn.reply = turn.answered = None
        return [self._numbers.retire_ahead()]

    def reply_of(self, turn: Turn, work: Work, timing: Timing, now: float) -> Reply | None:
        """The reply that this result belongs to; None, and the waste noted, if it is history."""
        if turn.reply is None or not turn.reply.owns(work):
            turn.ledger.on_late_service(timing)
            return None
        companions_s = max(0.0, timing.service_s - work.expected_s) if timing.batch > 1 else 0.0
        stage = work.kind.stage
        turn.ledger.on_service(stage, timing, bound_s=work.bound_s, batch_s=companions_s, now=now)
        turn.progress = now
        return turn.reply

    # inner

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
            commands += self.read(self._shown(turn, certain))
        return commands

    def _drop_outdated(self, turn: Turn, text: str) -> list[TurnCommand]:
        """A reply to fewer words than have been said by now is not going to be released."""
        return [] if turn.answered is None or normalised(text) == turn.answered else self.drop(turn)

    def _answer_ahead(self, turn: Turn, text: str, now: float, kept: int = 0) -> list[TurnCommand]:
        """`kept`: attempts that are to be left afterwards."""
        if not text or not self._settings.auto_reply or normalised(text) == turn.answered:
            return []
        commands = self.drop(turn)
        if turn.attempts + kept < self._settings.attempts.allowed(now - turn.opened):
            commands += self.begin(turn, text, self._numbers.epoch + 1, now)
        return commands

    def _shown(self, turn: Turn, text: str) -> str:
        turn.shown = as_before(text, turn.shown)
        return turn.shown

    def _lines(self, ask: Ask | None = None) -> list[Line]:
        instructions, lines = self._settings.instructions, self._history.lines
        if ask is not None:
            instructions = instructions if ask.instructions is None else ask.instructions
            lines = lines if ask.lines is None else ask.lines
        return [Line("system", instructions), *lines]

    def _reply_settings(self, ask: Ask) -> ReplySettings:
        settings = self._settings
        return replace(
            settings.reply,
            spoken=settings.spoken if ask.spoken is None else ask.spoken,
            max_tokens=ask.max_tokens or settings.reply.max_tokens,
        )


def _of_reply(settings: TurnSettings) -> tuple[object, ...]:
    """What a reply is made by."""
    return settings.instructions, settings.tools, settings.spoken, settings.reply, settings.auto_reply
