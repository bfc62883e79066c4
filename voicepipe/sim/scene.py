"""A scene: callers, a server and its device, in virtual time. The same scene gives the same bytes.

    played = play(Scene(seed=1, sessions=20.0, seconds=600.0))

What is decided, is decided by the classes that serve: turns, scheduler, forecaster, admission, overload, texts in
slack. What is not simulated stands in docs/design.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from voicepipe.config import AdmissionConfig, Enforcement, LlmPool, OperatingPoint, OverloadConfig, Rung
from voicepipe.core.events import TurnRecord, Verdict
from voicepipe.sim.caller import Call, Habits, Utterance
from voicepipe.sim.machine import MakeMachine, SchedulerMachine
from voicepipe.sim.service import ServiceModel, load_service

NEAR_S = 0.3
"""A turn belongs to a question if its speech ends so near to the question's end."""


@dataclass(frozen=True, slots=True)
class TextJobs:
    """Texts that nobody waits to hear, asked for as a Poisson process."""

    per_s: float
    prompt_tokens: tuple[int, int] = (4000, 4000)
    """Drawn from evenly, both ends included; like `output_tokens`."""
    output_tokens: tuple[int, int] = (800, 800)
    slots: int = 4
    """Of the model, for texts."""
    max_waiting: int = 16
    longest_s: float = 0.05
    """The largest chunk that is offered for slack."""
    at: tuple[float, ...] = ()
    """Asked for at these instants, instead of at random."""


@dataclass(frozen=True, slots=True)
class Scene:
    seed: int = 1
    begin_s: float = 0.0
    """Until then the server fills; questions that end later are counted."""
    seconds: float = 600.0
    """Questions that end in [begin_s, begin_s + seconds) are counted."""
    sessions: float = 10.0
    """So many calls would be under way at a time if all were let in."""
    habits: Habits = Habits()  # noqa: RUF009 - a value
    calls: tuple[Call, ...] | None = None
    """Instead of drawn ones."""
    service: ServiceModel = field(default_factory=lambda: load_service("gpu"))
    machine: MakeMachine = SchedulerMachine
    pool: LlmPool = "dedicated"
    budget_s: float = 0.2
    operating_point: OperatingPoint = "fast"
    enforcement: Enforcement = "degrade"
    ladder: tuple[Rung, ...] = ("short-clause",)
    admission: AdmissionConfig = AdmissionConfig()  # noqa: RUF009 - a value
    """Policy by name, and its settings."""
    max_sessions: int = 1000
    overload: OverloadConfig = OverloadConfig()  # noqa: RUF009 - a value
    speculates: bool = True
    """Replies are begun before the pause."""
    texts: TextJobs | None = None
    chunk_log: bool = False
    """Keep what every chunk took (`Played.chunks`)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one question."""

    call: int
    """Number of the call, from 0."""
    number: int
    """Of the question in its call, from 0."""
    said: Utterance = field(repr=False)
    record: TurnRecord | None
    """Of its turn; None where there was none: its session was refused, or it ran into the turn before it."""
    refused: str = ""
    """Why its session was refused; "" where it was not."""

    @property
    def end(self) -> float:
        """When it ended. Seconds since the beginning."""
        return self.said.end

    @property
    def felt_s(self) -> float | None:
        """From the end of the question to the first content; None without."""
        record = self.record
        if record is None or record.felt_estimate_s is None or record.instants.speech_end is None:
            return None
        return record.instants.speech_end + record.felt_estimate_s - self.said.end

    @property
    def kept(self) -> bool:
        return self.record is not None and self.record.verdict in (Verdict.MET, Verdict.DEGRADED)

    @property
    def counts(self) -> bool:
        """Of a session that was admitted, and not given up by its caller."""
        excused = (Verdict.EMPTY, Verdict.INTERRUPTED)
        return not self.refused and (self.record is None or self.record.verdict not in excused)


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was not let in."""

    call: int
    at: float
    reason: str
    retry_after_ms: int
    sessions: int
    """That were under way."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What became of those that nobody waited to hear, in all of the run."""

    asked: int = 0
    refused: int = 0
    done: int = 0
    read_tokens: int = 0
    written_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Played:
    seconds: float
    """That questions were counted in."""
    asked: tuple[Asked, ...]
    """Every question that ended in that time."""
    refused: tuple[Refused, ...]
    """Every call that was refused in that time."""
    admitted: int
    """Calls in that time."""
    most_sessions: int
    sessions_s: float
    """Time that sessions spent in the server, in all of the run."""
    turns: int
    """That have ended, in all of the run, those that belong to no question included."""
    texts: Texts
    busy_s: Mapping[tuple[str, str], float]
    """Service in all of the run, by lane and class."""
    ran_s: float
    """How long all of the run took, in virtual time."""
    leases: Mapping[str, int]
    """That are still held in the end; all 0."""
    correction: float | None
    """Of the policy `deadline` in the end: what happened over what was predicted."""
    level_changes: int
    """Of the overload."""
    events: int
    chunks: tuple[Mapping[str, object], ...] = field(default=(), repr=False)
    """With `chunk_log`: as a ledger has them."""


def play(scene: Scene) -> Played:
    """Raises ConfigError where the service model lacks what the scene needs."""
    raise NotImplementedError
