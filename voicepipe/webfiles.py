"""HTTP replies and the browser client's files, read once and then served from memory by exact path.

What is not in the table does not exist: there is no path to traverse.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
}
"""The kinds of file that are served; any other kind is left out."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A plain HTTP answer, without the headers that every answer has."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        return {
            "Connection": "close",
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            **SECURITY_HEADERS,
            **self.headers,
        }


def json_reply(status: HTTPStatus, value: object, headers: Mapping[str, str] | None = None) -> Reply:
    body = json.dumps(value, separators=(",", ":")).encode()
    return Reply(status, "application/json", body, headers or {})


def error_reply(
    status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None, *, field: str | None = None
) -> Reply:
    """`field` names the part of the request that is at fault."""
    error = {"message": message} if field is None else {"message": message, "field": field}
    return json_reply(status, {"error": error}, headers)


def load_web_files(directory: Path | None) -> dict[str, Reply]:
    """URL path -> reply, for every file of a known kind below `directory`; index.html is `/` too.

    Symbolic links that lead out of the directory are left out. Empty where `directory` is None.
    """
    if directory is None:
        return {}
    root = directory.resolve()
    table: dict[str, Reply] = {}
    for path in sorted(root.rglob("*")):
        content_type = _TYPES.get(path.suffix)
        if content_type is None or not path.is_file() or not path.resolve().is_relative_to(root):
            continue
        reply = Reply(HTTPStatus.OK, content_type, path.read_bytes())
        table[f"/{path.relative_to(root).as_posix()}"] = reply
    if "/index.html" in table:
        table["/"] = table["/index.html"]
    return table
