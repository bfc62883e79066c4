"""What is told of a turn when it has ended: the verdict, and where its time went."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from voicepipe.core.events.work import Stage, Way


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


class RefusedFor(StrEnum):
    """Why a turn is not answered where the deadline is enforced."""

    LATE_COMMIT = "late-commit"
    """What was said, and that it had ended, was certain only after the deadline."""
    NO_CONTENT = "no-content"
    """Nothing of the reply was on its way at the deadline."""


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
    FILLER = "filler"
    """A short phrase is heard while a tool runs whose call is all that there is of the reply."""


@dataclass(frozen=True, slots=True)
class Share:
    """A stage's part of the critical path after speech end."""

    wait_s: float = 0.0
    service_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Speculation:
    """What was done ahead: a reply may be begun before the commit, and before the speech has ended."""

    hit: bool = False
    """The reply that was released had been started before the commit."""
    attempts: int = 0
    saved_s: float = 0.0
    """Service for the released reply before the speech end: of a chunk that ran across it, the part before. What
    came after it is on the turn's path, or was done within the endpoint's patience."""
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
    UNFINISHED = "unfinished"  # not at its end when the turn was refused: waiting or at work
    UNUSED = "unused"  # negative: what a stage left of its share
    UNATTRIBUTED = "unattributed"  # nothing explains it


@dataclass(frozen=True, slots=True)
class Part:
    """Time of one kind in one stage."""

    stage: Stage
    kind: BlameKind
    seconds: float


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
    """Felt gap - budget: the sum of `parts` and `unattributed_s`. Of a refused turn: what it had taken by then
    beyond the shares of the stages that it had come to."""
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
    """Adds up to `felt_estimate_s`; of a refused turn to the time from its speech end to the refusal, where what
    had not ended by then counts as waiting."""
    speculation: Speculation
    blame: Blame | None
    """Where content was late: of `missed`, `masked` and `refused` turns."""
    reopened: int = 0
    """How often the turn's commit was taken back."""
    budget_s: float = 0.2
    deadline: float | None = None
    """Scheduler time at which the first content was due at the socket."""
    instants: Instants = Instants()
    parts: tuple[Part, ...] = ()
    """The critical path by stage and kind; adds up to what `stages` do."""
    forecasts: tuple[Forecast, ...] = ()
    rungs: tuple[str, ...] = ()
    """Rungs of the ladder that were taken, in order."""
    ways: tuple[Way, ...] = ()
    """How far each of its replies came towards a first clause, in the order in which that was known."""
    background_s: float = 0.0
    """How long background chunks held up the critical path: a part of what `parts` has as blocking."""
    reason: str | None = None
    """Why it is `refused` (a `RefusedFor`), or `failed` (the code of the engine's error)."""
    stalled_s: float = 0.0
    """How long playback stood still within the reply, because its audio was not there yet."""
