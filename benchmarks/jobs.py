"""One run of a crowd: which policy, which calls, in virtual or in real time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from arrivals import Call, Habits, arrivals
from caller import Played, noise
from crowd import play
from replies import scripted_engines
from street import walk

from voicepipe.config import Config, ScriptedConfig, parse_config

HABITS = Habits()
WARM_S = 30.0
"""A little more than a session lasts; not counted."""
MOST_SESSIONS = 1024
SPEEDS = {"small": 1.0, "large": 4.0}
"""Of a device: 20 ms a decode, 10 a prompt, 5 a token and 20 a piece of audio, and a quarter of each."""


@dataclass(frozen=True, slots=True)
class Job:
    policy: str
    offered: float
    sessions: float
    """That would be under way at a time if all were let in."""
    seconds: float
    seed: int
    cap: int
    """Of `count`: sessions that fit, as somebody has found out who knows 1x."""
    enforcement: str = "degrade"
    habits: Habits = HABITS
    device: str = "small"

    def config(self) -> Config:
        most = self.cap if self.policy == "count" else MOST_SESSIONS
        return config_of(self.policy, most, self.enforcement, self.device)

    def calls(self) -> list[Call]:
        return arrivals(self.sessions, WARM_S + self.seconds, self.habits, self.seed)

    @property
    def end(self) -> float:
        return WARM_S + self.seconds


def config_of(policy: str, most: int, enforcement: str = "degrade", device: str = "small") -> Config:
    plain, faster = ScriptedConfig(), SPEEDS[device]
    costs = {
        name: getattr(plain, name) / faster
        for name in ("asr_ms", "llm_prefill_ms", "llm_token_ms", "llm_more_ms", "tts_ms")
    }
    return parse_config(
        {
            "port": 0,
            "enforcement": enforcement,
            "engines": {"kind": "scripted", "scripted": costs},
            "admission": {"policy": policy},
            "limits": {"max_sessions": most, "max_connections_per_address": 2048, "max_connections": 2048},
        }
    )


def run(job: Job) -> Played:
    return play(job.config(), job.calls(), WARM_S, job.end)


def walk_job(job: Job) -> Played:
    """In real time, on scripted engines."""
    config = job.config()
    return asyncio.run(walk(config, partial(scripted_engines, config), job.calls(), noise, WARM_S, job.end))
