"""A turn as data: what it is set to, which phase it is in, and what belongs to it. Only `core.turn` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import floor

from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.blame import SHARES
from voicepipe.core.budget import Ledger
from voicepipe.core.events import Ask, Line, Stage, Tools, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Outlook
from voicepipe.core.numbering import Numbering
from voicepipe.core.patience import Patience
from voicepipe.core.reply import Reply, ReplySettings
from voicepipe.core.utterance import DecodeSettings, Speaking, Utterance

DOWNLINK_S = 0.002


@dataclass(frozen=True, slots=True)
class Attempts:
    """How many replies may be begun ahead of the commit; after that many the next one waits for it."""

    per_turn: int
    per_s: float
    """So many more for each second that the turn has lasted."""

    def allowed(self, turn_s: float) -> int:
        return self.per_turn + floor(self.per_s * turn_s)


OWN_MODEL, ELSEWHERE = Attempts(8, 4.0), Attempts(3, 0.0)
"""A model of our own takes up where it was, and a long question ends no differently from a short one. One behind a
URL may charge for each request."""


@dataclass(frozen=True, slots=True)
class TurnSettings:
    reply: ReplySettings
    patience: Patience
    instructions: str
    decode: DecodeSettings = field(default_factory=DecodeSettings)
    budget_s: float = 0.2
    shares: Mapping[Stage, float] = field(default_factory=lambda: SHARES)
    """What each stage is planned to take, as fractions of the budget: for attribution only."""
    downlink_s: float = DOWNLINK_S
    """Estimated time from the socket to audibility; a loopback's."""
    enforce: bool = False
    """A turn without content at its deadline is refused, unless it was acknowledged."""
    acknowledge: AcknowledgeSettings = field(default_factory=AcknowledgeSettings)
    fillers: tuple[bytes, ...] = ()
    """PCM16LE mono at the session's output rate, all different: phrases for while a tool runs. Without any, nothing
    is said then."""
    second_pass: bool = False
    """There is a larger recogniser: what a turn has said is decoded again, in slack."""
    may_skip_pass: bool = True
    """Not for a turn that will be late."""
    may_shrink: bool = False
    """There is a smaller model: it answers where the reply is begun too late to be in time."""
    manual: bool = False
    """Turns end by `on_commit_asked` alone."""
    turn_model: bool = False
    """There is one, to be asked in pauses."""
    auto_reply: bool = True
    spoken: bool = True
    """Replies are heard; False: they are written."""
    tools: Tools = field(default_factory=Tools)
    """At hand for every reply."""
    warm: bool = True
    """The model keeps prefixes: reading ahead pays."""
    attempts: Attempts = OWN_MODEL
    max_waste: float = 0.5
    """Share of the time since the turn began that replies ahead may have cost in vain; beyond it only a lull or a
    pause begins another."""
    read_words: int = 4
    """New words that are worth a step of reading: each also reads the template's end anew."""
    interruptible: bool = True
    reopen_speech_s: float = 0.096
    """Speech that takes a commit back within the grace time."""
    barge_in_speech_s: float = 0.256
    """Speech that interrupts a reply after it (192 to 384 ms are usual)."""
    grace_s: float = 0.8
    """Grace lasts from the commit until so long after the first reply audio."""
    max_turn_s: float = 300.0
    engine_timeout_s: float = 10.0
    """A turn whose engines have shown no progress for so long has failed."""
    max_lines: int = 200
    """Lines of history kept."""
    max_chars: int = 200_000
    """Characters of them."""


class Phase(Enum):
    HEARING = auto()
    COMMITTED = auto()
    ENDED = auto()


@dataclass(slots=True)
class Turn:
    number: int
    utterance: Utterance
    ledger: Ledger
    opened: float
    progress: float
    """When an engine last delivered, or was first asked."""
    voiced: float
    """When the user was last heard to speak: the speech cannot have ended before that."""
    outlook: Outlook = field(default_factory=Outlook)
    """What was typical on the device when it began."""
    phase: Phase = Phase.HEARING
    reply: Reply | None = None
    answered: str | None = None
    """The normalised text that `reply` answers."""
    shown: str = ""
    """What the model was last shown of what the user says."""
    attempts: int = 0
    """Replies begun so far."""
    grace_until: float | None = None
    reopened: bool = False
    """A commit of it was a false start."""
    typed: bool = False
    """Not spoken: speech cannot go on with it."""

    said: Line | None = None
    """The user's line, once it is in the history."""
    ask: Ask = field(default_factory=Ask)
    """What is special about its reply."""
    tried_again: bool = False
    """An engine failed, and was asked once more (`core.second_try`)."""
    results: list[Line] = field(default_factory=list)
    """Of tools that its reply has called, and that is not in the history yet."""

    @property
    def owed(self) -> Stage | None:
        """Whose result this turn cannot do without; None where it waits for nobody but the user."""
        if self.utterance.awaiting_final:
            return Stage.ASR
        return None if self.reply is None else self.reply.waits_for

    def in_grace(self, now: float) -> bool:
        """May speech still go on with it? A commit that was demanded is no false start, and a tool that the client
        was told to run may have been run."""
        if self.typed or self.utterance.commit_asked or (self.reply is not None and self.reply.called):
            return False
        return self.grace_until is None or now < self.grace_until


def open_turn(numbers: Numbering, settings: TurnSettings, start: int, outlook: Outlook, now: float) -> Turn:
    """The next turn, whose speech begins at sample `start`."""
    number = numbers.begin_turn()
    ledger = Ledger(number, settings.budget_s, settings.downlink_s, settings.shares)

    def make_work(kind: WorkKind, klass: WorkClass) -> Work:
        return numbers.work(number, kind, klass, _due(turn, kind))

    utterance = Utterance(start, make_work, settings.decode)
    turn = Turn(number, utterance, ledger, opened=now, progress=now, voiced=now, outlook=outlook)
    return turn


def _due(turn: Turn, kind: WorkKind) -> float | None:
    """A decode of all that was said is due as if the speech had ended with the last sound that was heard."""
    if turn.utterance.state is Speaking.PAUSE:
        return turn.ledger.deadline
    return turn.ledger.due(turn.voiced) if kind is WorkKind.FINAL else None


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    epoch: int
    revision: int
    turn: int
    phase: Phase
    history: tuple[Line, ...]
