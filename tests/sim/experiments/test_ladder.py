"""`ladder`: each rung does what it is for, and its charts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.config import ScriptedConfig
from voicepipe.core.events import Load, WorkKind
from voicepipe.sim.experiment import Setting
from voicepipe.sim.experiments import ladder
from voicepipe.sim.experiments.ladder import EXPERIMENT, REHEARD, RUNGS, with_all_engines
from voicepipe.sim.scene import play
from voicepipe.sim.service import load_service, scripted


@pytest.fixture(scope="module")
def found() -> Mapping[str, Mapping[str, float]]:
    """All points with one seed, ten minutes each."""
    points = EXPERIMENT.points(QUICK)
    measured = {str(point["rungs"]): EXPERIMENT.run(point, 1, QUICK) for point in points}
    return {name: {key: float(value or 0.0) for key, value in each.items()} for name, each in measured.items()}


def test_turns_are_met_degraded_masked_or_missed(found: Mapping[str, Mapping[str, float]]) -> None:
    """Each once; in time are the first two, and what was masked is not."""
    for each in found.values():
        assert sum(each[name] for name in ("met", "degraded", "masked", "missed")) == pytest.approx(1.0)
        assert each["in_time"] == pytest.approx(each["met"] + each["degraded"])


def test_only_what_is_switched_on_is_taken(found: Mapping[str, Mapping[str, float]]) -> None:
    """And each rung is taken at that load."""
    own = {
        "short-clause": "shortened",
        "no-second-pass": "not_reheard",
        "small-model": "by_small_model",
        "acknowledge": "acknowledged",
    }
    for name, rungs in RUNGS.items():
        for rung, measure in own.items():
            assert (found[name][measure] > 0.0) is (rung in rungs), (name, rung)
    assert {name for name, each in found.items() if each["masked"]} == {"acknowledge", "all"}


def test_shorter_clauses_are_in_time_more_often(found: Mapping[str, Mapping[str, float]]) -> None:
    """Fewer words before the first pause is what that costs; the pass alone gains nothing to speak of."""
    assert found["none"]["gain_in_time"] == 0.0 and found["none"]["degraded"] == 0.0
    assert found["short-clause"]["gain_in_time"] > 0.003 and found["all"]["gain_in_time"] > 0.01
    assert found["short-clause"]["first_clause_words"] < found["none"]["first_clause_words"] - 0.1
    assert abs(found["no-second-pass"]["gain_in_time"]) < 0.005


def test_a_service_without_these_engines_is_given_them() -> None:
    """With assumed times, and the others as they were; one that has them is left alone."""
    bare = scripted(ScriptedConfig())
    given = with_all_engines(bare)
    assert given.manner.small_share == ladder.SMALL_SHARE and given.costs[: len(bare.costs)] == bare.costs
    model = load_service("gpu")
    assert with_all_engines(model) == model
    final = [cost for cost in model.costs if cost.kind is not WorkKind.SECOND_PASS]
    again = with_all_engines(type(model)(name="a", costs=tuple(final))).cost(WorkKind.SECOND_PASS, "")
    load = Load("a", 2.0)
    assert again.mean_s(load) == pytest.approx(REHEARD * model.cost(WorkKind.FINAL, "").mean_s(load))


def test_words_of_first_clauses_are_those_that_were_spoken() -> None:
    """Of each answered turn, and at least one."""
    played = play(ladder.scene_of((), 0.5, 1, Setting()))
    answered = [asked for asked in played.asked if asked.kept]
    assert answered and all(asked.clause_words and 1 <= asked.clause_words <= 13 for asked in answered)


def test_rows_and_charts(found: Mapping[str, Mapping[str, float]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The full form has lower loads too; pictures are of the highest."""
    rows = [{"rungs": name, "offered": load, **each} for load in (1.0, 2.0) for name, each in found.items()]
    check_charts(EXPERIMENT, rows)
    assert all(chart.categories == tuple(RUNGS) for chart in EXPERIMENT.charts(rows))
    assert {point["offered"] for point in EXPERIMENT.points(Setting(full=True))} > {2.0}
    monkeypatch.setattr(ladder, "SECONDS", 60.0)
    ladder.found_with.cache_clear()
    check_twice(EXPERIMENT, {"rungs": "all", "offered": 2.0})
    ladder.found_with.cache_clear()
