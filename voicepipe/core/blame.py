"""Where the time of a turn went, and which part of it made the content late.

Pure functions over the chunks of one stage and the ends of its span. Each stage's time is split by what it went to
(`BlameKind`). Of that, a plan foresees the stages' shares of service, and no waiting at all; late content is blamed
on the largest part beyond the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from voicepipe.core.events import Blame, BlameKind, Hearing, Part, Share, Stage, Timing, Waits

SHARES: Mapping[Stage, float] = {
    Stage.ENDPOINT: 0.325,
    Stage.ASR: 0.125,
    Stage.LLM: 0.225,
    Stage.TTS: 0.2,
    Stage.SEND: 0.125,
}
"""Each stage's part of the budget, for attribution only: slack is global. 65, 25, 45, 40 and 25 of 200 ms."""

_PLANNED: Mapping[Stage, tuple[BlameKind, ...]] = dict.fromkeys(Stage, (BlameKind.SERVICE,)) | {
    Stage.ENDPOINT: (BlameKind.ENDPOINT, BlameKind.SERVICE),
    Stage.SEND: (BlameKind.CLIENT,),
}
"""The kinds of time that a stage's share is meant for: what the first leaves of it is for the next."""
_AT_WORK = {BlameKind.SERVICE, BlameKind.BATCHING, BlameKind.ESTIMATOR}
_BETWEEN = dict.fromkeys(Stage, BlameKind.UNATTRIBUTED) | {
    Stage.ENDPOINT: BlameKind.ENDPOINT,
    Stage.SEND: BlameKind.WAIT,
}
"""What the time is in which none of a stage's chunks was queued, running or on its way back."""
_ROUNDING_S = 1e-9


def shares_of(expected_s: Mapping[Stage, float]) -> dict[Stage, float]:
    """Shares for a machine on which the stages are expected to take so long after the speech end: what the budget
    leaves beyond their sum is spread in proportion, and so is what it lacks. The sum must be positive."""
    total = sum(expected_s.values())
    assert total > 0.0
    return {stage: expected_s.get(stage, 0.0) / total for stage in Stage}


@dataclass(frozen=True, slots=True)
class Chunk:
    """One that ran for the turn."""

    timing: Timing
    waits: Waits
    bound_s: float
    """Declared for its service; 0 where none was."""
    batch_s: float
    """What companions in a batch added to its service."""
    taken: float
    """When its result was taken up by the loop."""

    def spans(self) -> Iterator[tuple[BlameKind, float]]:
        """(kind, its end) from `queued` to `finished`. Waits come in the order in which a lane causes them: the
        chunk that ran when this one came, then those that went first, then the hand-off."""
        timing, waits = self.timing, self.waits
        blocked = timing.queued + waits.lower_s
        yield BlameKind.BLOCKING, min(blocked, timing.started)
        yield BlameKind.WAIT, min(blocked + waits.others_s, timing.started)
        yield BlameKind.UNATTRIBUTED, timing.started - waits.hand_off_s
        yield BlameKind.HAND_OFF, timing.started
        late_s = max(0.0, timing.service_s - self.bound_s) if self.bound_s else 0.0
        in_time = timing.finished - late_s
        yield BlameKind.SERVICE, in_time - self.batch_s
        yield BlameKind.BATCHING, in_time
        yield BlameKind.ESTIMATOR, timing.finished


def listened(begin: float, end: float, hearing: Hearing | None) -> list[Part]:
    """Where the endpoint's time went: it is its own until the sound had come that decided, and from then on that of
    the ears. None: what decided was no chunk of theirs."""
    if hearing is None:
        return split(Stage.ENDPOINT, begin, end, ())
    chunks = [Chunk(one.timing, one.timing.waits, one.bound_s, 0.0, one.taken) for one in hearing.chunks]
    return split(Stage.ENDPOINT, begin, end, chunks, since=hearing.since)


def split(
    stage: Stage,
    begin: float,
    end: float,
    chunks: Iterable[Chunk],
    *,
    since: float | None = None,
    rest: BlameKind | None = None,
) -> list[Part]:
    """Where the time from `begin` to `end` went. Chunks of one stage run one after the other; time in which none
    was queued, running or on its way back is the endpoint's own, a wait in `send`, and elsewhere unattributed.
    Nobody waited for them before `since`. `rest`: what the time behind the last chunk is instead."""
    between = _BETWEEN[stage]
    spent: dict[BlameKind, float] = {}
    at = begin

    def until(kind: BlameKind, instant: float) -> None:
        nonlocal at
        instant = min(instant, end)
        if instant > at:
            spent[kind] = spent.get(kind, 0.0) + instant - at
            at = instant

    if since is not None:
        until(between, since)
    begin = taken = at
    on_path = (chunk for chunk in chunks if chunk.timing.queued < end and chunk.taken > begin)
    for chunk in sorted(on_path, key=lambda chunk: chunk.timing.started):
        until(BlameKind.HAND_OFF, min(taken, chunk.timing.started))
        until(between, chunk.timing.queued)
        for kind, instant in chunk.spans():
            until(kind, instant)
        taken = chunk.taken
    until(BlameKind.HAND_OFF, taken)
    until(rest or between, end)
    return [Part(stage, kind, spent[kind]) for kind in BlameKind if kind in spent]


def background_s(begin: float, end: float, chunks: Iterable[Chunk]) -> float:
    """How much of the time from `begin` to `end` background kept these chunks from the device."""
    blocked_s = 0.0
    for chunk in chunks:
        queued, waits = chunk.timing.queued, chunk.waits
        if waits.background_s:
            # Which of the lower classes ran first is not told, so they count in proportion.
            stretch_s = min(queued + waits.lower_s, end) - max(queued, begin)
            blocked_s += max(0.0, stretch_s) * waits.background_s / waits.lower_s
    return blocked_s


def share(stage: Stage, parts: Iterable[Part]) -> Share:
    """The stage's sums over a split path."""
    own = [part for part in parts if part.stage is stage]
    service_s = sum(part.seconds for part in own if part.kind in _AT_WORK)
    return Share(sum(part.seconds for part in own) - service_s, service_s)


def _take_off(spent: dict[BlameKind, float], planned: Sequence[BlameKind], share_s: float) -> None:
    """Leaves what is beyond the plan, and what was left of the share as negative UNUSED."""
    for kind in planned:
        if kind is not planned[0] and kind not in spent:
            continue
        share_s -= spent.pop(kind, 0.0)
        if share_s < _ROUNDING_S:
            spent[kind], share_s = -share_s, 0.0
    if share_s:
        spent[BlameKind.UNUSED] = -share_s


def blame(parts: Sequence[Part], shares_s: Mapping[Stage, float]) -> Blame:
    """On the largest part beyond the plan; of equal ones the first. `shares_s`: the planned seconds per stage.
    Where nothing is beyond it, as of a refused turn it may be, on the longest part, by nothing."""
    over: list[Part] = []
    for stage in Stage:
        spent = {part.kind: part.seconds for part in parts if part.stage is stage}
        _take_off(spent, _PLANNED[stage], shares_s.get(stage, 0.0))
        over += [Part(stage, kind, spent[kind]) for kind in BlameKind if kind in spent]
    worst = max(over, key=lambda part: part.seconds)
    if worst.seconds <= 0.0:
        longest = max(parts, key=lambda part: part.seconds)
        worst = Part(longest.stage, longest.kind, 0.0)
    return Blame(
        stage=worst.stage,
        kind=worst.kind,
        over_s=worst.seconds,
        overrun_s=sum(part.seconds for part in over),
        parts=tuple(part for part in over if part.kind is not BlameKind.UNATTRIBUTED),
        unattributed_s=sum(part.seconds for part in over if part.kind is BlameKind.UNATTRIBUTED),
    )
