"""`/v1/chat/completions` and `/v1/models` as an ASGI app: texts that nobody waits to hear, for OpenAI's clients.

    request -> gate -> body -> wire.chat -> model and limits -> TextService -> answer, or events as they come

Whoever goes away, or does not take what is sent, frees its slot at the next chunk.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from voicepipe.background import TextService, TextStream
from voicepipe.engines.base import ChatMessage, TextRequest
from voicepipe.errors import (
    BadField,
    ClientError,
    EngineError,
    EngineUnavailable,
    PromptRefused,
    PromptTooLong,
    Refused,
    TooLarge,
    UnknownModel,
    VoicepipeError,
)
from voicepipe.gate import Crowd, Gate, Visit
from voicepipe.wire import chat

log = logging.getLogger(__name__)

BODY_S = 10.0
"""How long a body may take to arrive."""
CHARACTERS_PER_TOKEN = 8
"""No prompt has fewer tokens to so many characters, but for long runs of one: beyond it none fits the context."""
CONNECTIONS = "voicepipe.connections"
"""Key of a scope: the connections that are open at the listener, this one included."""
_SEED_BITS = 32


@dataclass(frozen=True, slots=True)
class ApiSettings:
    max_tokens: int
    """Of a text; also where a request does not say."""
    send_timeout_s: float = 5.0
    """A client that does not take a piece for so long is let go."""
    max_connections: int = 256
    """Open at once; beyond it requests are refused, and beyond twice as many connections are."""
    head_s: float = 5.0
    """How long the head of a request may take."""
    instructions: str = ""
    """The system message of a request that has none: the default model wanders by the one of its own."""


def make_app(service: TextService, gate: Gate, settings: ApiSettings, *, port: int) -> Starlette:
    """`port`: where it will be listened on, for the origins that may call."""
    api = _Api(service, gate, settings, port)
    routes = [
        Route("/v1/chat/completions", api.guarded(api.complete), methods=["POST"]),
        Route("/v1/models", api.guarded(api.models), methods=["GET"]),
        Route("/v1/models/{name:path}", api.guarded(api.model), methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={404: _no_such_path, 405: _no_such_method})


Handler = Callable[[Request], Awaitable[Response]]


class _Api:
    def __init__(self, service: TextService, gate: Gate, settings: ApiSettings, port: int) -> None:
        self.service = service
        self.settings = settings
        self._gate = gate
        self._port = port
        self._began = int(time.time())
        self._peers: Counter[str] = Counter()
        """Requests that are being answered, by address."""

    def guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            visit = self._visit(request)
            peer = visit.peer
            self._peers[peer] += 1
            try:
                return self._turned_away(request, visit) or await handler(request)
            except VoicepipeError as error:
                return _told(error, peer)
            finally:
                self._peers[peer] -= 1
                self._peers += Counter()  # without those that are at zero

        return guarded

    def _visit(self, request: Request) -> Visit:
        headers: dict[str, str] = {}
        for name, value in request.headers.items():
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        peer = request.client.host if request.client is not None else ""
        return self._gate.visit(request.method, request.url.path, headers, peer)

    def _turned_away(self, request: Request, visit: Visit) -> Response | None:
        peer = visit.peer
        crowd = Crowd(max(self._peers.total(), request.scope.get(CONNECTIONS, 0)), self._peers[peer])
        turned_away = self._gate.check(visit, crowd, port=self._port, draining=False)
        if turned_away is None:
            return None
        self.service.on_turned_away(turned_away.reason)
        _log_refusal(turned_away.reason, peer)
        status = turned_away.reply.status.value
        kind = (
            "authentication_error" if status == 401 else "permission_error" if status == 403 else "rate_limit_error"
        )
        body = chat.error(f"refused: {turned_away.reason}", kind, turned_away.reason)
        return _response(body, status, {**turned_away.reply.headers, "Connection": "close"})

    async def models(self, request: Request) -> Response:
        return _response(chat.models(self.service.model, self._began))

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return _response(chat.model(self.service.model, self._began))

    async def complete(self, request: Request) -> Response:
        wish = chat.parse(await _body(request))
        self._check_model(wish.model)
        head = chat.Head(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), self.service.model)
        return _Completion(self.service, head, wish, self._text_request(wish), self.settings.send_timeout_s)

    def _check_model(self, name: str) -> None:
        if name != self.service.model:
            raise UnknownModel(f"there is one model here, {self.service.model}", field="model")

    def _text_request(self, wish: chat.ChatRequest) -> TextRequest:
        most = self.settings.max_tokens
        if wish.max_tokens is not None and wish.max_tokens > most:
            field = wish.max_tokens_field
            raise BadField(f"{field} is {wish.max_tokens}; the most is {most}", field=field)
        seed = secrets.randbits(_SEED_BITS) if wish.seed is None else wish.seed % (1 << _SEED_BITS)
        messages = tuple(ChatMessage(role, text) for role, text in wish.messages)
        if self.settings.instructions and all(message.role != "system" for message in messages):
            messages = (ChatMessage("system", self.settings.instructions), *messages)
        request = TextRequest(
            messages,
            wish.max_tokens or most,
            wish.temperature,
            wish.top_p,
            seed,
        )
        context = self.service.context_tokens
        if request.characters > CHARACTERS_PER_TOKEN * context:
            text = f"the messages have {request.characters} characters; that does not fit {context} tokens"
            raise PromptTooLong(text, field="messages")
        return request


async def _body(request: Request) -> bytes:
    """Raises TooLarge and BadField; nothing is kept of what is too large."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > chat.MAX_BODY_BYTES:
                    raise TooLarge(f"the body is larger than {chat.MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise BadField(f"the body did not arrive within {BODY_S:.0f} s") from None
    except ClientDisconnect:
        raise BadField("the body is cut off") from None
    return b"".join(parts)


class _Completion(Response):
    """Makes the text when it is sent."""

    def __init__(
        self, service: TextService, head: chat.Head, wish: chat.ChatRequest, request: TextRequest, timeout_s: float
    ) -> None:
        self._service = service
        self._head = head
        self._wish = wish
        self._request = request
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def patient(message: object) -> None:
            async with asyncio.timeout(self._timeout_s):
                await send(message)  # type: ignore[arg-type]

        async with asyncio.TaskGroup() as group:
            answer = group.create_task(self._answer(scope, receive, patient), name="answer")
            watch = group.create_task(_watch(receive, answer), name="watch the client")
            answer.add_done_callback(lambda _: watch.cancel())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            try:
                response = await self._made(send)
            except VoicepipeError as error:
                response = _told(error, scope["client"][0] if scope.get("client") else "")
            if response is not None:
                await response(scope, receive, send)
        except TimeoutError:
            log.info("a client takes nothing; its text is given up")

    async def _made(self, send: Send) -> Response | None:
        """None where it has been sent already, in pieces."""
        with self._service.open(self._request, self._wish.stops) as stream:
            if self._wish.stream:
                await self._stream(stream, send)
                return None
            text = "".join([piece async for piece in stream.pieces()])
            assert stream.finish is not None
            used = (stream.prompt_tokens, stream.completion_tokens)
            return _response(chat.completion(self._head, text, stream.finish, *used))

    async def _stream(self, stream: TextStream, send: Send) -> None:
        """The status is sent with the first piece: what fails before has one of its own."""
        begun = False
        try:
            async for piece in stream.pieces():
                if not begun:
                    await self._begin(send)
                    begun = True
                await _send(send, chat.text_event(self._head, piece))
        except VoicepipeError as error:
            if not begun:
                raise
            await _send(send, chat.error_event(error.message, "server_error", error.code), last=True)
            return
        if not begun:
            await self._begin(send)
        assert stream.finish is not None
        end = chat.last_event(self._head, stream.finish)
        if self._wish.include_usage:
            end += chat.usage_event(self._head, stream.prompt_tokens, stream.completion_tokens)
        await _send(send, end + chat.DONE, last=True)

    async def _begin(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send(send, chat.first_event(self._head))


async def _send(send: Send, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def _watch(receive: Receive, answer: asyncio.Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answer.cancel()


def _log_refusal(reason: str, peer: str) -> None:
    log.warning("text refused, %s: peer %s", reason, peer)


def _told(error: VoicepipeError, peer: str) -> Response:
    if isinstance(error, Refused):
        _log_refusal(error.reason, peer)
    return error_response(error)


def error_response(error: VoicepipeError) -> Response:
    status, kind = _status_of(error)
    headers = {}
    if isinstance(error, Refused):
        headers["Retry-After"] = str(math.ceil(error.retry_after_ms / 1000))
    code = error.reason if isinstance(error, Refused) else error.code
    return _response(chat.error(error.message, kind, code, error.field), status, headers)


def _status_of(error: VoicepipeError) -> tuple[int, str]:
    match error:
        case Refused(reason="draining"):
            return 503, "server_error"
        case Refused():
            return 429, "rate_limit_error"
        case UnknownModel():
            return 404, "invalid_request_error"
        case TooLarge():
            return 413, "invalid_request_error"
        case ClientError() | PromptRefused():
            return 400, "invalid_request_error"
        case EngineUnavailable():
            return 503, "server_error"
        case EngineError():
            return 500, "server_error"
    raise AssertionError(f"{type(error).__name__} comes of no text")


def _response(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


async def _no_such_path(request: Request, error: Exception) -> Response:
    body = chat.error(f"there is no {request.url.path[:100]}", "invalid_request_error", "not_found")
    return _response(body, 404)


async def _no_such_method(request: Request, error: Exception) -> Response:
    headers = dict(getattr(error, "headers", None) or {})
    body = chat.error(f"{request.method[:20]} is not allowed here", "invalid_request_error", "method_not_allowed")
    return _response(body, 405, headers)
