"""`reasoning-budget`: thoughts cost in proportion to their length, and help less and less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf
from random import Random

from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting, series_of
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.replicas import Replicas
from voicepipe.sim.requests import Request
from voicepipe.sim.summary import mean, quantile
from voicepipe.sim.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Route:
    """Right with probability base + (best - base) (1 - exp(-thoughts / scale))."""

    base: float
    best: float
    scale_tokens: float
    wanted_tokens: float
    """Median of what the model would think unbounded."""

    def quality(self, thinking_tokens: float) -> float:
        return self.base + (self.best - self.base) * (1 - exp(-thinking_tokens / self.scale_tokens))


ROUTES = {
    "easy": Route(base=0.85, best=0.95, scale_tokens=400, wanted_tokens=1_500),
    "medium": Route(base=0.45, best=0.92, scale_tokens=1_400, wanted_tokens=8_000),
    "hard": Route(base=0.10, best=0.85, scale_tokens=5_000, wanted_tokens=20_000),
}
CAPS = (0, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000)
SIGMA = 0.6
PROMPT_TOKENS, ANSWER_TOKENS = 1_500, 400
ASKED_AGAIN = 0.7
"""Of wrong answers, those after which the same is asked once more, at full cost."""
ATTEMPTS = 3
ASKS_AGAIN_AFTER_S = 20.0
WORTH_S = 30.0
"""Device seconds that a right answer is worth, some cents: a cap is too high where one more device second buys less
than a thirtieth of one."""
LEAST_GAIN = 0.01
"""Of a right answer for its price, below which the curve of what thought buys ends."""
BATCH = 32
"""Sequences that share a step where the cost of a token is stated."""
REPLICAS = 4


def cost_s(thinking_tokens: float) -> float:
    """Device seconds of one attempt."""
    output = thinking_tokens + ANSWER_TOKENS
    token_s = SMALL.step_s / BATCH + SMALL.context_token_s * (PROMPT_TOKENS + output / 2)
    return SMALL.prefill_s(PROMPT_TOKENS) + output * token_s


def expected(route: Route, cap_tokens: float) -> tuple[float, float]:
    """(right answers, device seconds) per question with its rework, where the model always thinks up to the cap."""
    right = route.quality(cap_tokens)
    again = (1 - right) * ASKED_AGAIN
    attempts = sum(again**number for number in range(ATTEMPTS))
    return right * attempts, cost_s(cap_tokens) * attempts


def worth(right: float, device_s: float) -> float:
    """Of a question, in device seconds, with what it has cost taken off."""
    return WORTH_S * right - device_s


def knee_tokens(route: Route, most: int = CAPS[-1], step: int = 50) -> int:
    """The cap under which a question is worth most."""
    return max(range(0, most + 1, step), key=lambda cap: worth(*expected(route, cap)))


def marginal(route: Route, cap_tokens: float, more: float = 50.0) -> float:
    """Right answers that one more device second of thought buys, by formula."""
    right, cost = expected(route, cap_tokens)
    more_right, more_cost = expected(route, cap_tokens + more)
    return (more_right - right) / (more_cost - cost) if more_cost > cost else inf


@dataclass(slots=True)
class _Question:
    wanted_tokens: int
    chances: tuple[float, ...]
    """For each attempt: it is right if this is below its quality."""
    asks_again: tuple[float, ...]
    attempts: int = 0
    right: bool = False
    device_s: float = 0.0


def _questions(route: Route, count: int, rng: Random) -> list[_Question]:
    """The same ones whatever the cap is."""
    return [
        _Question(
            min(CAPS[-1], round(rng.lognormvariate(0, SIGMA) * route.wanted_tokens)),
            tuple(rng.random() for _ in range(ATTEMPTS)),
            tuple(rng.random() for _ in range(ATTEMPTS)),
        )
        for _ in range(count)
    ]


class _Desk:
    """Asks the questions, and those with wrong answers again."""

    def __init__(self, route: Route, cap_tokens: int) -> None:
        self._route, self._cap = route, cap_tokens
        self._timeline = Timeline()
        self._replicas = Replicas(self._timeline, SMALL, REPLICAS, "least-busy", ended=self._ended)
        self._asked: dict[Request, _Question] = {}
        self.requests: list[Request] = []

    def work(self, questions: Sequence[_Question], requests_s: float, rng: Random) -> None:
        now = 0.0
        for question in questions:
            now += rng.expovariate(requests_s)
            self._timeline.at(now, lambda question=question: self._ask(question))  # type: ignore[misc]
        self._timeline.run()

    def _ask(self, question: _Question) -> None:
        thinking = min(self._cap, question.wanted_tokens)
        request = Request(
            self._timeline.now, PROMPT_TOKENS, thinking + ANSWER_TOKENS, thinking_tokens=thinking, keep_s=None
        )
        self._asked[request] = question
        self.requests.append(request)
        self._replicas.submit(request)

    def _ended(self, request: Request) -> None:
        question = self._asked.pop(request)
        number = question.attempts
        question.attempts += 1
        question.device_s += cost_s(request.thinking_tokens)
        question.right = question.chances[number] < self._route.quality(request.thinking_tokens)
        if not question.right and question.attempts < ATTEMPTS and question.asks_again[number] < ASKED_AGAIN:
            self._timeline.after(ASKS_AGAIN_AFTER_S, lambda: self._ask(question))


def points(setting: Setting) -> Sequence[Point]:
    return [{"route": route, "cap_tokens": cap} for route in ROUTES for cap in CAPS]


def run(point: Point, seed: int, setting: Setting) -> Measured:
    route, cap = ROUTES[str(point["route"])], int(point["cap_tokens"])
    rng = Random(seed)
    questions = _questions(route, 2_000 if setting.full else 400, rng)
    desk = _Desk(route, cap)
    desk.work(questions, 0.4, rng)
    right = mean(float(question.right) for question in questions) or 0.0
    device_s = mean(question.device_s for question in questions) or 0.0
    clauses = [None if one.clause_s is None else one.clause_s - one.arrived_s for one in desk.requests]
    return {
        "right": right,
        "right_first": mean(question.chances[0] < _quality(route, question, cap) for question in questions),
        "attempts": mean(question.attempts for question in questions),
        "device_s": device_s,
        "worth_device_s": worth(right, device_s),
        "first_answer_p50_s": quantile(clauses, 0.5),
        "first_answer_p95_s": quantile(clauses, 0.95),
    }


def _quality(route: Route, question: _Question, cap: int) -> float:
    return route.quality(min(cap, question.wanted_tokens))


def _marginal_curve(name: str) -> Series:
    """Without the caps at which more thought saves more rework than it costs, and without those at which it buys
    next to nothing: what is left of differences there is rounding."""
    found = [(float(cap), marginal(ROUTES[name], cap)) for cap in range(0, CAPS[-1], 250)]
    kept = [(cap, gain) for cap, gain in found if LEAST_GAIN / WORTH_S <= gain < 10]
    return Series(name, tuple(cap for cap, _ in kept), tuple(gain for _, gain in kept))


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    knees = {name: knee_tokens(route) for name, route in ROUTES.items()}
    marks = tuple(Mark("x", float(cap), f"knee, {name}: {cap:,} tokens", name) for name, cap in knees.items())
    return [
        Chart(
            title="Answers get better with thought, and less so with every further token",
            x="cap on thoughts (tokens)",
            y="questions answered right in the end (share)",
            series=series_of(rows, "route", "cap_tokens", "right"),
            marks=marks,
        ),
        Chart(
            title="What a question is worth, less what it costs: the knee is the highest point",
            x="cap on thoughts (tokens)",
            y="worth of a question (device s)",
            series=series_of(rows, "route", "cap_tokens", "worth_device_s"),
            marks=marks,
        ),
        Chart(
            title="What one more device second of thought buys: at the knee it is not worth its price any more",
            x="cap on thoughts (tokens)",
            y="right answers per further device second",
            series=tuple(_marginal_curve(name) for name in ROUTES),
            marks=(Mark("y", 1 / WORTH_S, f"a right answer is worth {WORTH_S:g} device s"), *marks),
            log_y=True,
        ),
        Chart(
            title="Quality for its price: beyond the knee the curve lies flat",
            x="device time per question, rework included (s)",
            y="questions answered right in the end (share)",
            series=series_of(rows, "route", "device_s", "right"),
        ),
        Chart(
            title="Thoughts are waited for: until the first token of the answer",
            x="cap on thoughts (tokens)",
            y="time to the first token of the answer, p95 (s)",
            series=series_of(rows, "route", "cap_tokens", "first_answer_p95_s"),
            marks=(Mark("x", 4_000.0, "cap of 4,000"), Mark("x", 30_000.0, "cap of 30,000")),
        ),
    ]


EXPERIMENT = Experiment(
    name="reasoning-budget",
    question="How long may a model think before an answer, on easy, medium and hard questions?",
    explanation=(
        "An answer is right with a probability that saturates exponentially with the length of thought, while "
        f"its cost grows in proportion. Of wrong answers {ASKED_AGAIN:.0%} are asked again, at full cost and up "
        f"to {ATTEMPTS} times in all, so that too little thought is paid for as well. The cap on thoughts is "
        f"varied on three routes; the same questions are asked under each cap, of {REPLICAS} simulated "
        f"replicas. A right answer is taken to be worth {WORTH_S:g} device seconds: the knee is the cap beyond "
        "which one more device second buys less than a thirtieth of a right answer. It is marked for each "
        "route, by formula for a model that always thinks up to the cap. Easy questions need hardly any "
        "thought, medium ones have had most of what there is to be had from some 4,000 tokens, and not even "
        "hard ones make use of 30,000. The last picture is what the caller sees of it: thoughts are waited "
        "for."
    ),
    points=points,
    run=run,
    charts=charts,
)
