"""A server that clients of the Realtime protocol reach on a real socket, with scripted engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from voicepipe.app import Serving, serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.table import load

TOKEN = "sesame"
REPLY = "It is raining there, and it will go on to rain until tomorrow."
QUESTIONS = ("What is the weather in Oslo?", "And in Bergen?")
CALL = 'weather {"place": "Oslo"}'


@asynccontextmanager
async def server(
    *, sessions: int = 2, waiting_places: int = 0, waiting_s: float = 30.0, **script: object
) -> AsyncIterator[Serving]:
    """`script`: fields of ScriptedConfig."""
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(**script)),  # type: ignore[arg-type]
        limits=LimitsConfig(max_sessions=sessions, grace_s=0.5),
        admission=AdmissionConfig(policy="count", waiting_places=waiting_places, waiting_s=waiting_s),
    )
    engines = load(config.engines, None, sessions=sessions, api_key=None)
    async with serving(config, lambda: engines, tokens=frozenset({TOKEN})) as served:
        yield served


def base_url(served: Serving) -> str:
    return f"http://127.0.0.1:{served.server.port}/v1"
