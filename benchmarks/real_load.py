"""The sweep with real models: real time, synthesised questions, callers and models on one machine.

1x is looked for from half a session upwards, by half as much again each time. Where not even half a session keeps
99 % there is none, and the budget is too small for the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

from arrivals import Habits, arrivals
from caller import Played, Voice, voice_of
from clips import default_clips
from points import PROMISED, met_rate, percentile, point, shown
from street import walk

from voicepipe.app import serving
from voicepipe.audio import Samples
from voicepipe.config import Config, parse_config
from voicepipe.engines.base import Engines
from voicepipe.engines.table import Models, find_models, load
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
MAX_REPLY_TOKENS = 16
MOST_SESSIONS = 16
WARM_S = 20.0
LEAST_SESSIONS, STEP = 0.5, 1.5
SEED = 101


@dataclass(frozen=True, slots=True)
class Stage:
    """All that the points of a sweep have in common."""

    models: Models
    voice: Voice
    habits: Habits
    seconds: float
    budget_ms: float

    def config(self, policy: str, most: int) -> Config:
        return parse_config(
            {
                "port": 0,
                "budget_ms": self.budget_ms,
                "instructions": INSTRUCTIONS,
                "max_reply_tokens": MAX_REPLY_TOKENS,
                "admission": {"policy": policy},
                "limits": {"max_sessions": most, "max_connections_per_address": 512, "max_connections": 512},
            }
        )

    def play(self, policy: str, sessions: float, most: int = MOST_SESSIONS) -> Played:
        config = self.config(policy, most)
        calls = arrivals(sessions, WARM_S + self.seconds, self.habits, SEED)
        engines = partial(_load, config, self.models)
        return asyncio.run(walk(config, engines, calls, self.voice, WARM_S, WARM_S + self.seconds))


def _load(config: Config, models: Models) -> Engines:
    return load(config.engines, models, sessions=config.limits.max_sessions, api_key=None)


async def clips(config: Config, models: Models) -> list[Samples]:
    async with serving(config, partial(_load, config, models)) as served:
        return [clip.samples for clip in await default_clips(served.engines.tts, None, served.on_thread)]


def real_sweep(args: argparse.Namespace) -> dict[str, Any]:
    config = parse_config({"port": 0, "limits": {"max_sessions": 1}})
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    models = find_models(config.engines, store.resolve)
    assert models is not None
    spoken = asyncio.run(clips(config, models))
    habits = Habits(clips_s=tuple(len(clip) / 16_000 for clip in spoken))
    stage = Stage(models, voice_of(spoken), habits, args.seconds, args.budget_ms)
    one = args.one or _find_one(stage)
    points = []
    for policy in args.policies:
        for offered in args.offered:
            most = max(1, round(one)) if policy == "count" else MOST_SESSIONS
            points.append(_point(policy, offered, stage, stage.play(policy, one * offered, most)))
            _note(json.dumps(points[-1]))
    return {
        "one_sessions": round(one, 2),
        "engines": "default",
        "sweep": "real time",
        "budget_ms": args.budget_ms,
        "seeds": [SEED],
        "shown": shown(points),
        "points": points,
    }


def _point(policy: str, offered: float, stage: Stage, played: Played) -> dict[str, Any]:
    row = point(policy, offered, [stage.seconds], [played])
    return {**row, "refusal_p99_ms": percentile(played.refusals_ms, 0.99)}


def _find_one(stage: Stage) -> float:
    sessions, kept = LEAST_SESSIONS, None
    while sessions <= MOST_SESSIONS:
        rate = met_rate([stage.play("none", sessions)])
        _note(f"none, {sessions:.2f} sessions: {rate:.4f} of turns met")
        if rate < PROMISED:
            break
        kept, sessions = sessions, sessions * STEP
    if kept is None:
        raise SystemExit(
            f"half a session misses 1 % of its turns and more at {stage.budget_ms:.0f} ms: "
            "a larger --budget-ms, or --one"
        )
    return kept


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
