"""Rows for people."""

from __future__ import annotations

from voicepipe.commands.rows import number, table
from voicepipe.sim.experiment import Row

ROWS: list[Row] = [
    {
        "arm": "ours",
        "load": 1.2,
        "p95_ms": 91.0,
        "p95_ms_low": 90.0,
        "p95_ms_high": 92.0,
        "missed": 0.0,
        "seeds": 5,
    },
    {"arm": "theirs", "load": 1.2, "p95_ms": 1433.25, "missed": None, "seeds": 5},
]


def test_a_table_by_hand() -> None:
    """Words to the left, numbers to the right, the interval as its half width, nothing as a dash."""
    assert table(ROWS).splitlines() == [
        "arm     load  p95_ms  missed",
        "ours     1.2   91 ±1       0",
        "theirs   1.2    1433       -",
    ]


def test_a_wide_table_is_folded() -> None:
    """Each block says again what its rows are."""
    folded = table(ROWS, width=22).split("\n\n")
    assert len(folded) == 2
    assert all(block.splitlines()[1].startswith("ours") for block in folded)
    assert {name for block in folded for name in block.splitlines()[0].split()} == {*ROWS[1]} - {"seeds"}


def test_no_rows() -> None:
    """Somebody has stopped it before the first."""
    assert table([]) == "no rows"


def test_numbers() -> None:
    """Four digits, and no powers of ten where none are needed."""
    assert [number(value) for value in (13.2, 0.000123456, 123456.0, 1e-9, 3, None, "gpu")] == [
        "13.2",
        "0.0001235",
        "123456",
        "1e-09",
        "3",
        "-",
        "gpu",
    ]


def test_of_many_measures_those_that_are_nothing_are_named_below() -> None:
    """And have no column; of few, each has one."""
    row: Row = {"arm": "a", **{f"m{at}": float(at % 2) for at in range(24)}}
    text = table([row, row])
    assert "m1 " in text and text.endswith("0 everywhere: " + "; ".join(f"m{at}" for at in range(0, 24, 2)))
    assert "m0" in table([{"arm": "a", "m0": 0.0, "m1": 1.0}]) and "0 everywhere" not in table([{"m0": 0.0}])


def test_every_block_begins_with_the_points() -> None:
    """Numbers among them too, and also where they are nothing."""
    row: Row = {"arm": "a", "load": 0.0, **{f"measure {at}": 1.5 for at in range(24)}}
    blocks = table([row], ("arm", "load")).split("\n\n")
    assert len(blocks) > 1 and all(block.split()[:2] == ["arm", "load"] for block in blocks)
