"""Pictures that can be read, and that are the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from voicepipe.sim.experiment import Chart, Mark, Series
from voicepipe.sim.pictures import draw, save

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
LOGS = Chart(
    "On two logarithmic axes", "s", "ms", (Series("a", (1.0, 10.0), (1.0, 100.0)),), log_x=True, log_y=True
)


def texts(path: Path) -> list[str]:
    tree = ElementTree.parse(path)
    return ["".join(node.itertext()).strip() for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_it_can_be_read_without_the_text_around_it(tmp_path: Path) -> None:
    """Title, axes with their units, the names of lines and marks, and of places that are no numbers."""
    save([LINES, STACK, BARS], tmp_path / "a.svg")
    written = " ".join(texts(tmp_path / "a.svg"))
    for chart in (LINES, STACK, BARS):
        for text in (*chart.title.split(), chart.x, chart.y, *chart.categories):
            assert text in written, text
        for named in (*chart.series, *chart.marks):
            assert named.name in written


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


def test_axes_begin_at_nothing() -> None:
    """A difference is not made to look larger than it is."""
    (axes,) = draw([LINES]).axes
    assert axes.get_ylim()[0] == 0.0


def test_a_name_keeps_its_colour_on_every_chart_of_a_picture() -> None:
    """The same arm looks the same."""
    again = Chart("Again", "x", "y", (Series("shared", (0.0, 1.0), (1.0, 2.0)),))
    first, second = draw([LINES, again]).axes
    shared = next(line for line in first.lines if line.get_label() == "shared")
    assert second.lines[0].get_color() == shared.get_color()


def test_a_place_that_is_left_over_is_empty() -> None:
    """Three charts in two columns."""
    *_, last = draw([LINES, STACK, BARS]).axes
    assert not last.axison
