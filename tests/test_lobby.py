"""The lobby on a virtual loop: tickets, leases that change hands in one step, and a timer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests import virtual
from voicepipe.app import JITTER
from voicepipe.core.admission import Grant, Reason, Refuse, SessionAdmission, SessionRequest
from voicepipe.core.limits import FixedLimit
from voicepipe.core.outcomes import Observed, Outcome
from voicepipe.core.policies import LimitPolicy
from voicepipe.core.room import RoomSettings
from voicepipe.lobby import Lobby, Ticket
from voicepipe.metrics import Metrics

ANYONE = SessionRequest(may_wait=True)


class House:
    def __init__(
        self, sessions: int, places: int = 0, *, longest_s: float = 10.0, jitter: Callable[[], float] = lambda: 1.0
    ) -> None:
        policy = LimitPolicy("count", FixedLimit(sessions), Reason.CAPACITY)
        self.admission = SessionAdmission(policy, room=RoomSettings(places, longest_s))
        self.metrics = Metrics(CollectorRegistry())
        self.lobby = Lobby(self.admission, self.metrics, jitter)
        self.held: list[Grant] = []

    def ask(self) -> Grant | Refuse | Ticket:
        return self.lobby.ask(ANYONE, self.held.append)

    def end(self) -> None:
        self.lobby.give_back(self.held.pop(0))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"voicepipe_{name}", labels)


def play(scene: Coroutine[Any, Any, None]) -> None:
    virtual.run(scene)


def test_a_lease_from_the_room_is_held_in_the_step_in_which_it_was_taken() -> None:
    async def scene() -> None:
        house = House(1, 2)
        assert isinstance(house.ask(), Grant)
        first, second = house.ask(), house.ask()
        assert isinstance(first, Ticket) and isinstance(second, Ticket)
        assert [await first.news(), await second.news()] == [1, 2]
        house.end()
        assert len(house.held) == 1, "before anybody else runs"
        assert await first.news() == house.held[0] and await second.news() == 1
        assert house.value("waiting_room") == 1
        house.end()
        house.end()
        assert house.admission.snapshot().active == 0

    play(scene())


def test_positions_that_were_passed_are_not_told() -> None:
    async def scene() -> None:
        house = House(1, 4)
        house.ask()
        tickets = [house.ask() for _ in range(4)]
        assert all(isinstance(ticket, Ticket) for ticket in tickets)
        last = tickets.pop()
        assert isinstance(last, Ticket) and await last.news() == 4
        for ticket in tickets:
            assert isinstance(ticket, Ticket)
            house.lobby.leave(ticket)
            house.lobby.leave(ticket)
        assert await last.news() == 1
        assert house.value("waiting_seconds_count", ended="left") == 3

    play(scene())


def test_a_wait_ends_when_it_has_been_promised_to() -> None:
    async def scene() -> None:
        house, clock = House(1, 1, longest_s=10.0), asyncio.get_running_loop().time
        house.ask()
        began, ticket = clock(), house.ask()
        assert isinstance(ticket, Ticket) and await ticket.news() == 1
        assert await ticket.news() == Refuse("capacity", 24_000)
        assert clock() - began == pytest.approx(10.0)
        assert house.value("refusals_total", reason="capacity") == 1
        house.lobby.leave(ticket)
        assert house.value("waiting_seconds_count", ended="left") == 0

    play(scene())


def test_a_server_that_goes_away_turns_everybody_out() -> None:
    async def scene() -> None:
        house = House(1, 3)
        house.ask()
        tickets = [house.ask() for _ in range(3)]
        house.lobby.empty(Refuse("draining", 5_000))
        for ticket in tickets:
            assert isinstance(ticket, Ticket) and await ticket.news() == Refuse("draining", 5_000)
        assert house.admission.snapshot().waiting == 0 and house.value("waiting_room") == 0
        house.end()
        assert not house.held

    play(scene())


def test_the_time_to_come_back_is_spread_by_a_quarter() -> None:
    async def scene() -> None:
        rng = random.Random(1)
        house = House(2, jitter=lambda: rng.uniform(0.75, 1.25))
        house.ask()
        house.ask()
        times = [
            answer.retry_after_ms for answer in (house.ask() for _ in range(200)) if isinstance(answer, Refuse)
        ]
        assert len(times) == 200 and len(set(times)) > 150
        assert 7_500 <= min(times) < 7_700 and 12_300 < max(times) <= 12_500

    play(scene())


def test_the_longest_time_to_come_back_is_half_a_minute_spread_and_all() -> None:
    """Also where no session has ended yet."""

    async def scene() -> None:
        house = House(1, jitter=lambda: JITTER[1])
        house.ask()
        await asyncio.sleep(60)
        answer = house.ask()
        assert isinstance(answer, Refuse) and answer.retry_after_ms == 30_000

    play(scene())


def test_every_decision_is_counted_with_its_policy_and_reason() -> None:
    async def scene() -> None:
        house = House(1, 1)
        for _ in range(4):
            house.ask()
        counted = {
            (decision, reason): house.value(
                "admission_decisions_total", policy="count", decision=decision, reason=reason
            )
            for decision, reason in (("admitted", ""), ("waiting", "capacity"), ("refused", "capacity"))
        }
        assert [*counted.values()] == [1, 1, 2]
        house.lobby.stop()

    play(scene())


def test_turns_and_overload_reach_admission() -> None:
    async def scene() -> None:
        house = House(4, 1)
        house.ask()
        house.lobby.on_shed(True)
        ticket = house.ask()
        assert isinstance(ticket, Ticket) and await ticket.news() == 1
        house.lobby.on_turn(Observed(Outcome.SUCCESS, 0.1))
        house.lobby.on_shed(False)
        assert isinstance(await ticket.news(), Grant)

    play(scene())


@pytest.mark.parametrize("seed", range(20))
def test_fifty_races_with_random_kills_leave_no_lease(seed: int) -> None:
    """N + k clients connect at once, each a task that is killed at a random instant, waiting or running: never more
    than N run, as many as want to and may do, and when all are gone every lease is back and the room is empty."""
    rng = random.Random(seed)

    async def client(house: House, running: set[int], number: int) -> None:
        task = asyncio.current_task()
        assert task is not None

        def hold(grant: Grant) -> None:
            running.add(grant.lease_id)

            def give_back(_: object) -> None:
                running.discard(grant.lease_id)
                house.lobby.give_back(grant)

            task.add_done_callback(give_back)

        answer = house.lobby.ask(ANYONE, hold)
        if isinstance(answer, Ticket):
            task.add_done_callback(lambda _: house.lobby.leave(answer))
            while isinstance(news := await answer.news(), int):
                assert news >= 1
            answer = news if news is not None else Refuse("gone", 0)
        if isinstance(answer, Grant):
            await asyncio.sleep(rng.uniform(0.0, 3.0))

    async def race() -> None:
        n, k, places = rng.randint(1, 8), rng.randint(1, 12), rng.choice((0, 3, 20))
        house = House(n, places, longest_s=2.0)
        running: set[int] = set()
        tasks = [asyncio.create_task(client(house, running, number)) for number in range(n + k)]
        await asyncio.sleep(0)
        assert len(running) == n, "as many as may"
        for task in tasks:
            if rng.random() < 0.5:
                asyncio.get_running_loop().call_later(rng.uniform(0.0, 3.0), task.cancel)
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.05)
            assert len(running) <= n
        await asyncio.sleep(0)
        snapshot = house.admission.snapshot()
        assert not running and (snapshot.active, snapshot.waiting) == (0, 0)
        assert house.value("waiting_room") == 0 and house.admission.next_deadline() is None

    async def races() -> None:
        for _ in range(50):
            await race()

    play(races())
