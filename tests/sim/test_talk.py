"""One session: its turns are asked, answered, interrupted and taken back, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from voicepipe.config import AdmissionConfig
from voicepipe.core.events import Verdict, WorkKind
from voicepipe.sim.caller import Call, Gap, Utterance
from voicepipe.sim.played import FORESEEN, Played
from voicepipe.sim.replies import REPLIES
from voicepipe.sim.scene import Scene, play

NO = (False,) * 6
WORDS = ("What", "music", "people", "play", "outside", "tomorrow")


def said(begin: float, **more: object) -> Utterance:
    ends = tuple(begin + 0.35 * (index + 1) for index in range(len(WORDS)))
    asked = Utterance(begin, ends[-1], WORDS, ends, "?", NO, NO, False, (), 0.045, REPLIES[4])
    return replace(asked, **more)  # type: ignore[arg-type]


def alone(*utterances: Utterance, end: float = 30.0, report_every_s: float = 0.5, **more: object) -> Played:
    call = Call(1.0, end, tuple(utterances), report_every_s)
    played = play(replace(Scene(seconds=end, calls=(call,)), **more))  # type: ignore[arg-type]
    assert played.leases == {"session": 0, "llm": 0, "text": 0}
    return played


def verdicts(played: Played) -> list[str | None]:
    return [None if asked.record is None else asked.record.verdict.value for asked in played.asked]


def test_a_question_is_answered_ahead_and_the_answer_released_at_the_commit() -> None:
    """In fast: 96 ms of quiet and what packets add; the audio was ready, and waits for the socket only."""
    played = alone(said(2.0))
    (asked,) = played.asked
    assert asked.record is not None and asked.record.verdict is Verdict.MET and asked.record.speculation.hit
    assert 0.096 < (asked.felt_s or 0.0) < 0.14 and (asked.record.system_s or 1.0) < 0.03
    assert asked.record.instants.heard is not None


@pytest.mark.parametrize(
    ("point", "low", "high"), [("fast", 0.096, 0.14), ("balanced", 0.128, 0.22), ("safe", 1.3, 1.5)]
)
def test_operating_points_are_as_patient_as_they_are(point: str, low: float, high: float) -> None:
    played = alone(said(2.0), operating_point=point)
    assert low < (played.asked[0].felt_s or 0.0) < high


def test_without_speculation_the_work_begins_with_the_commit() -> None:
    ahead, at_commit = (alone(said(2.0), speculates=speculates).asked[0] for speculates in (True, False))
    assert ahead.record is not None and at_commit.record is not None
    assert not at_commit.record.speculation.hit and at_commit.record.speculation.attempts == 0
    assert (at_commit.record.system_s or 0.0) > (ahead.record.system_s or 0.0) + 0.03


def test_a_cough_is_no_turn_to_answer() -> None:
    assert verdicts(alone(said(2.0, words=(), ends=()), said(6.0))) == ["empty", "met"]


def test_who_barges_in_ends_the_reply_and_is_answered_in_turn() -> None:
    """The verdict on what was heard by then stays."""
    first = said(2.0, reply=REPLIES[15])
    second = said(first.end + 3.0)
    played = alone(first, second)
    assert verdicts(played) == ["met", "met"]
    one, two = (asked.record for asked in played.asked)
    assert one is not None and two is not None and one.instants.ended is not None
    assert second.begin + 0.25 < one.instants.ended < second.begin + 0.5


def test_a_commit_in_a_pause_is_taken_back() -> None:
    """The words before it sounded finished; both halves become one turn."""
    paused = said(2.0)
    marked = (False, False, True, False, False, False)
    gap = Gap(paused.ends[2], paused.ends[2] + 0.3, 0.045)
    ends = (*paused.ends[:3], *(end + 0.3 for end in paused.ends[3:]))
    played = alone(replace(paused, marked=marked, gaps=(gap,), ends=ends, end=ends[-1]))
    (asked,) = played.asked
    assert asked.record is not None and asked.record.reopened == 1 and asked.kept
    assert played.turns == 1


def test_a_commit_in_a_long_pause_is_taken_back_as_well() -> None:
    """Longer than what is told of the silence behind an utterance."""
    paused = said(2.0)
    marked = (False, False, True, False, False, False)
    gap = Gap(paused.ends[2], paused.ends[2] + 0.75, 0.045)
    ends = (*paused.ends[:3], *(end + 0.75 for end in paused.ends[3:]))
    (asked,) = alone(replace(paused, marked=marked, gaps=(gap,), ends=ends, end=ends[-1])).asked
    assert asked.record is not None and asked.record.reopened == 1 and asked.kept


def test_a_pause_that_does_not_look_finished_is_waited_out() -> None:
    paused = said(2.0)
    gap = Gap(paused.ends[2], paused.ends[2] + 0.3, 0.045)
    ends = (*paused.ends[:3], *(end + 0.3 for end in paused.ends[3:]))
    played = alone(replace(paused, gaps=(gap,), ends=ends, end=ends[-1]))
    (asked,) = played.asked
    assert asked.record is not None and asked.record.reopened == 0 and asked.kept


def test_who_hangs_up_in_the_middle_of_a_turn_leaves_nothing_behind() -> None:
    """Wherever that is: in speech, in the pause, in the reply. Each turn has its verdict."""
    ends = Counter[str | None]()
    for end in (*(2.0 + tenth / 10 for tenth in range(60)), *(4.15 + hundredth / 100 for hundredth in range(25))):
        played = alone(said(2.0), end=end, speculates=False)
        assert played.turns <= 1
        ends[verdicts(played)[0] if played.asked else None] += 1
    assert ends.keys() >= {"met", "interrupted", None}


def test_without_reports_a_reply_is_heard_by_the_clock() -> None:
    played = alone(said(2.0), report_every_s=0.0)
    (asked,) = played.asked
    assert asked.record is not None and asked.record.instants.heard is None
    assert asked.record.instants.ended == pytest.approx(
        (asked.record.instants.sent or 0.0) + asked.said.reply.seconds, abs=0.05
    )


def test_turns_of_a_long_session_are_all_answered() -> None:
    questions: Sequence[Utterance] = [said(2.0 + 9.0 * index, reply=REPLIES[index % 16]) for index in range(20)]
    played = alone(*questions, end=200.0)
    assert verdicts(played) == ["met"] * 20


def test_who_is_late_is_refused_where_the_deadline_is_enforced() -> None:
    for enforcement, expected in (("enforce", "refused"), ("degrade", "missed")):
        played = alone(said(2.0), budget_s=0.105, speculates=False, enforcement=enforcement, ladder=())
        assert verdicts(played) == [expected]


def test_who_is_late_hears_a_sound_where_there_is_one() -> None:
    played = alone(said(2.0), said(12.0), budget_s=0.11, speculates=False, ladder=("acknowledge",))
    assert verdicts(played) == ["masked", "missed"]  # one in three at most


def test_a_question_that_is_refused_beforehand_is_not_put_and_costs_nothing() -> None:
    """The others have the luck that they have with it."""
    call = Call(1.0, 30.0, (said(2.0), said(10.0), said(18.0)))
    every, spared = (
        play(
            replace(Scene(seconds=30.0, keeps_chunks=True, admission=AdmissionConfig(policy="none")), calls=(each,))
        )
        for each in (call, replace(call, unasked=frozenset({1})))
    )
    assert [asked.refused for asked in spared.asked] == ["", FORESEEN, ""]
    assert spared.asked[1].record is None and not spared.asked[1].counts
    assert verdicts(every) == ["met"] * 3 and verdicts(spared) == ["met", None, "met"]

    def finals(played: Played, begin: float) -> list[float]:
        of_kind = [timing for work, timing, _ in played.chunks if work.kind is WorkKind.FINAL]
        return [round(t.service_s, 9) for t in of_kind if begin <= t.started < begin + 6.0]

    assert finals(spared, 10.0) == [] and finals(spared, 18.0) == finals(every, 18.0) != finals(every, 10.0)
