"""What chunks and ways are expected to take: priced before, learnt after, never below nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.cost import PROFILE_MARGIN
from voicepipe.core.events import Load, Way, Work, WorkClass, WorkKind
from voicepipe.core.forecast import NEWEST_WEIGHT, Forecaster, Measured

PREFILL = Load("llm", 16, variant="prefill")
DECODE = Load("llm", 2, context=60, variant="decode")
FIRST = Load("voice", 20, variant="first")
WINDOW = Load("asr", 2.0)
WAY = Way(read_s=0.04, thought_s=0.06, has_token=True)


def work(kind: WorkKind, ident: int = 1) -> Work:
    return Work(ident, "s", 1, 1, 0, kind, WorkClass.STARTED, 10.0)


def rows(units: float) -> Load:
    return Load("llm", units, variant="decode-1")


def test_sizes_are_offered_up_to_the_longest_bound() -> None:
    """Smallest first; 10 ms a token, and bounds of half as much again."""
    one = Forecaster()
    one.seed([Measured(WorkKind.GENERATE, rows(n), 0.01 * n) for n in (1, 2, 4, 8)] * 5)
    sizes = [rows(n) for n in (1, 2, 4, 8)]
    offered = one.offer(work(WorkKind.GENERATE), sizes, 1, 0.07)
    assert offered.load == rows(1) and offered.bound_s == pytest.approx(0.01 * PROFILE_MARGIN, rel=0.1)
    assert [offer.load for offer in offered.larger] == [rows(2), rows(4)]
    assert all(offer.bound_s <= 0.07 for offer in offered.larger)


def test_the_smallest_size_is_offered_however_long_it_takes() -> None:
    """Else it would never run."""
    one = Forecaster()
    one.seed([Measured(WorkKind.GENERATE, rows(n), 0.1 * n) for n in (1, 2)] * 5)
    offered = one.offer(work(WorkKind.GENERATE), [rows(1), rows(2)], 1, 0.05)
    assert offered.load == rows(1) and offered.larger == ()


def test_while_nothing_is_known_there_is_one_size() -> None:
    """And no bound: it runs where nobody is expected."""
    offered = Forecaster().offer(work(WorkKind.GENERATE), [rows(1), rows(2), rows(4)], 1, 0.05)
    assert (offered.load, offered.bound_s, offered.larger) == (rows(2), 0.0, ())


def seeded() -> Forecaster:
    """Decode 100 ms, prefill 40, decode step 20, first audio 50; a way of 40 + 60 ms."""
    one = Forecaster({WorkKind.HEAR: "ears", WorkKind.THINK: "cpu"})
    one.seed(
        [
            Measured(WorkKind.FINAL, WINDOW, 0.1),
            Measured(WorkKind.THINK, PREFILL, 0.04),
            Measured(WorkKind.THINK, DECODE, 0.02),
            Measured(WorkKind.SPEAK, FIRST, 0.05),
        ],
        [WAY],
    )
    return one


def test_who_knows_nothing_declares_nothing() -> None:
    """No bound, which the scheduler takes for unknown; and a work keeps its identity."""
    priced = Forecaster().price(work(WorkKind.FINAL), WINDOW)
    assert (priced.bound_s, priced.remaining_s, priced.load) == (0.0, 0.0, WINDOW)
    assert priced == work(WorkKind.FINAL) and hash(priced) == hash(work(WorkKind.FINAL))


def test_a_final_is_followed_by_the_whole_way() -> None:
    """Reading, thinking, and the first audio."""
    priced = seeded().price(work(WorkKind.FINAL), WINDOW)
    assert priced.bound_s == pytest.approx(0.1 * PROFILE_MARGIN, rel=0.01)
    assert priced.remaining_s == pytest.approx(0.04 + 0.06 + 0.05)


@pytest.mark.parametrize(
    ("load", "way", "remaining_s"),
    [
        (PREFILL, Way(), 0.06 + 0.05),
        (PREFILL, Way(read_s=0.1), 0.06 + 0.05),  # longer than typical: this chunk will be the last
        (DECODE, replace(WAY, thought_s=0.0), 0.04 + 0.05),
        (DECODE, replace(WAY, thought_s=0.05), 0.05),
        (DECODE, None, 0.0),  # about a later clause
    ],
)
def test_a_thought_is_followed_by_what_is_typically_left(load: Load, way: Way | None, remaining_s: float) -> None:
    """Its own service is not a part of that."""
    assert seeded().price(work(WorkKind.THINK), load, way).remaining_s == pytest.approx(remaining_s)


@pytest.mark.parametrize("kind", [WorkKind.SPEAK, WorkKind.WARM, WorkKind.PARTIAL, WorkKind.HEAR])
def test_nothing_must_follow_what_is_not_on_the_way_or_ends_it(kind: WorkKind) -> None:
    """The first audio ends it."""
    assert seeded().price(work(kind), FIRST, Way()).remaining_s == 0.0


def test_reading_ahead_and_reading_are_one_fit() -> None:
    """They are the same work."""
    assert seeded().price(work(WorkKind.WARM), PREFILL).bound_s > 0


def test_lanes_are_fitted_apart() -> None:
    """What a chunk takes depends on what runs beside it."""
    one = seeded()
    assert one.key(WorkKind.HEAR, WINDOW).device == "ears"
    assert one.key(WorkKind.WARM, PREFILL).device == one.key(WorkKind.THINK, PREFILL).device == "cpu"
    assert one.key(WorkKind.SPEAK, FIRST).device == ""


def test_chunks_are_learnt_and_what_nobody_priced_is_not() -> None:
    """A judgement of the turn model, say, if its submitter states no load."""
    one = seeded()
    priced = one.price(work(WorkKind.FINAL), WINDOW)
    for _ in range(50):
        one.on_chunk(priced, 0.2)
        one.on_chunk(work(WorkKind.FINAL), 5.0)
    assert one.mean_s(WorkKind.FINAL, WINDOW) == pytest.approx(0.2, rel=0.05)


def test_a_recheck_is_expected_to_take_what_rechecks_take_and_is_kept_room_for_as_a_decode() -> None:
    """Where the last hypothesis mostly holds: the mean of its own kind; what may come is bounded by both kinds."""
    one = seeded()
    recheck = replace(WINDOW, variant="recheck")
    assert one.mean_s(WorkKind.FINAL, recheck) is None
    for number in range(100):
        one.on_chunk(one.price(work(WorkKind.FINAL), recheck), 0.14 if number % 10 == 9 else 0.04)
        one.on_chunk(one.price(work(WorkKind.FINAL), WINDOW), 0.1)
    assert one.mean_s(WorkKind.FINAL, recheck) == pytest.approx(0.05, rel=0.15)
    assert one.mean_s(WorkKind.FINAL, WINDOW) == pytest.approx(0.1, rel=0.01)
    bounds = [one.price(work(WorkKind.FINAL), load).bound_s for load in (recheck, WINDOW)]
    assert bounds[0] > 0.14 > bounds[1]
    assert one.outlook().final_bound_s == pytest.approx(max(bounds), rel=0.01)


def test_a_decode_step_that_others_will_come_before_is_priced_apart() -> None:
    """From the warm-up on, as one that follows its own kind; what it takes then teaches nothing about those."""
    one = seeded()

    def step(*, others_wait: bool) -> Work:
        return one.price(work(WorkKind.THINK), DECODE, others_wait=others_wait)

    assert step(others_wait=True).bound_s == step(others_wait=False).bound_s > 0.0
    for _ in range(50):
        one.on_chunk(step(others_wait=True), 0.04)
        one.on_chunk(step(others_wait=False), 0.02)
    assert step(others_wait=True).bound_s >= 0.04 > step(others_wait=False).bound_s
    assert one.price(work(WorkKind.THINK), PREFILL, others_wait=True).load == PREFILL


def test_what_had_nothing_to_do_is_not_learnt() -> None:
    """A piece of a clause that had been made before."""
    one = Forecaster()
    made = replace(FIRST, units=0, variant="made")
    one.on_chunk(one.price(work(WorkKind.SPEAK), made), 1e-6)
    assert one.snapshot().costs.keys == {}


def test_a_clause_of_known_length_is_priced_by_it() -> None:
    """Where two lengths have been measured."""
    one = seeded()
    one.seed([Measured(WorkKind.SPEAK, replace(FIRST, units=n), 0.02 + 0.001 * n) for n in (5, 10, 30, 60)] * 3)
    known = [one.outlook().left_s(replace(WAY, clause_characters=n)) for n in (10, 40)]
    assert known == pytest.approx([0.03, 0.06], rel=0.1)
    assert one.outlook().left_s(replace(WAY, clause_characters=10, has_audio=True)) == 0.0


def test_ways_are_smoothed() -> None:
    """The newest counts a tenth."""
    one = seeded()
    one.on_way(Way(read_s=0.14, thought_s=0.16, has_token=True))
    snapshot = one.outlook()
    assert snapshot.reading_s == pytest.approx(0.04 + NEWEST_WEIGHT * 0.1)
    assert snapshot.thinking_s == pytest.approx(0.06 + NEWEST_WEIGHT * 0.1)


def test_a_way_that_was_not_gone_to_its_end_says_at_least() -> None:
    """Else the long ones, which are dropped most often, would be forgotten."""
    one = seeded()
    one.on_way(Way(read_s=0.01, cut=True))
    one.on_way(Way(read_s=0.04, thought_s=0.05, has_token=True, cut=True))
    assert (one.outlook().reading_s, one.outlook().thinking_s) == pytest.approx((0.04, 0.06))
    one.on_way(Way(read_s=0.04, thought_s=0.16, has_token=True, cut=True))
    assert one.outlook().thinking_s == pytest.approx(0.07)


def test_the_next_chunk_must_begin_its_bound_before_the_rest() -> None:
    """For reservations: whatever the next chunk is."""
    one = seeded()
    assert one.outlook().needed_s(Way(), final=True) == pytest.approx(0.15 + 0.15, rel=0.01)
    assert one.outlook().needed_s(Way()) == pytest.approx(0.15 + 0.04 * 0.5, rel=0.01)
    assert one.outlook().needed_s(replace(WAY, clause_characters=20)) == pytest.approx(
        0.05 * PROFILE_MARGIN, rel=0.01
    )
    assert one.outlook().needed_s(replace(WAY, has_audio=True)) == 0.0


loads = st.builds(
    Load,
    st.sampled_from(["one", "other"]),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.sampled_from(["", "prefill", "decode", "first", "later"]),
)
seconds = st.floats(1e-4, 1e2)
ways = st.builds(
    Way, seconds, seconds, st.booleans(), st.none() | st.integers(1, 300), st.booleans(), st.booleans()
)
chunks = st.lists(st.tuples(st.sampled_from(WorkKind), loads, seconds, st.booleans()), max_size=40)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(chunks, st.lists(ways, max_size=10), loads, ways)
def test_predictions_are_never_negative_and_no_bound_is_below_its_mean(
    history: list[tuple[WorkKind, Load, float, bool]],
    gone: list[Way],
    load: Load,
    way: Way,
) -> None:
    """Whatever has been learnt, cut off or whole."""
    one = Forecaster()
    for kind, seen, service_s, whole in history:
        one.on_chunk(one.price(work(kind), seen), service_s, whole=whole)
    for each in gone:
        one.on_way(each)
    assert one.outlook().left_s(way) >= 0.0
    for final in (True, False):
        assert one.outlook().needed_s(way, final=final) >= 0.0
    for kind in WorkKind:
        priced = one.price(work(kind), load, way)
        assert priced.remaining_s >= 0.0 <= priced.bound_s
        # A step on its way cannot make the way longer, and the bound covers the mean that it is taken to need.
        assert one.outlook().left_s(way.after(priced.bound_s)) <= one.outlook().left_s(way) + 1e-9


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(seconds, min_size=1, max_size=30), seconds)
def test_a_chunk_that_was_cut_off_never_lowers_its_bound(services: list[float], at_least_s: float) -> None:
    """However short it was cut."""
    one = Forecaster()
    for service_s in services:
        one.on_chunk(one.price(work(WorkKind.THINK), DECODE), service_s)
    before = one.price(work(WorkKind.THINK), DECODE)
    one.on_chunk(before, at_least_s, whole=False)
    assert one.price(work(WorkKind.THINK), DECODE).bound_s >= before.bound_s * (1 - 1e-9)
