"""Rows of an experiment as a table for people: `mean ±half` where the seeds differ, as wide as a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from voicepipe.sim.experiment import Row, Value

WIDTH = 116
MANY = 20
"""Columns."""
SEEDS = "seeds"
"""The same for all rows: told once, and no column."""
_BOUNDS = ("_low", "_high")


def table(rows: Sequence[Row], points: Sequence[str] = (), width: int = WIDTH) -> str:
    """In blocks one below the other where it is too wide, each of which begins with what the points are: the
    columns that are named, or those that are words. Of many measures those that are nothing in every row are named
    below instead."""
    if not rows:
        return "no rows"
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = [name for name in names if name != SEEDS and not _is_bound(name, names)]
    if len(shown) <= MANY:
        return _blocks_of(rows, shown, points, width)
    nothing = [name for name in shown if name not in points and all(row.get(name) == 0.0 for row in rows)]
    blocks = _blocks_of(rows, [name for name in shown if name not in nothing], points, width)
    return f"{blocks}\n\n0 everywhere: {'; '.join(nothing)}" if nothing else blocks


def _blocks_of(rows: Sequence[Row], shown: Sequence[str], points: Sequence[str], width: int) -> str:
    cells = {name: [name, *(cell(row, name) for row in rows)] for name in shown}
    widths = {name: max(map(len, column)) for name, column in cells.items()}
    keys = [name for name in shown if name in points]
    keys = keys or [name for name in shown if isinstance(rows[0].get(name), str)] or list(shown[:1])
    return "\n\n".join(
        "\n".join(_line(cells, widths, block, at) for at in range(len(rows) + 1))
        for block in _blocks(keys, [name for name in shown if name not in keys], widths, width)
    )


def _is_bound(name: str, names: Sequence[str]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in names for end in _BOUNDS)


def _blocks(
    keys: Sequence[str], rest: Iterable[str], widths: dict[str, int], width: int
) -> Iterable[Sequence[str]]:
    block = list(keys)
    for name in rest:
        if len(block) > len(keys) and sum(widths[each] + 2 for each in (*block, name)) > width:
            yield block
            block = list(keys)
        block.append(name)
    yield block


def _line(cells: dict[str, list[str]], widths: dict[str, int], block: Sequence[str], at: int) -> str:
    return "  ".join(
        cells[name][at].ljust(widths[name]) if _is_word(cells[name]) else cells[name][at].rjust(widths[name])
        for name in block
    ).rstrip()


def _is_word(column: Sequence[str]) -> bool:
    return any(text[:1].isalpha() for text in column[1:])


def cell(row: Row, name: str) -> str:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if isinstance(low, float) and isinstance(high, float):
        return f"{number(row[name])} ±{number(0.5 * (high - low), 2)}"
    return number(row.get(name))


def number(value: Value, digits: int = 4) -> str:
    """Significant digits; "-" where nothing was measured."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text else text
