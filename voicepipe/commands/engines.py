"""The engines that a configuration asks for: whether there are such models, and how they are loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from voicepipe.commands.secrets import read_api_key
from voicepipe.config import Config, EnginesConfig
from voicepipe.engines.base import Engines
from voicepipe.engines.table import find_models, has_turn_model, is_url, load
from voicepipe.models.catalog import Kind
from voicepipe.models.named import check_named
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.spec import looks_like_path
from voicepipe.models.store import ModelStore


def check_models(engines: EnginesConfig) -> None:
    """Whether every model that will be needed is here or can be asked for: before anything is fetched, so that a
    slip in one name costs no download of the others. Scripted engines load none: a name must be known all the same,
    and what lies where is not looked at. Raises ConfigError."""
    for spec, kind, field, option in _specs(engines):
        if engines.kind == "default" or not looks_like_path(spec):
            check_named(spec, kind, field, option)


def _specs(engines: EnginesConfig) -> Iterator[tuple[str, Kind, str, str]]:
    """What names a model, its kind, the field and the option."""
    yield engines.asr, "asr", "engines.asr", "--asr"
    if engines.asr_second:
        yield engines.asr_second, "asr", "engines.asr_second", "--asr-second"
    if not is_url(engines.llm):
        yield engines.llm, "llm", "engines.llm", "--llm"
    yield engines.tts, "tts", "engines.tts", "--voice"
    if has_turn_model(engines):
        yield engines.turn_model, "turn", "engines.turn_model", "--turn-model"


def model_store() -> ModelStore:
    return ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))


def loader_of(config: Config, store: ModelStore) -> Callable[[], Engines]:
    """Fetches what is missing now, with progress; what it returns loads later, in a thread. Raises ConfigError."""
    api_key = read_api_key(config, os.environ)
    models = find_models(config.engines, store.resolve)
    return lambda: load(config.engines, models, sessions=config.limits.max_sessions, api_key=api_key)
