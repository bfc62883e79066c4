"""What the core is told and what it answers: plain values, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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


class Rung(StrEnum):
    """What is given up for the sake of the deadline, the cheapest first."""

    SHORT_CLAUSE = "short-clause"
    """The first clause ends after three words or four."""
    NO_SECOND_PASS = "no-second-pass"
    """What was said is not decoded again by the larger recogniser."""
    SMALL_MODEL = "small-model"
    """The smaller model answers."""
    ACKNOWLEDGE = "acknowledge"
    """A short sound is heard at the deadline, before the content."""


# --- device work -----------------------------------------------------------------------------------------


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
        if self.has_token:
            return replace(self, thought_s=self.thought_s + service_s)
        return replace(self, read_s=self.read_s + service_s)


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

    @property
    def key(self) -> tuple[str, int]:
        return self.session, self.id


@dataclass(frozen=True, slots=True)
class Timing:
    """Scheduler times of one chunk."""

    queued: float
    started: float
    finished: float
    whole: bool = field(default=True, kw_only=True)
    """False: the chunk was cut off, and its service is the least that it would have taken."""

    @property
    def wait_s(self) -> float:
        return self.started - self.queued

    @property
    def service_s(self) -> float:
        return self.finished - self.started

    @property
    def waits(self) -> Waits:
        """Where nothing more is known, all waiting was for other chunks."""
        return Waits(others_s=self.wait_s)


@dataclass(frozen=True, slots=True)
class LaneTiming(Timing):
    """Scheduler times of one chunk, and where its wait came from."""

    granted: float
    """From when on the lane was the chunk's: it was queued, and had room, and nothing else went before."""
    blocked_s: float
    """How much of its wait a chunk of a lower class ran on."""
    background_s: float = 0.0
    """How much of that was background."""

    @property
    def waits(self) -> Waits:
        """The wait in its parts. The hand-off goes from the end of the chunk before it, through the loop, to its
        own first instruction."""
        waited_s = self.granted - self.queued
        lower_s = min(self.blocked_s, waited_s)  # the loop learns of an end a little after it
        background_s = min(self.background_s, lower_s)
        return Waits(lower_s, waited_s - lower_s, self.started - self.granted, background_s)


@dataclass(frozen=True, slots=True)
class Listened:
    """A HEAR chunk that has run."""

    timing: LaneTiming
    bound_s: float
    """Declared for its service; 0 where none was."""
    taken: float
    """When its result was taken up by the loop."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """How sound came to be listened to."""

    since: float
    """When it had arrived, or was asked about: what the ears took from then on is their own time."""
    chunks: tuple[Listened, ...]
    """Those that ran from then on until it had been listened to, one after the other; at least one."""

    @property
    def taken(self) -> float:
        """When it was known what there was to hear."""
        return self.chunks[-1].taken


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


@dataclass(frozen=True, slots=True)
class Lull:
    """The sound has fallen away, from sample `quiet_from` on; heard up to `upto`. Speech may go on."""

    quiet_from: int
    upto: int


@dataclass(frozen=True, slots=True)
class Swell:
    """Sound again after a lull, from sample `at` on."""

    at: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """A lull has lasted for `samples`; told while somebody speaks, or may go on to."""

    samples: int


EndpointEvent = Onset | Voiced | SoftEnd | Resumed | Silence | Lull | Swell | Quiet


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
    small: bool = False
    """By the smaller model."""


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


class BlameKind(StrEnum):
    """What the time of a stage went to."""

    WAIT = "wait"  # for chunks of the same or a higher class; in `send`: for the loop and the socket
    SERVICE = "service"
    BLOCKING = "blocking"  # a chunk of a lower class had the device
    BATCHING = "batching"  # service that companions in a batch added
    ESTIMATOR = "estimator"  # service beyond its declared bound
    HAND_OFF = "hand-off"  # between the loop and the device's thread, both ways
    ENDPOINT = "endpoint"  # not knowing yet that the speech has ended
    CLIENT = "client"  # from the socket to the ear
    UNUSED = "unused"  # negative: what a stage left of its share
    UNATTRIBUTED = "unattributed"  # nothing explains it


@dataclass(frozen=True, slots=True)
class Part:
    """Time of one kind in one stage."""

    stage: Stage
    kind: BlameKind
    seconds: float


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a chunk stood between `queued` and `started`, in this order of time; the rest is unattributed."""

    lower_s: float = 0.0
    """A chunk of a lower class was running, and chunks are not taken back."""
    others_s: float = 0.0
    """Chunks of its own or a higher class ran."""
    hand_off_s: float = 0.0
    """It had the lane, and its thread had not begun."""
    background_s: float = 0.0
    """How much of `lower_s` was background."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What was expected at a boundary between stages."""

    stage: Stage
    """The stage that comes next."""
    at: float
    slack_s: float | None
    """Deadline - at - predicted remaining service; None before the speech end, while there is no deadline."""
    finish: float
    """When the first content was expected at the socket."""


@dataclass(frozen=True, slots=True)
class Instants:
    """Scheduler times of a turn's marks; None for what did not happen."""

    speech_end: float | None = None
    soft_end: float | None = None
    """We learnt of the speech end."""
    eager: float | None = None
    """The reply was begun, ahead of the commit."""
    commit: float | None = None
    asr_final: float | None = None
    llm_first: float | None = None
    """First token, thoughts included."""
    answer_first: float | None = None
    """First token of what will be said."""
    clause: float | None = None
    """First clause that can be spoken."""
    audio: float | None = None
    acknowledged: float | None = None
    """A sound that is no content was handed to the socket."""
    sent: float | None = None
    """First content handed to the socket."""
    heard: float | None = None
    """First content played, as the client's reports show it."""
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """The one stage and kind that lateness is put down to."""

    stage: Stage
    kind: BlameKind
    over_s: float
    """The blamed part: time of this kind in this stage beyond the plan. Planned are the stages' shares, of
    service (of `endpoint` and `client` in the first and the last stage); all other kinds are planned as none."""
    overrun_s: float = 0.0
    """Felt gap - budget: the sum of `parts` and `unattributed_s`."""
    parts: tuple[Part, ...] = ()
    """Every part beyond the plan, and as negative UNUSED what was left of a stage's share."""
    unattributed_s: float = 0.0


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
    """Where content was late: of `missed` and `masked` turns."""
    reopened: int = 0
    """How often the turn's commit was taken back."""
    budget_s: float = 0.2
    deadline: float | None = None
    """Scheduler time at which the first content was due at the socket."""
    instants: Instants = Instants()
    parts: tuple[Part, ...] = ()
    """The critical path by stage and kind; adds up to `felt_estimate_s`."""
    forecasts: tuple[Forecast, ...] = ()
    rungs: tuple[str, ...] = ()
    """Rungs of the ladder that were taken, in order."""
    ways: tuple[Way, ...] = ()
    """How far each of its replies came towards a first clause, in the order in which that was known."""
    background_s: float = 0.0
    """How long background chunks held up the critical path: a part of what `parts` has as blocking."""


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
    | ReplyDone
    | ReplyInterrupted
    | TurnFailed
    | TurnEnded
)
