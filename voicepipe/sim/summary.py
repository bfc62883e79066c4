"""Figures of a run's requests. Percentiles are over all that were offered: who was refused has waited for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from voicepipe.sim.requests import Request
from voicepipe.sim.statistics import finite, percentile


def quantile(values: Iterable[float | None], share: float) -> float | None:
    """The least value that so many are not above; None stands for ever. None where that is it, or nothing is."""
    return finite(percentile([inf if value is None else value for value in values], share))


def mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def warm(requests: Iterable[Request], from_s: float) -> list[Request]:
    """Those that have arrived then or later: what began with empty devices is left out."""
    return [request for request in requests if request.arrived_s >= from_s]


def hit_rate(requests: Sequence[Request]) -> float | None:
    """Tokens of prompts that were in memory already, by all of them."""
    begun = [request for request in requests if request.started_s is not None]
    offered = sum(request.prompt_tokens for request in begun)
    return sum(request.cached_tokens for request in begun) / offered if offered else None
