"""The soak, for some seconds; and that it ends with 1 where a promise is broken."""

from __future__ import annotations

import random
from typing import Any

import pytest
import soak
from served import Sample
from slopes import Slope, slope
from talkers import Heard

GOOD = {"committed": 3, "ledger": 3, "missing": 0, "twice": 0}
REST = Sample(0.0, 100 << 20, 9, 9, 0, 0)


def broken(**those: Any) -> list[str]:
    values = {
        "counted": GOOD,
        "grown": None,
        "seconds": 60.0,
        "first": REST,
        "after": REST,
        "status": 0,
        "failures": 0.0,
        "abandoned": 0.0,
        "errors": "",
    }
    return soak.promises(**{**values, **those})


def test_what_holds_breaks_nothing() -> None:
    assert broken() == []
    assert broken(grown=Slope(1e6, -1e5, 2e6)) == [], "the interval leaves it open"


@pytest.mark.parametrize(
    ("those", "what"),
    [
        ({"counted": GOOD | {"missing": 1}}, "1 turns without a verdict"),
        ({"counted": GOOD | {"twice": 2}}, "2 turns with two"),
        ({"counted": GOOD | {"committed": 0}}, "no turn at all"),
        ({"after": Sample(0.0, 0, 9, 9, 0, 2)}, "2 leases left"),
        ({"after": Sample(0.0, 0, 9, 9, 3, 0)}, "3 sessions left"),
        ({"after": Sample(0.0, 0, 40, 9, 0, 0)}, "descriptors: 9 at first, 40 after"),
        ({"after": Sample(0.0, 0, 9, 30, 0, 0)}, "threads: 9 at first, 30 after"),
        ({"status": 1}, "exit status 1"),
        ({"status": None}, "exit status None"),
        ({"failures": 1.0}, "1 sessions ended by a bug"),
        ({"abandoned": 1.0}, "1 tasks outlived their cancellation"),
        ({"errors": "Traceback (most recent call last)"}, "a traceback"),
        ({"grown": Slope(1e6, 9e5, 2e6)}, "memory grows"),
    ],
)
def test_each_broken_promise_is_found(those: dict[str, Any], what: str) -> None:
    assert broken(**those) == [what]


def heard(session: str, committed: list[int], ended: dict[int, int]) -> Heard:
    return Heard(session, dict.fromkeys(committed, 0.0), {turn: [{}] * count for turn, count in ended.items()})


def test_verdicts_are_counted_from_both_sides() -> None:
    ledger = [{"session": "s1", "turn": 1}, {"session": "s1", "turn": 2}, {"session": "s2", "turn": 1}]
    assert soak.verdicts([heard("s1", [1, 2], {1: 1, 2: 1}), heard("s2", [1], {})], ledger)["missing"] == 0
    assert soak.verdicts([heard("s1", [1, 2, 3], {})], ledger)["missing"] == 1
    assert soak.verdicts([heard("s1", [1], {1: 2})], ledger)["twice"] == 1
    assert soak.verdicts([], [*ledger, ledger[0]])["twice"] == 1


def test_a_slope_is_found_through_steps_and_noise() -> None:
    draw = random.Random(1)
    level = [(float(n), 1e8 + draw.uniform(-1e6, 1e6)) for n in range(200)]
    rising = [(at, value + 5e4 * at) for at, value in level]
    flat, up = slope(level), slope(rising)
    assert flat is not None and flat.low < 0 < flat.high
    assert up is not None and up.low > 2e4 and up.low < 5e4 < up.high
    assert slope(level[:5]) is None


async def test_seconds_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SAMPLE_S", 0.3)
    summary = await soak.run(soak.arguments(["--minutes", "0.1", "--sessions", "3"]))
    assert summary["broken"] == [], summary
    assert summary["turns"]["committed"] > 0 and summary["exit_status"] == 0


async def test_a_lost_verdict_is_found_by_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger lacks its first turns."""
    whole = soak.Server.turns
    monkeypatch.setattr(soak.Server, "turns", lambda self: whole(self)[2:])
    summary = await soak.run(soak.arguments(["--minutes", "0.08", "--sessions", "3", "--seed", "2"]))
    assert any("without a verdict" in what for what in summary["broken"]), summary
