"""What a session is set to: `session.update` merged into it, what it comes to for the session, and how it is told.

An update changes the fields that it names. Objects are merged down to `audio.input` and `audio.output`; what lies
in those is replaced as a whole, and null takes it away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from voicepipe.errors import BadField, Unsupported
from voicepipe.wire import messages as wire
from voicepipe.wire.realtime.events import (
    FormatParam,
    MaxTokens,
    Modalities,
    ToolChoice,
    ToolParam,
    choice_of,
    tools_of,
)
from voicepipe.wire.realtime.faults import bad_field
from voicepipe.wire.realtime.sound import BETA_FORMATS, RATE_HZ, Format

MIN_SILENCE_MS: Final = 32
MAX_SILENCE_MS: Final = 2500
_EAGERNESS: Final[dict[str, wire.OperatingPoint]] = {
    "low": "safe",
    "medium": "balanced",
    "auto": "balanced",
    "high": "fast",
}
_BETA_ONLY: Final = frozenset(
    "modalities input_audio_format output_audio_format input_audio_transcription input_audio_noise_reduction "
    "turn_detection voice speed temperature max_response_output_tokens".split()
)


class TurnDetection(Struct, frozen=True, omit_defaults=True):
    type: Literal["server_vad", "semantic_vad"]
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    silence_duration_ms: Annotated[int, Meta(ge=0, le=60_000)] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    idle_timeout_ms: int | None = None


SERVER_VAD: Final = TurnDetection("server_vad")


class _Input(Struct, frozen=True):
    format: FormatParam | UnsetType | None = UNSET
    noise_reduction: dict[str, Any] | UnsetType | None = UNSET
    transcription: dict[str, Any] | UnsetType | None = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET


class _Output(Struct, frozen=True):
    format: FormatParam | UnsetType | None = UNSET
    voice: str | dict[str, Any] | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET


class _Audio(Struct, frozen=True):
    input: _Input | UnsetType | None = UNSET
    output: _Output | UnsetType | None = UNSET


class _Extension(Struct, frozen=True, forbid_unknown_fields=True):
    operating_point: wire.OperatingPoint | UnsetType | None = UNSET
    enforcement: wire.Enforcement | UnsetType | None = UNSET


class _Params(Struct, frozen=True):
    type: Literal["realtime", "transcription"] | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    instructions: wire.Instructions | UnsetType | None = UNSET
    output_modalities: Modalities | UnsetType = UNSET
    max_output_tokens: MaxTokens | UnsetType | None = UNSET
    tools: list[dict[str, Any]] | UnsetType | None = UNSET
    tool_choice: ToolChoice | UnsetType | None = UNSET
    prompt: dict[str, Any] | UnsetType | None = UNSET
    tracing: Any = UNSET
    truncation: Any = UNSET
    include: Any = UNSET
    audio: _Audio | UnsetType | None = UNSET
    voicepipe: _Extension | UnsetType | None = UNSET


class _BetaParams(Struct, frozen=True):
    """The flat form."""

    model: str | UnsetType | None = UNSET
    instructions: wire.Instructions | UnsetType | None = UNSET
    modalities: Modalities | UnsetType = UNSET
    max_response_output_tokens: MaxTokens | UnsetType | None = UNSET
    tools: list[dict[str, Any]] | UnsetType | None = UNSET
    tool_choice: ToolChoice | UnsetType | None = UNSET
    tracing: Any = UNSET
    input_audio_format: Literal["pcm16", "g711_ulaw", "g711_alaw"] | UnsetType | None = UNSET
    output_audio_format: Literal["pcm16", "g711_ulaw", "g711_alaw"] | UnsetType | None = UNSET
    input_audio_transcription: dict[str, Any] | UnsetType | None = UNSET
    input_audio_noise_reduction: dict[str, Any] | UnsetType | None = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET
    voice: str | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET
    voicepipe: _Extension | UnsetType | None = UNSET


def is_beta(raw: dict[str, Any]) -> bool:
    """Does a client that sends this mean the beta protocol?"""
    return "type" not in raw and "audio" not in raw and bool(_BETA_ONLY & raw.keys())


@dataclass(frozen=True, slots=True)
class Config:
    kind: Literal["realtime", "transcription"] = "realtime"
    model: str = "voicepipe"
    instructions: str | None = None
    """None: the server's own."""
    spoken: bool = True
    max_tokens: int | None = None
    """None: as many as the server makes at most."""
    tools: tuple[ToolParam, ...] = ()
    tool_choice: str = "auto"
    input_format: Format = "audio/pcm"
    output_format: Format = "audio/pcm"
    transcription: dict[str, Any] | None = None
    noise_reduction: dict[str, Any] | None = None
    turn_detection: TurnDetection | None = SERVER_VAD
    voice: str | dict[str, Any] | None = None
    tracing: Any = None
    truncation: Any = "auto"
    operating_point: wire.OperatingPoint | None = None
    enforcement: wire.Enforcement | None = None

    # questions

    @property
    def manual(self) -> bool:
        return self.turn_detection is None

    @property
    def answers(self) -> bool:
        """A reply follows a turn by itself."""
        detection = self.turn_detection
        return self.kind == "realtime" and detection is not None and detection.create_response is not False

    def native(self) -> wire.SessionUpdate:
        detection = self.turn_detection
        point, silence_ms = self.operating_point, None
        if detection is not None and point is None:
            if detection.type == "semantic_vad":
                point = _EAGERNESS[detection.eagerness or "auto"]
            elif detection.silence_duration_ms is not None:
                silence_ms = float(min(max(detection.silence_duration_ms, MIN_SILENCE_MS), MAX_SILENCE_MS))
        return wire.SessionUpdate(
            instructions=self.instructions,
            operating_point=point,
            enforcement=self.enforcement,
            turn_taking="manual" if self.manual else "auto",
            mode="voice" if self.kind == "realtime" else "transcription",
            auto_reply=self.answers,
            interruptible=detection is not None and detection.interrupt_response is not False,
            tools=native_tools(self.tools),
            tool_choice=self.tool_choice,
            silence_ms=silence_ms,
            reply_as="speech" if self.spoken else "text",
            max_reply_tokens=self.max_tokens,
        )

    # merging

    def merged(self, raw: dict[str, Any], *, beta: bool, kind: str | None = None) -> Config:
        """`kind`: of the session, where the event says it. Raises BadField and Unsupported."""
        params = _from_beta(_read(raw, _BetaParams)) if beta else _read(raw, _Params)
        if params.prompt not in (UNSET, None):
            raise Unsupported(
                "session.prompt: stored prompts are not offered; send instructions", field="session.prompt"
            )
        changed: dict[str, Any] = {"kind": kind or _or(params.type, self.kind)}
        changed["model"] = _or(params.model, self.model) or self.model
        changed["instructions"] = _or(params.instructions, self.instructions)
        changed["tracing"] = _or(params.tracing, self.tracing)
        changed["truncation"] = _or(params.truncation, self.truncation)
        if params.output_modalities is not UNSET:
            changed["spoken"] = "audio" in params.output_modalities
        if params.max_output_tokens is not UNSET:
            most = params.max_output_tokens
            changed["max_tokens"] = most if isinstance(most, int) else None
        if params.tools is not UNSET:
            changed["tools"] = tools_of(params.tools or [], "session.tools")
        if params.tool_choice is not UNSET:
            changed["tool_choice"] = choice_of(params.tool_choice or "auto", "session.tool_choice")
        if isinstance(params.voicepipe, _Extension):
            changed["operating_point"] = _or(params.voicepipe.operating_point, self.operating_point)
            changed["enforcement"] = _or(params.voicepipe.enforcement, self.enforcement)
        if isinstance(params.audio, _Audio):
            changed |= _sound(params.audio, self)
        return replace(self, **changed)

    # telling

    def told(self, ident: str, extension: dict[str, Any]) -> dict[str, Any]:
        """The GA form. `extension`: what the protocol has no place for."""
        source = {
            "format": format_object(self.input_format),
            "transcription": self.transcription,
            "noise_reduction": self.noise_reduction,
            "turn_detection": self._detection(),
        }
        told: dict[str, Any] = {
            "type": self.kind,
            "object": "realtime.session" if self.kind == "realtime" else "realtime.transcription_session",
            "id": ident,
            "audio": {"input": source},
            "include": None,
            "voicepipe": extension,
        }
        if self.kind == "transcription":
            return told
        told["audio"]["output"] = {"format": format_object(self.output_format), "voice": self.voice, "speed": 1.0}
        return told | {
            "model": self.model,
            "instructions": self.instructions,
            "output_modalities": ["audio" if self.spoken else "text"],
            "max_output_tokens": self.max_tokens or "inf",
            "tools": [msgspec.to_builtins(tool) for tool in self.tools],
            "tool_choice": self._choice(),
            "tracing": self.tracing,
            "truncation": self.truncation,
            "prompt": None,
        }

    def _detection(self) -> dict[str, Any] | None:
        if self.turn_detection is None:
            return None
        given: dict[str, Any] = msgspec.to_builtins(self.turn_detection)
        return {"type": self.turn_detection.type, "create_response": True, "interrupt_response": True} | given

    def _choice(self) -> object:
        if self.tool_choice in ("auto", "none", "required"):
            return self.tool_choice
        return {"type": "function", "name": self.tool_choice}


def native_tools(tools: tuple[ToolParam, ...]) -> tuple[wire.ToolSpec, ...]:
    return tuple(wire.ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools)


def format_object(kind: Format) -> dict[str, Any]:
    return {"type": kind, "rate": RATE_HZ} if kind == "audio/pcm" else {"type": kind}


def format_of(param: FormatParam, field: str) -> Format:
    """Raises BadField."""
    expected = RATE_HZ if param.type == "audio/pcm" else 8000
    if param.rate not in (None, expected):
        raise BadField(f"{field}.rate: {param.type} has {expected} Hz", field=f"{field}.rate")
    return param.type


def _or(value: Any, default: Any) -> Any:
    return default if value is UNSET else value


def _read(raw: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as problem:
        raise bad_field(problem, "session") from None


def _sound(audio: _Audio, before: Config) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if isinstance(audio.input, _Input):
        given = audio.input
        if isinstance(given.format, FormatParam):
            changed["input_format"] = format_of(given.format, "session.audio.input.format")
        changed["transcription"] = _or(given.transcription, before.transcription)
        changed["noise_reduction"] = _or(given.noise_reduction, before.noise_reduction)
        detection = changed["turn_detection"] = _or(given.turn_detection, before.turn_detection)
        if detection is not None and detection.idle_timeout_ms is not None:
            field = "session.audio.input.turn_detection.idle_timeout_ms"
            raise Unsupported(f"{field}: replies to silence are not offered", field=field)
    if isinstance(audio.output, _Output):
        if isinstance(audio.output.format, FormatParam):
            changed["output_format"] = format_of(audio.output.format, "session.audio.output.format")
        changed["voice"] = _or(audio.output.voice, before.voice)
    return changed


def _from_beta(flat: _BetaParams) -> _Params:
    return _Params(
        model=flat.model,
        instructions=flat.instructions,
        output_modalities=flat.modalities,
        max_output_tokens=flat.max_response_output_tokens,
        tools=flat.tools,
        tool_choice=flat.tool_choice,
        tracing=flat.tracing,
        voicepipe=flat.voicepipe,
        audio=_Audio(
            input=_Input(
                format=_beta_format(flat.input_audio_format),
                noise_reduction=flat.input_audio_noise_reduction,
                transcription=flat.input_audio_transcription,
                turn_detection=flat.turn_detection,
            ),
            output=_Output(format=_beta_format(flat.output_audio_format), voice=flat.voice, speed=flat.speed),
        ),
    )


def _beta_format(name: str | UnsetType | None) -> FormatParam | UnsetType:
    return FormatParam(BETA_FORMATS[name]) if isinstance(name, str) else UNSET
