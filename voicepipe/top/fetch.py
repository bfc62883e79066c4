"""The metrics' page of a server, by its URL."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from typing import IO
from urllib.parse import urlsplit, urlunsplit

from voicepipe.errors import Forbidden, ServerUnreachable, Unauthorized, UsageError

PATH = "/metrics"
TIMEOUT_S = 3.0
MOST_BYTES = 8 * 2**20
EXAMPLE = "http://127.0.0.1:8765"


def metrics_url(url: str) -> str:
    """Of a server that is named as for `talk`, as for a browser, or by host and port. Raises UsageError."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - a property that checks
    except ValueError:
        raise UsageError(f"the URL cannot be read; expected one like {EXAMPLE}", field="url") from None
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if "@" in parts.netloc:
        raise UsageError("a password in the URL would be seen by others; see VOICEPIPE_METRICS_TOKEN", field="url")
    if scheme not in ("http", "https") or not parts.hostname or any(char.isspace() for char in text):
        raise UsageError(f"{url}: expected a URL like {EXAMPLE}", field="url")
    path = PATH if parts.path in ("", "/", "/v1/voice") else parts.path
    return urlunsplit((scheme, parts.netloc, path, "", ""))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The token is for this server and no other."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def fetch(url: str, token: str) -> str:
    """Blocks for seconds at most. Raises Unauthorized, Forbidden, and ServerUnreachable, which may pass."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    proxies = [urllib.request.ProxyHandler({})] if _is_loopback(url) else []
    opener = urllib.request.build_opener(_NoRedirects(), *proxies)
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(MOST_BYTES)
            return body.decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused(url, error.code, has_token=bool(token)) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ServerUnreachable(f"{url}: nobody answers ({told}); start a server with `voicepipe serve`") from None


def _refused(url: str, status: int, *, has_token: bool) -> Unauthorized | Forbidden | ServerUnreachable:
    if status == 401:
        why = "does not take the token in" if has_token else "needs its metrics' token in"
        return Unauthorized(f"{url}: the server {why} VOICEPIPE_METRICS_TOKEN")
    if status == 403:
        how = "give it a VOICEPIPE_METRICS_TOKEN, and this command the same, or set metrics_public"
        return Forbidden(f"{url}: the server shows its metrics to its own machine alone; {how}")
    return ServerUnreachable(f"{url}: no metrics there (HTTP {status}); is it a voicepipe server?")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
