"""What is drawn of series and marks."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

from matplotlib.collections import LineCollection, PolyCollection

from tests.sim.test_pictures import BARS, LINES, STACK
from voicepipe.sim.experiment import Chart, Mark, Series
from voicepipe.sim.pictures import draw
from voicepipe.sim.plots import OUTCOMES, legend


def test_a_legend_reads_as_the_series_lie() -> None:
    """A stack from its top down, then the marks; a single series is what the y axis says."""
    places = {"met": 0, "refused": 1, "a": 0, "dedicated": 0, "shared": 1, "runs": 2}
    assert [name for _, name in legend(STACK, places)] == ["refused", "met"]
    assert [name for _, name in legend(LINES, places)][-2:] == ["budget 200 ms", "knee"]
    alone = Chart("One", "x", "y", (Series("a", (0.0, 1.0), (1.0, 2.0)),), (Mark("y", 1.0, "most"),))
    assert [name for _, name in legend(alone, places)] == ["most"]


def test_outcomes_have_their_own_colours_and_long_names_are_folded() -> None:
    """Wherever they are in the order."""
    (axes,) = draw([STACK]).axes
    shades = [tuple(part.get_facecolor()[0][:3]) for part in axes.collections]
    assert shades == [
        tuple(int(OUTCOMES[name][at : at + 2], 16) / 255 for at in (1, 3, 5)) for name in ("met", "refused")
    ]
    name = "shared engine, voice first, prompts in chunks"
    long = Chart("Two", "x", "y", (Series(name, (0.0,), (1.0,)), Series("b", (0.0,), (1.0,))))
    assert legend(long, {name: 0, "b": 1})[0][1] == "shared engine, voice first,\nprompts in chunks"


def test_bars_stand_beside_each_other_with_whiskers() -> None:
    """Around their place; those of one series have one width."""
    (axes,) = draw([BARS]).axes
    centres = [round(bar.get_x() + bar.get_width() / 2, 6) for bar in axes.patches]
    assert centres == [-0.2, 0.8, 0.2, 1.2]
    assert [round(bar.get_height(), 6) for bar in axes.patches] == [1.0, 2.0, 3.0, 4.0]
    assert len(axes.containers) == 3


def test_more_series_than_colours_are_told_apart() -> None:
    """By colour and dashes together."""
    many = tuple(Series(f"s{at}", (0.0, 1.0), (float(at), 1.0)) for at in range(16))
    (axes,) = draw([Chart("Many", "x", "y", many)]).axes
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len(looks) == 16


def test_marks_are_told_apart_and_one_of_a_series_has_its_colour() -> None:
    """By dashes, and by the colour of what they belong to."""
    marks = (Mark("x", 0.5, "knee, a", "a"), Mark("x", 1.5, "knee, b", "b"), Mark("y", 1.0, "price"))
    lines = (Series("a", (0.0, 2.0), (1.0, 2.0)), Series("b", (0.0, 2.0), (2.0, 1.0)))
    (axes,) = draw([Chart("Knees", "x", "y", lines, marks)]).axes
    first, second, *drawn = axes.lines
    assert [line.get_color() for line in drawn[:2]] == [first.get_color(), second.get_color()]
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in drawn}) == 3  # type: ignore[attr-defined]


def test_spans_lie_where_they_lasted() -> None:
    """In the place of their engine, with the budget as a line across all of them."""
    spans = (
        Series("text", (-20.0, 90.0), (1.0, 1.0), (-20.0, 90.0), (40.0, 120.0), "spans"),
        Series("turn", (50.0,), (0.0,), (50.0,), (85.0,), "spans"),
    )
    chart = Chart(
        "A turn waits",
        "ms",
        "what runs",
        spans,
        (Mark("x", 200.0, "budget"),),
        categories=("a", "b"),
        sideways=True,
    )
    (axes,) = draw([chart]).axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(-20.0, 60.0), (90.0, 30.0), (50.0, 35.0)]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ms", "what runs")
    assert list(axes.lines[0].get_xdata()) == [200.0, 200.0]


def test_a_name_keeps_its_colour_on_every_chart_of_a_picture() -> None:
    """The same arm looks the same."""
    again = Chart("Again", "x", "y", (Series("shared", (0.0, 1.0), (1.0, 2.0)),))
    first, second = draw([LINES, again]).axes
    assert second.lines[0].get_color() == first.lines[1].get_color()


def test_points_have_whiskers_and_lines_a_band() -> None:
    """Points lie in no order: a band through them would be an area that nothing was measured in."""
    xs, ys, lows, highs = (2.0, 0.0, 1.0), (1.0, 2.0, 3.0), (0.5, 1.5, 2.5), (1.5, 2.5, 3.5)
    line, points = Series("line", xs, ys, lows, highs), Series("points", xs, ys, lows, highs, "points")
    (axes,) = draw([Chart("Both", "x", "y", (line, points))]).axes
    band, whiskers = axes.collections
    assert isinstance(band, PolyCollection) and isinstance(whiskers, LineCollection)
    assert [segment.tolist() for segment in whiskers.get_segments()] == [
        [[x, low], [x, high]] for x, low, high in zip(xs, lows, highs, strict=True)
    ]


def test_a_long_curve_has_no_markers() -> None:
    """They would hide it."""
    short, long = (Series(str(n), tuple(map(float, range(n))), tuple(map(float, range(n)))) for n in (20, 21))
    (axes,) = draw([Chart("Two", "x", "y", (short, long))]).axes
    assert [line.get_markersize() > 0 for line in axes.lines] == [True, False]
