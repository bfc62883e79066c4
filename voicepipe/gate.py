"""What a request must show before admission is asked: pure checks, in a fixed order.

    method and path -> draining -> connection caps -> Origin -> credentials -> its own parameters

Knows no sockets. A peer is "loopback" by its address alone: behind a reverse proxy on the same
machine everyone is, so there tokens must be configured and /metrics kept away by the proxy.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl

from voicepipe.core.admission import Refuse, SessionRequest
from voicepipe.errors import BadField
from voicepipe.webfiles import Reply, error_reply, json_reply
from voicepipe.wire.native import PROTOCOL, parse_budget_ms

VOICE_PATH = "/v1/voice"
DRAIN_RETRY_MS = 5_000
"""When to try again at a server that is going away: another one should be there by then."""

_MAX_QUERY_FIELDS = 16
_ROUTE = re.compile(r"[A-Za-z0-9._-]{0,64}")
_TOO_MANY_RETRY_MS = 1_000


@dataclass(frozen=True, slots=True)
class Visit:
    """One HTTP request: headers by lower-case name, repeated ones joined by commas."""

    method: str
    target: str
    headers: Mapping[str, str]
    peer: str

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The last value of each parameter. Empty where there are too many."""
        raw = self.target.partition("?")[2]
        try:
            pairs = parse_qsl(raw, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)
        except ValueError:
            return {}
        return dict(pairs)

    @property
    def upgrades(self) -> bool:
        return self.headers.get("upgrade", "").strip().lower() == "websocket"

    @property
    def subprotocols(self) -> tuple[str, ...]:
        offered = self.headers.get("sec-websocket-protocol", "").split(",")
        return tuple(name for item in offered if (name := item.strip()))

    @property
    def token(self) -> str | None:
        """From `Authorization: Bearer`, else the first subprotocol that is none of ours."""
        scheme, _, credentials = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return credentials.strip()
        return next((name for name in self.subprotocols if name != PROTOCOL), None)

    @property
    def can_read_refusal(self) -> bool:
        """Whether a refusal after the upgrade is understood; a browser cannot read one before."""
        return PROTOCOL in self.subprotocols and self.query.get("refuse") != "http"

    @property
    def is_page(self) -> bool:
        """A web page's script, which is told nothing of an HTTP answer: for it every one is a bare 1006."""
        return "origin" in self.headers and self.can_read_refusal


@dataclass(frozen=True, slots=True)
class AccessRules:
    origins: frozenset[str] = frozenset()
    """Web origins that may connect, beside the server's own on loopback. Matched exactly."""
    tokens: frozenset[str] = field(default=frozenset(), repr=False)
    """Accepted bearer tokens. None configured: loopback peers need none, others get in nowhere."""
    insecure: bool = False
    """Without tokens, let others than loopback peers in as well."""
    metrics_public: bool = False
    max_connections: int = 256
    max_connections_per_address: int = 64
    """Not applied to loopback peers, where a proxy may stand for everyone."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Open connections, this one included."""

    total: int
    from_address: int


@dataclass(frozen=True, slots=True)
class TurnedAway:
    reason: str
    """A short word of a fixed set: a metric's label, and what a page is told."""
    reply: Reply
    is_final: bool = False
    """Coming back later does not help. Such a refusal is cheap and rare, so a page gets the upgrade to read it."""


class Gate:
    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def check(self, visit: Visit, crowd: Crowd, *, port: int, draining: bool) -> TurnedAway | None:
        """None lets a request for a session pass."""
        rules = self._rules
        if draining:
            return _refused("draining", DRAIN_RETRY_MS)
        if crowd.total > rules.max_connections:
            return _refused("connections", _TOO_MANY_RETRY_MS)
        if crowd.from_address > rules.max_connections_per_address and not is_loopback(visit.peer):
            status = HTTPStatus.TOO_MANY_REQUESTS
            return _refused("connections_per_address", _TOO_MANY_RETRY_MS, status)
        origin = visit.headers.get("origin")
        if origin is not None and origin not in rules.origins | own_origins(port):
            reply = error_reply(HTTPStatus.FORBIDDEN, "this Origin is not allowed to connect")
            return TurnedAway("origin_not_allowed", reply, is_final=True)
        if not self._knows(visit):
            challenge = {"WWW-Authenticate": "Bearer"}
            reply = error_reply(HTTPStatus.UNAUTHORIZED, "a valid token is needed", challenge)
            return TurnedAway("unauthorized", reply, is_final=True)
        return None

    def may_read_metrics(self, visit: Visit) -> bool:
        return self._rules.metrics_public or is_loopback(visit.peer)

    def _knows(self, visit: Visit) -> bool:
        if not self._rules.tokens:
            return self._rules.insecure or is_loopback(visit.peer)
        shown = (visit.token or "").encode()
        matches = [hmac.compare_digest(shown, token.encode()) for token in self._rules.tokens]
        return any(matches)  # every one was compared: time tells nothing about which


def _refused(reason: str, retry_after_ms: int, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> TurnedAway:
    return TurnedAway(reason, refusal_reply(Refuse(reason, retry_after_ms), status))


def session_request(visit: Visit) -> SessionRequest | Reply:
    """What admission needs, out of the query; a 400 where that makes no sense."""
    query = visit.query
    budget_ms: float | None = None
    if "budget_ms" in query:
        try:
            budget_ms = parse_budget_ms(query["budget_ms"])
        except BadField as error:
            return error_reply(HTTPStatus.BAD_REQUEST, error.message, field=error.field)
    route = query.get("route", "")
    if not _ROUTE.fullmatch(route):
        return error_reply(HTTPStatus.BAD_REQUEST, "route may hold 64 letters, digits and . _ -", field="route")
    return SessionRequest(peer=visit.peer, budget_ms=budget_ms, route=route)


def refusal_reply(refuse: Refuse, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> Reply:
    body = {"refused": {"reason": refuse.reason, "retry_after_ms": refuse.retry_after_ms}}
    seconds = math.ceil(refuse.retry_after_ms / 1000)
    return json_reply(status, body, {"Retry-After": str(seconds)})


def own_origins(port: int) -> frozenset[str]:
    hosts = ("localhost", "127.0.0.1", "[::1]")
    return frozenset(f"{scheme}://{host}:{port}" for scheme in ("http", "https") for host in hosts)


def is_loopback(peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 peer on an IPv6 socket
    return bool((mapped or address).is_loopback)
