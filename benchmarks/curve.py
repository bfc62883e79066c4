"""A small SVG: points and lines in one frame, with axes, units and a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 44, 52
COLOURS = ("#777777", "#1f6fb2", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#17a2a2")
TICKS = 6
LINE = 18
"""Between two names of the legend."""
CHARACTER = 6.6
"""Width of a letter of 12 pixels, on average and a little more."""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[tuple[float, float, str], ...]
    """x, y, and what to write beside the point."""
    line: bool = False


def write_svg(path: Path, series: Sequence[Series], title: str, x_title: str, y_title: str) -> None:
    path.write_text(svg(series, title, x_title, y_title), "utf-8")


def svg(series: Sequence[Series], title: str, x_title: str, y_title: str) -> str:
    """Both axes begin at zero. ValueError without a point."""
    every = [point for one in series for point in one.points]
    if not every:
        raise ValueError("there is nothing to draw")
    x_step, y_step = tick_step(max(x for x, _, _ in every)), tick_step(max(y for _, y, _ in every))
    x_most = x_step * math.ceil(max(x for x, _, _ in every) / x_step) or 1.0
    y_most = y_step * math.ceil(max(y for _, y, _ in every) / y_step) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return round(LEFT + wide * x / x_most, 1), round(TOP + high * (1 - y / y_most), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(WIDTH / 2, 22, title, anchor="middle", size=15),
        text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 12, x_title, anchor="middle"),
        f'<g transform="translate(16 {TOP + (HEIGHT - TOP - BOTTOM) / 2}) rotate(-90)">'
        + text(0, 0, y_title, anchor="middle")
        + "</g>",
    ]
    for tick in range(round(x_most / x_step) + 1):
        x, y = at(tick * x_step, 0)
        parts += [_rule(x, TOP, x, y), text(x, y + 18, f"{tick * x_step:g}", anchor="middle")]
    for tick in range(round(y_most / y_step) + 1):
        x, y = at(0, tick * y_step)
        parts += [_rule(x, y, WIDTH - RIGHT, y), text(x - 8, y + 4, f"{tick * y_step:g}", anchor="end")]
    places = [[at(x, y) for x, y, _ in one.points] for one in series]
    legend_x, legend_y = _freest_place(series, places)
    for number, one in enumerate(series):
        # Points of two series may lie close together: every other one's names stand below them.
        name_dy = 18 if number % 2 == 0 else -6
        parts += _drawn(one, COLOURS[number % len(COLOURS)], places[number], name_dy)
        parts += _legend(one, COLOURS[number % len(COLOURS)], legend_x, legend_y + LINE * number)
    return "\n".join([*parts, "</svg>", ""])


def tick_step(most: float) -> float:
    """1, 2 or 5 times a power of ten: about `TICKS` of them up to `most`."""
    if most <= 0:
        return 1.0
    rough = most / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#dddddd"/>'


def _drawn(one: Series, colour: str, places: Sequence[tuple[float, float]], name_dy: float) -> list[str]:
    path = " ".join(f"{x:g},{y:g}" for x, y in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'] if one.line else []
    for (x, y), (_, _, label) in zip(places, one.points, strict=True):
        parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="{colour}"/>')
        if label:
            parts.append(text(x + 7, y + name_dy, label))
    return parts


def _freest_place(series: Sequence[Series], places: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float]:
    """Where the legend begins: on the side and at the height where it hides least, whole in any; as high as may be,
    on the right where both are alike."""
    wide, high = 12 + CHARACTER * max(len(one.name) for one in series), LINE * len(series)
    dense = [place for line in places for place in _dense(line)]

    def hidden(place: tuple[float, float]) -> int:
        x, y = place
        return sum(x - 16 <= at <= x + wide + 16 and y - LINE <= level <= y + high for at, level in dense)

    left, right, top = LEFT + 14, WIDTH - RIGHT - 6 - wide, TOP + 14
    lowest = max(top, HEIGHT - BOTTOM - high)
    return min(((x, y) for y in range(top, lowest + 1, LINE) for x in (right, left)), key=hidden)


def _dense(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a line, and twenty between any two."""
    between = [
        (x1 + (x2 - x1) * part / 21, y1 + (y2 - y1) * part / 21)
        for (x1, y1), (x2, y2) in pairwise(line)
        for part in range(1, 21)
    ]
    return [*line, *between]


def _legend(one: Series, colour: str, x: float, y: float) -> list[str]:
    return [f'<circle cx="{x:g}" cy="{y - 4:g}" r="4" fill="{colour}"/>', text(x + 12, y, one.name)]
