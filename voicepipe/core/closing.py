"""The ways in which a turn ends: what becomes of its reply, what the history keeps, and the verdict."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from voicepipe.core.answering import Answering
from voicepipe.core.events import Line, RefusedFor, ReplyInterrupted, Stage, TurnCommand, TurnEnded, TurnFailed
from voicepipe.core.history import History
from voicepipe.core.numbering import Numbering
from voicepipe.core.pauses import Pauses
from voicepipe.core.playout import Playout
from voicepipe.core.turn_state import Phase, Turn

REMEMBERED = 8
"""Replies whose sound is remembered by clause after they have ended: a client says how far it came while it stops
the last one, or one that it still had to play."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A reply that has ended."""

    epoch: int
    turn: int
    playout: Playout


def user_line(turn: int) -> str:
    """Name of the user's line of that turn in the history."""
    return f"user-{turn}"


def reply_line(turn: int) -> str:
    """Name of the line of its reply."""
    return f"assistant-{turn}"


class Closing:
    def __init__(self, numbers: Numbering, history: History, answering: Answering, pauses: Pauses) -> None:
        self._numbers = numbers
        self._history = history
        self._answering = answering
        self._pauses = pauses
        self._said: deque[_Said] = deque(maxlen=REMEMBERED)

    def heard_out(self, turn: Turn, now: float) -> list[TurnCommand]:
        """The whole reply was heard."""
        assert turn.reply is not None
        reply = turn.reply
        if reply.cut_at is None or reply.cut_at >= reply.playout.ready_samples:
            self._keep(turn, reply.text())
        else:
            self._keep(turn, _cut(reply.playout.text_until(reply.cut_at)))
        return self._end(turn, now, expects_reply=reply.has_content or not reply.called)

    def truncate(self, epoch: int, samples: int) -> bool:
        """Of a reply that has ended, so many samples were heard: the history keeps the words of those. False, and
        nothing, where it is not known any more, or was heard to its end."""
        said = next((one for one in self._said if one.epoch == epoch), None)
        if said is None or samples >= said.playout.ready_samples:
            return False
        name, text = reply_line(said.turn), _cut(said.playout.text_until(samples))
        if text and not self._history.has(name):  # nothing of it was thought to have been heard
            self._history.add(Line("assistant", text), name, after=user_line(said.turn))
        elif text:
            self._history.change(name, text)
        else:
            self._history.delete(name)
        return True

    def cut_unconfirmed(self) -> None:
        """The client is gone. If it has reported at all how far the newest reply had come, no more of that was
        heard: sound that was still on its way did not arrive."""
        if self._said and (reported := self._said[-1].playout.reported_samples) is not None:
            self.truncate(self._said[-1].epoch, reported)

    def interrupt(self, turn: Turn, now: float) -> list[TurnCommand]:
        """The reply stops here; history keeps what was heard of it."""
        commands: list[TurnCommand] = []
        if turn.reply is not None:
            playout = turn.reply.playout
            heard_ms = round(1000 * playout.heard_samples(now) / playout.settings.rate_hz)
            commands.append(ReplyInterrupted(turn.number, self._numbers.epoch, heard_ms))
            self._keep(turn, _cut(turn.reply.heard_text(now)))
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

    def _keep(self, turn: Turn, text: str) -> None:
        """What was heard of its reply, the tools that it has called, and what came of them."""
        reply = turn.reply
        assert reply is not None
        if not turn.ask.kept:
            return
        if text:
            self._history.add(Line("assistant", text), reply_line(turn.number))
        for call in reply.called:
            self._history.add(Line("call", call.arguments, call.call_id, call.name), call.call_id)
        for result in turn.results:
            self._history.add(result)
        if reply.spoken:
            self._said.append(_Said(reply.ident.epoch, turn.number, reply.playout))

    def _end(self, turn: Turn, now: float, *, empty: bool = False, expects_reply: bool = True) -> list[TurnCommand]:
        if turn.reply is not None:
            turn.reply.on_dropped()
        turn.phase, turn.reply = Phase.ENDED, None
        self._pauses.on_ended(turn)
        commands = turn.utterance.on_decided()
        return [*commands, TurnEnded(turn.ledger.record(empty=empty, expects_reply=expects_reply, now=now))]


def _cut(text: str) -> str:
    """As the history has what was broken off."""
    return text and f"{text} …"
