"""One reading of a server's metrics, and what changed between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from prometheus_client.parser import text_string_to_metric_families

from voicepipe.errors import ServerUnreachable

Labels = frozenset[tuple[str, str]]
Series = Mapping[str, Mapping[Labels, float]]
"""By name, then by labels."""


@dataclass(frozen=True, slots=True)
class Scrape:
    at: float
    """When it was read; seconds of the reader's monotonic clock."""
    series: Series

    def value(self, name: str, **labels: str) -> float | None:
        """Of the first series that has these labels; None where there is none."""
        wanted = set(labels.items())
        return next((value for own, value in self._of(name).items() if wanted <= own), None)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums over all other labels, in the order in which the server has them."""
        sums: dict[str, float] = {}
        for own, value in self._of(name).items():
            key = dict(own).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def total(self, name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(value for own, value in self._of(name).items() if wanted <= own)

    def label(self, name: str, label: str) -> str:
        """What the first series has there; "" where there is none."""
        return next((dict(own).get(label, "") for own in self._of(name)), "")

    def labelled(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Of each series, by the values of these labels."""
        return {tuple(dict(own).get(label, "") for label in labels): value for own, value in self._of(name).items()}

    def quantile(self, name: str, q: float) -> float | None:
        """Of a histogram, within its bucket as Prometheus has it: on a line from its lower to its upper end; the
        end of the last finite one for what is beyond. None where nothing was observed."""
        counts = self.by(f"{name}_bucket", "le")
        bounds = sorted((float(bound), count) for bound, count in counts.items())
        total = bounds[-1][1] if bounds else 0.0
        if total <= 0.0:
            return None
        rank = q * total
        for (low, before), (high, upto) in pairwise([(0.0, 0.0), *bounds]):
            if upto >= rank and upto > before:
                return low if high == inf else low + (high - low) * (rank - before) / (upto - before)
        raise AssertionError("a histogram's counts do not fall")

    def mean(self, name: str) -> float | None:
        count = self.total(f"{name}_count")
        return self.total(f"{name}_sum") / count if count > 0.0 else None

    def since(self, before: Scrape) -> Scrape:
        """What was counted after `before`: counters and histograms less what they were then; gauges are what they
        are. Where one is less than it was, the server is another one, and all of it is new."""
        changed: dict[str, dict[Labels, float]] = {}
        for name, values in self.series.items():
            old = before.series.get(name, {}) if _counts(name) else {}
            changed[name] = {
                labels: value - old.get(labels, 0.0) if value >= old.get(labels, 0.0) else value
                for labels, value in values.items()
            }
        return Scrape(self.at, changed)

    def _of(self, name: str) -> Mapping[Labels, float]:
        return self.series.get(name, {})


def _counts(name: str) -> bool:
    return name.endswith(("_total", "_bucket", "_count", "_sum"))


def read(text: str, at: float) -> Scrape:
    """Raises ServerUnreachable where these are no metrics of voicepipe."""
    series: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = float(sample.value)
    except ValueError:
        series.clear()
    if "voicepipe_turns_total" not in series:
        raise ServerUnreachable("what answers there is no voicepipe server: it has other metrics, or none")
    return Scrape(at, series)
