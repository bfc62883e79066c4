"""What the model has read and written for the newest reply of a session, to be told once, before the reply ends."""

from __future__ import annotations

from voicepipe.core.events import Work
from voicepipe.engines.base import LlmStep
from voicepipe.wire.messages import ReplyMade


class Tally:
    def __init__(self) -> None:
        self._of: Work | None = None
        self._input_tokens = 0
        self._output_tokens = 0
        self._cut = False

    def begin(self, work: Work, input_tokens: float) -> None:
        """A reply is begun, with this as its first step; the one before it will not be gone on with, or is over."""
        self._of, self._input_tokens = work, round(input_tokens)
        self._output_tokens, self._cut = 0, False

    def on_step(self, work: Work, step: LlmStep) -> None:
        of = self._of
        if of is not None and (work.epoch, work.revision) == (of.epoch, of.revision):
            self._output_tokens += step.tokens
            self._cut = step.finish == "length"

    def take(self) -> ReplyMade | None:
        """None where it has been told, or no reply was begun."""
        of, self._of = self._of, None
        if of is None:
            return None
        return ReplyMade(of.turn, of.epoch, self._input_tokens, self._output_tokens, self._cut)
