"""What `turn_latency.py` printed, read back and made points of a curve."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

import msgspec
from curve import Series


class Median(msgspec.Struct, frozen=True):
    p50: float | None
    """Milliseconds; None where half of the turns or more had no answer."""


class LivePoint(msgspec.Struct, frozen=True):
    """The fields of a summary that are drawn."""

    operating_point: str
    false_cutoff_rate: float | None
    """None where the set had no pauses."""
    felt_ms: Median
    commit_ms: Median


def read_points(path: str) -> tuple[LivePoint, ...]:
    """From the last line of the file. Raises ArgumentTypeError, for a command line's sake."""
    try:
        lines = Path(path).read_text("utf-8").strip().splitlines()
        summary = json.loads(lines[-1])["summary"]
        return tuple(msgspec.convert(summary.get("points", [summary]), list[LivePoint]))
    except OSError as error:
        raise ArgumentTypeError(f"{path}: {error.strerror}") from None
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ArgumentTypeError(f"{path} does not end with a summary of turn_latency.py ({error})") from None


def live_series(points: Sequence[LivePoint]) -> list[Series]:
    """Commit and first sound over false cutoffs; a point without one of them is left out."""
    names = {"live: commit": "commit_ms", "live: first sound": "felt_ms"}
    series = []
    for name, field in names.items():
        places = tuple(
            (median, 100 * point.false_cutoff_rate, point.operating_point)
            for point in points
            if (median := getattr(point, field).p50) is not None and point.false_cutoff_rate is not None
        )
        if places:
            series.append(Series(name, places))
    return series
