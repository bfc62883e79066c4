"""The policy `deadline`: one more session, if all turns of all sessions can then still be expected to be in time.

Four tests, in this order; the first that fails is the reason of the refusal. n counts the newcomer.

    utilisation   n (share - listening), and n times the ears' share                <= 0.9 room
                  turns of a rush times what one needs, over the time of it         <= room
    burst         correction P(a turn is late because others ended just before it)  <= late
    memory        n (prompt + thinking + answer)                                    <= 0.9 pool, and n <= slots
    loop-lag      p99 of the event loop's lag                                       <  10 ms, then <= 5 ms again

Burst. Turns have equal budgets, so that they are served in the order in which they ended. One that finds k others
before it is done C + (k - 2) C' + C_own + B after the first of those came, and late if the last k - 1 others came
within

    w_k = C + (k - 2) C' + C_own + B - D

of it (Lindley's recursion, written out). The other n - 1 sessions end one turn in that window each with probability
lambda w_k, independently, so that P(late) <= sum over k of P(Binomial(n - 1, lambda w_k) >= k - 1): exact tails,
and a union bound over k. C is what a turn costs others after its speech end, each length counted as often as it
lasts, and C' what of it is added where steps of several turns are done in one chunk (`core.batches`): the one that
is under way when others come is too far on for that, and those that wait for it come to the same step. C_own is
what it costs itself: as often its mean plus as minus its mean deviation. Both are measured, apart for turns with
and without a reply begun ahead, and weighted by how often that happens (`core.demand`); C_own with the time before
the first chunk could be asked for. B is half the longest chunk of a lower class, which may have just begun or be
about to end; D is the budget without the way to the client. Listening to the others gives way, to these turns and
to all that sessions need: when decodes take longer, there are fewer of them. The correction is learnt from what
becomes of turns (`core.calibration`). A window of D, as in the demand-bound test for simultaneous turns, would
refuse far more than is late: two turns within 158 ms of each other are both in time where each takes 75, the first
of them 40 ms after its speech end.

Utilisation. Turns are served before replies are gone on with, which are made up to `PUT_OFF_S` ahead; where more
turns come in such a time than the device can make all of, what was put off becomes urgent, and is in the way of the
next turns (on a device for 83 sessions 0.14, 1.4 and 3 % of turns late at a mean need of 60, 75 and 83 %). So the
turns that `1 - late` of such times do not exceed, a quantile of Binomial(n, lambda W), must fit: W is `PUT_OFF_S`,
or as long as a turn's work is spread by itself where that is longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from voicepipe.core.demand import DemandSnapshot
from voicepipe.core.quantiles import binomial_quantile, binomial_tail

MOST_BEFORE = 64
"""Turns in a row that are looked at: on a device that passes `utilisation`, more have no probability to speak
of."""
NEGLIGIBLE = 1e-7
PUT_OFF_S = 3.0
"""So far ahead of playback replies are made (`core.reply`): for about as long, all but first sounds can wait."""


class Test(StrEnum):
    UTILISATION = "utilisation"
    BURST = "burst"
    MEMORY = "memory"
    LOOP_LAG = "loop-lag"

    __test__ = False  # not one of pytest's


@dataclass(frozen=True, slots=True)
class DeadlineSettings:
    budget_s: float = 0.2
    """Speech end to audible content."""
    overhead_s: float = 0.002
    """The part of it in which nothing can be worked: to the client."""
    utilisation: float = 0.9
    """Of the shared lane, and of the ears'."""
    late: float = 0.005
    """Turns that may be late because of others."""
    slots: int | None = None
    """Of the model, one per session; None: as many as are asked for."""
    pool_tokens: int | None = None
    """KV pool that sessions share; None: each slot has its own."""
    pool_share: float = 0.9
    session_tokens: int = 0
    """Prompt, thinking and answer of one session at most."""
    lag_s: float = 0.010
    lag_again_s: float = 0.005
    """Below that, sessions are taken again."""

    def __post_init__(self) -> None:
        if not self.budget_s > 0.0 or not self.overhead_s >= 0.0:
            raise ValueError("a budget is positive, an overhead not negative")
        if not (0.0 < self.utilisation <= 1.0 and 0.0 < self.late < 1.0 and 0.0 < self.pool_share <= 1.0):
            raise ValueError("utilisation, late and pool_share are shares")
        if not 0.0 < self.lag_again_s <= self.lag_s:
            raise ValueError("lag_again_s must lie in (0, lag_s]")


def late_risk(n: int, demand: DemandSnapshot, settings: DeadlineSettings, budget_s: float) -> float:
    """P(a turn is late), of n sessions, in [0, 1]: the test `burst`."""
    blocked_s = 0.5 * demand.blocking_s if n > 1 else 0.0
    room_s = budget_s - settings.overhead_s - blocked_s
    risk, turn_s = 0.0, demand.burst_s
    more_s = demand.joined_share * turn_s
    for share, own in ((demand.hit_rate, demand.hit), (1.0 - demand.hit_rate, demand.miss)):
        for own_s in (own.path_s + own.path_deviation_s, own.path_s - own.path_deviation_s):
            risk += 0.5 * share * _collision(n - 1, demand.turns_hz, turn_s, more_s, own_s - room_s)
    return min(risk, 1.0)


def _collision(others: int, turns_hz: float, turn_s: float, more_s: float, over_s: float) -> float:
    """`over_s`: by how much the turn is late when it is alone; negative where it has room."""
    if over_s > 0.0:
        return 1.0
    risk = newest = 0.0
    for before in range(1, min(others, MOST_BEFORE) + 1):
        window_s = turn_s + (before - 1) * more_s + over_s
        if window_s <= 0.0:
            continue
        last, newest = newest, binomial_tail(others, min(1.0, turns_hz * window_s), before)
        risk += newest
        if risk >= 1.0 or newest < min(last, NEGLIGIBLE):
            break
    return min(risk, 1.0)


def utilisation(n: int, demand: DemandSnapshot, settings: DeadlineSettings, room: float = 1.0) -> float:
    """Of what the lanes have time for, the share that n sessions need: in the mean, and while more of them than
    usual want answers. `room`: as learnt."""
    needed = demand.share - demand.listening_share
    mean = n * max(needed, demand.ears_share) / settings.utilisation / min(room, 1.0)
    if demand.turns_hz <= 0.0:
        return mean
    window_s = max(PUT_OFF_S, demand.spread_s)
    turns = binomial_quantile(n, min(1.0, demand.turns_hz * window_s), 1.0 - settings.late)
    rush = turns * needed / min(demand.turns_hz, 1.0 / window_s) / window_s
    return max(mean, rush / room)


def simultaneous(n: int, demand: DemandSnapshot, settings: DeadlineSettings) -> int:
    """How many of n sessions end a turn within one budget, at the level of the test: for metrics."""
    p = min(1.0, demand.turns_hz * settings.budget_s)
    return binomial_quantile(n, p, 1.0 - settings.late)


class LagGate:
    """Shut from the upper threshold on, open again below the lower one."""

    def __init__(self, shut_s: float, open_s: float) -> None:
        self._shut_s, self._open_s = shut_s, open_s
        self.lag_s = 0.0
        self.is_shut = False

    def on_lag(self, p99_s: float) -> None:
        self.lag_s = p99_s
        self.is_shut = p99_s > self._open_s if self.is_shut else p99_s >= self._shut_s


@dataclass(frozen=True, slots=True)
class Learnt:
    """From what has become of turns (`core.calibration`)."""

    correction: float = 1.0
    """Times the predicted risk, what happens."""
    late: float | None = None
    """The share of turns that may be late by now; None: the settings'."""
    room: float = 1.0
    """The share of `utilisation` that can be used; above 1, what of a rush is made in time beyond what fits."""


NOTHING_LEARNT = Learnt()


def loads(
    n: int,
    demand: DemandSnapshot,
    settings: DeadlineSettings,
    budget_s: float,
    lag: LagGate,
    learnt: Learnt = NOTHING_LEARNT,
) -> Mapping[Test, float]:
    """Of each test, how much of what it allows n sessions would use. One that fails is above 1."""
    memory = n / settings.slots if settings.slots else 0.0
    if settings.pool_tokens is not None:
        memory = max(memory, n * settings.session_tokens / (settings.pool_share * settings.pool_tokens))
    lagging = lag.lag_s / settings.lag_s
    return {
        Test.UTILISATION: utilisation(n, demand, settings, learnt.room),
        Test.BURST: learnt.correction * late_risk(n, demand, settings, budget_s) / (learnt.late or settings.late),
        Test.MEMORY: memory,
        Test.LOOP_LAG: max(lagging, 1.001) if lag.is_shut else min(lagging, 1.0),
    }


def tightest(
    settings: DeadlineSettings, demand: DemandSnapshot, asked_s: float | None, held_s: Iterable[float]
) -> float:
    """The budget that counts: the server's, or a smaller one that the newcomer asks for (`asked_s`), or that
    somebody was promised and can be given. One that this machine cannot reach even alone binds nobody else."""
    alone_s = settings.overhead_s + min(demand.hit.path_s, demand.miss.path_s)
    promised = [budget_s for budget_s in held_s if budget_s >= alone_s]
    asked = [] if asked_s is None else [asked_s]
    return min([settings.budget_s, *asked, *promised])
