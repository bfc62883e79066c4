"""The mean finds the line, the bound holds what it promises under any noise, and nothing that happens breaks it."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.cost import (
    CHECKED_CHUNKS,
    DUMP_VERSION,
    MISS_RATE,
    PROFILE_MARGIN,
    WIDENING,
    CostKey,
    CostModel,
    KeyCost,
    Sample,
    Size,
)
from voicepipe.core.events import WorkKind

PREFILL = CostKey(WorkKind.THINK, "small", "cpu", "prefill")
DECODE = CostKey(WorkKind.THINK, "small", "cpu", "decode")
ONE = Size(1.0)
KNOWN_AFTER = 1000

Noise = Callable[[random.Random], float]


def line_s(size: Size) -> float:
    """4 ms a chunk, 2 ms a token, 1 µs a token of context."""
    return 0.004 + 0.002 * size.units + 1e-6 * size.context


def any_size(rng: random.Random) -> Size:
    return Size(rng.randint(1, 16), rng.randint(0, 2000))


def lognormal(sigma: float) -> Noise:
    return lambda rng: math.exp(rng.gauss(0.0, sigma))


def with_stalls(share: float) -> Noise:
    """Realistic: sigma 0.15, and now and then twice as long."""
    return lambda rng: math.exp(rng.gauss(0.0, 0.15)) * (2.0 if rng.random() < share else 1.0)


def bimodal(rng: random.Random) -> float:
    """Every tenth does its work three times."""
    return math.exp(rng.gauss(0.0, 0.05)) * (3.0 if rng.random() < 0.1 else 1.0)


def pareto(rng: random.Random) -> float:
    """No variance worth the name."""
    return rng.paretovariate(2.5)


def heavy(rng: random.Random) -> float:
    """A logarithm with the tails of Student's t, three degrees of freedom."""
    return math.exp(0.15 * rng.gauss(0.0, 1.0) / math.sqrt(rng.gammavariate(1.5, 1.0) / 1.5))


NOISES: dict[str, Noise] = {
    "lognormal": lognormal(0.15),
    "narrow": lognormal(0.02),
    "wide": lognormal(0.5),
    "stalls": with_stalls(0.02),
    "bimodal": bimodal,
    "pareto": pareto,
    "heavy": heavy,
}


@dataclass(frozen=True, slots=True)
class Seen:
    mean_s: float
    bound_s: float
    actual_s: float

    @property
    def kept(self) -> bool:
        return self.actual_s <= self.bound_s


def predicted(model: CostModel, key: CostKey, size: Size) -> tuple[float, float]:
    mean_s, bound_s = model.mean_s(key, size), model.bound_s(key, size)
    assert mean_s is not None and bound_s is not None
    return mean_s, bound_s


def cost(model: CostModel, key: CostKey = PREFILL) -> KeyCost:
    return model.snapshot().keys[key]


def seeded(noise: Noise, rng: random.Random, chunks: int = 60) -> CostModel:
    model = CostModel()
    sizes = [any_size(rng) for _ in range(chunks)]
    model.seed(Sample(PREFILL, size, line_s(size) * noise(rng)) for size in sizes)
    return model


def serve(model: CostModel, noise: Noise, rng: random.Random, chunks: int, *, slower: float = 1.0) -> list[Seen]:
    """Predict, run, learn."""
    seen = []
    for _ in range(chunks):
        size = any_size(rng)
        actual_s = line_s(size) * noise(rng) * slower
        seen.append(Seen(*predicted(model, PREFILL, size), actual_s))
        model.on_chunk(PREFILL, size, actual_s)
    return seen


def coverage(seen: list[Seen]) -> float:
    return statistics.mean(s.kept for s in seen)


def steady(chunks: int, service_s: float = 0.01) -> CostModel:
    """Chunks of one size that all take the same time."""
    model = CostModel()
    for _ in range(chunks):
        model.on_chunk(PREFILL, ONE, service_s)
    return model


# --- the mean ---------------------------------------------------------------------------------------------


def test_the_mean_finds_the_line() -> None:
    """Chunk, units and context are told apart; sizes outside the sweep lie on the same line."""
    model = seeded(lambda _: 1.0, random.Random(1))
    for size in (Size(1), Size(16, 2000), Size(8, 500), Size(64, 8000)):
        assert model.mean_s(PREFILL, size) == pytest.approx(line_s(size), rel=0.02)
    found = cost(model)
    assert (found.base_s, found.per_unit_s) == (pytest.approx(0.004, rel=0.05), pytest.approx(0.002, rel=0.02))
    assert found.per_context_s == pytest.approx(1e-6, rel=0.05)


@pytest.mark.parametrize(("name", "within"), [("lognormal", 0.05), ("stalls", 0.07), ("bimodal", 0.15)])
def test_noise_moves_the_mean_little(name: str, within: float) -> None:
    """Little against what the noise's own mean makes of the line, at every size."""
    rng = random.Random(2)
    noise = NOISES[name]
    model = seeded(noise, rng)
    serve(model, noise, rng, 1000)
    factor = statistics.mean(noise(rng) for _ in range(20_000))
    for size in (Size(1, 1000), Size(8, 1000), Size(16, 1000)):
        assert model.mean_s(PREFILL, size) == pytest.approx(factor * line_s(size), rel=within)


def test_a_stall_is_not_taken_for_a_new_mean() -> None:
    """Fifty times as long counts as three times where the mean is fitted."""
    model = steady(500)
    model.on_chunk(PREFILL, ONE, 0.5)
    assert model.mean_s(PREFILL, ONE) == pytest.approx(0.01, rel=0.02)


def test_the_mean_follows_drift() -> None:
    """It remembers some two hundred chunks; those that were shorter than now weigh more, as their errors were."""
    model = steady(2000)
    for service_s, chunks in ((0.02, 1000), (0.01, 600)):
        for _ in range(chunks):
            model.on_chunk(PREFILL, ONE, service_s)
        assert model.mean_s(PREFILL, ONE) == pytest.approx(service_s, rel=0.03)


def test_a_size_that_has_not_come_for_long_keeps_its_price() -> None:
    """Ten thousand chunks of one size neither wind the fit up nor rub out what was known of others."""
    model = seeded(lambda _: 1.0, random.Random(3))
    for _ in range(10_000):
        model.on_chunk(PREFILL, Size(4, 100), line_s(Size(4, 100)))
    assert model.mean_s(PREFILL, Size(16, 2000)) == pytest.approx(line_s(Size(16, 2000)), rel=0.03)
    model.on_chunk(PREFILL, Size(16, 2000), 1.1 * line_s(Size(16, 2000)))
    assert model.mean_s(PREFILL, Size(4, 100)) == pytest.approx(line_s(Size(4, 100)), rel=0.03)


def test_a_line_that_leads_below_nothing_is_not_followed() -> None:
    """A tenth of the average chunk is the least that is believed."""
    model = CostModel()
    model.seed(Sample(PREFILL, Size(n), 0.002 * n - 0.008) for n in range(5, 17))
    mean_s, bound_s = predicted(model, PREFILL, Size(1))
    assert 0.0 < mean_s <= 0.002
    assert bound_s >= mean_s


def test_no_line_falls() -> None:
    """Steps of one size, with contexts of 33 to 38 tokens and noise that happens to fall with them: 300 tokens cost
    what 38 do, the average, and not a tenth of it. What rises is found all the same."""
    model, contexts = CostModel(), [33, 34, 35, 36, 37, 38]
    model.seed(Sample(DECODE, Size(3, context), 0.030 - 0.0004 * (context - 33)) for context in contexts * 2)
    for context in (33, 38, 300):
        assert model.mean_s(DECODE, Size(3, context)) == pytest.approx(0.029, rel=0.02)
    for _ in range(100):
        for context in (33, 38, 300):
            model.on_chunk(DECODE, Size(3, context), 0.03 + 1e-4 * context)
    assert model.mean_s(DECODE, Size(3, 300)) == pytest.approx(0.06, rel=0.02)
    assert model.mean_s(DECODE, Size(3, 33)) == pytest.approx(0.0333, rel=0.02)


def test_a_feature_that_shows_up_late_is_learnt() -> None:
    """The warm-up had no context at all."""
    rng = random.Random(4)
    model = CostModel()
    model.seed(Sample(PREFILL, Size(n), line_s(Size(n))) for n in range(1, 17))
    assert cost(model).per_context_s == 0.0
    serve(model, lambda _: 1.0, rng, 300)
    assert cost(model).per_context_s == pytest.approx(1e-6, rel=0.1)


# --- the bound --------------------------------------------------------------------------------------------


def test_nothing_is_said_of_what_was_never_seen() -> None:
    """Not even of another variant of the same model."""
    model = CostModel()
    model.on_chunk(DECODE, ONE, 0.01)
    assert model.mean_s(PREFILL, ONE) is None
    assert model.bound_s(PREFILL, ONE) is None
    assert set(model.snapshot().keys) == {DECODE}


def test_mean_and_bound_come_together_and_a_key_alone() -> None:
    """What is asked for every chunk, without walking through all that is known."""
    model, rng = CostModel(), random.Random(1)
    for _ in range(200):
        size = any_size(rng)
        model.on_chunk(PREFILL, size, line_s(size) * rng.uniform(0.9, 1.3))
    size = Size(7.0, 300.0)
    assert model.mean_and_bound_s(PREFILL, size) == (model.mean_s(PREFILL, size), model.bound_s(PREFILL, size))
    assert model.cost(PREFILL) == model.snapshot().keys[PREFILL]
    assert model.mean_and_bound_s(DECODE, size) is None and model.cost(DECODE) is None


def test_the_first_chunk_is_a_profile() -> None:
    """Bounded by half as much again."""
    mean_s, bound_s = predicted(steady(1), PREFILL, ONE)
    assert mean_s == pytest.approx(0.01)
    assert bound_s == pytest.approx(PROFILE_MARGIN * mean_s, rel=0.01)


def after_stalls(noise: Noise, rng: random.Random, stalls: dict[int, float], chunks: int) -> list[float]:
    """The bound's ratio before each chunk; some take so many times what they would have."""
    model, ratios = seeded(noise, rng), []
    for number in range(chunks):
        size = any_size(rng)
        ratios.append(cost(model).q)
        model.on_chunk(PREFILL, size, line_s(size) * noise(rng) * stalls.get(number, 1.0))
    return ratios


def test_stalls_of_the_machine_do_not_set_the_bound() -> None:
    """Two chunks that take thirty times as long among the first hundred: at no time more than three times the
    mean, and a few hundred chunks later what it would have been without them."""
    noise = lognormal(0.15)
    calm = after_stalls(noise, random.Random(12), {}, 600)
    stalled = after_stalls(noise, random.Random(12), {40: 30.0, 90: 30.0}, 600)
    assert max(stalled) < 3.0
    assert statistics.median(stalled[300:]) == pytest.approx(statistics.median(calm[300:]), rel=0.1)


def test_how_long_a_stall_lasts_does_not_matter() -> None:
    noise = lognormal(0.15)
    short, long = (after_stalls(noise, random.Random(13), {40: factor}, 60) for factor in (4.0, 4000.0))
    assert short[41] == long[41] > short[40]


def test_a_tail_that_the_sweep_has_not_shown_is_found_soon() -> None:
    """Warmed up without any noise, and then every tenth takes three times as long: of the second hundred two at
    most exceed their bound."""
    rng = random.Random(14)
    model = seeded(lambda _: 1.0, rng)
    seen = serve(model, bimodal, rng, 200)
    assert sum(not s.kept for s in seen[100:]) <= 2


def test_without_noise_the_bound_comes_down_to_the_mean() -> None:
    """And is never below it."""
    assert 1.0 <= cost(steady(KNOWN_AFTER)).q < 1.1


@pytest.mark.parametrize("seed", [5, 6])
@pytest.mark.parametrize("name", NOISES)
def test_about_one_in_a_hundred_exceeds_its_bound(name: str, seed: int) -> None:
    """Whatever the noise is, from the first chunk after the sweep on."""
    rng = random.Random(seed)
    model = seeded(NOISES[name], rng)
    seen = serve(model, NOISES[name], rng, 6000)
    assert 0.985 <= coverage(seen) <= 0.995
    assert 0.985 <= coverage(seen[KNOWN_AFTER:]) <= 0.995
    assert all(s.bound_s >= s.mean_s > 0.0 for s in seen)
    assert cost(model).coverage == pytest.approx(coverage(seen[-CHECKED_CHUNKS:]))


@pytest.mark.parametrize("slower", [1.3, 3.0])
@pytest.mark.parametrize("name", ["lognormal", "narrow", "stalls", "bimodal", "heavy"])
def test_coverage_recovers_from_a_step_within_two_hundred_chunks(name: str, slower: float) -> None:
    """And over the whole run it is as promised, the step included."""
    rng = random.Random(7)
    model = seeded(NOISES[name], rng)
    before = serve(model, NOISES[name], rng, 4000)
    step = serve(model, NOISES[name], rng, 200, slower=slower)
    after = serve(model, NOISES[name], rng, 3800, slower=slower)
    assert slower < 3.0 or coverage(step) < coverage(before)
    assert coverage(after[:1000]) >= 0.985
    assert 0.985 <= coverage(before + step + after) <= 0.995


def test_the_bound_is_not_bought_dearly() -> None:
    """Ordinary noise: half as much again. Where 2 % of the chunks take twice as long, the true quantile is
    twice the median, and the bound no more than a tenth above it."""
    for noise, most in ((lognormal(0.15), 1.5), (with_stalls(0.015), 2.0), (with_stalls(0.02), 2.2)):
        rng = random.Random(8)
        seen = serve(seeded(noise, rng), noise, rng, 6000)
        assert statistics.median(s.bound_s / s.actual_s for s in seen) <= most


def test_other_miss_rates_are_kept_too() -> None:
    """One in twenty."""
    rng = random.Random(9)
    model = CostModel(miss_rate=0.05)
    model.on_chunk(PREFILL, Size(8, 1000), line_s(Size(8, 1000)))
    assert coverage(serve(model, lognormal(0.3), rng, 4000)) == pytest.approx(0.95, abs=0.005)


def test_too_many_misses_widen_the_bound_at_once() -> None:
    """The twentieth within a thousand is three sigma; then counting begins anew."""
    model = steady(2000)
    misses = 0
    while not cost(model).widened:
        before, mean_s = cost(model).q, predicted(model, PREFILL, ONE)[0]
        model.on_chunk(PREFILL, ONE, 1.01 * before * mean_s)
        misses += 1
        for _ in range(20):
            model.on_chunk(PREFILL, ONE, mean_s)
    assert misses == 20
    assert cost(model).q > 1.2 * before
    model.on_chunk(PREFILL, ONE, 1.0)
    assert cost(model).widened == 1


def test_widening_is_by_a_quarter() -> None:
    """Of the bound that was in force, on top of the ordinary step."""
    model = steady(2000)
    for _ in range(19):
        model.on_chunk(PREFILL, ONE, 2.0 * predicted(model, PREFILL, ONE)[1])
    before = cost(model)
    model.on_chunk(PREFILL, ONE, 2.0 * predicted(model, PREFILL, ONE)[1])
    after = cost(model)
    assert (before.widened, after.widened) == (0, 1)
    assert WIDENING * before.q <= after.q <= 1.15 * WIDENING * before.q


# --- censoring --------------------------------------------------------------------------------------------


def test_a_chunk_cut_off_below_its_bound_says_nothing() -> None:
    """A barge-in is no sign of speed."""
    model = steady(50)
    before = model.dump()
    model.on_censored(PREFILL, ONE, 0.99 * predicted(model, PREFILL, ONE)[1])
    assert model.dump() == before
    assert cost(model).coverage == 1.0


@pytest.mark.parametrize("chunks", [50, 3000])
def test_a_chunk_cut_off_above_its_bound_is_a_miss(chunks: int) -> None:
    """It raises the bound and is counted, and the mean does not fall."""
    model = steady(chunks)
    (mean_s, bound_s), before = predicted(model, PREFILL, ONE), cost(model)
    model.on_censored(PREFILL, ONE, 3.0 * bound_s)
    after = cost(model)
    assert after.q > before.q
    assert after.n == before.n + 1
    assert after.coverage is not None and after.coverage < 1.0
    assert predicted(model, PREFILL, ONE)[0] >= mean_s


def test_where_every_chunk_is_cut_off_the_bound_goes_there() -> None:
    """A device that has become ten times slower than the limit allows."""
    model = steady(2000)
    for _ in range(200):
        model.on_censored(PREFILL, ONE, 0.1)
    assert predicted(model, PREFILL, ONE)[1] >= 0.1


def test_a_cut_off_chunk_is_no_profile() -> None:
    """Of a key that has never been seen it tells next to nothing."""
    model = CostModel()
    model.on_censored(PREFILL, ONE, 1.0)
    assert model.bound_s(PREFILL, ONE) is None


# --- seeding, dump and load -------------------------------------------------------------------------------


def test_a_sweep_replaces_what_was_known() -> None:
    """Of its own keys only."""
    model = steady(2000, 1.0)
    model.on_chunk(DECODE, ONE, 0.5)
    model.seed([Sample(PREFILL, ONE, 0.01)] * 10)
    assert model.mean_s(PREFILL, ONE) == pytest.approx(0.01)
    assert cost(model).n == 10
    assert cost(model).coverage is None
    assert model.mean_s(DECODE, ONE) == pytest.approx(0.5)


def test_a_sweep_shows_how_far_it_spreads() -> None:
    """A residual beyond the bound raises the first one."""
    calm, spread = CostModel(), CostModel()
    calm.seed(Sample(PREFILL, ONE, service_s) for service_s in [0.01] * 31)
    spread.seed(Sample(PREFILL, ONE, service_s) for service_s in [0.01] * 30 + [0.025])
    assert cost(calm).q < PROFILE_MARGIN < cost(spread).q


def test_what_was_learnt_goes_on_in_another_process() -> None:
    """Through JSON; later chunks move both alike. Whether bounds are kept is counted anew."""
    rng = random.Random(10)
    model = seeded(heavy, rng)
    serve(model, heavy, rng, 1500)
    other = CostModel()
    other.load(json.loads(json.dumps(model.dump())))
    assert cost(other).coverage is None
    assert other.dump() == model.dump()
    for _ in range(50):
        size = any_size(rng)
        assert predicted(other, PREFILL, size) == predicted(model, PREFILL, size)
        service_s = line_s(size) * heavy(rng)
        model.on_chunk(PREFILL, size, service_s)
        other.on_chunk(PREFILL, size, service_s)


def broken(**changes: Any) -> dict[str, Any]:
    """A dump whose first key has these parts changed."""
    dumped = json.loads(json.dumps(seeded(heavy, random.Random(11)).dump()))
    dumped["keys"][0] |= changes
    return dict(dumped)


MEAN = broken()["keys"][0]["mean"]
TAIL = broken()["keys"][0]["tail"]


@pytest.mark.parametrize(
    "dumped",
    [
        {},
        {"version": DUMP_VERSION, "miss_rate": MISS_RATE},
        {"version": DUMP_VERSION, "miss_rate": MISS_RATE, "keys": None},
        broken() | {"version": DUMP_VERSION - 1},
        broken() | {"miss_rate": 0.001},
        broken(kind="sing"),
        broken(model=[]),
        broken(mean=[]),
        broken(mean=MEAN | {"unit_s": 0.0}),
        broken(mean=MEAN | {"average": -1.0}),
        broken(mean=MEAN | {"weights": [1.0]}),
        broken(mean=MEAN | {"weights": [1.0, math.nan, 0.0]}),
        broken(mean=MEAN | {"information": [[1.0, 0.0, 0.0]]}),
        broken(tail=TAIL | {"n": 0}),
        broken(tail=TAIL | {"gradients": -1.0}),
        broken(tail=TAIL | {"log": "much"}),
        broken(tail=TAIL | {"log": math.inf}),
    ],
    ids=range(17),
)
def test_what_is_no_calibration_is_refused(dumped: dict[str, Any]) -> None:
    """As a whole."""
    model = steady(20)
    before = model.dump()
    with pytest.raises(ValueError):
        model.load(dumped)
    assert model.dump() == before


# --- whatever happens -------------------------------------------------------------------------------------


@pytest.mark.parametrize("service_s", [-0.001, math.nan, math.inf])
def test_a_time_that_is_none_is_our_own_bug(service_s: float) -> None:
    """Never the device's."""
    model = steady(1)
    with pytest.raises(AssertionError):
        model.on_chunk(PREFILL, ONE, service_s)
    with pytest.raises(AssertionError):
        model.on_censored(PREFILL, Size(-1.0), 0.01)


sizes = st.builds(Size, st.floats(0, 1e6) | st.integers(0, 16).map(float), st.just(0.0) | st.floats(0, 1e5))
events = st.lists(st.tuples(st.booleans(), sizes, st.floats(0, 1e3)), max_size=120)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(events, sizes)
def test_a_prediction_is_always_a_positive_number_below_its_bound(
    history: list[tuple[bool, Size, float]], asked: Size
) -> None:
    """After chunks of any size and duration in any order, cut off or not."""
    model = CostModel()
    for censored, size, service_s in history:
        (model.on_censored if censored else model.on_chunk)(PREFILL, size, service_s)
    if PREFILL in model.snapshot().keys:
        mean_s, bound_s = predicted(model, PREFILL, asked)
        assert 0.0 < mean_s <= bound_s < math.inf
        assert 0.0 <= (cost(model).coverage or 0.0) <= 1.0


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(events, sizes, st.floats(0, 1e3))
def test_a_cut_off_chunk_never_lowers_the_bound_of_its_own_size(
    history: list[tuple[bool, Size, float]], size: Size, at_least_s: float
) -> None:
    """Nor its mean."""
    model = steady(1)
    for _, other, service_s in history:
        model.on_chunk(PREFILL, other, service_s + 1e-3)  # with chunks of no time at all the mean is rounding
    mean_s, bound_s = predicted(model, PREFILL, size)
    model.on_censored(PREFILL, size, at_least_s)
    after_mean_s, after_bound_s = predicted(model, PREFILL, size)
    assert after_mean_s >= mean_s * (1 - 1e-9)
    assert after_bound_s >= bound_s * (1 - 1e-9)
