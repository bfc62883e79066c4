"""Charts as SVG or PNG files. The extra `plot`: nothing else of the simulator needs a library that draws.

A picture is to be read without the text around it: the title is a sentence, axes have units, budgets are lines,
bands are 95 % intervals over seeds, and the legend lies beside the data and hides none of it. Who cannot see it is
told by the SVG's `title` and `desc` what it shows. The same rows give the same bytes of SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill, wrap
from typing import Any
from xml.sax.saxutils import escape

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from voicepipe.sim.experiment import Chart
from voicepipe.sim.plots import Places, legend, plot

FORMATS = (".svg", ".png")
SIZE_INCHES = (7.8, 4.3)
"""Of one chart, its legend included."""
LINE_INCHES = 0.17
"""Of a line of the names beside a chart that lies on its side."""
NAME_LETTERS = 44
TITLE_LETTERS = 72
LETTERS_ACROSS = 84
"""That fit side by side below the x axis."""
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


def save(charts: Sequence[Chart], path: Path, *, title: str = "", about: str = "") -> None:
    """Raises OSError. `path` ends in one of FORMATS. `title` and `about` are for those who are read an SVG aloud;
    without a title it is the first chart's."""
    drawn = BytesIO()
    with rc_context(STYLE):
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        draw(charts).savefig(drawn, format=path.suffix[1:], dpi=110, metadata=metadata)
    picture = drawn.getvalue()
    path.write_bytes(_described(picture, charts, title, about) if path.suffix == ".svg" else picture)


def draw(charts: Sequence[Chart]) -> Figure:
    """One below or beside the other. At least one."""
    columns = 1 if len(charts) == 1 else 2
    lines = [charts[at : at + columns] for at in range(0, len(charts), columns)]
    heights = [max(map(_height, line)) for line in lines]
    figure = Figure(figsize=(SIZE_INCHES[0] * columns, sum(heights)), layout="constrained", facecolor="white")
    names = dict.fromkeys(series.name for chart in charts for series in chart.series)
    places = {name: place for place, name in enumerate(names)}
    spots = list(figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights).flat)
    for axes, chart in zip(spots, charts, strict=False):
        _chart(axes, chart, places)
    for axes in spots[len(charts) :]:
        axes.set_axis_off()
    return figure


def _height(chart: Chart) -> float:
    """Inches."""
    if not chart.sideways:
        return SIZE_INCHES[1]
    most = max(len(wrap(name, NAME_LETTERS)) for name in chart.categories)
    return max(SIZE_INCHES[1], 1.2 + LINE_INCHES * (most + 0.5) * len(chart.categories))


def _chart(axes: Axes, chart: Chart, places: Places) -> None:
    axes.set_title(fill(chart.title, TITLE_LETTERS))
    axes.set_xlabel(chart.y if chart.sideways and not _has_spans(chart) else chart.x)
    axes.set_ylabel(fill(chart.x if chart.sideways and not _has_spans(chart) else chart.y, NAME_LETTERS))
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    plot(axes, chart, places)
    _name_places(axes, chart)
    above = [y for series in chart.series for y in series.ys if y > 0.0]
    if chart.log_y and above:  # a band that goes down to nothing would flatten all the rest
        axes.set_ylim(bottom=0.5 * min(above))
    if not chart.log_y and not chart.sideways and all(y >= 0.0 for series in chart.series for y in series.ys):
        axes.set_ylim(bottom=0.0)
    if entries := legend(chart, places):
        handles, names = zip(*entries, strict=True)
        axes.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _has_spans(chart: Chart) -> bool:
    return any(series.kind == "spans" for series in chart.series)


def _name_places(axes: Axes, chart: Chart) -> None:
    """Names of places are folded, so that they do not run into each other."""
    if not chart.categories:
        return
    places = range(len(chart.categories))
    if chart.sideways:
        axes.set_yticks(places, [fill(name, NAME_LETTERS) for name in chart.categories])
        axes.set_ylim(len(chart.categories) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        return
    letters = max(6, LETTERS_ACROSS // len(chart.categories) - 2)
    axes.set_xticks(places, [fill(name, letters) for name in chart.categories])
    axes.grid(axis="x", visible=False)


def _described(picture: bytes, charts: Sequence[Chart], title: str, about: str) -> bytes:
    """With a title and a description that a screen reader finds."""
    text = picture.decode()
    root = text.index("<svg ")
    inside = text.index(">", root) + 1
    told = " ".join([about, *map(_told, charts)] if about else map(_told, charts))
    names = f'<title id="title">{escape(title or charts[0].title)}</title>\n<desc id="desc">{escape(told)}</desc>'
    head = f'{text[:root]}<svg role="img" aria-labelledby="title desc" {text[root + 5 : inside]}'
    return f"{head}\n {names}{text[inside:]}".encode()


def _told(chart: Chart) -> str:
    """What a chart shows, in words."""
    series = ", ".join(series.name for series in chart.series)
    marks = f" Lines: {', '.join(mark.name for mark in chart.marks)}." if chart.marks else ""
    return f"Chart: {chart.title}. {chart.y}, by {chart.x}: {series}.{marks}"


__all__ = ["FORMATS", "draw", "save"]
