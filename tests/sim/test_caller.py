"""Callers are drawn beforehand, by a seed, and speak as people do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import mean

import pytest

from voicepipe.core.patience import is_open, sounds_finished
from voicepipe.sim.caller import ENOUGH_S, Call, Habits, draw_calls, drawn, mean_session_s

NOTICED_S = (0.0, 0.06)


def calls(
    sessions: float = 20.0, seconds: float = 2000.0, seed: int = 1, habits: Habits | None = None
) -> tuple[Call, ...]:
    return draw_calls(sessions, seconds, habits or Habits(), NOTICED_S, Random(seed))


def test_the_same_seed_draws_the_same_callers() -> None:
    assert calls(seconds=200.0) == calls(seconds=200.0) != calls(seconds=200.0, seed=2)


def test_so_many_sessions_are_under_way_as_are_asked_for() -> None:
    """Little's law, of calls that are all let in."""
    drawn_calls = calls(20.0, 20_000.0)
    under_way = sum(call.end - call.at for call in drawn_calls) / 20_000.0
    assert under_way == pytest.approx(20.0, rel=0.05)
    assert mean(call.end - call.at for call in drawn_calls) == pytest.approx(mean_session_s(Habits()), rel=0.05)


def test_more_load_is_more_callers_of_the_same_kind() -> None:
    few, many = calls(10.0, 20_000.0), calls(30.0, 20_000.0)
    assert len(many) == pytest.approx(3 * len(few), rel=0.1)
    lengths = [mean(said.end - said.begin for call in some for said in call.said) for some in (few, many)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)


def test_utterances_follow_each_other_and_words_fill_them() -> None:
    for call in calls(seconds=500.0):
        assert 4 <= len(call.said) <= 12 and call.at < call.said[0].begin and call.said[-1].end < call.end
        for before, after in pairwise(call.said):
            assert before.end + 0.2 < after.begin
        for said in call.said:
            assert len(said.words) == len(said.ends) and said.ends[-1] == said.end
            assert list(said.ends) == sorted(said.ends) and said.begin < said.ends[0]
            for gap in said.gaps:
                assert said.begin < gap.begin < gap.end < said.end and gap.begin in said.ends


def test_pauses_are_noticed_and_lulls_are_not() -> None:
    habits = Habits(lull=0.3, pause=0.2)
    gaps = [gap for call in calls(seconds=1000.0, habits=habits) for said in call.said for gap in said.gaps]
    noticed = [gap for gap in gaps if gap.noticed_s]
    assert len(noticed) / len(gaps) == pytest.approx(0.4, abs=0.05)
    assert all(0.199 < gap.end - gap.begin < 0.801 and gap.noticed_s <= 0.06 for gap in noticed)
    assert all(0.029 < gap.end - gap.begin < 0.071 for gap in gaps if not gap.noticed_s)


def test_who_barges_in_does_so_before_the_answer_has_been_heard() -> None:
    habits = replace(Habits(), barge_in=1.0)
    for call in calls(seconds=200.0, habits=habits):
        for said, after in pairwise(call.said):
            heard_s = after.begin - said.end - habits.gap_s
            assert ENOUGH_S - 1e-9 <= heard_s < max(ENOUGH_S, 0.8 * said.reply.seconds) + 1e-9
    for call in calls(seconds=200.0, habits=replace(habits, barge_in=0.0)):
        for said, after in pairwise(call.said):
            assert after.begin - said.end - habits.gap_s - said.reply.seconds >= habits.thought_s[0] - 1e-9


def test_questions_sound_finished_at_their_end() -> None:
    """By the words that turns are committed by; on their way only where a mark says so."""
    for call in calls(seconds=500.0):
        for said in call.said:
            assert sounds_finished(f"{' '.join(said.words)}{said.mark}")
            assert not is_open(" ".join(said.words[:3]))
            assert not sounds_finished(" ".join(said.words[:3]))


def test_quantiles_are_drawn_from_evenly() -> None:
    assert [drawn((1.0, 2.0, 4.0), share) for share in (0.0, 0.25, 0.5, 0.75)] == [1.0, 1.5, 2.0, 3.0]
    assert drawn((1.5,), 0.7) == 1.5
