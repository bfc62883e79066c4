"""What of a turn is the pipeline's own, on a turn made by hand."""

from __future__ import annotations

import pytest
from overhead import Cost, cost_of, covered_s, percentiles, tone

from voicepipe.audio import last_audible
from voicepipe.core.events import BlameKind, Instants, Part, Speculation, Stage, TurnRecord, Verdict


def record(instants: Instants, *parts: tuple[Stage, BlameKind, float]) -> TurnRecord:
    split = tuple(Part(stage, kind, ms / 1000) for stage, kind, ms in parts)
    return TurnRecord(1, Verdict.MET, 0.2, 0.1, {}, Speculation(), None, instants=instants, parts=split)


def test_what_was_served_is_taken_off_the_system_gap() -> None:
    """Chunks count as far as they lie between commit and socket, and each instant once."""
    one = record(
        Instants(commit=10.0, sent=10.1),
        (Stage.ENDPOINT, BlameKind.ENDPOINT, 90.0),
        (Stage.LLM, BlameKind.HAND_OFF, 0.5),
        (Stage.LLM, BlameKind.WAIT, 7.0),
        (Stage.TTS, BlameKind.UNATTRIBUTED, 0.25),
        (Stage.SEND, BlameKind.WAIT, 0.125),
        (Stage.SEND, BlameKind.CLIENT, 2.0),
    )
    cost = cost_of(one, [(9.98, 10.02), (10.03, 10.05), (10.04, 10.06), (10.2, 10.3)])
    assert cost is not None
    assert (cost.system_ms, cost.service_ms, cost.overhead_ms) == pytest.approx((100.0, 50.0, 50.0))
    assert (cost.hand_off_ms, cost.unattributed_ms, cost.send_ms) == pytest.approx((0.5, 0.25, 0.125))
    assert cost.path_ms == pytest.approx(0.875)
    assert cost.queue_ms == pytest.approx(7.0), "waiting to be sent is no queue of the device"


def test_a_turn_without_content_has_no_cost() -> None:
    assert cost_of(record(Instants(commit=10.0)), []) is None


@pytest.mark.parametrize(
    ("spans", "covered"),
    [([], 0.0), ([(0.0, 1.0)], 0.0), ([(0.0, 9.0)], 3.0), ([(3.0, 4.0), (2.0, 2.5)], 1.5), ([(2, 4), (3, 5)], 3.0)],
)
def test_time_is_covered_once(spans: list[tuple[float, float]], covered: float) -> None:
    assert covered_s(spans, 2.0, 5.0) == pytest.approx(covered)


def test_percentiles_of_every_field() -> None:
    costs = [Cost(float(ms), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0) for ms in range(1, 101)]
    assert percentiles(costs)["overhead_ms"] == {"p50": 49.0, "p99": 98.0, "max": 99.0}
    assert percentiles([])["system_ms"] == {"p50": None, "p99": None, "max": None}


def test_the_speaker_falls_silent_where_the_clip_ends() -> None:
    assert last_audible(tone(), 16_000) == len(tone())
