"""The engine against closed forms, against itself step by step, and what it must never do."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.sim.batching import Engine, Rules
from voicepipe.sim.golden import slot_s
from voicepipe.sim.gpu import A100, SMALL, Gpu
from voicepipe.sim.requests import Request
from voicepipe.sim.timeline import Timeline

TINY = replace(SMALL, kv_gb=0.131 * 16 * 40 / 1000, slots=4, chunk_tokens=64)
"""Memory for 40 blocks of 16 tokens."""


def run(gpu: Gpu, requests: list[Request], rules: Rules | None = None) -> Engine:
    timeline, ended = Timeline(), list[Request]()
    engine = Engine(timeline, gpu, ended.append, rules)
    for request in requests:
        timeline.at(request.arrived_s, lambda request=request: engine.submit(request))  # type: ignore[misc]
    timeline.run()
    assert sorted(map(id, ended)) == sorted(map(id, requests))  # each exactly once
    return engine


@pytest.mark.parametrize(("prompt", "output"), [(1, 1), (512, 1), (513, 10), (3000, 500)])
@pytest.mark.parametrize("gpu", [A100, SMALL], ids=["a100", "small"])
def test_alone_a_request_takes_its_prompt_and_its_steps(gpu: Gpu, prompt: int, output: int) -> None:
    request = Request(1.0, prompt, output)
    run(gpu, [request])
    assert request.ended_s == pytest.approx(1.0 + gpu.alone_s(prompt, output), rel=1e-12)
    assert request.first_s == pytest.approx(1.0 + gpu.alone_s(prompt, 1), rel=1e-12)


def test_a_batch_shares_its_steps() -> None:
    """Eight short prompts are one chunk; then all get a token in each step."""
    requests = [Request(0.001, 50, 100) for _ in range(8)]
    run(SMALL, [Request(0.0, 1, 1), *requests])
    expected = SMALL.alone_s(1, 1) + SMALL.step_s + SMALL.prefill_s(400) + SMALL.steps_s(99, 8, 8 * 50)
    assert {request.ended_s for request in requests} == {requests[0].ended_s}
    assert requests[0].ended_s == pytest.approx(expected, rel=1e-12)


def test_a_chunk_is_what_sequences_leave_of_a_step() -> None:
    """With one sequence running, a prompt of 1,000 tokens takes 511 and 489 in two steps that also continue it."""
    first, second = Request(0.0, 1, 100), Request(0.1, 1000, 1)
    run(SMALL, [first, second])
    assert second.started_s is not None and second.first_s is not None
    context = 1 + round((second.started_s - SMALL.step_s) / SMALL.step_s)
    expected = SMALL.prefill_s(1000) + SMALL.steps_s(2, 1, context)
    assert second.first_s - second.started_s == pytest.approx(expected, rel=1e-3)


def test_who_comes_begins_at_the_end_of_the_step_that_runs() -> None:
    alike = replace(SMALL, sequence_s=0.0, prompt_token_s=0.0)
    first, second = Request(0.0, 1, 100), Request(0.0061, 1, 1)
    run(alike, [first, second])
    assert (second.started_s, second.first_s) == (pytest.approx(0.008), pytest.approx(0.012))


def test_beyond_the_slots_one_waits_for_the_first_to_end() -> None:
    gpu = replace(SMALL, slots=2, sequence_s=0.0, prompt_token_s=0.0)
    requests = [Request(0.0, 1, tokens) for tokens in (10, 20, 5)]
    engine = run(gpu, requests)
    assert [request.started_s for request in requests] == pytest.approx([0.0, gpu.step_s, 10 * gpu.step_s])
    assert requests[2].ended_s == pytest.approx(15 * gpu.step_s)
    assert engine.outstanding == 0


def test_lower_priorities_begin_first() -> None:
    gpu = replace(SMALL, slots=1)
    requests = [Request(0.0, 1, 10), Request(0.001, 1, 10, priority=2), Request(0.002, 1, 10, priority=1)]
    run(gpu, requests)
    started = [request.started_s for request in requests]
    assert None not in started
    assert started[0] < started[2] < started[1]  # type: ignore[operator]


def test_a_full_queue_refuses_and_what_can_never_fit_is_refused() -> None:
    requests = [Request(0.0, 1, 10) for _ in range(5)] + [Request(0.0, 500, 200)]
    engine = run(replace(TINY, slots=1), requests, Rules(queued=2))
    assert [request.refused for request in requests] == [None, None, None, "queue", "queue", "queue"]
    assert (engine.totals.refused, engine.totals.ended) == (3, 3)
    assert run(TINY, [large := Request(0.0, 500, 200)]).totals.refused == 1
    assert large.refused == "memory" and large.ended_s is None


def test_a_turn_holds_its_slot_in_proportion_to_its_tokens() -> None:
    """Ten times as long where steps are all alike; longer still where they grow with the context."""
    alike = replace(A100, sequence_s=0.0, prompt_token_s=0.0)
    assert slot_s(alike, 2_000) / slot_s(alike, 200) == pytest.approx(10)
    assert 10 < slot_s(A100, 2_000) / slot_s(A100, 200) < 11


def test_the_first_clause_comes_after_the_thoughts() -> None:
    gpu = replace(SMALL, sequence_s=0.0, prompt_token_s=0.0)
    request = Request(0.0, 1, 150, thinking_tokens=100, clause_tokens=7)
    run(gpu, [request])
    assert request.clause_s == pytest.approx(107 * gpu.step_s)
    assert request.first_s == pytest.approx(gpu.step_s)


def test_a_session_finds_its_context_again() -> None:
    first = Request(0.0, 1000, 50, session="a", keep_s=0.0)
    second = Request(5.0, 1100, 50, session="a", keep_s=0.0)
    thinking = Request(10.0, 1200, 50, thinking_tokens=10, session="a", keep_s=0.0)
    last = Request(15.0, 1300, 50, session="a")
    engine = run(SMALL, [first, second, thinking, last])
    assert [request.cached_tokens for request in (first, second, thinking, last)] == [0, 1049, 1149, 1200]
    assert engine.pool.counts().kept_blocks == 0


def test_a_shared_prefix_is_computed_once() -> None:
    first, second = (Request(at, 1000, 5, prefix="tools", prefix_tokens=900) for at in (0.0, 1.0))
    run(SMALL, [first, second])
    assert (first.cached_tokens, second.cached_tokens) == (0, 900)
    assert (first.prefilled_tokens, second.prefilled_tokens) == (1000, 100)


def test_where_memory_runs_out_the_last_is_put_back_and_computed_again() -> None:
    """Two of 20 + 20 blocks at the end each; together they have 40 until both have grown by a block."""
    requests = [Request(0.0, 310, 200), Request(0.0, 310, 200)]
    engine = run(TINY, requests)
    assert [request.preempted for request in requests] == [0, 1]
    assert requests[1].prefilled_tokens > 620
    assert engine.totals.preempted == 1 and engine.pool.running == 0


def test_with_memory_reserved_nobody_is_put_back() -> None:
    requests = [Request(0.0, 310, 200), Request(0.0, 310, 200)]
    engine = run(TINY, requests, Rules(reserve=True))
    assert engine.totals.preempted == 0
    assert requests[1].started_s == requests[0].ended_s


def test_a_pin_is_broken_before_an_engine_stands_still() -> None:
    pinned = Request(0.0, 300, 10, session="a", keep_s=1e9)
    large = Request(1.0, 500, 10)
    engine = run(TINY, [pinned, large])
    assert large.ended_s is not None and large.ended_s < 3
    assert engine.pool.counts().broken_pins == 1


def test_who_waits_for_a_pin_begins_when_it_ends() -> None:
    """Not only when a run of equal steps ends."""
    requests = [
        Request(0.0, 300, 2, session="a", keep_s=0.5),
        Request(0.2, 16, 300),
        Request(0.3, 350, 5),
    ]
    run(TINY, requests)
    assert requests[0].ended_s is not None and requests[2].started_s is not None
    late_s = requests[2].started_s - (requests[0].ended_s + 0.5)
    assert 0 <= late_s <= 1.01 * TINY.step_s


JOBS = st.lists(
    st.tuples(
        st.integers(0, 40),  # intervals of 10 ms
        st.integers(1, 300),  # prompt
        st.integers(1, 250),  # output
        st.integers(0, 3),  # thoughts, in quarters
        st.sampled_from(("", "a", "b")),  # session
        st.sampled_from((None, 0.0, 0.3)),  # kept
        st.integers(0, 1),  # priority
        st.booleans(),  # with the prefix
    ),
    min_size=1,
    max_size=14,
)


def made(jobs: list[tuple[int, int, int, int, str, float | None, int, bool]]) -> list[Request]:
    now, found, rng = 0.0, list[Request](), Random(0)
    for interval, prompt, output, thoughts, session, keep_s, priority, shares in jobs:
        now += interval * 0.01 + rng.random() * 1e-4  # never at the end of a step
        found.append(
            Request(
                now,
                prompt + (48 if shares else 0),
                output,
                thinking_tokens=min(output - 1, output * thoughts // 4),
                session=session,
                keep_s=keep_s,
                priority=priority,
                prefix="tools" if shares else "",
                prefix_tokens=48 if shares else 0,
            )
        )
    return found


@settings(max_examples=150, deadline=None)
@given(JOBS, st.booleans())
def test_many_steps_at_once_are_the_same_as_each_by_itself(
    jobs: list[tuple[int, int, int, int, str, float | None, int, bool]], reserve: bool
) -> None:
    """Same instants, same hits, same preemptions; and no block is left over."""
    found = []
    for steps in (1_000_000, 1):
        requests = made(jobs)
        engine = run(TINY, requests, Rules(reserve=reserve, run_steps=steps))
        counts = engine.pool.counts()
        assert engine.outstanding == engine.pool.running == engine.unread_tokens == 0
        assert engine.pool.available(1e9) == engine.pool.blocks
        assert engine.totals.prefill_tokens == sum(one.prefilled_tokens for one in requests)
        assert not reserve or engine.totals.preempted == 0
        found.append((requests, counts))
    (at_once, counts), (each, counts_each) = found
    assert counts == counts_each
    for one, other in zip(at_once, each, strict=True):
        assert (one.refused, one.cached_tokens, one.preempted) == (
            other.refused,
            other.cached_tokens,
            other.preempted,
        )
        for name in ("started_s", "first_s", "clause_s", "ended_s"):
            mine, others = getattr(one, name), getattr(other, name)
            assert (mine is None) == (others is None)
            assert mine is None or mine == pytest.approx(others, abs=1e-9)


def test_memory_that_grows_before_a_pin_ends_evicts_something_else() -> None:
    """Found by the test above: a run of steps over the end of a pin took all of its memory at its own end."""
    jobs: list[tuple[int, int, int, int, str, float | None, int, bool]] = [
        (0, 111, 116, 0, "", None, 0, False),
        (16, 133, 78, 0, "", None, 0, False),
        (0, 1, 1, 0, "", None, 1, True),
        (0, 129, 1, 0, "a", 0.3, 0, False),
    ]
    counts = [
        run(TINY, made(jobs), Rules(reserve=False, run_steps=steps)).pool.counts() for steps in (1_000_000, 1)
    ]
    assert counts[0] == counts[1]


@settings(max_examples=60, deadline=None)
@given(JOBS)
def test_time_is_spent_on_prompts_and_tokens_and_nothing_else(
    jobs: list[tuple[int, int, int, int, str, float | None, int, bool]],
) -> None:
    """What the device was busy with adds up to no more than from the first arrival to the last end."""
    requests = made(jobs)
    engine = run(TINY, requests)
    ends = [request.ended_s for request in requests if request.ended_s is not None]
    busy_s = engine.totals.prefill_s + engine.totals.decode_s
    assert busy_s <= max(ends, default=0.0) - requests[0].arrived_s + 1e-9
    for request in requests:
        if request.ended_s is not None:
            assert request.first_s is not None and request.started_s is not None and request.clause_s is not None
            assert request.arrived_s <= request.started_s < request.first_s
            assert request.first_s <= request.clause_s <= request.ended_s
