"""`admission-quality`: decisions against what could have been served, and its charts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.sim.experiment import Setting
from voicepipe.sim.experiments import admission_quality
from voicepipe.sim.experiments.admission_quality import (
    CELLS,
    EXPERIMENT,
    LIMITS,
    NAMES,
    SHORT,
    TURNS,
    Decided,
    decided_on_sessions,
    decided_on_turns,
    late_of,
    scene_of,
)
from voicepipe.sim.scene import calls_of, play

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEARN_S", 60.0), ("SECONDS", 180.0), ("SAMPLES", 3)):
        monkeypatch.setattr(admission_quality, name, value)


def test_cells_and_rates_from_samples() -> None:
    """10 let in, of which one in four of those looked into should not have been; 5 refused, half of them without
    need."""
    found = Decided(10, 5, (True, True, True, False), (True, False)).measures()
    assert sum(found[name] or 0.0 for name in CELLS) == pytest.approx(1.0)
    assert found["falsely_admitted"] == pytest.approx(2.5 / 15) and found["false_admits"] == 0.25
    assert found["falsely_refused"] == pytest.approx(2.5 / 15) and found["false_refusals"] == 0.5
    assert found["admitted_of_servable"] == pytest.approx(7.5 / 10.0)
    assert found["admitted_of_others"] == pytest.approx(2.5 / 5.0)
    assert (found["decisions"], found["looked_into"]) == (15.0, 6.0)


def test_what_there_was_none_of_has_no_rate() -> None:
    """Nobody was refused; nobody should have been."""
    found = Decided(4, 0, (True, True), ()).measures()
    assert found["false_refusals"] is None and found["admitted_of_others"] is None
    assert found["admitted_of_servable"] == 1.0 and found["rightly_admitted"] == 1.0


def test_refused_callers_fit_on_an_idle_device_and_not_on_one_that_is_far_too_slow() -> None:
    """With one session at a time, and with forty where seven are carried."""
    for sessions, cap, fits in ((3.0, 1, True), (60.0, 40, False)):
        scene = replace(scene_of("count", 1.0, 1, QUICK), sessions=sessions, max_sessions=cap, seconds=240.0)
        decided, played = decided_on_sessions(scene, 3, Random(1))
        assert decided.refused >= 2 and len(decided.rightly_refused) >= 2 and decided.admitted <= played.admitted
        assert all(each is not fits for each in decided.rightly_refused), sessions


def test_calls_are_the_same_when_only_some_come() -> None:
    """A call that is played alone says what it said in the crowd, under its own number."""
    scene = scene_of("none", 1.0, 1, QUICK)
    calls = calls_of(scene)
    alone = play(replace(scene, calls=calls, only=frozenset({2}), begin_s=0.0))
    assert {asked.call for asked in alone.asked} == {2} and alone.let_in == {2}
    assert [asked.said for asked in alone.asked] == [said for said in calls[2].said if said.end < scene.seconds]
    assert late_of(replace(scene, calls=calls), calls[2].end, {2}) == set()


def test_refused_turns_could_not_have_been_in_time() -> None:
    """They are refused at their deadline: answered all the same most are late, as far as a replay draws the same
    times. With all of their session's turns answered none is refused."""
    scene = replace(scene_of(TURNS, 1.0, 1, QUICK), sessions=16.0)
    decided, played = decided_on_turns(scene, 4, Random(1))
    assert decided.refused > 0 and 2 * sum(decided.rightly_refused) >= len(decided.rightly_refused) > 0
    assert decided.admitted + decided.refused == sum(asked.counts for asked in played.asked)
    everybody = play(replace(scene, answered=frozenset(range(1000))))
    assert not any(admission_quality._is_refused(asked) for asked in everybody.asked)


def test_rows_and_charts() -> None:
    """One column for each policy at its usual limit, and a curve over the limits of those that have any."""
    points = EXPERIMENT.points(QUICK)
    assert {point["policy"] for point in points} == set(LIMITS) == set(NAMES) == set(SHORT)
    chosen = [point for point in points if point["policy"] in ("none", "count", TURNS)]
    rows = [{**point, **EXPERIMENT.run(point, 1, QUICK), "seeds": 1} for point in chosen]
    marks = check_charts(EXPERIMENT, rows)
    assert (0.001, 0.05) in marks.values()
    cells, curves, wrong = EXPERIMENT.charts(rows)
    assert cells.categories == wrong.categories == tuple(SHORT[name] for name in ("none", "count", TURNS))
    for place in range(3):
        assert sum(series.ys[place] for series in cells.series) == pytest.approx(1.0)
    assert NAMES[TURNS] not in [series.name for series in curves.series]
    check_twice(EXPERIMENT, {"policy": "count", "limit": 5.0})


def test_every_limit_is_the_policys_own() -> None:
    """Sessions, a rate, or a share of turns."""
    assert scene_of("count", 5.0, 1, Setting()).max_sessions == 5
    assert scene_of("deadline", 0.03, 1, Setting()).admission.late == 0.03
    slow, fast = (scene_of("token-bucket", limit, 1, Setting()).admission for limit in (5.0, 9.0))
    assert slow.sessions_per_minute < fast.sessions_per_minute
    assert scene_of("vegas", 1.0, 1, Setting()).admission.policy == "vegas"
    assert scene_of(TURNS, 1.0, 1, Setting()).enforcement == "enforce"
