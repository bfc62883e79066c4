"""`attribution`: all of the overrun has its causes, and its charts."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice
from voicepipe.core.events import Blame, BlameKind, Part, Stage
from voicepipe.sim.experiments import attribution
from voicepipe.sim.experiments.attribution import ARMS, CAUSES, EXPERIMENT, IN_WORDS, NAMES, OTHER, put_down

pytestmark = pytest.mark.usefixtures("short")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "SECONDS", 150.0)


def test_the_whole_overrun_is_put_down_to_causes() -> None:
    """What was left of shares is taken off each part in proportion; what nobody explains is told apart."""
    wait, block, unused = (BlameKind.WAIT, BlameKind.BLOCKING, BlameKind.UNUSED)
    parts = (Part(Stage.LLM, wait, 0.06), Part(Stage.TTS, block, 0.02), Part(Stage.ASR, unused, -0.04))
    found = put_down(Blame(Stage.LLM, wait, 0.06, overrun_s=0.04, parts=parts))
    assert dict(found) == pytest.approx({"llm wait": 0.03, "tts blocking": 0.01})
    found = put_down(Blame(Stage.LLM, wait, 0.06, overrun_s=0.08, parts=parts, unattributed_s=0.04))
    assert dict(found) == pytest.approx({"llm wait": 0.04, "tts blocking": 0.08 / 6, OTHER: 0.16 / 6})


@pytest.mark.parametrize("arm", ARMS)
def test_nothing_is_left_over(arm: str) -> None:
    """Causes add up to all of the overrun, blames to all late turns, and nothing is unattributed."""
    found = EXPERIMENT.run({"arm": arm, "offered": 3.0}, 1, QUICK)
    assert (found["late"] or 0.0) > 0.02 and found["unattributed_ms_per_turn"] == 0.0
    assert found["attributed"] == pytest.approx(1.0, abs=1e-9)
    spent, blamed = (
        sum(found[f"{name}, {measure}"] or 0.0 for name in NAMES) for measure in ("ms per turn", "blamed")
    )
    assert spent == pytest.approx(found["overrun_ms_per_turn"]) and blamed == pytest.approx(found["late"])
    assert found["other, ms per turn"] == 0.0, "every cause that occurs has a name"


def test_a_shared_engine_blocks_and_a_device_by_deadline_makes_wait() -> None:
    """The largest cause of each: texts that cannot be taken back, or other turns."""
    shared, ours = (EXPERIMENT.run({"arm": arm, "offered": 3.0}, 1, QUICK) for arm in ARMS)
    blocking = [f"{stage.value} blocking, ms per turn" for stage in (Stage.ASR, Stage.LLM, Stage.TTS)]
    assert sum(shared[name] or 0.0 for name in blocking) > 5 * sum(ours[name] or 0.0 for name in blocking)


def test_rows_and_charts() -> None:
    """Two for each arm; the bands of the left ones reach the whole overrun, those of the right all late turns."""
    points = [{"arm": arm, "offered": load} for arm in ARMS for load in (1.0, 3.0)]
    rows = [{**point, **EXPERIMENT.run(point, 1, QUICK), "seeds": 1} for point in points]
    check_charts(EXPERIMENT, rows)
    for chart, (arm, measure) in zip(
        EXPERIMENT.charts(rows),
        [(arm, measure) for arm in ARMS for measure in ("overrun_ms_per_turn", "late")],
        strict=True,
    ):
        *bands, whole = chart.series
        assert {series.name for series in bands} <= set(IN_WORDS.values())
        assert {series.kind for series in bands} == {"stack"} and whole.kind == "line"
        heights = [sum(series.ys[at] for series in bands) for at in (0, 1)]
        assert heights == pytest.approx(whole.ys)
        assert whole.ys == tuple(row[measure] for row in rows if row["arm"] == arm)
    assert len(EXPERIMENT.charts(rows[:2])) == 2
    assert set(IN_WORDS) == set(NAMES) and len(set(IN_WORDS.values())) == len(NAMES)
    assert len(CAUSES) == len(set(CAUSES)) and len(EXPERIMENT.points(QUICK)) == 2 * len(attribution.LOADS)
    check_twice(EXPERIMENT, points[1])
