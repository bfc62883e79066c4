"""What the core is told and what it answers: plain values, no behaviour."""

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


class Verdict(StrEnum):
    """How a turn ended; the first that fits, in this order."""

    FAILED = "failed"
    REFUSED = "refused"
    EMPTY = "empty"
    INTERRUPTED = "interrupted"
    MASKED = "masked"
    MISSED = "missed"
    DEGRADED = "degraded"
    MET = "met"


# --- device work -----------------------------------------------------------------------------------------


class WorkKind(StrEnum):
    """What a chunk does."""

    HEAR = "hear"  # Vad over the frames that have arrived
    PARTIAL = "partial"  # Asr while the user speaks
    FINAL = "final"  # Asr at a pause
    WARM = "warm"  # one Llm step that only reads what the next reply will begin with
    THINK = "think"  # one Llm step
    SPEAK = "speak"  # one Tts step

    @property
    def stage(self) -> Stage:
        return _STAGES[self]


_STAGES = {
    WorkKind.HEAR: Stage.ENDPOINT,
    WorkKind.PARTIAL: Stage.ASR,
    WorkKind.FINAL: Stage.ASR,
    WorkKind.WARM: Stage.LLM,
    WorkKind.THINK: Stage.LLM,
    WorkKind.SPEAK: Stage.TTS,
}


class WorkClass(IntEnum):
    """Who goes first; a lower number wins."""

    STARTED = 0  # a turn whose speech has ended, or playback that is about to run dry
    ASR = 1  # listening
    SPECULATION = 2  # a reply to a turn that is not committed yet
    AHEAD = 3  # audio beyond the playback frontier
    BACKGROUND = 4


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

    @property
    def key(self) -> tuple[str, int]:
        return self.session, self.id


@dataclass(frozen=True, slots=True)
class Timing:
    """Scheduler times of one chunk."""

    queued: float
    started: float
    finished: float

    @property
    def wait_s(self) -> float:
        return self.started - self.queued

    @property
    def service_s(self) -> float:
        return self.finished - self.started


# --- endpoint events (media time: samples at 16 kHz) -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Onset:
    """Speech has begun. `start` is back-dated by the pre-roll, never into the speech before."""

    start: int


@dataclass(frozen=True, slots=True)
class Voiced:
    """Speech goes on: `speech_samples` in this stretch, up to position `at`."""

    speech_samples: int
    at: int


@dataclass(frozen=True, slots=True)
class SoftEnd:
    """First silent frame after speech; `at` is its first sample."""

    at: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """Speech again, within the same pause; `start` is its first sample."""

    start: int


@dataclass(frozen=True, slots=True)
class Silence:
    """The pause has lasted `samples`, counted from the start of its first silent frame. `completeness` is a
    turn model's score in [0, 1], None where none was asked."""

    samples: int
    completeness: float | None = None


EndpointEvent = Onset | Voiced | SoftEnd | Resumed | Silence


# --- commands of core.turn -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """Begin a reply to this conversation (the first WARM or THINK); later steps carry no task."""

    lines: tuple[Line, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Speak:
    """Begin one clause; later SPEAKs of the clause carry no task."""

    text: str
    first: bool


@dataclass(frozen=True, slots=True)
class Submit:
    """Give this to the device. `task` starts something new; without one, the running thing goes on."""

    work: Work
    task: Think | Speak | None = None


@dataclass(frozen=True, slots=True)
class Retire:
    """Whatever waits with an older epoch, or reply work with an older revision, will not run any more."""

    epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class Promote:
    """What waits with this epoch now belongs to a started turn."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """This work is not wanted any more, if it has not begun."""

    work: Work


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    turn: int


@dataclass(frozen=True, slots=True)
class PartialTranscript:
    turn: int
    stable: str
    tentative: str


@dataclass(frozen=True, slots=True)
class FinalTranscript:
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Committed:
    turn: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Reopened:
    turn: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Pieces are joined as they are: they bring their own spaces."""

    turn: int
    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """PCM16LE mono at the session's output rate."""

    epoch: int
    offset: int
    pcm: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplyDone:
    turn: int
    epoch: int
    samples: int


@dataclass(frozen=True, slots=True)
class ReplyInterrupted:
    turn: int
    epoch: int
    heard_ms: int


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """Tells the client why a turn will end as `failed`."""

    turn: int
    code: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class Share:
    """A stage's part of the critical path after speech end."""

    wait_s: float = 0.0
    service_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Speculation:
    """What was done ahead of the commit."""

    hit: bool = False
    """The reply that was released had been started before the commit."""
    attempts: int = 0
    saved_s: float = 0.0
    """Work on the released reply that ran before the commit."""
    wasted_s: float = 0.0
    """Service spent on replies that were dropped."""


@dataclass(frozen=True, slots=True)
class Blame:
    stage: Stage
    kind: str
    """"wait", "service" or "endpoint"."""
    over_s: float
    """By how much the stage overran its share of the budget."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The verdict on a turn and where its time went."""

    turn: int
    verdict: Verdict
    felt_estimate_s: float | None
    """Speech end to the estimated audibility of the first content; None without content."""
    system_s: float | None
    """Commit to the hand-off of the first content to the socket."""
    stages: dict[Stage, Share]
    """Adds up to `felt_estimate_s`."""
    speculation: Speculation
    blame: Blame | None
    reopened: int = 0
    """How often the turn's commit was taken back."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    record: TurnRecord


TurnCommand = (
    Submit
    | Retire
    | Promote
    | Withdraw
    | SpeechStarted
    | PartialTranscript
    | FinalTranscript
    | Committed
    | Reopened
    | ReplyText
    | ReplyAudio
    | ReplyDone
    | ReplyInterrupted
    | TurnFailed
    | TurnEnded
)
