"""How long a call may take, whether it is made, and what its lane does when it does not end."""

from __future__ import annotations

import pytest

from voicepipe.core.breaker import BreakerSettings, BreakerState
from voicepipe.core.engine_health import Asked, EngineHealth, HealthSettings
from voicepipe.core.events import Load, Stage, Work, WorkClass, WorkKind

LANES = {"cpu": 1, "ears": 1}


def work(kind: WorkKind = WorkKind.THINK, bound_s: float = 0.0, variant: str = "prefill") -> Work:
    return Work(1, "a", 1, 1, 0, kind, WorkClass.STARTED, None, bound_s, load=Load("m", 1, variant=variant))


@pytest.mark.parametrize(
    ("kind", "bound_s", "limit_s"),
    [
        (WorkKind.THINK, 0.02, 5.0),
        (WorkKind.THINK, 3.0, 15.0),
        (WorkKind.THINK, 0.0, 10.0),
        (WorkKind.SPEAK, 0.02, 11.0),
    ],
)
def test_a_call_has_several_times_its_bound_and_some_seconds_at_least(
    kind: WorkKind, bound_s: float, limit_s: float
) -> None:
    """More where nothing is declared, or where the engine has a limit of its own."""
    settings = HealthSettings(5.0, 5.0, 10.0, floors_s={WorkKind.SPEAK: 11.0})
    assert EngineHealth(settings, LANES).limit_s(work(kind, bound_s)) == limit_s


def test_lanes_go_on_without_so_many_calls_and_then_are_held() -> None:
    """Until one of those that hold them ends."""
    health = EngineHealth(HealthSettings(abandoned=2), LANES)
    goes_on = [health.on_abandoned(work(), lane) for lane in ("cpu", "ears", "cpu")]
    assert goes_on == [True, True, False]
    assert health.snapshot().stuck
    assert dict(health.snapshot().abandoned) == {"cpu": 2, "ears": 1}
    assert dict(health.snapshot().held) == {"cpu": 1, "ears": 0}
    health.on_ended(work(), "cpu", held=True)
    assert not health.snapshot().stuck
    for lane in ("cpu", "ears"):
        health.on_ended(work(), lane, held=False)
    assert set(health.snapshot().abandoned.values()) == {0}
    assert health.on_abandoned(work(), "cpu")


def test_an_engine_that_does_one_call_at_a_time_is_not_entered_beside_a_lost_one() -> None:
    """Others are."""
    engines = {WorkKind.THINK: "llm", WorkKind.WARM: "llm"}
    health = EngineHealth(HealthSettings(engines=engines), LANES)
    health.on_abandoned(work(WorkKind.WARM), "cpu")
    assert health.on_start(work(WorkKind.THINK), 0.0) == "a call of it does not end"
    assert health.on_start(work(WorkKind.SPEAK), 0.0) == Asked()
    health.on_ended(work(WorkKind.WARM), "cpu", held=False)
    assert health.on_start(work(WorkKind.THINK), 0.0) == Asked()


def test_what_opens_a_request_is_asked_of_the_breaker() -> None:
    """Who is in the middle of an answer goes on, and tells nothing of it."""
    breakers = {WorkKind.THINK: ("llm", BreakerSettings(failures=2))}
    health = EngineHealth(HealthSettings(breakers=breakers), LANES)
    for now in (0.0, 0.1):
        middle = health.on_start(work(variant="decode"), now)
        assert middle == Asked()
        health.on_success(middle)
        asked = health.on_start(work(), now)
        assert isinstance(asked, Asked)
        health.on_failure(asked, now)
    assert health.snapshot().breakers["llm"].state is BreakerState.OPEN
    told = health.on_start(work(), 0.6)
    assert told == "it has failed several times in a row; next try in 0.5 s"
    assert health.on_start(work(variant="decode"), 0.6) == Asked()
    probe = health.on_start(work(), 1.1)
    assert isinstance(probe, Asked)
    health.on_nothing(probe)
    probe = health.on_start(work(), 1.1)
    assert isinstance(probe, Asked)
    health.on_success(probe)
    assert health.snapshot().breakers["llm"].state is BreakerState.CLOSED


def test_overdue_calls_are_counted_by_stage() -> None:
    """For the metrics."""
    health = EngineHealth(HealthSettings(), LANES)
    for kind in (WorkKind.THINK, WorkKind.WARM, WorkKind.FINAL):
        health.on_overdue(work(kind))
    assert dict(health.snapshot().overdue) == {Stage.LLM: 2, Stage.ASR: 1}
