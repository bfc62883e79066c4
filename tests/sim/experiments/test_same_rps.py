"""One rate, three lengths: about eight times as many devices."""

from __future__ import annotations

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.sim.experiments.same_rps import EXPERIMENT


def test_longer_answers_need_more_devices_at_one_rate() -> None:
    """Less than in proportion to their length: 27 times."""
    rows = rows_of(EXPERIMENT, EXPERIMENT.points(QUICK))
    short, middle, long = rows
    assert short["devices"] < middle["devices"] < long["devices"]  # type: ignore[operator]
    assert 6 < long["devices"] / short["devices"] < 10  # type: ignore[operator]
    assert 7 < long["busy_devices"] / short["busy_devices"] < 9  # type: ignore[operator]
    marks = check_charts(EXPERIMENT, rows)
    assert (float(short["devices"]),) in marks.values()  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_figures() -> None:
    check_twice(EXPERIMENT, EXPERIMENT.points(QUICK)[0])
