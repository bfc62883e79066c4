"""From a URL to an upgraded connection, or to the error that says why not and what to do."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import InvalidHandshake, InvalidProxy, InvalidStatus, InvalidURI
from websockets.http11 import Response
from websockets.typing import Subprotocol

from voicepipe import errors
from voicepipe.wire import native

PATH: Final = "/v1/voice"
RECEIVE_QUEUE_FRAMES: Final = 64
"""Over a second of 20 ms frames, 4 MiB at the very most."""
PING_S: Final = 10.0
_AUTHORITY: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<rest>[^/?#]*)")
_CREDENTIALS: Final = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*://)?[^:@/]*):.*@")
_REASON_CHARS: Final = 300
DEFAULT_RETRY_MS: Final = 1000
"""Where a refusal does not say when to come back."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits, s."""

    open_s: float = 10.0
    """TCP, TLS and upgrade."""
    ready_s: float = 10.0
    """From `session.start` to `session.ready` or the first `waiting`."""
    waiting_s: float = 3600.0
    """From the first `waiting` to `session.ready`. The server ends it sooner, by `refused`, at a limit of its
    own (`admission.waiting_s`, by default 30 s); a server that has vanished is noticed by pings."""
    send_s: float = 10.0
    """For the transport to take one message."""
    close_s: float = 2.0


DEFAULT_TIMEOUTS: Final = Timeouts()


def voice_url(url: str, budget_ms: float | None, route: str | None) -> str:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - a property that checks
    except ValueError as error:
        # The port that is none may be half of a password.
        why = "the URL cannot be read" if "@" in url else error
        raise errors.UsageError(f"{masked(url)}: {why}", field="url") from None
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.hostname:
        raise errors.UsageError(f"{masked(url)}: expected a URL like ws://127.0.0.1:8765", field="url")
    query = parse_qsl(parts.query, keep_blank_values=True)
    if budget_ms is not None:
        query.append(("budget_ms", f"{budget_ms:g}"))
    if route is not None:
        query.append(("route", route))
    path = parts.path if parts.path not in ("", "/") else PATH
    return urlunsplit((scheme, parts.netloc, path, urlencode(query), ""))


def check_token(token: str | None) -> None:
    """Raises UsageError, which does not show it, for one that no header can carry: printable Latin-1 can be."""
    if token is not None and not (token.isprintable() and all(ord(char) < 256 for char in token)):
        raise errors.UsageError(
            "the token (VOICEPIPE_TOKEN) holds a line break or another sign that no HTTP header can carry",
            field="token",
        )


def masked(url: str) -> str:
    """The URL as it may be shown: a password in it, whatever signs it holds, as `***`."""
    authority = _AUTHORITY.match(url)
    if authority is None or "@" not in authority["rest"]:
        # Without a `//`, or with a `/` in the password, it is no URL: better too much is hidden than too little.
        return _CREDENTIALS.sub(r"\1:***@", url)
    user, at, host = authority["rest"].rpartition("@")
    name, colon, _ = user.partition(":")
    shown = f"{name}:***" if colon else name
    return f"{authority['scheme']}{shown}{at}{host}{url[authority.end() :]}"


async def open_connection(url: str, token: str | None, timeouts: Timeouts) -> ClientConnection:
    shown = masked(url)
    try:
        return await ws_connect(
            url,
            subprotocols=[Subprotocol(native.PROTOCOL)],
            additional_headers={"Authorization": f"Bearer {token}"} if token else None,
            compression=None,  # PCM does not deflate
            proxy=None if _is_loopback(url) else True,
            open_timeout=timeouts.open_s,
            close_timeout=timeouts.close_s,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            max_size=max(native.MAX_TEXT_BYTES, native.MAX_BINARY_BYTES),
            max_queue=RECEIVE_QUEUE_FRAMES,
        )
    except InvalidStatus as error:
        raise _not_upgraded(shown, error.response, token) from None
    except TimeoutError:
        raise errors.ServerUnreachable(
            f"{shown}: no answer within {timeouts.open_s:g} s; is the address right?"
        ) from None
    except OSError as error:
        raise errors.ServerUnreachable(
            f"{shown}: nobody answers ({error}); start a server with `voicepipe serve`"
        ) from None
    except InvalidURI as error:
        raise errors.UsageError(f"{shown}: {error.msg}", field="url") from None
    except InvalidProxy as error:
        raise errors.UsageError(f"the proxy {masked(error.proxy)}: {error.msg}", field="url") from None
    except InvalidHandshake as error:
        raise errors.ServerUnreachable(f"{shown}: what answers there is no voicepipe server ({error})") from None


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _RefusedBody(msgspec.Struct):
    reason: str
    retry_after_ms: int


class _Body(msgspec.Struct):
    refused: _RefusedBody


class _Complaint(msgspec.Struct):
    message: str
    field: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Complaint


def _complaint(response: Response) -> _Complaint | None:
    """Body {"error": {"message", "field"?}}, fit for a terminal; None where there is none."""
    try:
        said = msgspec.json.decode(response.body, type=_ErrorBody).error
    except (msgspec.DecodeError, RecursionError):
        return None
    text = "".join(char if char.isprintable() else " " for char in said.message)
    return _Complaint(text[:_REASON_CHARS], said.field)


def _not_upgraded(url: str, response: Response, token: str | None) -> errors.VoicepipeError:
    """`url` is fit to be shown. A request that the server cannot accept is wrong usage: exit status 2."""
    status = response.status_code
    complaint = _complaint(response)
    if status in (429, 503):
        return _refused(response)
    if status == 401:
        return unauthorized(f"{url}: HTTP 401", token)
    if status == 403:
        return forbidden(f"{url}: HTTP 403", None if complaint is None else complaint.message)
    if status == 404:
        what = f"no voice endpoint there; it is {PATH}"
    elif complaint is not None:
        what = complaint.message
        if complaint.field is not None:
            what += f" ({complaint.field})"
    else:
        what = "expected a WebSocket"
    if status == 400:
        field = None if complaint is None else complaint.field
        return errors.UsageError(f"{url}: HTTP {status}: {what}", field=field)
    return errors.ServerUnreachable(f"{url}: HTTP {status}: {what}")


def unauthorized(where: str, token: str | None) -> errors.Unauthorized:
    """What was shown, if anything, is not told."""
    what = "the token is not accepted" if token else "a token is needed, and none was given"
    return errors.Unauthorized(f"{where}: {what}; set VOICEPIPE_TOKEN, or connect(token=...)", field="token")


def forbidden(where: str, why: str | None) -> errors.Forbidden:
    what = why or "this server, or a proxy before it, lets no such client in"
    return errors.Forbidden(f"{where}: {what}; a token does not change that")


def _refused(response: Response) -> errors.Refused:
    """Body {"refused": {"reason", "retry_after_ms"}}; a proxy's answer may have Retry-After only."""
    try:
        refused = msgspec.json.decode(response.body, type=_Body).refused
        return errors.Refused(refused.reason, max(0, refused.retry_after_ms))
    except (msgspec.DecodeError, RecursionError):
        seconds = response.headers.get("Retry-After", "")
        retry_ms = int(seconds) * 1000 if seconds.isascii() and seconds.isdigit() else None
        return errors.Refused("unavailable", DEFAULT_RETRY_MS if retry_ms is None else retry_ms)
