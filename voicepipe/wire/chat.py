"""OpenAI's chat completions: a request's body to plain values, and what is answered. Sans-I/O.

What a request asks for is done or refused by name. Fields that only concern OpenAI's own service (`user`, `store`
and so on) are taken and mean nothing; values that say "nothing special" are taken for fields that are not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from voicepipe.errors import BadField, BadJson, Unsupported

MAX_BODY_BYTES = 256 * 1024
MAX_MESSAGES = 512
DEFAULT_TEMPERATURE = 0.3
"""Of a request that names none. OpenAI's is 1, at which a small model draws words that have nothing to do with
what it was asked."""

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length"]
Stop = Annotated[str, Meta(min_length=1, max_length=256)]
Positive = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    model: str
    messages: tuple[tuple[Role, str], ...]
    max_tokens: int | None
    """None: as many as the server makes at most."""
    max_tokens_field: str
    """What the client called it."""
    temperature: float
    top_p: float
    seed: int | None
    stops: tuple[str, ...]
    stream: bool
    include_usage: bool


class _Part(Struct, tag_field="type", tag="text"):
    text: str


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None


class _StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool = False
    include_obfuscation: bool | None = None


class _Body(Struct):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


_KNOWN = frozenset(_Body.__struct_fields__)
_MEANINGLESS = frozenset(
    "user metadata store service_tier parallel_tool_calls safety_identifier prompt_cache_key "
    "prompt_cache_retention".split()
)
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "audio": (),
    "prediction": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields that are not offered, and the values with which they ask for nothing; null is always one."""


def parse(body: bytes) -> ChatRequest:
    """Raises BadJson, BadField and Unsupported; the last two name the field."""
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJson(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadJson("the body is not JSON: nested too deeply") from None
    if not isinstance(raw, dict):
        raise BadJson("the body must be a JSON object")
    for name, value in raw.items():
        _check_offered(name, value)
    try:
        parsed = msgspec.convert({name: raw[name] for name in raw if name in _KNOWN}, _Body)
    except msgspec.ValidationError as error:
        raise _bad_field(str(error)) from None
    if parsed.max_tokens is not None and parsed.max_completion_tokens is not None:
        raise BadField("max_tokens and max_completion_tokens are the same; give one", field="max_tokens")
    return _request(parsed)


def _check_offered(name: str, value: object) -> None:
    if name in _KNOWN or name in _MEANINGLESS or value is None:
        return
    if name not in _NEUTRAL:
        raise Unsupported(f"{name[:64]} is not known here", field=name[:64])
    if not any(value == neutral and type(value) is type(neutral) for neutral in _neutral(name)):
        raise Unsupported(f"{name} is not offered here; leave it out", field=name)


def _neutral(name: str) -> tuple[object, ...]:
    """Numbers may come as integers or not."""
    return tuple(
        each for value in _NEUTRAL[name] for each in ((value, float(value)) if type(value) is int else (value,))
    )


def _bad_field(text: str) -> BadField:
    problem, _, path = text.partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if not field and "required field" in problem:
        field = problem.rpartition(" ")[2].strip("`")
    return BadField(f"{field}: {problem}" if field else problem, field=field or None)


def _request(body: _Body) -> ChatRequest:
    stop = body.stop
    return ChatRequest(
        model=body.model,
        messages=tuple((_role(message.role), _text(message.content)) for message in body.messages),
        max_tokens=body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens,
        max_tokens_field="max_tokens" if body.max_completion_tokens is None else "max_completion_tokens",
        temperature=DEFAULT_TEMPERATURE if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        seed=body.seed,
        stops=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )


def _role(role: str) -> Role:
    """A developer message is what a system message was."""
    return "system" if role in ("system", "developer") else "user" if role == "user" else "assistant"


def _text(content: str | list[_Part]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


# --- answers


@dataclass(frozen=True, slots=True)
class Head:
    """What all pieces of one answer have in common."""

    ident: str
    created: int
    """Seconds since 1970."""
    model: str


def completion(head: Head, text: str, finish: Finish, prompt_tokens: int, completion_tokens: int) -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "logprobs": None,
        "finish_reason": finish,
    }
    return _json(_object(head, "chat.completion", [choice], usage=usage(prompt_tokens, completion_tokens)))


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def first_event(head: Head) -> bytes:
    return _event(head, {"role": "assistant", "content": ""}, None)


def text_event(head: Head, text: str) -> bytes:
    return _event(head, {"content": text}, None)


def last_event(head: Head, finish: Finish) -> bytes:
    return _event(head, {}, finish)


def usage_event(head: Head, prompt_tokens: int, completion_tokens: int) -> bytes:
    return _sse(_object(head, "chat.completion.chunk", [], usage=usage(prompt_tokens, completion_tokens)))


DONE = b"data: [DONE]\n\n"


def error_event(message: str, kind: str, code: str) -> bytes:
    """In the middle of a stream, whose status has been sent."""
    return _sse(_error(message, kind, code, None))


def error(message: str, kind: str, code: str, field: str | None = None) -> bytes:
    """`kind` is OpenAI's `type` of error, `field` its `param`."""
    return _json(_error(message, kind, code, field))


def models(name: str, created: int) -> bytes:
    return _json({"object": "list", "data": [_model(name, created)]})


def model(name: str, created: int) -> bytes:
    return _json(_model(name, created))


def _model(name: str, created: int) -> dict[str, object]:
    return {"id": name, "object": "model", "created": created, "owned_by": "voicepipe"}


def _event(head: Head, delta: dict[str, str], finish: Finish | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _sse(_object(head, "chat.completion.chunk", [choice]))


def _object(head: Head, kind: str, choices: list[Any], **more: object) -> dict[str, object]:
    named = {"id": head.ident, "object": kind, "created": head.created, "model": head.model}
    return {**named, "choices": choices, **more}


def _error(message: str, kind: str, code: str, field: str | None) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


def _sse(value: object) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
