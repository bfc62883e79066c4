"""Refused callers, played again."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from arrivals import Call, Question
from jobs import WARM_S, Job, run
from rejects import could_have_served, false_rejects


@dataclass(frozen=True, slots=True)
class Told(Job):
    """These calls instead of drawn ones."""

    these: tuple[Call, ...] = ()

    def calls(self) -> list[Call]:
        return list(self.these)


def told(*ends: float, cap: int) -> Told:
    """One question of a second from each caller, that ends so long after the first instant that counts."""
    questions = [Question(WARM_S + end - 1.0, WARM_S + end) for end in ends]
    calls = tuple(Call(WARM_S + 0.1 + 0.01 * n, WARM_S + 5.0, (one,)) for n, one in enumerate(questions))
    return Told("count", 1.0, float(len(ends)), 5.0, 1, cap, these=calls)


def test_who_would_have_been_in_time_was_refused_in_vain() -> None:
    job = told(1.6, 2.6, cap=1)
    played = run(job)
    assert [asked.call for asked in played.asked if asked.refused] == [1]
    assert could_have_served(job, played, 1)


def test_who_would_have_made_others_late_was_not() -> None:
    """Five callers who end in the same instant, where two fit into a budget."""
    job = told(1.6, 1.6, 1.6, 1.6, 1.6, cap=2)
    played = run(job)
    assert sorted(asked.call for asked in played.asked if asked.refused) == [2, 3, 4]
    more = told(1.6, 1.6, 1.6, cap=2)
    assert not could_have_served(more, run(more), 2)
    assert not could_have_served(job, played, 4)


def test_false_rejects_are_counted_over_those_that_were_drawn() -> None:
    """Of all that were refused."""
    job = told(1.6, 2.6, 3.6, cap=1)
    with ProcessPoolExecutor(1) as pool:
        told_of = false_rejects(pool, [(job, run(job))], 5)
        assert told_of == {"refused": 2, "sampled": 2, "could_have_served": 2}
        assert false_rejects(pool, [(job, run(job))], 1)["sampled"] == 1
        assert false_rejects(pool, [], 5) == {"refused": 0, "sampled": 0, "could_have_served": 0}
