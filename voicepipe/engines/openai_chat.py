"""Llm behind any OpenAI-compatible URL: vLLM, SGLang, Ollama, llama-server, or a provider.

A chunk is one `step`: the wait for the next delta. There is no prefix to keep here; the endpoint's own cache
does that. `timeout_s` bounds every step, so that an endpoint which opens a stream and then sends nothing (or
only comments) costs one turn and no more.

Who closes a stream: the step that runs when it ends, fails or is cancelled; where none runs (a cancel between
two steps) or nobody should wait for it (the rest after the last delta, read so that the connection can be used
again), a closer task which the engine owns, bounds, and awaits in `aclose`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from voicepipe.engines.base import (
    ChatMessage,
    Context,
    LlmStep,
    Placement,
    Prompt,
    StepSize,
    StepTogether,
    ToolOffer,
    ToolUse,
)
from voicepipe.engines.sse import SseParser
from voicepipe.engines.unread import tokens_of
from voicepipe.errors import (
    ConfigError,
    EngineBusy,
    EngineError,
    EngineThrottled,
    EngineTimeout,
    EngineUnavailable,
)

_CLOSE_TIMEOUT_S = 1.0
"""Longest time that a closer may take, to read the rest of a finished stream included."""

_BACKOFF_S = (0.5, 8.0)
"""First and longest pause of a slot after 429 or 503 without Retry-After; it doubles in between."""

_RETRY_AFTER_MAX_S = 60.0

_CALLS_MAX_CHARACTERS = 64 * 1024
_CALLS_MAX = 32
"""Of one reply: past any limit that those who look at them have."""

_SETTING = "engines.llm (--llm)"
"""Where the endpoint's URL comes from, in the words of those who set it."""

_ADVICE: Mapping[int, str] = {
    401: "check the API key",
    403: "check the API key and what it may use",
    404: f"check {_SETTING} and engines.llm_model (--llm-model)",
    429: "too many requests; lower the number of sessions or raise the quota",
    503: "the endpoint is overloaded or still starting",
}
_BUSY = (429, 503)

_STREAMS = ("", "text/event-stream", "text/plain")
"""Content types that are read as a stream: some endpoints name none, or a loose one."""
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]{1,60}", re.ASCII)

_IDENTIFIER = re.compile(r"[a-z][a-z_.]{0,40}", re.ASCII)
"""What of an error object is repeated. Its message is not: providers quote keys and prompts in it."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """What a request needs. Holds no key: that lives in the client's headers alone."""

    url: str
    address: str
    """HOST:PORT, for messages."""
    model: str
    small_model: str
    """For the prompts that ask for it; "" is none."""
    timeout_s: float
    max_tokens_field: str
    temperature: float | None

    def body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": (prompt.small and self.small_model) or self.model,
            "messages": [_message(message) for message in prompt.messages],
            "stream": True,
            self.max_tokens_field: prompt.max_tokens,
        }
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if prompt.tools:
            body["tools"] = [_tool(tool) for tool in prompt.tools]
            body["tool_choice"] = _choice_of(prompt.tool_choice)
        return body


def _message(message: ChatMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        told["content"] = message.content or None
        told["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
    if message.role == "tool":
        told["tool_call_id"] = message.call_id
    return told


def _tool(tool: ToolOffer) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": function}


def _choice_of(choice: str) -> object:
    words = ("auto", "none", "required")
    return choice if choice in words else {"type": "function", "function": {"name": choice}}


class _Calls:
    """Tools that the model calls, piece by piece: a name first, then its arguments a little at a time."""

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[str, str, list[str]]] = {}
        self._characters = 0

    def add(self, endpoint: _Endpoint, deltas: object) -> None:
        """Raises EngineUnavailable for what is too long; what has another form is read over."""
        for delta in deltas if isinstance(deltas, list) else ():
            if not isinstance(delta, dict) or not isinstance(function := delta.get("function"), dict):
                continue
            index, ident = delta.get("index", len(self._pieces)), delta.get("id")
            name, arguments = function.get("name"), function.get("arguments")
            if not isinstance(index, int):
                continue
            if index not in self._pieces:
                ident = ident if isinstance(ident, str) and ident else f"call_{index}"
                self._pieces[index] = ident[:128], name if isinstance(name, str) else "", []
            if isinstance(arguments, str):
                self._pieces[index][2].append(arguments)
                self._characters += len(arguments)
            if self._characters > _CALLS_MAX_CHARACTERS or len(self._pieces) > _CALLS_MAX:
                raise EngineUnavailable(f"{endpoint.address} called tools with too much")

    def all(self) -> tuple[ToolUse, ...]:
        return tuple(ToolUse(ident, name, "".join(parts)) for ident, name, parts in self._pieces.values())


class OpenAiChat:
    """Llm over `POST {base_url}/chat/completions`. `base_url` ends in the API's root, usually `/v1`.

    `timeout_s` is the longest wait for each delta, the first included. `max_tokens_field` is
    "max_completion_tokens" for providers that renamed it. `small_model` answers the prompts that ask for it: a
    smaller one, or the same served without thinking, under a name of its own. `transport` is for tests and special
    networks. Environment variables (proxies, .netrc) are not read. The owner awaits `aclose` at the end.
    """

    placement: Placement = "loop"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        small_model: str = "",
        api_key: str | None = None,
        slots: int = 64,
        timeout_s: float = 10.0,
        connect_timeout_s: float = 2.0,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        temperature: float | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url = _checked_url(base_url)
        for field, value in (
            ("slots", slots),
            ("timeout_s", timeout_s),
            ("connect_timeout_s", connect_timeout_s),
        ):
            if value <= 0:
                raise ConfigError(f"{field} must be above 0", field=field)
        bare = url.copy_with(userinfo=b"")  # httpx logs URLs whole
        self.name = f"openai:{model}"
        self.keeps_prefix = False  # a warm-up request would cost as much as the reply it is for
        self.has_small = bool(small_model)
        self.calls_tools = True
        self.step_together: StepTogether | None = None
        self.slots = slots
        self._endpoint = _Endpoint(
            url=f"{str(bare).rstrip('/')}/chat/completions",
            address=_address(url),
            model=model,
            small_model=small_model,
            timeout_s=timeout_s,
            max_tokens_field=max_tokens_field,
            temperature=temperature,
        )
        # Compression would make proxies collect deltas; the wait for a delta is bounded by each step.
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx.AsyncClient(
            headers=headers,
            auth=(url.username, url.password) if url.userinfo else None,
            timeout=httpx.Timeout(timeout_s, connect=connect_timeout_s),
            limits=httpx.Limits(max_connections=slots * 2, max_keepalive_connections=slots),
            transport=transport,
            trust_env=False,
        )
        self._open = 0
        self._closed = False
        self._closers: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"OpenAiChat(address={self._endpoint.address!r}, model={self._endpoint.model!r})"

    def open(self, session: str) -> _Slot:
        if self._closed:
            raise EngineError(f"{self.name} is closed")
        if self._open == self.slots:
            raise EngineBusy(f"all {self.slots} slots of {self.name} are leased")
        self._open += 1
        return _Slot(self, self._endpoint)

    async def aclose(self) -> None:
        """Lease no more slots; close every stream and connection."""
        self._closed = True
        while self._closers:
            await asyncio.wait(self._closers)
        await self._client.aclose()

    def give_back(self) -> None:
        self._open -= 1

    async def request(self, body: Mapping[str, Any]) -> httpx.Response:
        request = self._client.build_request("POST", self._endpoint.url, json=body)
        return await self._client.send(request, stream=True)

    def dispose(self, response: httpx.Response, rest: AsyncIterator[bytes] | None) -> None:
        """Close a stream without waiting for it, after reading its `rest` if the connection is to live on."""
        task = asyncio.get_running_loop().create_task(_dispose(response, rest))
        self._closers.add(task)
        task.add_done_callback(self._closers.discard)


async def _dispose(response: httpx.Response, rest: AsyncIterator[bytes] | None) -> None:
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            if rest is not None:
                async for _ in rest:
                    pass
    except (TimeoutError, httpx.HTTPError):
        pass  # a connection that cannot be used again: closing it, next, is all that is left to do
    finally:
        await response.aclose()


class _Slot:
    """A session's right to one request at a time, and its pause after being told "too many"."""

    def __init__(self, engine: OpenAiChat, endpoint: _Endpoint) -> None:
        self.engine = engine
        self.endpoint = endpoint
        self._leased = True
        self._current: _Generation | None = None
        self._not_before = 0.0
        self._pause_s = _BACKOFF_S[0]

    def generate(self, prompt: Prompt, ctx: Context) -> _Generation:
        if not self._leased:
            raise EngineError("the slot was given back")
        if prompt.max_tokens < 1:
            raise EngineError("max_tokens must be at least 1")
        self._current = _Generation(self, prompt)
        return self._current

    def close(self) -> None:
        if self._leased:
            self._leased = False
            if self._current is not None:
                self._current.cancel()
            self.engine.give_back()

    def check_pause(self) -> None:
        left_s = self._not_before - asyncio.get_running_loop().time()
        if left_s > 0:
            raise EngineThrottled(f"{self.endpoint.address} asked to wait; next try in {left_s:.1f} s")

    def on_busy(self, retry_after_s: float | None) -> float:
        """Pause this slot, and no other; returns for how many seconds."""
        pause_s = self._pause_s if retry_after_s is None else min(retry_after_s, _RETRY_AFTER_MAX_S)
        self._pause_s = min(self._pause_s * 2, _BACKOFF_S[1])
        self._not_before = asyncio.get_running_loop().time() + pause_s
        return pause_s

    def on_success(self) -> None:
        self._pause_s = _BACKOFF_S[0]


class _Generation:
    """One streamed request. `_stream` is None before the first step and after the end."""

    def __init__(self, slot: _Slot, prompt: Prompt) -> None:
        self._slot = slot
        self._endpoint = slot.endpoint
        self._prompt: Prompt | None = prompt
        self._stream: tuple[httpx.Response, AsyncIterator[bytes]] | None = None
        self._parser = SseParser()
        self._calls = _Calls()
        self._scope: asyncio.Timeout | None = None
        self._cancelled = False

    def next_size(self) -> StepSize:
        """What the endpoint reads before its first delta, and then a delta at a time."""
        if self._prompt is None:
            return StepSize("decode", 1)
        return StepSize("prefill", round(tokens_of(self._prompt.messages)))

    async def step(self) -> LlmStep:
        if self._cancelled:
            return LlmStep("", 0, finish="stop", cut=True)
        try:
            step = await self._timed()
        except TimeoutError:
            await self._abort()
            if self._cancelled:
                return LlmStep("", 0, finish="stop", cut=True)
            raise EngineTimeout(
                f"{self._endpoint.address} sent nothing for {self._endpoint.timeout_s:g} s;"
                " check its load, or raise engines.llm_timeout_s"
            ) from None
        except httpx.HTTPError as error:
            await self._abort()
            raise _unavailable(self._endpoint, error) from error
        except BaseException:  # our own errors and cancellation: the stream ends with this step
            await self._abort()
            raise
        if step.finish is not None and self._stream is not None:
            (response, rest), self._stream = self._stream, None
            self._slot.engine.dispose(response, rest)
        return step

    def cancel(self) -> None:
        if self._cancelled:
            return
        self._cancelled = True
        if self._scope is not None:
            # The running step wakes up at once, inside its own timeout, and closes the stream itself.
            if not self._scope.expired():
                self._scope.reschedule(asyncio.get_running_loop().time())
        elif self._stream is not None:
            (response, _), self._stream = self._stream, None
            self._slot.engine.dispose(response, None)

    async def _timed(self) -> LlmStep:
        try:
            async with asyncio.timeout(self._endpoint.timeout_s) as self._scope:
                return await self._advance()
        finally:
            self._scope = None

    async def _advance(self) -> LlmStep:
        if self._prompt is not None:
            self._slot.check_pause()
            prompt, self._prompt = self._prompt, None
            response = await self._slot.engine.request(self._endpoint.body(prompt))
            self._stream = response, response.aiter_bytes()
            self._check(response)
        assert self._stream is not None, "step after the end"
        async for chunk in self._stream[1]:
            step = _read(self._endpoint, self._parser.feed(chunk), self._calls)
            if step is not None:
                return step
        raise EngineUnavailable(f"{self._endpoint.address} ended the reply in the middle; try again")

    def _check(self, response: httpx.Response) -> None:
        """Raise EngineUnavailable unless a stream follows."""
        status = response.status_code
        if status in _BUSY:
            pause_s = self._slot.on_busy(_retry_after_s(response))
            told = EngineThrottled if status == 429 else EngineUnavailable
            raise told(
                f"{self._endpoint.address} answered {status}: {_ADVICE[status]};"
                f" this session tries again after {pause_s:g} s"
            )
        if status != 200:
            advice = _ADVICE.get(status, f"check {_SETTING}, the model's name and the endpoint's log")
            raise EngineUnavailable(f"{self._endpoint.address} answered {status}: {advice}")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _STREAMS:
            shown = kind if _MEDIA_TYPE.fullmatch(kind) else "something else"
            raise EngineUnavailable(
                f"{self._endpoint.address} answered with {shown}, not an event stream; is this an OpenAI-compatible"
                f" endpoint that streams? check {_SETTING}"
            )
        self._slot.on_success()

    async def _abort(self) -> None:
        if self._stream is not None:
            (response, _), self._stream = self._stream, None
            await response.aclose()


def _read(endpoint: _Endpoint, events: Sequence[str], calls: _Calls) -> LlmStep | None:
    """One step out of the events that came together; None if none of them says anything. `calls` has what was
    called before, and gets what is called in these."""
    texts: list[str] = []
    progress = False
    finish: Literal["stop", "length"] | None = None
    for data in events:
        if data == "[DONE]":
            finish = finish or "stop"
            break
        choice = _choice(endpoint, data)
        if choice is None:
            continue
        progress = True
        delta = choice.get("delta")
        content = delta.get("content") if isinstance(delta, dict) else None
        calls.add(endpoint, delta.get("tool_calls") if isinstance(delta, dict) else None)
        if isinstance(content, str) and content:  # `reasoning_content` is thinking: never spoken
            texts.append(content)
        if choice.get("finish_reason") is not None:
            finish = "length" if choice["finish_reason"] == "length" else "stop"
    if not progress and finish is None:
        return None
    # Endpoints report tokens at the end, if at all; most send one per delta.
    called = calls.all() if finish == "stop" else ()  # what was cut at the limit is not whole
    return LlmStep("".join(texts), len(texts), finish=finish, calls=called)


def _choice(endpoint: _Endpoint, data: str) -> dict[str, Any] | None:
    """The first choice of an event; None for one without (usage, ping). Raises EngineUnavailable."""
    try:
        event = json.loads(data)
    except ValueError:  # not chained: it holds the event, so the reply
        raise EngineUnavailable(f"{endpoint.address} sent an event that is not JSON") from None
    if not isinstance(event, dict):
        raise EngineUnavailable(f"{endpoint.address} sent an event that is not an object")
    failure = event.get("error")
    if failure is not None:
        raise EngineUnavailable(
            f"{endpoint.address} broke off with an error{_kind(failure)}; see the endpoint's log"
        )
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    return choices[0]


def _kind(failure: object) -> str:
    names = (failure.get("type"), failure.get("code")) if isinstance(failure, dict) else ()
    for name in names:
        if isinstance(name, str) and _IDENTIFIER.fullmatch(name):
            return f" ({name})"
    return ""


def _retry_after_s(response: httpx.Response) -> float | None:
    """Seconds form of the header; its date form would need a clock that both sides share."""
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _unavailable(endpoint: _Endpoint, error: httpx.HTTPError) -> EngineError:
    if isinstance(error, httpx.ConnectError):
        return EngineUnavailable(f"cannot connect to {endpoint.address}: start the endpoint or correct {_SETTING}")
    if isinstance(error, httpx.TimeoutException):
        return EngineTimeout(f"{endpoint.address} did not answer in time ({type(error).__name__})")
    return EngineUnavailable(f"the connection to {endpoint.address} broke ({type(error).__name__}); try again")


def _checked_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"{_SETTING} is not a URL", field="engines.llm") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{_SETTING} must look like http://127.0.0.1:8000/v1", field="engines.llm")
    return url


def _address(url: httpx.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"
