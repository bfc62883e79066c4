"""Pictures that can be read, and that are the same bytes each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from matplotlib import rc_context
from matplotlib.transforms import Bbox

from voicepipe.sim.experiment import Chart, Mark, Series
from voicepipe.sim.pictures import STYLE, draw, save

LINES = Chart(
    "A dedicated pool keeps the budget whatever else is asked for",
    "background, requests per second",
    "system gap, p95, ms",
    (
        Series("dedicated", (0.0, 1.0, 2.0), (90.0, 91.0, 92.0), (88.0, 89.0, 90.0), (92.0, 93.0, 94.0)),
        Series("shared", (0.0, 1.0, 2.0), (90.0, 400.0, 1200.0)),
        Series("runs", (0.5, 1.5), (80.0, 100.0), kind="points"),
    ),
    (Mark("y", 200.0, "budget 200 ms"), Mark("x", 1.0, "knee")),
)
STACK = Chart(
    "Where turns go as load grows",
    "load",
    "share of turns",
    (
        Series("met", (0.5, 1.0, 2.0), (1.0, 0.9, 0.5), kind="stack"),
        Series("refused", (0.5, 1.0, 2.0), (0.0, 0.1, 0.5), kind="stack"),
    ),
)
BARS = Chart(
    "What each costs",
    "arm",
    "GPU seconds",
    (
        Series("a", (0.0, 1.0), (1.0, 2.0), (0.5, 1.5), (1.5, 2.5), kind="bars"),
        Series("b", (0.0, 1.0), (3.0, 4.0), kind="bars"),
    ),
    categories=("hold", "evict"),
)
SVG = "{http://www.w3.org/2000/svg}"
LOGS = Chart(
    "On two logarithmic axes", "s", "ms", (Series("a", (1.0, 10.0), (1.0, 100.0)),), log_x=True, log_y=True
)


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return ["".join(node.itertext()).strip() for node in tree.iter(f"{SVG}text")]


def test_it_can_be_read_without_the_text_around_it(tmp_path: Path) -> None:
    """Title, axes with their units, the names of lines and marks, and of places that are no numbers."""
    save([LINES, STACK, BARS], tmp_path / "a.svg")
    written = " ".join(texts(tmp_path / "a.svg"))
    for chart in (LINES, STACK, BARS):
        for text in (*chart.title.split(), chart.x, chart.y, *chart.categories):
            assert text in written, text
        for named in (*chart.series, *chart.marks):
            assert named.name in written


def test_who_cannot_see_it_is_told_what_it_shows(tmp_path: Path) -> None:
    """A title and a description of the whole picture, which its root element refers to."""
    save([LINES, BARS], tmp_path / "a.svg", title="isolation: what < that?", about="Read it & see.")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    title, about = root[0], root[1]
    assert title.tag == f"{SVG}title" and title.text == "isolation: what < that?"
    assert about.tag == f"{SVG}desc" and about.text is not None and about.text.startswith("Read it & see.")
    for text in (LINES.title, LINES.x, LINES.y, "dedicated, shared, runs", "budget 200 ms", BARS.title):
        assert text in about.text
    assert root.get("role") == "img" and root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"
    save([LINES], tmp_path / "b.svg")
    assert ElementTree.parse(tmp_path / "b.svg").getroot()[0].text == LINES.title


def test_the_same_charts_are_the_same_bytes(tmp_path: Path) -> None:
    """No date, no chance."""
    for name in ("a.svg", "b.svg"):
        save([LINES, STACK, BARS, LOGS], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_png_too(tmp_path: Path) -> None:
    """By the name's end."""
    save([BARS], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_legend_lies_beside_the_data() -> None:
    """To the right of the axes; the band is drawn, and a single series needs no legend."""
    figure = draw([LINES, LOGS])
    figure.draw_without_rendering()
    lines, logs = figure.axes
    legend = lines.get_legend()
    assert legend is not None and logs.get_legend() is None
    assert legend.get_window_extent().x0 >= lines.get_window_extent().x1
    assert len(lines.collections) == 1
    assert (logs.get_xscale(), logs.get_yscale()) == ("log", "log")


def test_names_of_marks_hide_no_curve() -> None:
    """They stand in the legend; nothing is written over the data."""
    figure = draw([LINES])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert not axes.texts
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][-2:] == ["budget 200 ms", "knee"]
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


LONG = "shared engine, voice first, prompts in chunks, sessions admitted by the gradient of latency"


def overlap(boxes: Sequence[Bbox]) -> bool:
    return any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])


@pytest.mark.parametrize("count", [2, 4, 6, 8])
def test_names_of_places_do_not_run_into_each_other(count: int) -> None:
    """However many there are side by side, in words of usual length."""
    names = ("more reasoning: a pool for each shape", "as they are: one pool", "vision (prefill)", "hold") * 2
    places = tuple(map(float, range(count)))
    bars = Chart("Pools", "mix", "devices", (Series("a", places, places, kind="bars"),), categories=names[:count])
    with rc_context(STYLE):
        figure = draw([bars, bars])
        figure.draw_without_rendering()
    for axes in figure.axes:
        assert not overlap([label.get_window_extent() for label in axes.get_xticklabels()])


def test_many_long_names_lie_beside_bars_that_lie() -> None:
    """From the top down, each with its whisker, and the measure is on the x axis."""
    places = tuple(map(float, range(16)))
    series = Series("late", places, places, tuple(y * 0.9 for y in places), tuple(y * 1.1 for y in places), "bars")
    chart = Chart("Turns", "arm", "share of turns", (series,), categories=(LONG,) * 16, sideways=True)
    with rc_context(STYLE):
        figure = draw([chart, chart, chart])
        figure.draw_without_rendering()
    axes = figure.axes[0]
    assert not overlap([label.get_window_extent() for label in axes.get_yticklabels()])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("share of turns", "arm")
    assert axes.get_ylim()[0] > axes.get_ylim()[1] and [bar.get_width() for bar in axes.patches] == list(places)


def test_axes_begin_at_nothing() -> None:
    """A difference is not made to look larger than it is."""
    (axes,) = draw([LINES]).axes
    assert axes.get_ylim()[0] == 0.0


def test_a_place_that_is_left_over_is_empty() -> None:
    """Three charts in two columns."""
    *_, last = draw([LINES, STACK, BARS]).axes
    assert not last.axison
