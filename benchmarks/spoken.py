"""Synthesised questions for callers whose server is another process."""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from caller import RATE_HZ, Voice, voice_of
from real_load import clips

from voicepipe.audio import Samples
from voicepipe.config import parse_config
from voicepipe.engines.table import find_models
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore


def questions() -> tuple[Voice, float]:
    """What to say, and how long the longest takes. Seconds."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # the models' memory goes with it
        clips = pool.submit(_spoken).result()
    return voice_of(clips), max(len(clip) for clip in clips) / RATE_HZ


def _spoken() -> list[Samples]:
    config = parse_config({"port": 0, "limits": {"max_sessions": 1}})
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    models = find_models(config.engines, store.resolve)
    assert models is not None, "the default engines have models"
    return asyncio.run(clips(config, models))
