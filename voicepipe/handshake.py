"""Requests and answers, between the websocket library's form and ours."""

from __future__ import annotations

import email.utils
from collections.abc import Sequence
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from voicepipe.errors import TooLarge
from voicepipe.webfiles import SECURITY_HEADERS, Reply, error_reply
from voicepipe.wire.doors import DOORS, Door


def headers_of(request: Request) -> dict[str, str]:
    """Names in lower case; what is given more than once is joined."""
    headers: dict[str, str] = {}
    for name, value in request.headers.raw_items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def response_of(reply: Reply, *, head: bool = False) -> Response:
    """`head`: without the body."""
    headers = Headers(Date=email.utils.formatdate(usegmt=True))
    headers.update(reply.all_headers())
    return Response(reply.status.value, reply.status.phrase, headers, b"" if head else reply.body)


def hardened(response: Response) -> Response:
    """The library's own answers get the headers that all have."""
    for name, value in SECURITY_HEADERS.items():
        if name not in response.headers:
            response.headers[name] = value
    return response


def unreadable(method: bytes) -> bytes:
    """The whole answer to what the library cannot read."""
    if method in (b"GET", b"HEAD"):
        return response_of(
            error_reply(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request without a body")
        ).serialize()
    allow = {"Allow": "GET, HEAD"}
    return response_of(error_reply(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", allow)).serialize()


def too_large(size: int | None, door: Door) -> bytes:
    """What goes before the close where a frame has so many bytes, or, for None, too many fragments."""
    limit = f"a frame may have {door.max_bytes} bytes"
    fault = TooLarge(f"{limit}, not {size}" if size else f"{limit}, and not so many fragments", field="frame")
    return door.too_large(fault).encode()


def select_subprotocol(ws: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """The token beside it, if any, is no protocol; and a client that offers none is welcome too."""
    assert ws.request is not None, "it has been read"
    door = DOORS[ws.request.path.partition("?")[0]]
    return next((name for name in offered if name == door.subprotocol), None)
