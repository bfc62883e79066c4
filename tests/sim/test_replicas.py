"""Who gets a request, and that a session's turns keep their order."""

from __future__ import annotations

from random import Random

import pytest

from voicepipe.sim.gpu import SMALL
from voicepipe.sim.replicas import Replicas, Routing, play, served
from voicepipe.sim.requests import Request
from voicepipe.sim.shapes import shipped_shapes
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import traffic

ROUTINGS: tuple[Routing, ...] = ("round-robin", "least-busy", "affinity", "kv-aware")


def two(routing: Routing, *requests: Request) -> Replicas:
    timeline = Timeline()
    replicas = Replicas(timeline, SMALL, 2, routing)
    play(timeline, replicas, requests)
    timeline.run()
    return replicas


def turns(*sessions: str, prompt: int = 1000) -> list[Request]:
    """A second apart, each with all of the session before it."""
    said = dict.fromkeys(sessions, 0)
    found = []
    for number, session in enumerate(sessions):
        said[session] += prompt
        found.append(Request(float(number), said[session], 1, session=session, keep_s=0.0))
    return found


def test_round_robin_knows_nothing_of_sessions() -> None:
    requests = turns("a", "a", "a")
    two("round-robin", *requests)
    assert [request.cached_tokens for request in requests] == [0, 0, 1000]


@pytest.mark.parametrize("routing", ["affinity", "kv-aware"])
def test_a_session_goes_where_its_context_is(routing: Routing) -> None:
    requests = turns("a", "b", "a", "b", "a")
    two(routing, *requests)
    assert [request.cached_tokens for request in requests] == [0, 0, 1000, 1000, 2000]


def test_affinity_waits_where_kv_aware_goes_elsewhere() -> None:
    """A context of 1,000 tokens is not worth waiting for a prompt of 20,000."""
    for routing, elsewhere in (("affinity", False), ("kv-aware", True)):
        first = Request(0.0, 1000, 1, session="a", keep_s=0.0)
        large = Request(1.0, 20_000, 1)
        again = Request(1.1, 1100, 1, session="a")
        timeline = Timeline()
        replicas = Replicas(timeline, SMALL, 2, routing)  # type: ignore[arg-type]
        home = replicas.engines[0]
        replicas.submit(first)
        timeline.at(1.0, lambda home=home, large=large: home.submit(large))  # type: ignore[misc]
        timeline.at(1.1, lambda replicas=replicas, again=again: replicas.submit(again))  # type: ignore[misc]
        timeline.run()
        assert (again.cached_tokens == 0) is elsewhere
        assert again.first_token_s is not None and (again.first_token_s < 1) is elsewhere


def test_a_large_prompt_goes_where_it_delays_nobody() -> None:
    talking, large = Request(0.0, 10, 500), Request(0.1, 4000, 1)
    replicas = two("kv-aware", talking, large)
    assert [engine.totals.ended for engine in replicas.engines] == [1, 1]


def test_least_busy_counts_requests() -> None:
    replicas = two("least-busy", *(Request(0.01 * number, 10, 200) for number in range(6)))
    assert [engine.totals.ended for engine in replicas.engines] == [3, 3]


def test_a_turn_waits_for_the_one_before_it_and_counts_from_its_arrival() -> None:
    first, second = Request(0.0, 100, 500, session="a"), Request(0.5, 200, 1, session="a")
    two("affinity", first, second)
    assert first.ended_s == second.submitted_s and second.first_s is not None
    assert second.first_token_s == second.first_s - 0.5


@pytest.mark.parametrize("routing", ROUTINGS)
def test_each_request_ends_once_and_no_memory_is_left_over(routing: Routing) -> None:
    timeline, ended = Timeline(), list[Request]()
    replicas = Replicas(timeline, SMALL, 3, routing, ended=ended.append)
    found = traffic(shipped_shapes()["agent"], 60, Random(3))
    from_turns = play(timeline, replicas, (Request(t.at_s, t.prompt_tokens, t.output_tokens) for t in found))
    timeline.run()
    assert sorted(map(id, ended)) == sorted(map(id, from_turns))
    assert all(engine.outstanding == engine.pool.used == 0 for engine in replicas.engines)


def test_the_same_turns_are_served_the_same() -> None:
    found = traffic(shipped_shapes()["chat"], 60, Random(3))
    one, other = (served(found, SMALL, 2) for _ in range(2))
    assert [request.ended_s for request in one] == [request.ended_s for request in other]
    assert None not in [request.ended_s for request in one]


def test_what_is_preloaded_is_found_everywhere_and_equals_share() -> None:
    """Two idle engines that know the same: the second request goes to the one that has had none."""
    timeline = Timeline()
    replicas = Replicas(timeline, SMALL, 2, "kv-aware")
    replicas.preload({"tools": 900})
    requests = [Request(float(at), 1000, 5, prefix="tools", prefix_tokens=900) for at in range(2)]
    play(timeline, replicas, requests)
    timeline.run()
    assert [request.cached_tokens for request in requests] == [900, 900]
    assert [engine.totals.ended for engine in replicas.engines] == [1, 1]
