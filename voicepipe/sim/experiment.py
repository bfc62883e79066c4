"""What an experiment is, as data: points that are varied, a run of one point with one seed, charts of the rows.

An experiment is a question. Its points are run with several seeds each, wherever there is a core free (`run` is a
function of a module, so that it can be sent to another process), and what they measured becomes rows: of each
point, and of each measure, the mean and a 95 % interval over the seeds. Charts are data too, so that nothing here
needs a library that draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from voicepipe.sim.service import Need

Value = str | float | int | None
Point = Mapping[str, str | float]
"""What is varied, by name: `{"arm": "dedicated", "load": 1.2}`. Names and values are a row's first columns."""
Measured = Mapping[str, float | None]
"""What one run of a point has measured, by name with its unit: `{"system_p95_ms": 131.0}`. None: nothing was."""
Row = dict[str, Value]
"""A point, and of each measure its mean over the seeds; `NAME_low` and `NAME_high` where they differ; `seeds`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked of every experiment alike."""

    full: bool = False
    """More points and longer runs, for figures that are kept."""
    service: str = "gpu"
    """Where chunks take their time from: a model of service times by name, or the path of a calibrated one."""
    shapes: str = ""
    """Path of a TOML file with shapes of work, instead of those that come along (`fleet`); "" for none."""
    trace: str = ""
    """Path of a file with arrivals, a JSON object a line, instead of those made by chance (`fleet`)."""


Kind = Literal["line", "points", "stack", "bars", "spans"]


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    """A band of confidence; none where they are empty."""
    kind: Kind = "line"
    """`stack` and `bars` share the x of the others of their kind, side by side or one on the other. `spans` last
    from `lows` to `highs`, and `ys` are the places that they lie in."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the chart: a budget, a knee, what was promised."""

    axis: Literal["x", "y"]
    value: float
    name: str
    of: str = ""
    """The series that it belongs to, whose colour it has; "" for none."""


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    """What it shows, as a sentence that can be read without the text around it."""
    x: str
    """Name of the axis, with its unit."""
    y: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False
    log_y: bool = False
    categories: tuple[str, ...] = ()
    """Names of the places 0, 1, 2, ... on the x axis, instead of numbers."""
    sideways: bool = False
    """The places are on the y axis, from the top down, and bars lie; so do spans."""


Input = Literal["service", "shapes", "trace"]
"""Fields of a setting that name files."""


def no_more(seed: int, setting: Setting) -> Sequence[Chart]:
    """The rows say all."""
    return ()


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    question: str
    """One line, for the list."""
    explanation: str
    """A paragraph: what is varied and measured, and how the picture is read."""
    points: Callable[[Setting], Sequence[Point]]
    run: Callable[[Point, int, Setting], Measured]
    """(point, seed, setting); the same arguments give the same measures."""
    charts: Callable[[Sequence[Row]], Sequence[Chart]]
    seeds: int = 5
    service: str = Setting().service
    """Where chunks take their time from, unless somebody says so."""
    reads: frozenset[Input] = frozenset()
    """What of a setting it makes use of; whatever else is asked for is refused."""
    needs: tuple[Need, ...] = ()
    """Chunks that a service model must have costs of."""
    shown: Callable[[int, Setting], Sequence[Chart]] = no_more
    """(seed, setting): further charts, of a run that is shown as it was, and not measured."""

    def __post_init__(self) -> None:
        assert self.reads <= set(get_args(Input)), self.name


def series_of(rows: Sequence[Row], by: str, x: str, y: str, kind: Kind = "line") -> tuple[Series, ...]:
    """One series for each value of `by`, in the order of the rows; rows without a `y` are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row[y] is not None:
            found.setdefault(str(row[by]), []).append(row)

    def column(of: Sequence[Row], name: str) -> tuple[float, ...]:
        return tuple(float(row.get(name, row[y])) for row in of)  # type: ignore[arg-type]

    return tuple(
        Series(name, column(of, x), column(of, y), column(of, f"{y}_low"), column(of, f"{y}_high"), kind)
        for name, of in found.items()
    )


def crossing(xs: Sequence[float], ys: Sequence[float], level: float) -> float | None:
    """Where a line that is given by its points first reaches `level` from below; None where it does not."""
    for (left, low), (right, high) in pairwise(zip(xs, ys, strict=True)):
        if low < level <= high:
            return left + (right - left) * (level - low) / (high - low)
    return None
