"""The engines that a configuration asks for: whether there are such models, and how they are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from voicepipe.config import Config, EnginesConfig
from voicepipe.engines.base import Engines
from voicepipe.engines.table import find_models, has_turn_model, is_url, load
from voicepipe.models.named import check_named
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore


def check_models(engines: EnginesConfig) -> None:
    """Whether every model that will be needed is here or can be asked for: before anything is fetched, so that a
    slip in one name costs no download of the others. Raises ConfigError."""
    if engines.kind == "scripted":
        return
    check_named(engines.asr, "asr", "engines.asr", "--asr")
    if engines.asr_second:
        check_named(engines.asr_second, "asr", "engines.asr_second", "--asr-second")
    if not is_url(engines.llm):
        check_named(engines.llm, "llm", "engines.llm", "--llm")
    check_named(engines.tts, "tts", "engines.tts", "--voice")
    if has_turn_model(engines):
        check_named(engines.turn_model, "turn", "engines.turn_model", "--turn-model")


def model_store() -> ModelStore:
    return ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))


def loader_of(config: Config, store: ModelStore) -> Callable[[], Engines]:
    """Fetches what is missing now, with progress; what it returns loads later, in a thread."""
    models = find_models(config.engines, store.resolve)
    api_key = os.environ.get("VOICEPIPE_LLM_API_KEY")
    return lambda: load(config.engines, models, sessions=config.limits.max_sessions, api_key=api_key)
