"""What callers do: when they call, what they say when, and where they pause, drawn beforehand.

An open loop: whatever becomes of a turn, the next one begins at its own instant. So every arm of an experiment is
asked the same by the same callers, and a reply that comes late, or not at all, spares the server nothing. A caller
who barges in begins while the answer that was to be expected would still be heard.

What a recogniser will make of the words is drawn here too, word by word, and not when it is asked: decodes come at
other instants in every arm, and must not hear differently because of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from voicepipe.sim.draws import drawn
from voicepipe.sim.replies import REPLIES, Reply

Range = tuple[float, float]
"""Drawn from evenly."""

ENOUGH_S = 1.2
"""Of an answer, that is heard before somebody barges in: who speaks again sooner goes on with the same turn."""
LEAD_S = 0.3
"""From the connection to the first word, at the least."""


@dataclass(frozen=True, slots=True)
class Habits:
    """Of all callers. Seconds; rates are probabilities."""

    turns: tuple[int, int] = (4, 12)
    words: tuple[int, int] = (4, 11)
    """Of one utterance."""
    words_per_s: Range = (2.4, 3.4)
    lull: float = 0.25
    """Between two words: a gap too short for the detector, `lull_s` long."""
    lull_s: Range = (0.03, 0.07)
    pause: float = 0.02
    """Between two words: one that the detector notices, `pause_s` long."""
    pause_s: Range = (0.2, 0.8)
    thought_s: Range = (0.8, 5.0)
    """From the end of an answer to the next question."""
    gap_s: float = 0.2
    """Between a question and its answer, where that comes in time."""
    barge_in: float = 0.05
    """Begins before the answer has been heard."""
    report_every_s: float = 2.0
    """Playback that the client reports; 0: it reports none."""
    misheard: float = 0.12
    """The last word that a decode hears, while more of it is to come, is another one."""
    rethought: float = 0.04
    """A decode of the whole utterance has another last word than those that heard it on its way."""
    marked: float = 0.15
    """Words after which more comes look like the end of a sentence."""
    unmarked: float = 0.0
    """The utterance does not look finished though it is."""
    unsaid: float = 0.0
    """There are no words in it: a cough."""


@dataclass(frozen=True, slots=True)
class Gap:
    begin: float
    end: float
    noticed_s: float = 0.0
    """How long after its begin the detector's first silent frame begins; 0: it notices nothing."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Times are seconds since the beginning of the run."""

    begin: float
    end: float
    """Of the sound: what a turn's felt gap counts from."""
    words: tuple[str, ...]
    ends: tuple[float, ...]
    """When each of them has been said."""
    mark: str
    """Behind the last one."""
    misheard: tuple[bool, ...]
    marked: tuple[bool, ...]
    rethought: bool
    gaps: tuple[Gap, ...]
    noticed_s: float
    """As a gap's, of the silence behind it."""
    reply: Reply


@dataclass(frozen=True, slots=True)
class Call:
    at: float
    end: float
    """It is hung up."""
    said: tuple[Utterance, ...]
    report_every_s: float = 0.0
    """Playback that the client reports; 0: it reports none."""
    unasked: frozenset[int] = frozenset()
    """Numbers of questions, from 0, that are not put: a server that knew beforehand would have refused them."""


def mean_session_s(habits: Habits) -> float:
    """Of a call that is let in."""
    turns, words = sum(habits.turns) / 2, sum(habits.words) / 2
    said_s = words / (sum(habits.words_per_s) / 2)
    answer_s = sum(reply.seconds for reply in REPLIES) / len(REPLIES)
    heard_s = (1.0 - habits.barge_in) * (answer_s + sum(habits.thought_s) / 2) + habits.barge_in * max(
        ENOUGH_S, answer_s / 2
    )
    return LEAD_S + turns * (said_s + habits.gap_s + heard_s)


def draw_calls(
    sessions: float, seconds: float, habits: Habits, noticed_s: Sequence[float], chance: Random
) -> tuple[Call, ...]:
    """Calls that come in `seconds`, as a Poisson process with so many that `sessions` of them would be under way at
    a time if all were let in. `noticed_s`: quantiles of how late the detector notices silence."""
    rate_hz = sessions / mean_session_s(habits)
    calls: list[Call] = []
    at = chance.expovariate(rate_hz)
    while at < seconds:
        calls.append(_call(at, _Drawer(habits, noticed_s, Random(chance.random()))))
        at += chance.expovariate(rate_hz)
    return tuple(calls)


class _Drawer:
    """Of one caller."""

    def __init__(self, habits: Habits, noticed_s: Sequence[float], chance: Random) -> None:
        self.habits = habits
        self.chance = chance
        self._noticed_s = noticed_s

    def noticed_s(self) -> float:
        return drawn(self._noticed_s, self.chance.random())

    def is_so(self, probability: float) -> bool:
        return self.chance.random() < probability


def _call(at: float, drawer: _Drawer) -> Call:
    habits, chance = drawer.habits, drawer.chance
    begin, said = at + LEAD_S, []
    for _ in range(chance.randint(*habits.turns)):
        utterance = _utterance(begin, drawer)
        said.append(utterance)
        answer_s, thought_s = utterance.reply.seconds, chance.uniform(*habits.thought_s)
        share = chance.uniform(0.2, 0.8)
        barges_in = drawer.is_so(habits.barge_in)
        heard_s = max(ENOUGH_S, share * answer_s) if barges_in else answer_s + thought_s
        begin = utterance.end + habits.gap_s + heard_s
    return Call(at, begin, tuple(said), habits.report_every_s)


def _utterance(begin: float, drawer: _Drawer) -> Utterance:
    habits, chance = drawer.habits, drawer.chance
    number = chance.randint(*habits.words)
    words = _question(number, chance)
    word_s = 1.0 / chance.uniform(*habits.words_per_s)
    ends: list[float] = []
    gaps: list[Gap] = []
    at = begin
    for index in range(number):
        at += word_s
        ends.append(at)
        gap = _gap(at, drawer) if index < number - 1 else None
        if gap is not None:
            gaps.append(gap)
            at = gap.end
    unsaid = drawer.is_so(habits.unsaid)
    return Utterance(
        begin,
        ends[-1],
        () if unsaid else words,
        () if unsaid else tuple(ends),
        "" if drawer.is_so(habits.unmarked) else "?",
        tuple(drawer.is_so(habits.misheard) for _ in words),
        tuple(drawer.is_so(habits.marked) for _ in words),
        drawer.is_so(habits.rethought),
        tuple(gaps),
        drawer.noticed_s(),
        chance.choice(REPLIES),
    )


def _gap(at: float, drawer: _Drawer) -> Gap | None:
    habits, share = drawer.habits, drawer.chance.random()
    if share < habits.pause:
        return Gap(at, at + drawer.chance.uniform(*habits.pause_s), drawer.noticed_s())
    if share < habits.pause + habits.lull:
        return Gap(at, at + drawer.chance.uniform(*habits.lull_s))
    return None


def _question(words: int, chance: Random) -> tuple[str, ...]:
    """None of its words asks for more to come, as "the" or "of" would; pauses are long enough as they are."""
    return (chance.choice(_FIRST), *(chance.choice(_WORDS) for _ in range(words - 1)))


_FIRST = ("What", "Where", "Who", "Tell", "Show", "Find")
_WORDS = (
    "many people play outside near old town during long winter evenings walk home after work together "
    "every second sunday listen music visit cheap trains leave north platform early tomorrow tickets"
).split()
WRONG = "banana"
"""What is heard instead of a word."""
