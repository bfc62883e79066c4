"""What a device is asked to do: chunks, their kinds and classes, and the tasks that they begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Stage(StrEnum):
    """A span of the turn's critical path, in the order in which it is walked."""

    ENDPOINT = "endpoint"
    ASR = "asr"
    LLM = "llm"
    TTS = "tts"
    SEND = "send"


class WorkKind(StrEnum):
    """What a chunk does."""

    HEAR = "hear"  # Vad over the frames that have arrived
    PARTIAL = "partial"  # Asr while the user speaks
    FINAL = "final"  # Asr at a pause
    SECOND_PASS = "second-pass"  # the larger Asr, over what a committed turn has said
    JUDGE = "judge"  # TurnModel in a pause
    WARM = "warm"  # one Llm step that only reads what the next reply will begin with
    THINK = "think"  # one Llm step
    SPEAK = "speak"  # one Tts step
    GENERATE = "generate"  # one step of texts that nobody waits to hear

    @property
    def stage(self) -> Stage:
        return _STAGES[self]


_STAGES = {
    WorkKind.HEAR: Stage.ENDPOINT,
    WorkKind.PARTIAL: Stage.ASR,
    WorkKind.FINAL: Stage.ASR,
    WorkKind.SECOND_PASS: Stage.ASR,
    WorkKind.JUDGE: Stage.ENDPOINT,
    WorkKind.WARM: Stage.LLM,
    WorkKind.THINK: Stage.LLM,
    WorkKind.SPEAK: Stage.TTS,
    WorkKind.GENERATE: Stage.LLM,
}


URGENT_S = 0.5
"""Playback that has less left is about to run dry."""


class WorkClass(IntEnum):
    """Who goes first; a lower number wins."""

    STARTED = 0  # a turn whose speech has ended, or playback that is about to run dry
    ASR = 1  # listening
    SPECULATION = 2  # a reply to a turn that is not committed yet
    AHEAD = 3  # audio beyond the playback frontier
    BACKGROUND = 4


@dataclass(frozen=True, slots=True)
class Load:
    """What a chunk has to do, as far as that is known before it runs. Units as `core.cost.Size` states them."""

    model: str
    units: float
    context: float = 0.0
    variant: str = ""
    """As `core.cost.CostKey` states it."""
    batch: int = 1
    """Works of its stage and model that one chunk can do, of several sessions."""


@dataclass(frozen=True, slots=True)
class Way:
    """How far a reply has come on its way from the prompt to its first audio. Service in seconds."""

    read_s: float = 0.0
    """Of its steps up to the first token."""
    thought_s: float = 0.0
    """Of its steps after that one, up to the first clause."""
    has_token: bool = False
    clause_characters: int | None = None
    """Length of the first clause; None while there is none."""
    has_audio: bool = False
    cut: bool = False
    """It went no further, or its clause ended before it had to: it would have been longer."""

    def after(self, service_s: float) -> Way:
        """A step later."""
        read_s, thought_s = self.read_s, self.thought_s
        if self.has_token:
            thought_s += service_s
        else:
            read_s += service_s
        return Way(read_s, thought_s, self.has_token, self.clause_characters, self.has_audio, self.cut)


@dataclass(frozen=True, slots=True)
class Offer:
    """One size that a chunk may have."""

    load: Load
    bound_s: float
    """Declared upper bound of its service at that size; 0 where none is known."""


@dataclass(frozen=True, slots=True)
class Work:
    """One chunk that a session wants done. Work for a turn that is not committed yet carries the epoch that
    its commit will open, so that a commit makes it current without touching it."""

    id: int
    """Unique within the session."""
    session: str
    turn: int
    epoch: int
    revision: int
    kind: WorkKind
    klass: WorkClass
    deadline: float | None = None
    """Scheduler time at which the turn's budget ends; None where none runs."""
    bound_s: float = field(default=0.0, compare=False)
    """Declared upper bound of this chunk's service; 0 where none is known."""
    remaining_s: float = field(default=0.0, compare=False)
    """Predicted service that must still follow this chunk before the deadline."""
    load: Load | None = field(default=None, compare=False)
    """What `bound_s` is for; None where nothing is declared."""
    larger: tuple[Offer, ...] = field(default=(), compare=False)
    """Sizes beyond it that the chunk may have, smallest first. The scheduler takes one of them where there is
    slack, and then `load` and `bound_s` of the work that runs are that one's."""
    since: float | None = field(default=None, compare=False)
    """Since when what it belongs to has been waited for; None: it has just come."""
    expected_s: float = field(default=0.0, compare=False)
    """Predicted service of this chunk; 0 where none is known, and the bound stands for it."""
    more_s: float = field(default=0.0, compare=False)
    """By how much longer it is predicted to make a chunk that does its like for other sessions; 0 where that is not
    known, and it is done by itself."""

    @property
    def key(self) -> tuple[str, int]:
        return self.session, self.id

    def priced(
        self, load: Load, bound_s: float, expected_s: float, remaining_s: float, more_s: float = 0.0
    ) -> Work:
        """With what it has to do, and is expected to take. Of every chunk, so that no field is looked up by its
        name."""
        return Work(
            self.id,
            self.session,
            self.turn,
            self.epoch,
            self.revision,
            self.kind,
            self.klass,
            self.deadline,
            bound_s,
            remaining_s,
            load,
            self.larger,
            self.since,
            expected_s,
            more_s,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the conversation. A "call" of a tool has its arguments as text (JSON), a "tool" its result."""

    role: str
    text: str
    call_id: str = ""
    """Of a call, and of its result."""
    name: str = ""
    """Of the tool that is called."""


@dataclass(frozen=True, slots=True)
class Call:
    """The model wants a tool to be run."""

    call_id: str
    name: str
    arguments: str
    """JSON that fits the tool's schema."""


@dataclass(frozen=True, slots=True)
class Tool:
    """What the model may ask for; the client runs it."""

    name: str
    description: str
    parameters: str
    """JSON schema of its arguments, as JSON."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What is at hand for a reply."""

    those: tuple[Tool, ...] = ()
    choice: str = "auto"
    """"auto", "none", "required", or the name of the one that must be called."""


@dataclass(frozen=True, slots=True)
class Think:
    """Begin a reply to this conversation (the first WARM or THINK); later steps carry no task."""

    lines: tuple[Line, ...]
    max_tokens: int
    small: bool = False
    """By the smaller model."""
    tools: Tools = Tools()


@dataclass(frozen=True, slots=True)
class Ask:
    """What is special about a reply that is asked for; by default it is one like any other."""

    instructions: str | None = None
    """Instead of the session's."""
    lines: tuple[Line, ...] | None = None
    """To be answered instead of the conversation."""
    kept: bool = True
    """It becomes a part of the conversation."""
    max_tokens: int | None = None
    spoken: bool | None = None
    """As sound, or in writing; None: as the session has it."""
    tools: Tools | None = None
    """Instead of the session's."""


@dataclass(frozen=True, slots=True)
class Speak:
    """Begin one clause; later SPEAKs of the clause carry no task."""

    text: str
    first: bool


@dataclass(frozen=True, slots=True)
class Rehear:
    """Begin a second pass over samples [start, end) of the session's 16 kHz clock; as far as `end` has come."""

    turn: int
    start: int
    end: int
    speech_samples: int
