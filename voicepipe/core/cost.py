"""What a chunk will take: its mean, and a bound that about one chunk in a hundred exceeds.

Per key, the mean is a line over units and context (`core.line`). The tail is r, the ratio of actual to mean; its
upper quantile q is followed by online conformal tracking (Gibbs and Candès, 2021),
`log q <- log q + eta * (1[r > q] - a)`, which holds the share of misses at `a` in the long run whatever the
distribution is, and through drift; eta is scale-free (Orabona and Pál, 2018; for conformal prediction Bhatnagar et
al., 2023): a constant over the root of the summed squares of what stands in brackets. What is followed is also
checked: every bound in force is compared with what came, and where the last 1,000 say that it is too low by three
sigma, it is widened at once.

A component without time: nothing in here depends on when it happens, so there is no `now` and no deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import exp, inf, log, sqrt
from typing import Any

from voicepipe.core.events import WorkKind
from voicepipe.core.line import Line, numbers, positive

MISS_RATE = 0.01
"""The share of chunks that may take longer than their bound, for planning."""
PROFILE_MARGIN = 1.5
"""Times the mean: the first bound, before anything is known of the tail."""
STEP, LEAST_STEP = 0.5, 0.05
"""The first step of the tracked quantile's logarithm, falling with the root of the misses seen, and the least, with
which it follows drift."""
CHECKED_CHUNKS = 1000
SIGMAS = 3.0
WIDENING = 1.25
DUMP_VERSION = 2


@dataclass(frozen=True, slots=True)
class CostKey:
    """What is fitted together."""

    kind: WorkKind
    model: str
    device: str
    variant: str = ""
    """"prefill", "decode", "cold-decode" or "batch" of a WARM or THINK, "first" or "later" piece of a SPEAK,
    "recheck" of a FINAL; else ""."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much a chunk has to do; known before it runs. Neither is negative.

    Units: HEAR frames; PARTIAL and FINAL seconds of audio in the window; WARM and THINK tokens to read, or to
    decode; SPEAK characters of the clause for its first piece, samples for later ones.
    """

    units: float
    context: float = 0.0
    """Tokens that the model attends to, where that matters."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One chunk of a warm-up sweep."""

    key: CostKey
    size: Size
    service_s: float


@dataclass(frozen=True, slots=True)
class KeyCost:
    n: int
    """Chunks learnt from, those of the warm-up and of a loaded calibration included."""
    coverage: float | None
    """Share of the last 1,000 chunks that kept to the bound they had been given; None before the first."""
    q: float
    """The bound now in force, in means."""
    base_s: float
    per_unit_s: float
    per_context_s: float
    widened: int
    """How often the bound was found too low, and widened."""


@dataclass(frozen=True, slots=True)
class CostSnapshot:
    keys: dict[CostKey, KeyCost]


class CostModel:
    """Costs of every key that a chunk has been seen of. `mean_s` and `bound_s` are None for others."""

    def __init__(self, *, miss_rate: float = MISS_RATE) -> None:
        assert 0.0 < miss_rate < 0.5
        self._miss_rate = miss_rate
        self._costs: dict[CostKey, _Cost] = {}

    def seed(self, samples: Iterable[Sample]) -> None:
        """Learn from a warm-up sweep. A key that is known already begins anew; the first, cold inference of a
        model is best left out."""
        by_key: dict[CostKey, list[tuple[Size, float]]] = {}
        for sample in samples:
            _check(sample.size, sample.service_s)
            by_key.setdefault(sample.key, []).append((sample.size, sample.service_s))
        for key, seen in by_key.items():
            mean = Line.fitted([(size.units, size.context, service_s) for size, service_s in seen])
            tail = _Tail(self._miss_rate)
            for size, service_s in seen:
                tail.learn(service_s / mean.at(size.units, size.context))
            self._costs[key] = _Cost(mean, tail)

    def on_chunk(self, key: CostKey, size: Size, service_s: float) -> None:
        """A chunk of this size took `service_s`."""
        cost = self._costs.get(key)
        if cost is None:
            self.seed([Sample(key, size, service_s)])
            return
        _check(size, service_s)
        cost.tail.judge(service_s / cost.mean.at(size.units, size.context))
        cost.mean.fit(size.units, size.context, service_s)

    def on_censored(self, key: CostKey, size: Size, at_least_s: float) -> None:
        """A chunk was cut off after `at_least_s`. Where that exceeds its bound, the bound was too low; else nothing
        follows from it, and nothing at all where the key is not known."""
        _check(size, at_least_s)
        bound_s = self.bound_s(key, size)
        if bound_s is not None and at_least_s > bound_s:
            cost = self._costs[key]
            cost.tail.judge(at_least_s / cost.mean.at(size.units, size.context))
            cost.mean.fit(size.units, size.context, at_least_s, censored=True)

    def mean_s(self, key: CostKey, size: Size) -> float | None:
        """Positive."""
        cost = self._costs.get(key)
        return None if cost is None else cost.mean.at(size.units, size.context)

    def bound_s(self, key: CostKey, size: Size) -> float | None:
        """Never below the mean."""
        cost = self._costs.get(key)
        return None if cost is None else cost.mean.at(size.units, size.context) * cost.tail.ratio

    def mean_and_bound_s(self, key: CostKey, size: Size) -> tuple[float, float] | None:
        """Both of them."""
        cost = self._costs.get(key)
        if cost is None:
            return None
        mean_s = cost.mean.at(size.units, size.context)
        return mean_s, mean_s * cost.tail.ratio

    def more_s(self, key: CostKey, size: Size) -> float | None:
        """What a chunk of the key takes longer for so much more to do."""
        cost = self._costs.get(key)
        if cost is None:
            return None
        _, per_unit_s, per_context_s = cost.mean.coefficients()
        return max(0.0, per_unit_s * size.units + per_context_s * size.context)

    def cost(self, key: CostKey) -> KeyCost | None:
        cost = self._costs.get(key)
        return None if cost is None else cost.snapshot()

    def snapshot(self) -> CostSnapshot:
        return CostSnapshot({key: cost.snapshot() for key, cost in self._costs.items()})

    def dump(self) -> dict[str, Any]:
        """What has been learnt, as plain lists, dicts, strings and numbers."""
        keys = [
            {**asdict(key), "kind": key.kind.value, "mean": cost.mean.dump(), "tail": cost.tail.dump()}
            for key, cost in self._costs.items()
        ]
        return {"version": DUMP_VERSION, "miss_rate": self._miss_rate, "keys": keys}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Go on from a `dump` of the same miss rate; keys that it holds replace ours. How well bounds were kept
        begins to be counted anew. Raises ValueError, and then changes nothing."""
        try:
            if (dumped["version"], dumped["miss_rate"]) != (DUMP_VERSION, self._miss_rate):
                raise ValueError("a calibration of another version, or for another miss rate")
            loaded = {
                CostKey(WorkKind(entry["kind"]), entry["model"], entry["device"], entry["variant"]): _Cost(
                    Line.load(entry["mean"]), _Tail.load(entry["tail"], self._miss_rate)
                )
                for entry in dumped["keys"]
            }
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a calibration: {error!r}") from error
        self._costs |= loaded


def _check(size: Size, service_s: float) -> None:
    assert 0.0 <= size.units < inf and 0.0 <= size.context < inf and 0.0 <= service_s < inf, (size, service_s)


class _Tail:
    """The upper quantile q of r = actual / mean, followed in its logarithm.

    The step falls with the root of the misses seen, not of the chunks: that is what makes the first misses of a
    key, of which the sweep has shown too little, count for much, and those of a tail that is known for little. How
    far r lay above q does not matter at all, so that a stall of the machine is one miss like any other.
    """

    def __init__(self, miss_rate: float) -> None:
        self._miss_rate = miss_rate
        self._judged = _Counted(CHECKED_CHUNKS)
        self._since_widened = _Counted(CHECKED_CHUNKS)
        self._log = log(PROFILE_MARGIN)
        self.ratio = exp(self._log)
        """The bound in force, in means; at least 1."""
        self._gradients = 0.0
        """Sum of their squares since the start or the last widening: hardly more than the misses."""
        self.n = 0
        self.widened = 0

    def _become(self, logarithm: float) -> None:
        self._log, self.ratio = logarithm, exp(logarithm)

    def learn(self, r: float) -> None:
        """A ratio for which there was no bound."""
        self.n += 1
        gradient = (r > self.ratio) - self._miss_rate
        self._gradients += gradient**2
        step = max(LEAST_STEP, STEP / sqrt(max(self._gradients, 1.0)))
        self._become(max(0.0, self._log + step * gradient))

    def judge(self, r: float) -> None:
        """A ratio for which `ratio` was the bound."""
        missed = r > self.ratio
        self._judged.append(missed)
        self._since_widened.append(missed)
        self.learn(r)
        if self._since_widened.true > _most_misses(self._miss_rate):
            self._become(self._log + log(WIDENING))
            self._since_widened = _Counted(CHECKED_CHUNKS)
            self._gradients = 0.0
            self.widened += 1

    @property
    def coverage(self) -> float | None:
        judged = len(self._judged)
        return 1.0 - self._judged.true / judged if judged else None

    def dump(self) -> dict[str, Any]:
        return {"n": self.n, "log": self._log, "gradients": self._gradients}

    @classmethod
    def load(cls, dumped: Mapping[str, Any], miss_rate: float) -> _Tail:
        tail = cls(miss_rate)
        tail.n = round(positive(dumped["n"]))
        logarithm, tail._gradients = numbers([dumped["log"], dumped["gradients"]])
        if logarithm < 0.0 or tail._gradients < 0.0:
            raise ValueError("a bound below the mean, or a sum of squares below 0")
        tail._become(logarithm)
        return tail


class _Counted:
    """The newest `size` truths, and how many of them are true."""

    def __init__(self, size: int) -> None:
        self._newest: deque[bool] = deque(maxlen=size)
        self.true = 0

    def __len__(self) -> int:
        return len(self._newest)

    def append(self, truth: bool) -> None:
        if len(self._newest) == self._newest.maxlen:
            self.true -= self._newest[0]
        self._newest.append(truth)
        self.true += truth


@dataclass(frozen=True, slots=True)
class _Cost:
    mean: Line
    tail: _Tail

    def snapshot(self) -> KeyCost:
        base_s, per_unit_s, per_context_s = self.mean.coefficients()
        tail = self.tail
        return KeyCost(tail.n, tail.coverage, tail.ratio, base_s, per_unit_s, per_context_s, tail.widened)


def _most_misses(miss_rate: float) -> float:
    """Three sigma above what is to be expected of `CHECKED_CHUNKS`."""
    return CHECKED_CHUNKS * miss_rate + SIGMAS * sqrt(CHECKED_CHUNKS * miss_rate * (1.0 - miss_rate))
