"""Several engines that serve the same, and who of them gets a request.

    round-robin   one after the other
    least-busy    fewest requests, the first of equals
    affinity      a session stays where its first turn went, which was the least busy
    kv-aware      where the least is to be waited for: what is not in memory there, behind what waits there, and as
                  often again as there are others whom it delays; of equals, who was given least

A session's turn waits for the one before it; its latency counts from when it was meant to come all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from voicepipe.sim.batching import Engine, Rules
from voicepipe.sim.gpu import Gpu
from voicepipe.sim.requests import Request, request_of
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import Turn

Routing = Literal["round-robin", "least-busy", "affinity", "kv-aware"]


class Replicas:
    def __init__(
        self,
        timeline: Timeline,
        gpu: Gpu,
        count: int,
        routing: Routing = "kv-aware",
        rules: Rules | None = None,
        ended: Callable[[Request], None] = lambda request: None,
    ) -> None:
        """`ended` is told of each request once, served or refused."""
        self._gpu = gpu
        self._routing = routing
        self._told = ended
        self.engines = [Engine(timeline, gpu, self._ended, rules) for _ in range(count)]
        self._given = [0] * count
        self._homes: dict[str, int] = {}
        self._behind: dict[str, deque[Request]] = {}
        """By session with a turn under way: its next ones."""

    def submit(self, request: Request) -> None:
        if not request.session:
            self.engine_for(request).submit(request)
        elif request.session in self._behind:
            self._behind[request.session].append(request)
        else:
            self._behind[request.session] = deque()
            self.engine_for(request).submit(request)

    def preload(self, prefixes: Mapping[str, int]) -> None:
        """Every engine has those, so many tokens long, in memory already."""
        for engine in self.engines:
            for name, tokens in prefixes.items():
                engine.pool.preload(name, tokens, 0.0)

    def engine_for(self, request: Request) -> Engine:
        which = self._which(request)
        self._given[which] += 1
        return self.engines[which]

    def _which(self, request: Request) -> int:
        places, given = range(len(self.engines)), self._given
        if self._routing == "round-robin":
            return sum(given) % len(places)
        if self._routing == "kv-aware":
            return min(places, key=lambda one: (self._expected_s(request, self.engines[one]), given[one]))
        if self._routing == "affinity" and request.session in self._homes:
            return self._homes[request.session]
        which = min(places, key=lambda one: self.engines[one].outstanding)
        if self._routing == "affinity" and request.session:
            self._homes[request.session] = which
        return which

    def _expected_s(self, request: Request, engine: Engine) -> float:
        """Prompts before it and its own, once more for everyone who is outstanding; a full engine is to be waited
        for as long as it has been taking for a slot."""
        gpu, pool = self._gpu, engine.pool
        prefix = min(pool.here(request.prefix), request.prefix_tokens)
        known = prefix + pool.here(request.session) if prefix == request.prefix_tokens else prefix
        own = max(1, request.prompt_tokens - known)
        seconds = gpu.prefill_s(engine.unread_tokens + own * (1 + engine.outstanding))
        full = engine.outstanding + 1 - gpu.slots
        if full > 0:
            seconds += full * engine.slot_s / gpu.slots
        return seconds

    def _ended(self, request: Request) -> None:
        self._told(request)
        behind = self._behind.get(request.session)
        if behind:
            following = behind.popleft()
            self.engine_for(following).submit(following)
        elif behind is not None:
            del self._behind[request.session]


def play(timeline: Timeline, replicas: Replicas, requests: Iterable[Request]) -> list[Request]:
    """Sets them to come when they are meant to; whoever runs the timeline sees them end."""
    coming = list(requests)
    for request in coming:
        timeline.at(request.arrived_s, partial(replicas.submit, request))
    return coming


def served(turns: Iterable[Turn], gpu: Gpu, count: int, routing: Routing = "kv-aware") -> list[Request]:
    """All of them, to the last token."""
    timeline = Timeline()
    requests = play(timeline, Replicas(timeline, gpu, count, routing), map(request_of, turns))
    timeline.run()
    return requests
