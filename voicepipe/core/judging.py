"""When a turn model is asked, in one utterance: in a pause, once its words are known, and again while it lasts.

One question is in flight at most. A pause that ends takes its question back; what comes of it all the same is
dropped. A question that fails costs its score and no more.
"""

from __future__ import annotations

from collections.abc import Callable

from voicepipe.core.events import Submit, TurnCommand, Withdraw, Work, WorkClass, WorkKind

EVERY_S = 0.192
"""How much more silence there is before it is asked again: its scores rise with the silence that it hears."""
LEAST_SPEECH_S = 0.2
"""Speech that the detector has confirmed. Of silence and noise alone turn models say "complete"."""

MakeWork = Callable[[WorkKind, WorkClass], Work]


class Judging:
    def __init__(self, make_work: MakeWork) -> None:
        self.score: float | None = None
        """Its newest in this pause; None where there is none."""
        self._make_work = make_work
        self._at_device: Work | None = None
        self._wanted: Work | None = None
        """The question of the present pause, while it is at the device."""
        self._asked_s: float | None = None
        """How long the pause had lasted at the last question; None before the first one."""

    def on_pause(self) -> None:
        self.score = self._asked_s = None

    def is_due(self, silence_s: float, speech_s: float) -> bool:
        """May it be asked now? Not if that has been done just now, nor while the device still has a question."""
        if self._at_device is not None or speech_s < LEAST_SPEECH_S:
            return False
        return self._asked_s is None or silence_s - self._asked_s >= EVERY_S

    def ask(self, silence_s: float) -> list[TurnCommand]:
        """Once it is due, and its answer would matter."""
        self._asked_s = silence_s
        self._at_device = self._wanted = self._make_work(WorkKind.JUDGE, WorkClass.ASR)
        return [Submit(self._wanted)]

    def on_score(self, work: Work, score: float) -> bool:
        """Is this about the present pause?"""
        wanted = work == self._wanted
        self.on_lost(work)
        if wanted:
            self.score = score
        return wanted

    def on_lost(self, work: Work) -> None:
        """It will bring nothing (any more)."""
        if work == self._wanted:
            self._wanted = None
        if work == self._at_device:
            self._at_device = None

    def stop(self) -> list[TurnCommand]:
        """The pause is over, or the turn. A question that runs already goes on, and means nothing."""
        work, self._wanted = self._wanted, None
        return [] if work is None else [Withdraw(work)]
