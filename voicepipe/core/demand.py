"""What sessions ask of a device, measured: the figures that `core.deadline` admits by.

Everything is taken from chunks that have run and turns that have ended, so that it follows what speculation really
saves: the cost of a turn is the service of its chunks *after its speech end*, up to its first content, and for the
turn itself the time before the first of them could be asked for as well; averaged apart over turns whose reply had
been begun ahead and turns whose reply had not, and weighted by how often either happens. Rates are per second of a
session. They are sums that decay with session time, and begin with what the warm-up expects, which counts like
`PRIOR_S` of a session. A component without time of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp

from voicepipe.core.events import Timing, TurnRecord, Work, WorkClass, WorkKind

MEMORY_S = 1200.0
"""Session time after which a chunk or turn counts by 1/e: some two hundred turns."""
PRIOR_S = 60.0
NEWEST_WEIGHT = 0.01
"""Of the newest turn in costs and in the hit rate, once there have been more than a hundred. The risk hangs on
costs steeply: with them a twentieth off, a session or two more or fewer are let in."""
PRIOR_TURNS = 10
"""Without a hit, that a hit rate begins with."""
KEPT_CHUNKS = 256
"""Per session, for turns that have not ended; and of lower classes, for how long one may block."""
_LISTENING = frozenset({WorkKind.PARTIAL, WorkKind.FINAL, WorkKind.JUDGE})


@dataclass(frozen=True, slots=True)
class Expected:
    """What a warm-up and common sense say before anybody has spoken."""

    turn_s: float
    """From speech end to the first audio, without speculation."""
    decode_s: float
    """One decode of what somebody says."""
    begin_s: float = 0.04
    """From speech end to the first chunk: a packet, and a frame of the VAD or the quiet that makes a lull."""
    turn_every_s: float = 6.0
    """Two seconds of question, two of answer, and thought: a brisk conversation."""
    decodes: float = 6.0
    """Per turn, while somebody speaks."""


@dataclass(frozen=True, slots=True)
class TurnCost:
    """After its speech end. Seconds."""

    path_s: float = 0.0
    """Up to the first of its chunks, and of service of all of them: the turn itself waits for these."""
    path_deviation_s: float = 0.0
    """Mean distance of single turns from that."""
    shared_s: float = 0.0
    """Of service of those on the shared lane: other turns wait for these."""
    saved_s: float = 0.0
    """What of that is not added where its steps are done in the chunks of another turn (`core.batches`)."""

    @property
    def square(self) -> float:
        """E[C^2] of the shared ones, taken to vary as the path does: s^2."""
        return self.shared_s**2 + min(self.path_deviation_s, self.shared_s) ** 2


@dataclass(frozen=True, slots=True)
class DemandSnapshot:
    turns_hz: float
    """Turns per second of a session."""
    share: float
    """Of the shared lane, that a session needs; what speculation did in vain is not needed."""
    listening_share: float
    """The part of it that goes to what is being said, while no turn of the session waits for it."""
    ears_share: float
    """Of the lane that runs the detector of speech, that a session needs."""
    hit_rate: float
    """Turns whose reply was begun before the commit."""
    hit: TurnCost
    miss: TurnCost
    blocking_s: float
    """The longest of the last chunks of a lower class."""
    turns: int
    """Seen so far."""
    spread_s: float = 0.0
    """From a turn's speech end to the end of its last chunk."""

    @property
    def shared_s(self) -> float:
        """The cost of a turn to all others."""
        return self.hit_rate * self.hit.shared_s + (1.0 - self.hit_rate) * self.miss.shared_s

    @property
    def joined_share(self) -> float:
        """The share of a turn's cost that it adds to those that it meets, in (0, 1]."""
        saved_s = self.hit_rate * self.hit.saved_s + (1.0 - self.hit_rate) * self.miss.saved_s
        return 1.0 - saved_s / self.shared_s if self.shared_s > 0.0 else 1.0

    @property
    def burst_s(self) -> float:
        """The same of a turn that others wait behind. Those are the long ones more often than not: each length
        counts as often as it lasts, which makes E[C^2] / E[C]."""
        squares = self.hit_rate * self.hit.square + (1.0 - self.hit_rate) * self.miss.square
        return squares / self.shared_s if self.shared_s > 0.0 else 0.0


class _Cost:
    def __init__(self, path_s: float, shared_s: float) -> None:
        self._path_s, self._shared_s = path_s, shared_s
        self._saved_s = 0.0
        self._deviation_s = 0.0
        self._n = 0

    def learn(self, path_s: float, shared_s: float, saved_s: float) -> None:
        self._n += 1
        weight = max(NEWEST_WEIGHT, 1.0 / self._n)
        off_s = path_s - self._path_s
        self._path_s += weight * off_s
        self._shared_s += weight * (shared_s - self._shared_s)
        self._saved_s += weight * (saved_s - self._saved_s)
        if self._n > 1:
            self._deviation_s += weight * (abs(off_s) - self._deviation_s)

    def snapshot(self) -> TurnCost:
        return TurnCost(self._path_s, self._deviation_s, self._shared_s, self._saved_s)


class Demand:
    def __init__(self, shared: Collection[WorkKind], expected: Expected | None = None) -> None:
        """`shared`: kinds of work that run one at a time on the device, for all sessions."""
        self._shared = frozenset(shared)
        self._chunks: dict[str, deque[tuple[Work, Timing]]] = {}
        self._blocking: deque[float] = deque(maxlen=KEPT_CHUNKS)
        self.seed(expected or Expected(0.0, 0.0))

    def seed(self, expected: Expected) -> None:
        """Begin anew."""
        decodes_s = expected.decodes * expected.decode_s
        turns = PRIOR_S / expected.turn_every_s
        self._session_s = PRIOR_S
        self._turns = turns
        self._needed_s = turns * (2.0 * expected.turn_s + decodes_s)  # the rest of the answer: as much again
        self._listening_s = turns * decodes_s
        self._ears_s = 0.0
        self._hit_rate, self._hits_of = 0.0, PRIOR_TURNS
        path_s = expected.begin_s + expected.turn_s
        self._hit, self._miss = _Cost(path_s, expected.turn_s), _Cost(path_s, expected.turn_s)
        self._spread_s = 0.0
        self._blocking.clear()
        self._blocking.append(expected.decode_s)
        self._seen = 0

    def on_joined(self, session: str) -> None:
        self._chunks[session] = deque(maxlen=KEPT_CHUNKS)

    def on_chunk(self, work: Work, timing: Timing) -> None:
        """A chunk has run."""
        if work.kind is WorkKind.HEAR:
            self._ears_s += timing.finished - timing.started
            return
        if work.klass is WorkClass.BACKGROUND:
            return
        if work.session in self._chunks:
            self._chunks[work.session].append((work, timing))
        if work.kind not in self._shared:
            return
        self._needed_s += timing.share_s
        if work.kind in _LISTENING:
            self._listening_s += timing.service_s
        elif work.klass > WorkClass.ASR:
            self._blocking.append(timing.service_s)

    def on_turn(self, session: str, record: TurnRecord) -> None:
        """A turn has ended. One without content tells what it asked for, and not what it would have cost."""
        self._turns += 1.0
        self._seen += 1
        self._needed_s = max(0.0, self._needed_s - record.speculation.wasted_s)
        chunks = self._chunks.get(session)
        if chunks is None:
            return
        begin, end = record.instants.speech_end, record.instants.sent
        if begin is not None and end is not None:
            own = [
                (work, timing, _overlap_s(timing, begin, end))
                for work, timing in chunks
                if work.turn == record.turn
            ]
            path_s = _begins_s([timing for _, timing, _ in own], begin, end) + sum(span_s for *_, span_s in own)
            shared = [(work, span_s / timing.batch) for work, timing, span_s in own if work.kind in self._shared]
            shared_s = sum(span_s for _, span_s in shared)
            saved_s = sum(span_s * _saved(work) for work, span_s in shared)
            heard_s = sum(span_s for work, span_s in shared if work.kind in _LISTENING)
            self._listening_s = max(0.0, self._listening_s - heard_s)
            hit = record.speculation.hit
            (self._hit if hit else self._miss).learn(path_s, shared_s, saved_s)
            self._hits_of += 1
            spread_s = max((timing.finished for _, timing, _ in own), default=begin) - begin
            self._spread_s += max(NEWEST_WEIGHT, 1.0 / self._hits_of) * (spread_s - self._spread_s)
            self._hit_rate += max(NEWEST_WEIGHT, 1.0 / self._hits_of) * (hit - self._hit_rate)
        while chunks and chunks[0][0].turn <= record.turn:
            chunks.popleft()

    def on_session_time(self, seconds: float) -> None:
        """So much of it has passed: two sessions pass two seconds in one."""
        fade = exp(-seconds / MEMORY_S)
        self._session_s = self._session_s * fade + seconds
        self._turns *= fade
        self._needed_s *= fade
        self._listening_s *= fade
        self._ears_s *= fade

    def on_left(self, session: str) -> None:
        """A chunk of it that still runs is not kept."""
        self._chunks.pop(session, None)

    def snapshot(self) -> DemandSnapshot:
        return DemandSnapshot(
            turns_hz=self._turns / self._session_s,
            share=self._needed_s / self._session_s,
            listening_share=self._listening_s / self._session_s,
            ears_share=self._ears_s / self._session_s,
            hit_rate=self._hit_rate,
            hit=self._hit.snapshot(),
            miss=self._miss.snapshot(),
            blocking_s=max(self._blocking),
            turns=self._seen,
            spread_s=self._spread_s,
        )


def shared_kinds(placement: Mapping[WorkKind, str], lanes: Mapping[str, int]) -> frozenset[WorkKind]:
    """Kinds of work on the lane that runs one chunk at a time and speaks."""
    lane = placement[WorkKind.SPEAK]
    return frozenset(kind for kind, name in placement.items() if name == lane and lanes[name] == 1)


def _saved(work: Work) -> float:
    """The share of a chunk that company saves."""
    return 1.0 - work.more_s / work.expected_s if 0.0 < work.more_s < work.expected_s else 0.0


def _begins_s(timings: Collection[Timing], begin: float, end: float) -> float:
    """From `begin` on until the first chunk was asked for that ran before `end`; 0 where there is none."""
    asked = [timing.queued for timing in timings if _overlap_s(timing, begin, end) > 0.0]
    return max(0.0, min(asked, default=begin) - begin)


def _overlap_s(timing: Timing, begin: float, end: float) -> float:
    return max(0.0, min(timing.finished, end) - max(timing.started, begin))
