"""Whether a request comes from Twilio: it signs the URL that it was told to connect to with the account's token.

    X-Twilio-Signature = base64(HMAC-SHA1(key = auth token, message = the URL))

The URL is the one that Twilio was given: behind a proxy the public one. How it is written is not always the same:
with or without the port, and with or without a slash at its end. The signature of a URL is always the same, too, so
that it is worth as much as a bearer token: it must only travel encrypted.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

HEADER: Final = "x-twilio-signature"
_PORTS: Final = {"wss": 443, "https": 443, "ws": 80, "http": 80}


@dataclass(frozen=True, slots=True)
class Signing:
    auth_token: str = field(repr=False)
    public_url: str = ""
    """What stands before the path in the URL that Twilio is given, such as "wss://voice.example". "": wss and the
    request's own Host."""

    def proves(self, headers: Mapping[str, str], target: str) -> bool:
        """Whether the request of these headers (names in lower case) and this target is signed. Takes the same time
        for every wrong signature."""
        base = self.public_url.rstrip("/") or f"wss://{headers.get('host', '')}"
        shown = headers.get(HEADER, "").strip().encode(errors="replace")
        # Every one is compared: time tells nothing about which.
        matches = [hmac.compare_digest(shown, signature(self.auth_token, url)) for url in spellings(base + target)]
        return any(matches)


def signature(auth_token: str, url: str) -> bytes:
    return base64.b64encode(hmac.digest(auth_token.encode(), url.encode(errors="replace"), "sha1"))


def spellings(url: str) -> tuple[str, ...]:
    """The ways in which Twilio may have written it; none where it is no URL."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.netloc.removesuffix(f":{parts.port}")
    except ValueError:
        return ()
    hosts = (host, f"{host}:{port or _PORTS.get(parts.scheme, 443)}")
    path = parts.path.rstrip("/")
    return tuple(parts._replace(netloc=name, path=path + slash).geturl() for name in hosts for slash in ("", "/"))
