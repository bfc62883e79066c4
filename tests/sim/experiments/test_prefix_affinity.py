"""Turns that meet their own context begin sooner."""

from __future__ import annotations

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.sim.experiments.prefix_affinity import ARMS, EXPERIMENT


def test_who_knows_the_session_serves_it_sooner() -> None:
    """At a load that all arms carry."""
    rows = {str(row["arm"]): row for row in rows_of(EXPERIMENT, [{"arm": arm, "requests_s": 1.0} for arm in ARMS])}
    robin, affinity, aware = rows["round-robin"], rows["affinity"], rows["kv-aware"]
    for better in (affinity, aware):
        assert better["hit_rate"] > robin["hit_rate"] + 0.1  # type: ignore[operator]
        assert better["first_token_p50_s"] < robin["first_token_p50_s"] / 2  # type: ignore[operator]
        assert better["first_token_p95_s"] < robin["first_token_p95_s"] / 2  # type: ignore[operator]
        assert better["evicted_while_tool_ran"] < 0.1 < robin["evicted_while_tool_ran"]  # type: ignore[operator]


def test_looking_at_queues_too_carries_more() -> None:
    """A session's home may be the busiest of all."""
    rows = rows_of(EXPERIMENT, [{"arm": arm, "requests_s": 2.0} for arm in ("affinity", "kv-aware")])
    affinity, aware = rows
    assert aware["first_token_p95_s"] < affinity["first_token_p95_s"]  # type: ignore[operator]


def test_rows_charts_and_seeds() -> None:
    points = EXPERIMENT.points(QUICK)
    assert {str(point["arm"]) for point in points} == set(ARMS)
    check_twice(EXPERIMENT, points[-1])
    check_charts(EXPERIMENT, rows_of(EXPERIMENT, points))
