"""A crowd in virtual time: whole sessions, and what is told of them."""

from __future__ import annotations

from arrivals import Call, Question, arrivals
from crowd import play
from jobs import HABITS, config_of

QUESTIONS = (Question(0.5, 2.0), Question(5.0, 6.5))


def test_callers_who_are_alone_are_answered_in_time() -> None:
    played = play(config_of("none", 8), [Call(0.2, 9.0, QUESTIONS)], 0.0, 9.0)
    assert [asked.kept for asked in played.asked] == [True, True]
    assert (played.admitted, played.refused, played.most) == (1, {}, 1)
    assert all(0.05 < asked.felt_s < 0.2 for asked in played.asked)


def test_who_is_refused_asks_in_vain_and_does_not_count() -> None:
    calls = [Call(0.2, 9.0, QUESTIONS), Call(0.3, 9.0, QUESTIONS)]
    played = play(config_of("count", 1), calls, 0.0, 9.0)
    assert played.refused == {"capacity": 1}
    assert sorted(asked.refused for asked in played.asked) == ["", "", "capacity", "capacity"]
    assert [asked.counts for asked in played.asked if asked.refused] == [False, False]


def test_only_what_falls_into_the_window_is_counted() -> None:
    played = play(config_of("none", 8), [Call(0.2, 9.0, QUESTIONS)], 3.0, 9.0)
    assert [asked.question for asked in played.asked] == [QUESTIONS[1]]
    assert played.admitted == 0


def test_the_same_calls_have_the_same_outcome() -> None:
    calls = arrivals(6.0, 12.0, HABITS, 1)
    assert len(calls) > 1
    one, two = (play(config_of("deadline", 8), calls, 0.0, 12.0) for _ in range(2))
    assert one == two
