"""What a scene has brought: every question that was asked, and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from voicepipe.core.demand import DemandSnapshot
from voicepipe.core.events import Timing, TurnRecord, Verdict, Work
from voicepipe.sim.caller import Call, Utterance

FORESEEN = "foreseen"
"""Why a question was refused that was not put."""
NEAR_S = 0.3
"""A turn belongs to a question if its speech ends so near to the question's end."""


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
    clause_words: int | None = None
    """Of the first clause that was spoken to answer it; None where none was."""

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
    let_in: frozenset[int]
    """Their numbers, and those of the calls that were let in before."""
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
    demand: DemandSnapshot | None
    """With `Scene.watches`: what sessions asked of the device, as admission measures it."""
    level_changes: int
    """Of the overload."""
    events: int
    chunks: tuple[tuple[Work, Timing, str], ...] = ()
    """With `Scene.keeps_chunks`: each that has run, its times and its lane."""


def became(
    number: int, call: Call, records: Sequence[TurnRecord], clauses: Mapping[int, int] | None = None
) -> list[Asked]:
    """Of each question of a call that was let in. `clauses`: words of first clauses, by turn."""
    found = []
    for index, said in enumerate(call.said):
        if index in call.unasked:
            found.append(Asked(number, index, said, None, FORESEEN))
            continue
        turn = _turn_of(said, records)
        words = None if turn is None or clauses is None else clauses.get(turn.turn)
        found.append(Asked(number, index, said, turn, clause_words=words))
    return found


def refused(number: int, call: Call, reason: str) -> list[Asked]:
    return [Asked(number, index, said, None, reason) for index, said in enumerate(call.said)]


def _turn_of(said: Utterance, records: Sequence[TurnRecord]) -> TurnRecord | None:
    """The one whose speech ended nearest to the question's end."""
    nearest, off_s = None, NEAR_S
    for record in records:
        end = record.instants.speech_end
        if end is not None and abs(end - said.end) < off_s:
            nearest, off_s = record, abs(end - said.end)
    return nearest
