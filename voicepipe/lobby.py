"""Between the door and admission: whoever asks gets a lease, a refusal, or a ticket that can be waited on.

Admission decides; here its commands are carried out, its timer is armed, and what it says is counted. A lease that
comes out of the waiting room is handed over within the very step in which it was taken, so that there is no instant
at which nobody would give it back. Times to come back are spread by chance (`jitter`): callers who were refused
together do not return together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from voicepipe.core.admission import (
    Admission,
    Admitted,
    Grant,
    Moved,
    Refuse,
    RoomCommand,
    SessionRequest,
    TurnedOut,
    Wait,
)
from voicepipe.core.outcomes import Observed
from voicepipe.metrics import Metrics

Hold = Callable[[Grant], None]
"""Sees to it that the lease is given back."""


class Ticket:
    """A place in the waiting room."""

    def __init__(self, wait: Wait, hold: Hold, since: float) -> None:
        self.number = wait.ticket
        self.since = since
        self.hold = hold
        self._news: int | Grant | Refuse | None = wait.position
        self._told = asyncio.Event()
        self._told.set()
        self._over = False

    def tell(self, news: int | Grant | Refuse | None) -> None:
        """A position, or how the wait ended; None: the client has gone. Nothing follows the end."""
        if not self._over:
            self._over = not isinstance(news, int)
            self._news = news
            self._told.set()

    async def news(self) -> int | Grant | Refuse | None:
        """The newest that has not been told yet; a position that was passed meanwhile is not."""
        await self._told.wait()
        self._told.clear()
        return self._news


class Lobby:
    """Every call is on the loop's thread."""

    def __init__(self, admission: Admission, metrics: Metrics, jitter: Callable[[], float]) -> None:
        """`jitter`: a factor around 1, drawn for each refusal."""
        self._admission = admission
        self._metrics = metrics
        self._jitter = jitter
        self._tickets: dict[int, Ticket] = {}
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, request: SessionRequest, hold: Hold) -> Grant | Refuse | Ticket:
        """`hold` is called with the lease, now or when the wait ends in one."""
        now = _now()
        decision = self._admission.on_connect(request, now)
        if isinstance(decision, Grant):
            hold(decision)
            self._note("admitted", "")
            return decision
        if isinstance(decision, Refuse):
            return self._refused(decision)
        self._note("waiting", decision.reason)
        ticket = self._tickets[decision.ticket] = Ticket(decision, hold, now)
        self._settle()
        return ticket

    def give_back(self, grant: Grant) -> None:
        """Exactly once per lease."""
        self._execute(self._admission.on_end(grant.lease_id, _now()))

    def leave(self, ticket: Ticket) -> None:
        """The client that waited has gone. Nothing where the wait is over."""
        if self._tickets.pop(ticket.number, None) is not None:
            self._metrics.waited(_now() - ticket.since, "left")
            ticket.tell(None)
            self._execute(self._admission.on_leave(ticket.number, _now()))

    def empty(self, refuse: Refuse) -> None:
        """Nobody waits any longer: the server goes away."""
        while self._tickets:
            number, ticket = self._tickets.popitem()
            self._metrics.waited(_now() - ticket.since, "refused")
            self._metrics.refused(refuse.reason)
            ticket.tell(refuse)
            self._execute(self._admission.on_leave(number, _now()))

    def on_turn(self, observed: Observed) -> None:
        self._execute(self._admission.on_turn(observed, _now()))

    def on_shed(self, shed: bool) -> None:
        """New sessions are refused, or no more."""
        self._execute(self._admission.on_shed(shed, _now()))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # inner

    def _execute(self, commands: list[RoomCommand]) -> None:
        for command in commands:
            match command:
                case Admitted(number, grant):
                    ticket = self._tickets.pop(number)
                    ticket.hold(grant)
                    self._note("admitted", "")
                    self._metrics.waited(_now() - ticket.since, "admitted")
                    ticket.tell(grant)
                case Moved(number, position):
                    self._tickets[number].tell(position)
                case TurnedOut(number, refuse):
                    ticket = self._tickets.pop(number)
                    self._metrics.waited(_now() - ticket.since, "refused")
                    ticket.tell(self._refused(refuse))
        self._settle()

    def _refused(self, refuse: Refuse) -> Refuse:
        self._note("refused", refuse.reason)
        self._metrics.refused(refuse.reason)
        return replace(refuse, retry_after_ms=round(refuse.retry_after_ms * self._jitter()))

    def _note(self, decision: str, reason: str) -> None:
        self._metrics.decided(self._admission.snapshot().policy, decision, reason)

    def _settle(self) -> None:
        """The room's length for the metrics, and the one timer at admission's deadline."""
        self._metrics.room(len(self._tickets))
        deadline = self._admission.next_deadline()
        if self._timer is not None:
            if self._timer.when() == deadline and not self._timer.cancelled():
                return
            self.stop()
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        self._timer = None
        # The loop may fire a little early by its clock's resolution.
        self._execute(self._admission.on_timer(max(deadline, _now())))


def _now() -> float:
    return asyncio.get_running_loop().time()
