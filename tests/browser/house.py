"""Servers for the page, on this test's own event loop, and what its microphone hears."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from prometheus_client import CollectorRegistry

from voicepipe.app import Serving, serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, OverloadConfig, ScriptedConfig
from voicepipe.core.admission import CountAdmission
from voicepipe.engines.scripted import SECONDS_PER_WORD
from voicepipe.engines.table import load
from voicepipe.metrics import Metrics
from voicepipe.pages import Readiness
from voicepipe.resources import browser_dir, pictures_dir
from voicepipe.server import Handler, ServerSettings, VoiceServer
from voicepipe.wire import messages as wire

WAV_HZ = 48_000
REPLY = "It is Paris. On the Seine."
REPLY_S = 6 * SECONDS_PER_WORD
QUICK = {"reply": REPLY, "asr_ms": 4.0, "llm_prefill_ms": 2.0, "llm_token_ms": 1.0, "tts_ms": 4.0}
"""Of a fast device, whose warm-up is short."""
READY = wire.SessionReady("s1", wire.PROTOCOL, 48_000, budget_ms=200.0, achievable_ms=None)


@cache
def site() -> Path:
    """The page's files, and beside them what a test listens with: worklets load from the page's own server only."""
    folder = Path(tempfile.mkdtemp(prefix="voicepipe-page-"))
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(browser_dir(), folder, dirs_exist_ok=True)
    shutil.copy(Path(__file__).parent / "tap-worklet.js", folder)
    return folder


@asynccontextmanager
async def server(
    *,
    port: int = 0,
    tokens: frozenset[str] = frozenset(),
    origins: tuple[str, ...] = (),
    sessions: int = 1,
    waiting_places: int = 0,
    **scripted: Any,
) -> AsyncIterator[Serving]:
    """`scripted` goes into ScriptedConfig, over `QUICK`."""
    config = Config(
        port=port,
        origins=origins,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(**{**QUICK, **scripted})),
        limits=LimitsConfig(max_sessions=sessions, grace_s=1.0),
        admission=AdmissionConfig(policy="count", waiting_places=waiting_places),
        overload=OverloadConfig(
            loop_lag_ms=10_000.0, input_age_ms=10_000.0
        ),  # other tests may keep this machine busy
    )
    loader = lambda: load(config.engines, None, sessions=sessions, api_key=None)  # noqa: E731
    async with serving(config, loader, tokens=tokens, web_files=site(), pictures=pictures_dir()) as served:
        yield served


@asynccontextmanager
async def telling(handler: Handler, *, port: int = 0) -> AsyncIterator[str]:
    """The server's door with `handler` in place of sessions, for what sessions seldom say. Its address."""
    built = VoiceServer(
        ServerSettings(port=port, grace_s=0.0, close_timeout_s=0.2, web_files=site()),
        handler,
        admission=CountAdmission(1),
        metrics=Metrics(CollectorRegistry()),
        ready=lambda: Readiness(True),
    )
    async with built:
        yield f"http://127.0.0.1:{built.port}/"


def url_of(served: Serving) -> str:
    return f"http://127.0.0.1:{served.server.port}/"


def ended(turn: int, **values: Any) -> wire.TurnEnded:
    """A turn that was in time, or `values`."""
    stages = wire.Stages(
        endpoint=wire.StageTimes(96.0, 1.0),
        asr=wire.StageTimes(0.0, 20.0),
        llm=wire.StageTimes(2.0, 20.0),
        tts=wire.StageTimes(0.0, 9.0),
        send=wire.StageTimes(4.0, 0.0),
    )
    known: dict[str, Any] = {
        "verdict": "met",
        "felt_estimate_ms": 152.0,
        "system_ms": 33.0,
        "stages": stages,
        "speculation": wire.Speculation(hit=True, attempts=2, saved_ms=40.0, wasted_ms=12.0),
        "blame": None,
    }
    return wire.TurnEnded(turn=turn, **{**known, **values})


def speech(path: Path, *spans: tuple[float, float]) -> None:
    """(seconds of silence, seconds of speech), then silence: what the microphone hears from when it is opened."""
    generator = np.random.default_rng(7)
    pieces = []
    for silent_s, loud_s in spans:
        time_s = np.arange(round(loud_s * WAV_HZ)) / WAV_HZ
        syllables = 0.5 * (1 - np.cos(2 * np.pi * 5 * time_s))  # noise suppression lets what swells pass
        noise = generator.standard_normal(len(time_s))
        tone = np.sin(2 * np.pi * 220 * time_s) + np.sin(2 * np.pi * 660 * time_s)
        pieces += [np.zeros(round(silent_s * WAV_HZ)), (0.1 + syllables) * (0.3 * tone + 0.05 * noise)]
    pieces.append(np.zeros(WAV_HZ))
    soundfile.write(path, np.clip(np.concatenate(pieces), -1, 1), WAV_HZ, subtype="PCM_16")
