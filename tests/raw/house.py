"""A whole server with scripted engines, and a good client in it, who must not notice the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.raw.client import Raw, close, open_raw, say
from voicepipe.app import Serving, serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.table import load

REPLY = "Yes."
IN_TIME = ("met", "degraded")
NOTICED_S = 8.0
"""Within so long, on a machine that has other things to do, whoever breaks the rules has been let go: the server's
own limits, made short here, come to a fraction of it."""


SHORT = {"handshake_s": 0.6, "start_s": 0.8}


def shorten(patch: pytest.MonkeyPatch) -> None:
    """The server's times for an upgrade that is held, and between pings, which are seconds."""
    patch.setattr("voicepipe.server._LONGEST_HELD_S", 0.0)
    patch.setattr("voicepipe.server._PING_INTERVAL_S", 0.3)
    patch.setattr("voicepipe.server._PING_TIMEOUT_S", 0.6)


class House:
    def __init__(self, served: Serving) -> None:
        self.server = served.server
        self.port = served.server.port
        self.metrics = served.server._metrics

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"voicepipe_{name}", labels) or 0.0

    @property
    def leases(self) -> float:
        return sum(self.value("leases", kind=kind) for kind in ("session",))

    async def leases_come_to(self, wanted: int) -> None:
        await within(lambda: self.leases == wanted, f"{wanted} leases")


async def within(condition: Callable[[], bool], what: str, seconds: float = NOTICED_S) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110  nobody says when
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def one_turn(client: Raw) -> str:
    """Typed and answered; its verdict."""
    await client.send(say("Are you there?"))
    return str((await client.until("turn.ended"))["verdict"])


@asynccontextmanager
async def house(*, sessions: int = 4, reply: str = REPLY, **limits: float) -> AsyncIterator[House]:
    """Afterwards every lease is back, no session has failed by a bug, and a client gets in and is answered."""
    script = ScriptedConfig(reply=reply, asr_ms=1, llm_prefill_ms=1, llm_token_ms=1, tts_ms=1)
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=script),
        admission=AdmissionConfig(policy="count"),  # a machine that has other things to do keeps nobody out
        limits=LimitsConfig(max_sessions=sessions, grace_s=0.3, **(SHORT | limits)),  # type: ignore[arg-type]
    )
    engines = load(config.engines, None, sessions=sessions, api_key=None)
    async with serving(config, lambda: engines) as served:
        built = House(served)
        yield built
        await built.leases_come_to(0)
        async with open_raw(built.port) as client:
            assert await one_turn(client) in IN_TIME
        await built.leases_come_to(0)
        assert built.value("session_failures_total") == 0
        assert built.value("tasks_abandoned_total") == 0


@asynccontextmanager
async def beside_a_good_client(**options: float) -> AsyncIterator[House]:
    """It has a turn while the block runs, and is answered as if it were alone."""
    async with house(**options) as built, open_raw(built.port) as good, asyncio.TaskGroup() as group:  # type: ignore[arg-type]
        await good.send(say("Are you there?"))
        listening = group.create_task(good.until_ended())
        yield built
        await within(lambda: "turn.ended" in good.got.kinds(), "the good client's turn")
        await built.leases_come_to(1)
        await good.send(close(1000))
        assert (await listening).code == 1000
        assert [m["verdict"] in IN_TIME for m in good.got.messages if m["type"] == "turn.ended"] == [True]
