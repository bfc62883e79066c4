"""Charts as SVG or PNG files. The extra `plot`: nothing else of the simulator needs a library that draws.

A picture is to be read without the text around it: the title is a sentence, axes have units, budgets are lines with
their names, bands are 95 % intervals over seeds, and the legend lies beside the data. The same rows give the same
bytes of SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from voicepipe.sim.experiment import Chart, Mark, Series

FORMATS = (".svg", ".png")
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#444444",
    "#999999",
    "#7a3e9d",
    "#a8a800",
)
"""Told apart by those who see few colours too (Okabe and Ito, 2008), and a few more."""
OUTCOMES = {
    "met": "#009e73",
    "degraded": "#8fd3b6",
    "masked": "#e69f00",
    "missed": "#b00020",
    "failed": "#5c0011",
    "refused": "#b0b0b0",
}
"""Of verdicts, wherever they are."""
MARKERS = "osD^vPX<>*"
MARK_COLOUR = "#b00020"
SIZE_INCHES = (7.4, 4.3)
"""Of one chart, its legend included."""
TITLE_LETTERS = 72
STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "voicepipe",
}


def save(charts: Sequence[Chart], path: Path) -> None:
    """Raises OSError. `path` ends in one of FORMATS."""
    with rc_context(STYLE):
        figure = draw(charts)
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=110, metadata=metadata)


def draw(charts: Sequence[Chart]) -> Figure:
    """One below or beside the other. At least one."""
    columns = 1 if len(charts) == 1 else 2
    lines = ceil(len(charts) / columns)
    width, height = SIZE_INCHES
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained", facecolor="white")
    names = dict.fromkeys(series.name for chart in charts for series in chart.series)
    places = {name: place for place, name in enumerate(names)}
    spots = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, chart in zip(spots, charts, strict=False):
        _chart(axes, chart, places)
    for axes in spots[len(charts) :]:
        axes.set_axis_off()
    return figure


def _chart(axes: Axes, chart: Chart, places: dict[str, int]) -> None:
    axes.set_title(fill(chart.title, TITLE_LETTERS))
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    of_kind = {kind: [s for s in chart.series if s.kind == kind] for kind in ("stack", "bars", "line", "points")}
    _stack(axes, of_kind["stack"], places, as_bars=bool(chart.categories))
    _bars(axes, of_kind["bars"], places)
    for series in chain(of_kind["line"], of_kind["points"]):
        _line(axes, series, places[series.name])
    if chart.categories:
        axes.set_xticks(range(len(chart.categories)), chart.categories)
        axes.grid(axis="x", visible=False)
    for line, mark in enumerate(sorted(chart.marks, key=lambda each: (each.axis, each.value))):
        _mark(axes, mark, line)
    above = [y for series in chart.series for y in series.ys if y > 0.0]
    if chart.log_y and above:  # a band that goes down to nothing would flatten all the rest
        axes.set_ylim(bottom=0.5 * min(above))
    if not chart.log_y and all(y >= 0.0 for series in chart.series for y in series.ys):
        axes.set_ylim(bottom=0.0)
    if len(chart.series) > 1:
        handles, labels = axes.get_legend_handles_labels()
        upside_down = slice(None, None, -1 if of_kind["stack"] else 1)  # as the stack lies
        axes.legend(handles[upside_down], labels[upside_down], loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _style(name: str, place: int) -> dict[str, Any]:
    return {"color": OUTCOMES.get(name, COLOURS[place % len(COLOURS)])}


def _line(axes: Axes, series: Series, place: int) -> None:
    marker, joined = MARKERS[place % len(MARKERS)], "-" if series.kind == "line" else "none"
    size = 4.0 if len(series.xs) <= 40 else 0.0
    if series.kind == "points":
        size = 4.0
    axes.plot(
        series.xs,
        series.ys,
        marker=marker,
        markersize=size,
        linestyle=joined,
        label=series.name,
        **_style(series.name, place),
    )
    if series.lows and any(low < high for low, high in zip(series.lows, series.highs, strict=True)):
        axes.fill_between(
            series.xs, series.lows, series.highs, alpha=0.2, linewidth=0.0, **_style(series.name, place)
        )


def _stack(axes: Axes, of: Sequence[Series], places: dict[str, int], *, as_bars: bool) -> None:
    if not of:
        return
    xs = of[0].xs
    assert all(series.xs == xs for series in of), "what is stacked has the same x"
    if not as_bars:
        colours = [_style(series.name, places[series.name])["color"] for series in of]
        axes.stackplot(xs, *(series.ys for series in of), labels=[series.name for series in of], colors=colours)
        axes.margins(x=0.0)
        return
    below = [0.0] * len(xs)
    for series in of:
        axes.bar(xs, series.ys, 0.7, bottom=below, label=series.name, **_style(series.name, places[series.name]))
        below = [low + y for low, y in zip(below, series.ys, strict=True)]


def _bars(axes: Axes, of: Sequence[Series], places: dict[str, int]) -> None:
    """Side by side around their x. Of one series with many places only one colour is used."""
    wide = 0.8 / max(1, len(of))
    for at, series in enumerate(of):
        off = (at - 0.5 * (len(of) - 1)) * wide
        xs = [x + off for x in series.xs]
        axes.bar(xs, series.ys, wide, label=series.name, **_style(series.name, places[series.name]))
        if series.lows:
            below = [max(0.0, y - low) for y, low in zip(series.ys, series.lows, strict=True)]
            above = [max(0.0, high - y) for y, high in zip(series.ys, series.highs, strict=True)]
            axes.errorbar(xs, series.ys, (below, above), linestyle="none", color="#222222", capsize=2.0)


def _mark(axes: Axes, mark: Mark, line: int) -> None:
    """The names of those that stand upright are written below each other, `line` after line, and towards the
    middle."""
    look: dict[str, Any] = {"color": MARK_COLOUR, "linestyle": "--", "linewidth": 1.2, "zorder": 1.5}
    text: dict[str, Any] = {
        "color": MARK_COLOUR,
        "fontsize": 8,
        "bbox": {"facecolor": "white", "alpha": 0.75, "pad": 1.0, "linewidth": 0.0},
    }
    if mark.axis == "y":
        axes.axhline(mark.value, **look)
        axes.annotate(
            mark.name,
            (0.99, mark.value),
            (0, 2),
            ("axes fraction", "data"),
            "offset points",
            ha="right",
            va="bottom",
            **text,
        )
    else:
        axes.axvline(mark.value, **look)
        across = axes.transAxes.inverted().transform(axes.transData.transform((mark.value, 1.0)))[0]
        is_right = across > 0.6
        axes.annotate(
            mark.name,
            (mark.value, 0.98 - 0.06 * line),
            (-3 if is_right else 3, 0),
            ("data", "axes fraction"),
            "offset points",
            ha="right" if is_right else "left",
            va="top",
            **text,
        )
