"""The ways in which a turn ends: what becomes of its reply, what the history keeps, and the verdict."""

from __future__ import annotations

from voicepipe.core.answering import Answering
from voicepipe.core.events import Line, RefusedFor, ReplyInterrupted, Stage, TurnCommand, TurnEnded, TurnFailed
from voicepipe.core.history import History
from voicepipe.core.numbering import Numbering
from voicepipe.core.pauses import Pauses
from voicepipe.core.turn_state import Phase, Turn


class Closing:
    def __init__(
        self, numbers: Numbering, history: History, answering: Answering, pauses: Pauses, reply_rate_hz: int
    ) -> None:
        self._numbers = numbers
        self._history = history
        self._answering = answering
        self._pauses = pauses
        self._reply_rate_hz = reply_rate_hz

    def heard_out(self, turn: Turn, now: float) -> list[TurnCommand]:
        """The whole reply was heard."""
        assert turn.reply is not None
        self._history.add(Line("assistant", turn.reply.playout.text()))
        return self._end(turn, now)

    def interrupt(self, turn: Turn, now: float) -> list[TurnCommand]:
        """The reply stops here; history keeps what was heard of it."""
        commands: list[TurnCommand] = []
        if turn.reply is not None:
            playout = turn.reply.playout
            heard_ms = round(1000 * playout.heard_samples(now) / self._reply_rate_hz)
            commands.append(ReplyInterrupted(turn.number, self._numbers.epoch, heard_ms))
            text = playout.heard_text(now)
            if text:
                self._history.add(Line("assistant", f"{text} …"))
        return [*commands, self._numbers.retire(), *self._end(turn, now)]

    def refuse(self, turn: Turn, reason: RefusedFor, now: float) -> list[TurnCommand]:
        """Nothing of the reply is said; what the user said stays in the history."""
        turn.ledger.on_refused(reason, now)
        return [self._numbers.retire(), *self._end(turn, now)]

    def fail(self, turn: Turn, code: str, stage: Stage, now: float) -> list[TurnCommand]:
        """What cannot be done without will not come."""
        turn.ledger.on_failed(code)
        return [TurnFailed(turn.number, code, stage), *self.make_way(turn, now)]

    def make_way(self, turn: Turn, now: float) -> list[TurnCommand]:
        """End it wherever it stands."""
        if turn.phase is Phase.COMMITTED:
            return self.interrupt(turn, now)
        return self._answering.drop(turn) + self._end(turn, now)

    def nothing_said(self, turn: Turn, now: float) -> list[TurnCommand]:
        """There were no words in the speech."""
        return self._answering.drop(turn) + self._end(turn, now, empty=True)

    def unanswered(self, turn: Turn, now: float) -> list[TurnCommand]:
        """It was committed, and nobody asked for a reply."""
        return self._end(turn, now, expects_reply=False)

    def _end(self, turn: Turn, now: float, *, empty: bool = False, expects_reply: bool = True) -> list[TurnCommand]:
        if turn.reply is not None:
            turn.reply.on_dropped()
        turn.phase, turn.reply = Phase.ENDED, None
        self._pauses.on_ended(turn)
        commands = turn.utterance.on_decided()
        return [*commands, TurnEnded(turn.ledger.record(empty=empty, expects_reply=expects_reply, now=now))]
