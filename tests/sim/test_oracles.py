"""Queueing theory against the timeline, the scheduler and the machine that experiments are built on.

Poisson arrivals of chunks, served one at a time (or c at a time) by `core.scheduler` behind `SchedulerMachine`:
mean waits are those of M/M/1, M/D/1, M/G/1 (Pollaczek and Khinchine), the non-preemptive priority queue (Cobham,
1954) and M/M/c (Erlang C), each within four standard errors, which are a few per cent themselves; every run obeys
Little's law. The same arrivals through the same queue built on SimPy begin at the same instants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import factorial, sqrt
from random import Random
from statistics import fmean, stdev
from typing import cast

import pytest

from voicepipe.core.background import TextSettings
from voicepipe.core.events import Load, Timing, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.scheduler import Pool
from voicepipe.sim.draws import Draw, Draws
from voicepipe.sim.machine import SchedulerMachine, Site
from voicepipe.sim.service import Times
from voicepipe.sim.texts import Tally
from voicepipe.sim.timeline import Timeline

BATCHES = 25
JOBS = 80_000
URGENT, PATIENT = WorkClass.STARTED, WorkClass.SPECULATION
Chance = Callable[[Random], float]


@dataclass(frozen=True)
class Job:
    arrives: float
    klass: WorkClass
    service_s: float


def drawn(rates: dict[WorkClass, float], service: Chance, jobs: int = JOBS, seed: int = 1) -> list[Job]:
    """Poisson arrivals of all classes together."""
    chance, now, made = Random(seed), 0.0, []
    classes, weights = list(rates), list(rates.values())
    for _ in range(jobs):
        now += chance.expovariate(sum(weights))
        made.append(Job(now, chance.choices(classes, weights)[0], service(chance)))
    return made


class Fixed:
    """In place of times drawn from a model: what each chunk brings along as its units, and no hand-offs."""

    def service_s(self, kind: WorkKind, load: Load, share: float) -> float:
        return load.units

    def begin_s(self, share: float) -> float:
        return 0.0

    def end_s(self, share: float) -> float:
        return 0.0


@dataclass
class Played:
    jobs: Sequence[Job]
    started: dict[int, float] = field(default_factory=dict)
    finished: dict[int, float] = field(default_factory=dict)
    present_s: float = 0.0
    """Integral of the number of jobs in the system over time."""
    _present: int = 0
    _since: float = 0.0

    def present(self, change: int, now: float) -> None:
        self.present_s += self._present * (now - self._since)
        self._present, self._since = self._present + change, now

    def waits(self, *classes: WorkClass) -> list[float]:
        chosen = [(at, job) for at, job in enumerate(self.jobs) if not classes or job.klass in classes]
        return [self.started[at] - job.arrives for at, job in chosen]


class Caller:
    """Whose chunks they are; answers nothing."""

    def __init__(self, played: Played, timeline: Timeline) -> None:
        self.played, self.timeline = played, timeline

    def on_run(self, work: Work) -> None:
        self.played.started[work.id] = self.timeline.now

    def on_ran(self, work: Work, timing: Timing) -> None:
        self.played.finished[work.id] = timing.finished
        self.played.present(-1, self.timeline.now)

    def on_dropped(self, work: Work) -> None:
        raise AssertionError("nothing is withdrawn")

    def on_failed(self, work: Work, code: str) -> None:
        raise AssertionError("nothing is refused")


def play(jobs: Sequence[Job], servers: int = 1) -> Played:
    """Through the machine of the voice experiments."""
    timeline, played = Timeline(), Played(jobs)
    placement = dict.fromkeys(WorkKind, "device")
    machine = SchedulerMachine(
        Site(
            timeline,
            cast(Times, Fixed()),
            Draws(""),
            placement,
            {"device": servers},
            Pool.DEDICATED,
            Forecaster(),
            lambda work, timing, lane: None,
            lambda work, service_s, whole: None,
            TextSettings(model=""),
            Tally(),
            lambda more: None,
        )
    )
    caller = Caller(played, timeline)

    def arrive(at: int) -> None:
        job = jobs[at]
        if at + 1 < len(jobs):
            timeline.at(jobs[at + 1].arrives, lambda: arrive(at + 1))
        played.present(1, timeline.now)
        load = Load("", job.service_s)
        machine.submit(
            Work(at, f"s{at}", 1, 0, 0, WorkKind.SPEAK, job.klass, load=load), caller, Draw(0.0, 0.0, 0.0)
        )

    timeline.at(jobs[0].arrives, lambda: arrive(0))
    timeline.run()
    assert len(played.finished) == len(jobs)
    return played


def agrees(waits: Sequence[float], theory: float, within: float = 0.06) -> None:
    """Batch means, the first batch left out: the queue was empty. Their standard error is a few per cent of the
    theory, and the mean within four of it."""
    size = len(waits) // BATCHES
    means = [fmean(waits[at * size : (at + 1) * size]) for at in range(1, BATCHES)]
    error = stdev(means) / sqrt(len(means))
    assert error < within * theory, "too short a run to say anything"
    assert abs(fmean(means) - theory) < 4.0 * error, (fmean(means), theory, error)


def exponential(mean_s: float) -> Chance:
    return lambda chance: chance.expovariate(1.0 / mean_s)


def two_kinds(chance: Random) -> float:
    """Short chunks and long ones: squared coefficient of variation 2.25."""
    return 0.25 if chance.random() < 0.9 else 3.25


def littles_law(played: Played) -> None:
    """L = lambda W: what the number in the system adds up to over time is what the jobs have spent in it."""
    spent = sum(played.finished[at] - job.arrives for at, job in enumerate(played.jobs))
    assert played.present_s == pytest.approx(spent, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "service", "mean_s", "square"),
    [
        ("M/M/1", exponential(0.7), 0.7, 2 * 0.7**2),
        ("M/D/1", lambda chance: 0.7, 0.7, 0.7**2),
        ("M/G/1", two_kinds, 0.55, 0.9 * 0.25**2 + 0.1 * 3.25**2),
    ],
)
def test_one_server(name: str, service: Chance, mean_s: float, square: float) -> None:
    """Pollaczek and Khinchine: Wq = lambda E[S^2] / 2 (1 - rho), one job a second at the mean."""
    played = play(drawn({PATIENT: 1.0}, service))
    agrees(played.waits(), square / (2.0 * (1.0 - mean_s)))
    littles_law(played)


def test_the_wait_of_m_m_1_is_exponential() -> None:
    """P(W > t) = rho exp(-(mu - lambda) t), at its median and far out."""
    waits = play(drawn({PATIENT: 0.7}, exponential(1.0))).waits()[JOBS // BATCHES :]
    for t, share in [(0.0, 0.7), (1.0, 0.5186), (5.0, 0.1562), (10.0, 0.0349)]:
        assert sum(wait > t for wait in waits) / len(waits) == pytest.approx(share, abs=0.02)


def test_non_preemptive_priority() -> None:
    """Cobham: with R = sum lambda E[S^2] / 2 the first class waits R / (1 - rho1), the second
    R / (1 - rho1) (1 - rho1 - rho2): a running chunk is not taken back, whoever comes."""
    rates = {URGENT: 0.4, PATIENT: 0.8}
    played = play(drawn(rates, two_kinds, seed=2))
    left = 1.2 * (0.9 * 0.25**2 + 0.1 * 3.25**2) / 2.0
    rho_1, rho = 0.4 * 0.55, 1.2 * 0.55
    agrees(played.waits(URGENT), left / (1.0 - rho_1))
    agrees(played.waits(PATIENT), left / ((1.0 - rho_1) * (1.0 - rho)))
    littles_law(played)
    agrees(played.waits(), left / (1.0 - rho))  # Kleinrock: the order changes no mean of all


def erlang_c(servers: int, offered: float) -> float:
    """The probability of having to wait, with so many erlangs."""
    full = offered**servers / factorial(servers) * servers / (servers - offered)
    return full / (sum(offered**n / factorial(n) for n in range(servers)) + full)


@pytest.mark.parametrize(("servers", "offered"), [(2, 1.4), (8, 6.0)])
def test_many_servers(servers: int, offered: float) -> None:
    """Erlang C: who waits, and for how long, C / (c mu - lambda)."""
    played = play(drawn({PATIENT: offered}, exponential(1.0), seed=3), servers)
    waits, wait_probability = played.waits(), erlang_c(servers, offered)
    agrees([float(wait > 0.0) for wait in waits], wait_probability)
    agrees(waits, wait_probability / (servers - offered))
    littles_law(played)


def on_simpy(jobs: Sequence[Job], servers: int) -> list[float]:
    """The same arm on another simulator: when each job begins."""
    simpy = pytest.importorskip("simpy", reason="an oracle of the tests")
    environment = simpy.Environment()
    device = simpy.PriorityResource(environment, servers)
    started: dict[int, float] = {}

    def one(at: int, job: Job) -> Iterable[object]:
        yield environment.timeout(job.arrives)
        with device.request(priority=int(job.klass)) as turn:
            yield turn
            started[at] = environment.now
            yield environment.timeout(job.service_s)

    for at, job in enumerate(jobs):
        environment.process(one(at, job))
    environment.run()
    return [started[at] for at in range(len(jobs))]


@pytest.mark.parametrize("servers", [1, 3])
def test_the_same_figures_on_simpy(servers: int) -> None:
    """Every single start, to the last bit: both add a service time to the instant of its start."""
    jobs = drawn({URGENT: 0.4 * servers, PATIENT: 0.9 * servers}, two_kinds, jobs=4000, seed=4)
    played = play(jobs, servers)
    assert [played.started[at] for at in range(len(jobs))] == on_simpy(jobs, servers)


def test_the_timeline_alone_is_lindleys_recursion() -> None:
    """W(n+1) = max(0, W(n) + S(n) - T(n)): a queue of a dozen lines on the event heap, against the formula."""
    jobs = drawn({PATIENT: 1.0}, exponential(0.8), jobs=5000, seed=5)
    timeline, waiting, begun = Timeline(), list[int](), list[float]()

    def arrive(at: int) -> None:
        waiting.append(at)
        if len(waiting) == 1:
            begin()

    def begin() -> None:
        begun.append(timeline.now)
        timeline.after(jobs[waiting[0]].service_s, end)

    def end() -> None:
        waiting.pop(0)
        if waiting:
            begin()

    for at, job in enumerate(jobs):
        timeline.at(job.arrives, lambda at=at: arrive(at))  # type: ignore[misc]
    timeline.run()
    expected = [0.0]
    for job, after in pairwise(jobs):
        expected.append(max(0.0, expected[-1] + job.service_s - (after.arrives - job.arrives)))
    assert [start - job.arrives for start, job in zip(begun, jobs, strict=True)] == pytest.approx(
        expected, abs=1e-9
    )
