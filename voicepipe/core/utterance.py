"""What the user says in one turn: which decodes to ask for, the text, and how long the pause has lasted.

One partial and one final are in flight at most. A pause asks for a final; speech that goes on takes it back,
and whatever still comes of it is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from voicepipe.core.events import Submit, TurnCommand, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.patience import Patience, needed_silence_s

RATE_HZ = 16_000

UNDECIDED = 0.5

MakeWork = Callable[[WorkKind, WorkClass], Work]


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    first_partial_s: float = 0.5
    """Less speech than this decodes to noise."""
    min_hop_s: float = 0.24
    max_hop_s: float = 0.96
    hop_factor: float = 3.0
    """The hop is so many times the duration of a step: partials take a third of the device at most, and a final
    seldom has to wait for one."""


@dataclass(frozen=True, slots=True)
class Span:
    """What the recogniser is to hear: the utterance of `turn`, from `start` on (16 kHz samples)."""

    turn: int
    start: int
    speech_samples: int


@dataclass(frozen=True, slots=True)
class Partial:
    stable: str
    tentative: str


@dataclass(frozen=True, slots=True)
class Final:
    text: str


class Speaking(Enum):
    SPEECH = auto()
    PAUSE = auto()


class Utterance:
    def __init__(self, start: int, make_work: MakeWork, settings: DecodeSettings) -> None:
        self.start = start
        self.text: str | None = None
        """Text of this pause's final decode; None while there is none."""
        self.commit_asked = False
        """The client, or the length limit, ends the turn whatever the silence."""
        self.state = Speaking.SPEECH
        self._make_work = make_work
        self._settings = settings
        self._final: Work | None = None
        self._partial: Work | None = None
        self._decoded_to = start
        self._shown = Partial("", "")
        self._voiced_before = 0
        self._voiced = 0
        self._silence_s = 0.0
        self._completeness: float | None = None

    # events

    def on_voiced(self, samples: int, at: int, step_s: float) -> list[TurnCommand]:
        """Speech has gone on for `samples`, to position `at`. `step_s`: what a partial has lately taken."""
        self._voiced = samples
        limits = self._settings
        hop_s = min(max(limits.hop_factor * step_s, limits.min_hop_s), limits.max_hop_s)
        due = at - self._decoded_to >= hop_s * RATE_HZ
        if self._partial is not None or not due:
            return []
        if self.speech_samples < limits.first_partial_s * RATE_HZ:
            return []
        self._decoded_to = at
        self._partial = self._make_work(WorkKind.PARTIAL, WorkClass.ASR)
        return [Submit(self._partial)]

    def on_pause(self) -> list[TurnCommand]:
        self.state = Speaking.PAUSE
        self.text, self._silence_s, self._completeness = None, 0.0, None
        self._final = self._make_work(WorkKind.FINAL, WorkClass.STARTED)
        commands: list[TurnCommand] = [Submit(self._final)]
        return commands if self._partial is None else [Withdraw(self._partial), *commands]

    def on_resumed(self) -> None:
        self.state = Speaking.SPEECH
        self._final = None
        self._voiced_before += self._voiced
        self._voiced = 0

    def on_silence(self, silence_s: float, completeness: float | None) -> None:
        self._silence_s = silence_s
        if completeness is not None:
            self._completeness = completeness

    def on_transcript(self, work: Work, stable: str, tentative: str) -> Partial | Final | None:
        """What there is to tell; None for a repetition and for what is out of date."""
        if work == self._partial:
            self._partial = None
        if work == self._final:
            self._final = None
            self.text = f"{stable} {tentative}".strip()
            return Final(self.text)
        partial = Partial(stable, tentative)
        outdated = work.kind is WorkKind.FINAL or self.state is not Speaking.SPEECH
        if outdated or partial == self._shown:
            return None
        self._shown = partial
        return partial

    def on_lost(self, work: Work) -> bool:
        """This decode will bring nothing. Was it the final that counts?"""
        if work == self._partial:
            self._partial = None  # the next one, or the final, will do
        return work == self._final

    # questions

    @property
    def awaiting_final(self) -> bool:
        return self._final is not None

    @property
    def speech_samples(self) -> int:
        return self._voiced_before + self._voiced

    def is_over(self, patience: Patience | None) -> bool:
        """Is the text known, and the silence enough for it? Without `patience`, only a demand ends a turn."""
        if self.text is None or self.state is Speaking.SPEECH:
            return False
        if self.commit_asked:
            return True
        if patience is None:
            return False
        if not self.text:  # nothing to be complete or not: as long as for an undecided score
            return self._silence_s >= patience.silence_s(UNDECIDED)
        return self._silence_s >= needed_silence_s(self.text, self._completeness, patience)
