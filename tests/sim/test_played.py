"""What became of questions: each has the turn whose speech ended nearest to its end."""

from __future__ import annotations

from dataclasses import replace

from voicepipe.core.events import Instants, Speculation, TurnRecord, Verdict
from voicepipe.sim.caller import Call
from voicepipe.sim.played import NEAR_S, Asked, became, refused

from .test_recogniser import SAID

LATER = replace(SAID, begin=20.0, end=22.0)
CALL = Call(9.0, 30.0, (SAID, LATER))


def record(speech_end: float | None, verdict: Verdict = Verdict.MET, felt_s: float | None = 0.15) -> TurnRecord:
    return TurnRecord(1, verdict, felt_s, felt_s, {}, Speculation(), None, instants=Instants(speech_end=speech_end))


def test_a_question_has_the_turn_that_ended_with_it() -> None:
    """A turn that was committed in a pause is nobody's."""
    early, right, later = record(11.2), record(12.01), record(22.0)
    assert [asked.record for asked in became(3, CALL, [early, right, later])] == [right, later]
    assert became(3, CALL, [early, later])[0] == Asked(3, 0, SAID, None)
    assert became(3, CALL, [record(None), record(12.0 + NEAR_S)])[0].record is None


def test_who_was_not_let_in_was_not_answered() -> None:
    assert [(asked.number, asked.refused, asked.record) for asked in refused(3, CALL, "burst")] == [
        (0, "burst", None),
        (1, "burst", None),
    ]


def test_what_is_felt_counts_from_the_questions_end() -> None:
    """And not from where the server thought that it had ended."""
    assert abs((Asked(1, 0, SAID, record(12.02, felt_s=0.15)).felt_s or 0.0) - 0.17) < 1e-9
    assert Asked(1, 0, SAID, record(12.0, Verdict.FAILED, None)).felt_s is None
    assert Asked(1, 0, SAID, None).felt_s is None


def test_whom_the_promise_was_made_to() -> None:
    met, missed, gone = (Asked(1, 0, SAID, record(12.0, verdict)) for verdict in (
        Verdict.MET, Verdict.MISSED, Verdict.INTERRUPTED,
    ))  # fmt: skip
    none, out = Asked(1, 0, SAID, None), Asked(1, 0, SAID, None, "capacity")
    assert [asked.counts for asked in (met, missed, gone, none, out)] == [True, True, False, True, False]
    assert [asked.kept for asked in (met, missed, gone, none, out)] == [True, False, False, False, False]
    assert met.end == 12.0
