"""Calls that are drawn beforehand: the same for everybody, and as many as were asked for."""

from __future__ import annotations

import pytest
from arrivals import Habits, arrivals

HABITS = Habits()


def test_the_same_seed_gives_the_same_calls() -> None:
    assert arrivals(6.0, 100.0, HABITS, 1) == arrivals(6.0, 100.0, HABITS, 1)
    assert arrivals(6.0, 100.0, HABITS, 1) != arrivals(6.0, 100.0, HABITS, 2)


@pytest.mark.parametrize("sessions", [2.0, 20.0])
def test_so_many_are_under_way_as_were_asked_for(sessions: float) -> None:
    """Little's law, by the time that calls last."""
    calls = arrivals(sessions, 4000.0, HABITS, 3)
    assert sum(call.end - call.at for call in calls) / 4000.0 == pytest.approx(sessions, rel=0.1)


def test_questions_follow_each_other_with_time_for_an_answer() -> None:
    """Whatever becomes of that: their instants are fixed."""
    for call in arrivals(5.0, 200.0, HABITS, 4):
        assert len(call.questions) == HABITS.turns and call.at < call.questions[0].begin
        for one, following in zip(call.questions, call.questions[1:], strict=False):
            assert following.begin - one.end >= HABITS.gap_s + HABITS.answer_s + HABITS.thought_s[0]
        assert all(1.0 <= question.end - question.begin <= 3.0 for question in call.questions)
        assert call.questions[-1].end < call.end


def test_recordings_last_as_long_as_they_do() -> None:
    spoken = Habits(clips_s=(1.25, 2.5))
    for call in arrivals(5.0, 100.0, spoken, 5):
        for question in call.questions:
            assert question.end - question.begin == pytest.approx(spoken.clips_s[question.clip])
