"""Who calls when, and says what when: drawn beforehand, so that no caller waits for an answer.

An open loop: sessions arrive as a Poisson process, and every turn of a session has an intended instant, whatever
becomes of the turn before it. The same seed gives the same calls to every policy; more load is more calls of the
same kind.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habits:
    """Of the callers. Seconds; pairs are ranges, drawn from evenly."""

    turns: int = 5
    question_s: tuple[float, float] = (1.0, 3.0)
    clips_s: tuple[float, ...] = ()
    """Lengths of what may be said instead; none: any length in `question_s`."""
    answer_s: float = 1.5
    """What an answer that comes in time takes to be heard; the scripted one does."""
    gap_s: float = 0.2
    """Between a question and its answer, where that comes in time."""
    thought_s: tuple[float, float] = (0.3, 2.0)
    """From the end of that answer to the next question."""

    @property
    def session_s(self) -> float:
        """The mean length of a call."""
        said_s = sum(self.clips_s) / len(self.clips_s) if self.clips_s else sum(self.question_s) / 2
        turn_s = said_s + self.gap_s + self.answer_s + sum(self.thought_s) / 2
        return self.turns * turn_s


@dataclass(frozen=True, slots=True)
class Question:
    begin: float
    """Since the crowd began. Seconds, like `end`."""
    end: float
    clip: int = 0
    """Which of `Habits.clips_s` is said."""


@dataclass(frozen=True, slots=True)
class Call:
    at: float
    """Since the crowd began. Seconds, like `end`."""
    end: float
    questions: tuple[Question, ...]


def arrivals(sessions: float, seconds: float, habits: Habits, seed: int) -> list[Call]:
    """Calls for `seconds`, so many that `sessions` of them would be under way at a time if all were let in."""
    rng = random.Random(seed)
    rate_hz = sessions / habits.session_s
    calls, at = [], rng.expovariate(rate_hz)
    while at < seconds:
        calls.append(_call(at, habits, random.Random(rng.random())))
        at += rng.expovariate(rate_hz)
    return calls


def _call(at: float, habits: Habits, rng: random.Random) -> Call:
    questions, begin = [], at + 0.3
    for _ in range(habits.turns):
        clip, length_s = 0, round(rng.uniform(*habits.question_s), 2)
        if habits.clips_s:
            clip = rng.randrange(len(habits.clips_s))
            length_s = habits.clips_s[clip]
        end = begin + length_s
        questions.append(Question(begin, end, clip))
        begin = end + habits.gap_s + habits.answer_s + rng.uniform(*habits.thought_s)
    return Call(at, begin, tuple(questions))
