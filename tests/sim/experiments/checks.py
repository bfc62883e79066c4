"""What holds for every experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from voicepipe.sim.experiment import Experiment, Measured, Point, Row, Setting

QUICK = Setting()


def rows_of(experiment: Experiment, points: Sequence[Point], seed: int = 1) -> list[Row]:
    """As of one seed."""
    return [{**point, **experiment.run(point, seed, QUICK), "seeds": 1} for point in points]


def check_twice(experiment: Experiment, point: Point) -> Measured:
    """Same seed, same figures; another seed, others."""
    once, again, other = (experiment.run(point, seed, QUICK) for seed in (1, 1, 2))
    assert once == again != other
    assert all(value is None or isinstance(value, int | float) for value in once.values())
    return once


def check_charts(experiment: Experiment, rows: Sequence[Row]) -> Mapping[str, tuple[float, ...]]:
    """They have units and lines, and places for their categories. Marks by title."""
    marks = {}
    for chart in experiment.charts(rows):
        assert chart.title and chart.x and chart.y and chart.series
        for series in chart.series:
            assert len(series.xs) == len(series.ys)
            assert len(series.lows) == len(series.highs) and len(series.lows) in (0, len(series.xs))
            if chart.categories and series.kind != "spans":
                assert set(series.xs) <= set(range(len(chart.categories)))
        marks[chart.title] = tuple(mark.value for mark in chart.marks)
    assert experiment.question.endswith("?") and len(experiment.explanation) > 300
    return marks
