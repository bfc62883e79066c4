"""When a pause is the end of a turn, for this one speaker: the settings, and what earlier turns have shown."""

from __future__ import annotations

from voicepipe.core.events import TurnCommand
from voicepipe.core.patience import Speaker
from voicepipe.core.turn_state import Turn, TurnSettings
from voicepipe.core.utterance import Utterance


class Pauses:
    def __init__(self, settings: TurnSettings) -> None:
        self._point = settings.patience
        self._speaker = Speaker(settings.patience)
        self._manual = settings.manual
        self._turn_model = settings.turn_model

    def on_settings(self, settings: TurnSettings) -> None:
        """Others hold from now on. Of another operating point nothing has been learnt yet."""
        if settings.patience != self._point:
            self._speaker, self._point = Speaker(settings.patience), settings.patience
        self._manual = settings.manual
        self._turn_model = settings.turn_model

    def is_over(self, utterance: Utterance) -> bool:
        """Is the text known, and the silence enough for it?"""
        return utterance.is_over(None if self._manual else self._speaker.patience)

    def judge(self, utterance: Utterance) -> list[TurnCommand]:
        """In a pause that is waited out: does the speaker sound finished?"""
        if not self._turn_model or self._manual:
            return []
        return utterance.judge(self._speaker.patience)

    def on_false_start(self, utterance: Utterance, start: int | None) -> None:
        """The pause was taken for the end, and speech goes on at sample `start`, as far as that is known."""
        if start is not None and utterance.text:
            self._speaker.on_false_start(utterance.text, utterance.pause_s(start))

    def on_ended(self, turn: Turn) -> None:
        """What was typed says nothing about pauses."""
        if not (turn.reopened or turn.typed):
            self._speaker.on_clean_turn()
