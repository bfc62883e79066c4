"""Series and marks as what is drawn of them: lines, points, stacks, bars that stand or lie, and spans of time.

Names are not written into the data: each series and each mark has its line in the legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from voicepipe.sim.experiment import Chart, Mark, Series

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
DASHES: Sequence[Any] = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Of marks, which are told apart by them where they belong to no series."""
LEGEND_LETTERS = 34
MANY_COLOURS = len(COLOURS)

Places = Mapping[str, int]
"""Of series, by name: a name keeps its colour on every chart of a picture."""


def plot(axes: Axes, chart: Chart, places: Places) -> None:
    """Everything but titles, axes and legend."""
    of_kind = {kind: [s for s in chart.series if s.kind == kind] for kind in ("stack", "bars", "spans")}
    if chart.categories and not chart.sideways:
        _columns(axes, of_kind["stack"], places)
    elif of_kind["stack"]:
        _areas(axes, of_kind["stack"], places)
    _bars(axes, of_kind["bars"], places, lie=chart.sideways)
    _spans(axes, of_kind["spans"], places)
    for series in (each for each in chart.series if each.kind in ("line", "points")):
        _line(axes, series, places[series.name])
    for mark, look in zip(chart.marks, _looks(chart.marks, places), strict=True):
        (axes.axhline if mark.axis == "y" else axes.axvline)(mark.value, **look)


def legend(chart: Chart, places: Places) -> list[tuple[Artist, str]]:
    """As it is read: series in the order in which they lie, then marks. A single series is what the y axis says."""
    series = chart.series[::-1] if any(each.kind == "stack" for each in chart.series) else chart.series
    found = [(_handle(each, places), each.name) for each in series if len(chart.series) > 1]
    for mark, look in zip(chart.marks, _looks(chart.marks, places), strict=True):
        found.append((Line2D([], [], **look), mark.name))
    return [(handle, fill(name, LEGEND_LETTERS)) for handle, name in found]


def _handle(series: Series, places: Places) -> Artist:
    style = _style(series.name, places[series.name])
    if series.kind in ("line", "points"):
        return Line2D([], [], **_line_style(series, places[series.name]), **style)
    return Patch(facecolor=style["color"])


def _looks(marks: Sequence[Mark], places: Places) -> list[dict[str, Any]]:
    """Of each mark its series' colour, or one that no series has; the dashes tell the marks apart."""
    looks = []
    for at, mark in enumerate(marks):
        colour = _style(mark.of, places[mark.of])["color"] if mark.of in places else MARK_COLOUR
        looks.append({"color": colour, "linestyle": DASHES[at % len(DASHES)], "linewidth": 1.3, "zorder": 1.5})
    return looks


def _style(name: str, place: int) -> dict[str, Any]:
    return {"color": OUTCOMES.get(name, COLOURS[place % len(COLOURS)])}


def _line_style(series: Series, place: int) -> dict[str, Any]:
    """Beyond the colours that there are, lines are dashed."""
    few = len(series.xs) <= 20 or series.kind == "points"
    solid = "-" if place < MANY_COLOURS else "--"
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 4.0 if few else 0.0,
        "linestyle": solid if series.kind == "line" else "none",
    }


def _line(axes: Axes, series: Series, place: int) -> None:
    """With its band; points, which are in no order, with a whisker each."""
    style = _style(series.name, place)
    axes.plot(series.xs, series.ys, **_line_style(series, place), **style)
    if not any(low < high for low, high in zip(series.lows, series.highs, strict=True)):
        return
    if series.kind == "points":
        axes.vlines(series.xs, series.lows, series.highs, alpha=0.4, linewidth=1.0, **style)
    else:
        axes.fill_between(series.xs, series.lows, series.highs, alpha=0.2, linewidth=0.0, **style)


def _areas(axes: Axes, of: Sequence[Series], places: Places) -> None:
    xs = _shared_xs(of)
    colours = [_style(series.name, places[series.name])["color"] for series in of]
    axes.stackplot(xs, *(series.ys for series in of), colors=colours)
    axes.margins(x=0.0)


def _columns(axes: Axes, of: Sequence[Series], places: Places) -> None:
    if not of:
        return
    xs = _shared_xs(of)
    below = [0.0] * len(xs)
    for series in of:
        axes.bar(xs, series.ys, 0.7, bottom=below, **_style(series.name, places[series.name]))
        below = [low + y for low, y in zip(below, series.ys, strict=True)]


def _shared_xs(of: Sequence[Series]) -> tuple[float, ...]:
    xs = of[0].xs
    assert all(series.xs == xs for series in of), "what is stacked has the same x"
    return xs


def _bars(axes: Axes, of: Sequence[Series], places: Places, *, lie: bool) -> None:
    """Beside each other around their place; intervals as whiskers."""
    wide = 0.8 / max(1, len(of))
    for at, series in enumerate(of):
        off = (at - 0.5 * (len(of) - 1)) * wide
        spots = [x + off for x in series.xs]
        (axes.barh if lie else axes.bar)(spots, series.ys, wide, **_style(series.name, places[series.name]))
        if series.lows:
            below = [max(0.0, y - low) for y, low in zip(series.ys, series.lows, strict=True)]
            above = [max(0.0, high - y) for y, high in zip(series.ys, series.highs, strict=True)]
            whiskers: dict[str, Any] = {"linestyle": "none", "color": "#222222", "capsize": 2.0}
            if lie:
                axes.errorbar(series.ys, spots, xerr=(below, above), **whiskers)
            else:
                axes.errorbar(spots, series.ys, yerr=(below, above), **whiskers)


def _spans(axes: Axes, of: Sequence[Series], places: Places) -> None:
    """A thin white edge tells one chunk from the next."""
    for series in of:
        lengths = [high - low for low, high in zip(series.lows, series.highs, strict=True)]
        style = _style(series.name, places[series.name])
        axes.barh(series.ys, lengths, 0.6, left=series.lows, edgecolor="white", linewidth=0.3, **style)
