"""What is said in the turn that is being heard: decodes are asked for; their words are told, and answered."""

from __future__ import annotations

from voicepipe.core.answering import Answering
from voicepipe.core.events import (
    Lull,
    PartialTranscript,
    Timing,
    TurnCommand,
    Voiced,
    Withdraw,
    WorkKind,
)
from voicepipe.core.numbering import Numbering
from voicepipe.core.turn_state import Turn
from voicepipe.core.utterance import Ahead, Final, Partial

STEP_SMOOTHING = 0.3
"""Weight of the newest step in the mean that sizes the hop between partials."""


class Listening:
    def __init__(self, numbers: Numbering, answering: Answering) -> None:
        self._numbers = numbers
        self._answering = answering
        self._step_s = 0.0
        """What a decode has lately taken, waiting included."""

    def on_voiced(self, turn: Turn, voiced: Voiced, when: float) -> list[TurnCommand]:
        """Speech goes on, and was heard to do so at `when`."""
        turn.voiced = when
        return turn.utterance.on_voiced(voiced.speech_samples, voiced.at, self._step_s)

    def on_lull(self, turn: Turn, lull: Lull, now: float) -> list[TurnCommand]:
        """Speech may have ended."""
        match turn.utterance.on_lull(lull, self._step_s):
            case Ahead() as ahead:
                return self.on_heard(turn, ahead, now)
            case commands:
                return commands

    def on_pause(self, turn: Turn, at: int | None, speech_end: float, now: float) -> list[TurnCommand]:
        """Speech ended at `speech_end`; the first silent frame begins at sample `at`, where there is one."""
        turn.ledger.on_soft_end(speech_end, now)
        turn.progress = now
        commands = turn.utterance.on_pause(at)
        if turn.utterance.awaiting_final and not commands:  # a decode that was asked for before brings the text
            commands.append(self._numbers.promote_ahead(turn.ledger.deadline, WorkKind.FINAL))
        text = turn.utterance.text
        return commands if text is None else commands + self._on_final(turn, text, now)

    def on_step(self, timing: Timing) -> None:
        """A decode has ended."""
        self._step_s += STEP_SMOOTHING * (timing.finished - timing.queued - self._step_s)

    def on_heard(self, turn: Turn, heard: Partial | Ahead | Final | None, now: float) -> list[TurnCommand]:
        """What a decode has brought that is news."""
        match heard:
            case Final(text, unneeded):
                return [*map(Withdraw, unneeded), *self._on_final(turn, text, now)]
            case Ahead(text, unneeded):
                told = _told(turn, turn.utterance.show("", text))
                return [*map(Withdraw, unneeded), *told, *self._answering.on_ahead(turn, text, now)]
            case Partial() as partial:
                return _told(turn, partial) + self._answering.on_partial(turn, partial, now)
            case None:
                return []

    def _on_final(self, turn: Turn, text: str, now: float) -> list[TurnCommand]:
        turn.ledger.on_asr_final(now)
        return self._answering.on_final(turn, text, now)


def _told(turn: Turn, partial: Partial | None) -> list[TurnCommand]:
    return [] if partial is None else [PartialTranscript(turn.number, partial.stable, partial.tentative)]
