"""Names to engines. The only module that imports a backend, and only the backend that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voicepipe.config import NO_TURN_MODEL, EnginesConfig
from voicepipe.engines.base import Asr, Engines, Llm, TextPool, Tts, TurnModel, Vad
from voicepipe.errors import MissingExtra

Kind = Literal["asr", "llm", "tts", "turn"]
Resolve = Callable[[str, Kind], Path | str]
"""A model's name, path or hub id to what the engine loads; fetches what is missing."""

_EARS = "ears"
_DEVICE = "cpu"
_REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where chunks run: work kind to lane, lane to chunks at a time."""

    placement: Mapping[str, str]
    lanes: Mapping[str, int]
    alone: Mapping[str, str]
    """Work kinds whose engine computes one call at a time for all sessions, to its name."""
    remote: frozenset[str]
    """Work kinds that are done behind a URL."""


@dataclass(frozen=True, slots=True)
class Models:
    """What the engines are to load."""

    asr: Path | str
    llm: Path | str
    tts: Path | str
    asr_second: Path | str | None = None
    turn_model: Path | str | None = None


def is_url(spec: str) -> bool:
    return spec.startswith(("http://", "https://"))


def has_turn_model(config: EnginesConfig) -> bool:
    return config.turn_model != NO_TURN_MODEL


def find_models(config: EnginesConfig, resolve: Resolve) -> Models | None:
    """None where no model is needed. Raises ModelError."""
    if config.kind == "scripted":
        return None
    llm: Path | str = config.llm if is_url(config.llm) else resolve(config.llm, "llm")
    second = resolve(config.asr_second, "asr") if config.asr_second else None
    turn_model = resolve(config.turn_model, "turn") if has_turn_model(config) else None
    return Models(resolve(config.asr, "asr"), llm, resolve(config.tts, "tts"), second, turn_model)


def plan(config: EnginesConfig, sessions: int) -> Plan:
    """One chunk at a time on the device: the engines' threads spin at barriers, and two at once on as many cores
    as one of them uses slow each other down a hundredfold. What the ears take, a tenth of a millisecond, is
    bearable beside them."""
    is_remote = config.kind == "default" and is_url(config.llm)
    think = _REMOTE if is_remote else _DEVICE
    thinking = ("warm", "think", "generate")
    placement = {
        "hear": _EARS,
        "partial": _DEVICE,
        "final": _DEVICE,
        "second-pass": _DEVICE,
        "judge": _DEVICE,
        "speak": _DEVICE,
        "warm": think,
        "think": think,
        "generate": think,
    }
    alone = dict.fromkeys(thinking, "llm") if config.kind == "default" and not is_remote else {}
    lanes = {_DEVICE: 1, _EARS: 1, _REMOTE: sessions}
    return Plan(placement, lanes, alone, frozenset(thinking if is_remote else ()))


def load(config: EnginesConfig, models: Models | None, *, sessions: int, api_key: str | None) -> Engines:
    """Blocking: seconds for the default models. Raises MissingExtra and ModelError."""
    if models is None:
        return _scripted(config, sessions)
    try:
        vad, asr = _vad(), _asr(config, models.asr)
        llm, texts = _llm(config, models.llm, sessions, api_key)
        return Engines(
            vad,
            asr,
            llm,
            _tts(config, models.tts),
            None if models.asr_second is None else _asr(config, models.asr_second),
            None if models.turn_model is None else _turn_model(models.turn_model),
            texts,
        )
    except ModuleNotFoundError as exc:
        raise MissingExtra(
            f"{exc.name} is not installed; the embedded engines need the extra: "
            "pip install 'voicepipe-realtime[local]' (from a checkout: pip install '.[local]')"
        ) from None


def _scripted(config: EnginesConfig, sessions: int) -> Engines:
    from voicepipe.engines import scripted

    script = config.scripted
    return Engines(
        scripted.ScriptedVad(),
        scripted.ScriptedAsr(script),
        scripted.ScriptedLlm(script, sessions),
        scripted.ScriptedTts(script),
        scripted.ScriptedAsr(script) if config.asr_second else None,
        scripted.ScriptedTurnModel(script) if has_turn_model(config) else None,
        scripted.ScriptedTexts(script, config.text_slots) if config.text_slots else None,
    )


def _vad() -> Vad:
    from voicepipe.engines.silero import SileroVad

    return SileroVad()


def _asr(config: EnginesConfig, model: Path | str) -> Asr:
    from voicepipe.engines.whisper import WhisperAsr

    return WhisperAsr(model, language=config.language)


def _llm(
    config: EnginesConfig, model: Path | str, sessions: int, api_key: str | None
) -> tuple[Llm, TextPool | None]:
    """A model behind a URL has no slots for texts: whoever wants one asks there."""
    if isinstance(model, str) and is_url(model):
        from voicepipe.engines.openai_chat import OpenAiChat

        chat = OpenAiChat(
            model,
            config.llm_model,
            small_model=config.llm_small_model,
            api_key=api_key,
            timeout_s=config.llm_timeout_s,
            slots=sessions,
        )
        return chat, None
    from voicepipe.engines.json_tools import JsonTools
    from voicepipe.engines.llamacpp import LlamaCpp

    llm = LlamaCpp(
        model,
        slots=sessions,
        context_tokens=config.context_tokens,
        memory_tokens=config.memory_tokens,
        threads=config.threads,
        text_slots=config.text_slots,
    )
    return JsonTools(llm), llm.texts


def _tts(config: EnginesConfig, voice: Path | str) -> Tts:
    from voicepipe.engines.piper import PiperTts

    return PiperTts(Path(voice), threads=config.threads)


def _turn_model(model: Path | str) -> TurnModel:
    from voicepipe.engines.smart_turn import SmartTurn

    return SmartTurn(Path(model))
