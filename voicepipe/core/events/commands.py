"""What the turns of a session answer with: work for the device, and what the client is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from voicepipe.core.events.record import TurnRecord
from voicepipe.core.events.work import Call, Rehear, Speak, Stage, Think, Way, Work, WorkKind


@dataclass(frozen=True, slots=True)
class Submit:
    """Give this to the device. `task` starts something new; without one, the running thing goes on."""

    work: Work
    task: Think | Speak | Rehear | None = None
    way: Way | None = field(default=None, compare=False)
    """Of the reply that a THINK belongs to, while it has no clause."""


@dataclass(frozen=True, slots=True)
class Retire:
    """Whatever waits with an older epoch, or reply work with an older revision, will not run any more."""

    epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class Promote:
    """What waits with this epoch now belongs to a started turn: its speech has ended."""

    epoch: int
    deadline: float | None = None
    """Of what was asked for before the turn had one. Scheduler time."""
    kinds: tuple[WorkKind, ...] = ()
    """Only work of these; empty: all."""


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
class Corrected:
    """A second pass has heard other words in a committed turn; the turn may have ended."""

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
class Acknowledged:
    """The reply's first `samples` are a sound that is no content; their audio follows."""

    turn: int
    epoch: int
    samples: int


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Pieces are joined as they are: they bring their own spaces."""

    turn: int
    epoch: int
    text: str
    spoken: bool = True
    """False: it is not to be heard, and is all there is."""


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """PCM16LE mono at the session's output rate."""

    epoch: int
    offset: int
    pcm: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The reply is that a tool is to be run: after the commit, and after what is said before it."""

    turn: int
    epoch: int
    call: Call


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
    | Corrected
    | Committed
    | Reopened
    | Acknowledged
    | ReplyText
    | ReplyAudio
    | ToolCalled
    | ReplyDone
    | ReplyInterrupted
    | TurnFailed
    | TurnEnded
)
