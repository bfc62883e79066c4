"""Costs of a gap by formula and simulated, and where they cross."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.sim.experiments.kv_gap import (
    CONTEXT_TOKENS,
    EXPERIMENT,
    POLICIES,
    cost_s,
    crossing_s,
    crossover_s,
)
from voicepipe.sim.gpu import A100

PAIRS = (("hold", "offload"), ("hold", "evict"), ("offload", "evict"))


def test_the_crossovers_are_where_the_formulas_meet() -> None:
    for one, other in PAIRS:
        gap = crossover_s(one, other)
        assert cost_s(one, gap) == pytest.approx(cost_s(other, gap))
        assert cost_s(one, gap * 0.9) < cost_s(other, gap * 0.9)
        assert cost_s(one, gap * 1.1) > cost_s(other, gap * 1.1)


def test_holding_pays_as_long_as_computing_again_takes_on_what_is_held() -> None:
    """2.0 s of a device against 5.28 of its 60 GB."""
    assert crossover_s("hold", "evict") == pytest.approx(2.0 * 60 / 5.28)
    assert crossover_s("hold", "offload") == pytest.approx(0.4224 / 0.98)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str | float | int | None]]:
    return rows_of(EXPERIMENT, EXPERIMENT.points(QUICK))


def test_what_is_simulated_costs_what_the_formula_says(rows: list[dict[str, str | float | int | None]]) -> None:
    """Within a tenth for gaps of ten seconds and more, where queues are small beside the gap."""
    seen = 0
    for row in rows:
        gap, policy = float(row["gap_s"]), str(row["policy"])  # type: ignore[arg-type]
        if gap >= 10 and (policy != "offload" or gap >= 100):
            seen += 1
            assert row["cost_device_s"] == pytest.approx(cost_s(policy, gap), rel=0.1)
    assert seen >= 8


def test_the_simulated_costs_cross_where_the_formulas_do(rows: list[dict[str, str | float | int | None]]) -> None:
    for one, other in PAIRS:
        found = crossing_s(rows, one, other)
        assert found is not None and found == pytest.approx(crossover_s(one, other), rel=0.25)
    assert crossing_s(rows, "evict", "evict") is None


def test_who_was_evicted_waits_for_the_whole_prompt(rows: list[dict[str, str | float | int | None]]) -> None:
    """The others for a copy at most."""
    first = {str(row["policy"]): row for row in rows if row["gap_s"] == 1000}
    assert set(first) == set(POLICIES)
    assert float(first["evict"]["first_token_p50_s"]) > A100.prefill_s(CONTEXT_TOKENS)  # type: ignore[arg-type]
    assert 0.2 < float(first["offload"]["first_token_p50_s"]) < 0.3  # type: ignore[arg-type]
    assert float(first["hold"]["first_token_p50_s"]) < 0.05  # type: ignore[arg-type]


def test_charts_and_seeds(rows: list[dict[str, str | float | int | None]]) -> None:
    check_twice(EXPERIMENT, {"policy": "offload", "gap_s": 2.0})
    marks = check_charts(EXPERIMENT, rows)
    assert tuple(crossover_s(one, other) for one, other in PAIRS) in marks.values()
