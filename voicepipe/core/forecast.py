"""What a chunk will take, and what a turn still has before it until its first content is at the socket.

One `Forecaster` belongs to a device and is asked by all of its sessions. Single chunks are priced by the cost
model (`core.cost`). The way of a reply, from its prompt to its first audio, has three parts: reading (all steps up
to the first token), thinking (the steps after it, up to the first clause) and speaking (the clause's first audio).
What the first two typically take is learnt from replies: their service, exponentially smoothed. How much there is
to read varies with how much has been read ahead, and how many steps a clause takes with its words; both vary far
more than the cost of one step, so that their sum is what is smoothed, and not a step. A reply that was dropped on
its way, or whose clause was cut short, teaches only where it has taken longer than expected. The warm-up gives the
first values.

No part of a way is predicted below 0: whoever takes longer than is typical is expected to be done with the next
chunk. Turns do not ask a `Forecaster`, which changes with what other sessions do: they are told an `Outlook`, so
that what they decide depends on what they were told and on nothing else. A component without time, and without
engines: a simulator prices its chunks by the same class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from voicepipe.core.batches import BATCH
from voicepipe.core.cost import CostKey, CostModel, CostSnapshot, Sample, Size
from voicepipe.core.events import Load, Offer, Way, Work, WorkKind

NEWEST_WEIGHT = 0.1
"""Weight of the newest reply, and of the newest size, in what is typical: some twenty count."""

_PRICED_AS = {WorkKind.WARM: WorkKind.THINK}
"""Reading ahead is a reply's reading: one fit for both."""
DECODE, COLD_DECODE = "decode", "cold-decode"
"""A decode step that comes right behind the one before it finds its weights where they were; after a chunk of
another engine, or for another session, it takes a quarter longer at the median and twice as long at 99 %. Which of
them it will be can be told when it is submitted: by whether others wait for the lane."""
_NOWHERE: Mapping[WorkKind, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measured:
    """One chunk of a warm-up."""

    kind: WorkKind
    load: Load
    service_s: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is typical on a device: all that the decisions of a turn depend on, as plain values. Seconds of service,
    0 where nothing is known."""

    final_bound_s: float = 0.0
    """Of a final decode, whatever it finds to do."""
    reading_s: float = 0.0
    thinking_s: float = 0.0
    audio_s: float = 0.0
    """Mean of a first clause's first audio."""
    audio_base_s: float = 0.0
    audio_per_character_s: float = 0.0
    """The same for a clause whose length is known: `audio_base_s`, and this for each character."""
    audio_ratio: float = 1.0
    """Its bound, in means."""
    prefill_margin_s: float = 0.0
    decode_margin_s: float = 0.0
    """Bound - mean of a step that reads, and of one that decodes."""

    @property
    def clause_s(self) -> float:
        """Mean service from the prompt to the first clause."""
        return self.reading_s + self.thinking_s

    def left_s(self, way: Way) -> float:
        """Mean service from here to the first audio."""
        if way.has_audio:
            return 0.0
        if way.clause_characters is not None:
            return max(0.0, self.audio_base_s + self.audio_per_character_s * way.clause_characters)
        reading_s = 0.0 if way.has_token else max(0.0, self.reading_s - way.read_s)
        return reading_s + max(0.0, self.thinking_s - way.thought_s) + self.audio_s

    def needed_s(self, way: Way, *, final: bool = False) -> float:
        """How long before the deadline the next chunk must begin: its bound, and the mean of what must follow it.
        `final`: that next chunk is a final decode."""
        if way.has_audio:
            return 0.0
        if final:
            return self.final_bound_s + self.left_s(way)
        if way.clause_characters is not None:
            return self.left_s(way) * self.audio_ratio
        return self.left_s(way) + (self.decode_margin_s if way.has_token else self.prefill_margin_s)


@dataclass(frozen=True, slots=True)
class ForecastSnapshot:
    costs: CostSnapshot
    outlook: Outlook


class _Typical:
    """An exponentially smoothed value; 0 before the first."""

    def __init__(self) -> None:
        self.value = 0.0
        self._known = False

    def learn(self, value: float) -> None:
        self.value += (NEWEST_WEIGHT if self._known else 1.0) * (value - self.value)
        self._known = True

    def learn_at_least(self, value: float) -> None:
        """It would have been more than this."""
        if value > self.value:
            self.learn(value)


class Forecaster:
    def __init__(self, lanes: Mapping[WorkKind, str] = _NOWHERE, costs: CostModel | None = None) -> None:
        """`lanes` names the lane of each kind of work: what runs beside each other is fitted apart. `costs` may
        bring a calibration."""
        self._lanes = dict(lanes)
        self._costs = costs or CostModel()
        self._reading, self._thinking = _Typical(), _Typical()
        self._keys: dict[tuple[WorkKind, str, str], CostKey] = {}
        """By kind, model and variant."""
        self._sizes: dict[tuple[WorkKind, str], tuple[CostKey, Size]] = {}
        """Of each kind and variant: the key it was last seen with, and the typical size."""

    # learning

    def seed(self, chunks: Iterable[Measured], ways: Iterable[Way] = ()) -> None:
        """From a warm-up. Keys that are known already begin anew."""
        samples = []
        for chunk in chunks:
            key, size = self.key(chunk.kind, chunk.load), _size(chunk.load)
            samples.append(Sample(key, size, chunk.service_s))
            if key.variant == DECODE:  # a warm-up has no cold ones: a first guess
                samples.append(Sample(replace(key, variant=COLD_DECODE), size, chunk.service_s))
            self._note_size(key, size)
        self._costs.seed(samples)
        for way in ways:
            self.on_way(way)

    def on_chunk(self, work: Work, service_s: float, *, whole: bool = True) -> None:
        """A chunk has run. Not `whole`: it was cut off or failed, and would have taken at least that long. A work
        that nobody has priced teaches nothing, and neither does one that had nothing to do: its microseconds are
        the hand-off's, and no bound on them is of use."""
        if work.load is None or not work.load.units:
            return
        key, size = self.key(work.kind, work.load), _size(work.load)
        if whole:
            self._costs.on_chunk(key, size, service_s)
            self._note_size(key, size)
        else:
            self._costs.on_censored(key, size, service_s)

    def on_way(self, way: Way) -> None:
        """A reply has come so far."""
        if way.has_token:
            self._reading.learn(way.read_s)
            (self._thinking.learn_at_least if way.cut else self._thinking.learn)(way.thought_s)
        else:
            self._reading.learn_at_least(way.read_s)

    # asking

    def key(self, kind: WorkKind, load: Load) -> CostKey:
        place = (kind, load.model, load.variant)
        key = self._keys.get(place)
        if key is None:
            kind = _PRICED_AS.get(kind, kind)
            key = self._keys[place] = CostKey(kind, load.model, self._lanes.get(kind, ""), load.variant)
        return key

    def price(self, work: Work, load: Load, way: Way | None = None, *, others_wait: bool = False) -> Work:
        """The work with its load, its bound (0 while nothing of its key is known) and what must follow it. `way`:
        of the reply that a THINK belongs to, where that has no clause yet. `others_wait`: for the same lane."""
        if others_wait and load.variant == DECODE:
            load = replace(load, variant=COLD_DECODE)
        mean_s, bound_s = self._costs.mean_and_bound_s(self.key(work.kind, load), _size(load)) or (0.0, 0.0)
        more_s = self._more_s(work.kind, load) if load.batch > 1 else 0.0
        remaining_s = 0.0
        if work.kind is WorkKind.FINAL:
            remaining_s = self._ways().left_s(Way())
        elif work.kind is WorkKind.THINK and way is not None:
            remaining_s = self._ways().left_s(way.after(mean_s))
        return work.priced(load, bound_s, mean_s, remaining_s, more_s)

    def mean_s(self, kind: WorkKind, load: Load) -> float | None:
        """What such a chunk is expected to take; None while nothing of its key is known."""
        return self._costs.mean_s(self.key(kind, load), _size(load))

    def offer(self, work: Work, sizes: Sequence[Load], start: int, longest_s: float) -> Work:
        """The work in the smallest of `sizes` (ascending), and as larger ones those of the others whose bound is
        known and at most `longest_s`. While nothing is known of the smallest, it has the one numbered `start` and
        no other."""
        priced = [Offer(load, self._costs.bound_s(self.key(work.kind, load), _size(load)) or 0.0) for load in sizes]
        if not priced[0].bound_s:
            return replace(work, load=sizes[start], bound_s=0.0)
        larger = tuple(offer for offer in priced[1:] if 0 < offer.bound_s <= longest_s)
        return replace(work, load=sizes[0], bound_s=priced[0].bound_s, larger=larger)

    def outlook(self) -> Outlook:
        """What a turn that begins now is told."""
        first = self._sizes.get((WorkKind.SPEAK, "first"))
        audio = None if first is None else self._costs.cost(first[0])
        finals = (self._bound_s(*place) for place in self._sizes if place[0] is WorkKind.FINAL)
        think = WorkKind.THINK
        return Outlook(
            final_bound_s=max(finals, default=0.0),
            reading_s=self._reading.value,
            thinking_s=self._thinking.value,
            audio_s=self._mean_s(WorkKind.SPEAK, "first"),
            audio_base_s=0.0 if audio is None else audio.base_s,
            audio_per_character_s=0.0 if audio is None else audio.per_unit_s,
            audio_ratio=1.0 if audio is None else audio.q,
            prefill_margin_s=self._bound_s(think, "prefill") - self._mean_s(think, "prefill"),
            decode_margin_s=self._bound_s(think, "decode") - self._mean_s(think, "decode"),
        )

    def snapshot(self) -> ForecastSnapshot:
        return ForecastSnapshot(self._costs.snapshot(), self.outlook())

    # inner

    def _more_s(self, kind: WorkKind, load: Load) -> float:
        """By how much it makes a chunk longer that does its like too; 0 where nobody knows."""
        batches = self.key(kind, Load(load.model, 0.0, variant=BATCH))
        return self._costs.more_s(batches, _size(load)) or 0.0

    def _ways(self) -> Outlook:
        """The part of it that replies without a clause are priced by."""
        audio_s = self._mean_s(WorkKind.SPEAK, "first")
        return Outlook(reading_s=self._reading.value, thinking_s=self._thinking.value, audio_s=audio_s)

    def _note_size(self, key: CostKey, size: Size) -> None:
        place = (key.kind, key.variant)
        known = self._sizes.get(place)
        if known is not None and (known[0] is key or known[0] == key):
            old = known[1]
            units = old.units + NEWEST_WEIGHT * (size.units - old.units)
            size = Size(units, old.context + NEWEST_WEIGHT * (size.context - old.context))
        self._sizes[place] = (key, size)

    def _mean_s(self, kind: WorkKind, variant: str = "") -> float:
        """Of the typical size; 0 where nothing is known."""
        known = self._sizes.get((kind, variant))
        return 0.0 if known is None else self._costs.mean_s(*known) or 0.0

    def _bound_s(self, kind: WorkKind, variant: str = "") -> float:
        known = self._sizes.get((kind, variant))
        return 0.0 if known is None else self._costs.bound_s(*known) or 0.0


def _size(load: Load) -> Size:
    return Size(load.units, load.context)
