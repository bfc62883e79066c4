"""What a request must show before admission is asked: pure checks, in a fixed order.

    method and path -> draining -> connection caps -> Origin -> credentials -> its own parameters

Knows no sockets. A caller is of this machine by its address, if its request has not come through a proxy, which
says so by a header (`proxies`). A proxy on the same machine that does not say so makes everyone look like that:
there tokens must be configured and /metrics kept away by the proxy.
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

from voicepipe.core.admission import Reason, Refuse, SessionRequest
from voicepipe.errors import BadField
from voicepipe.proxies import Proxies, address_of
from voicepipe.webfiles import Reply, error_reply, json_reply
from voicepipe.wire.doors import DOORS, NATIVE, TWILIO, Door, subprotocols_of
from voicepipe.wire.native import parse_budget_ms
from voicepipe.wire.twilio.signature import Signing

DRAIN_RETRY_MS = 5_000
"""When to try again at a server that is going away: another one should be there by then."""

_MAX_QUERY_FIELDS = 16
_ROUTE = re.compile(r"[A-Za-z0-9._-]{0,64}")
_TOO_MANY_RETRY_MS = 1_000
_QUOTA_REASONS = frozenset(reason for reason in Reason if reason.is_quota)


@dataclass(frozen=True, slots=True)
class Visit:
    """One HTTP request: headers by lower-case name, repeated ones joined by commas."""

    method: str
    target: str
    headers: Mapping[str, str]
    peer: str
    forwarded: bool = False
    """It has come through a proxy, by its own account."""

    @property
    def is_local(self) -> bool:
        """From this machine."""
        return not self.forwarded and is_loopback(self.peer)

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
    def door(self) -> Door:
        """Whose dialect it would speak; the native one where the path is nobody's."""
        return DOORS.get(self.path, NATIVE)

    @property
    def upgrades(self) -> bool:
        return self.headers.get("upgrade", "").strip().lower() == "websocket"

    @property
    def subprotocols(self) -> tuple[str, ...]:
        return subprotocols_of(self.headers)

    @property
    def token(self) -> str | None:
        """From `Authorization: Bearer`, else from where the dialect has it among the subprotocols."""
        return self.door.shown(self.headers)

    @property
    def can_read_refusal(self) -> bool:
        """Whether a refusal after the upgrade is understood; a browser cannot read one before."""
        return self.door.subprotocol in self.subprotocols and self.query.get("refuse") != "http"

    @property
    def can_wait(self) -> bool:
        """Whether it knows what it waits for: by a message, or because it has no answer yet."""
        door = self.door
        if door.held_s is None:
            return door.waits and self.can_read_refusal
        return door.waits and self.query.get("refuse") != "http"

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
    token_names: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of tokens that have one, the configured name: what quotas and metrics know them by."""
    insecure: bool = False
    """Without tokens, let others than loopback peers in as well."""
    twilio: Signing | None = None
    """Of calls at Twilio's door: they need a signature, or a token where there are any; on loopback, too."""
    metrics_public: bool = False
    metrics_token: str = field(default="", repr=False)
    """Where there is one, whoever shows it may read the metrics, and nobody else, be it on this machine."""
    proxies: Proxies = field(default_factory=Proxies)
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

    def visit(self, method: str, target: str, headers: Mapping[str, str], peer: str) -> Visit:
        """`peer`: the socket's."""
        caller, forwarded = self._rules.proxies.caller(peer, headers)
        return Visit(method, target, headers, caller, forwarded)

    def check(self, visit: Visit, crowd: Crowd, *, port: int, draining: bool) -> TurnedAway | None:
        """None lets a request for a session pass."""
        rules = self._rules
        if draining:
            return _refused("draining", DRAIN_RETRY_MS)
        if crowd.total > rules.max_connections:
            return _refused("connections", _TOO_MANY_RETRY_MS)
        if crowd.from_address > rules.max_connections_per_address and not visit.is_local:
            status = HTTPStatus.TOO_MANY_REQUESTS
            return _refused("connections_per_address", _TOO_MANY_RETRY_MS, status)
        origin = visit.headers.get("origin")
        if origin is not None and origin not in rules.origins | own_origins(port):
            reply = error_reply(HTTPStatus.FORBIDDEN, "this Origin is not allowed to connect")
            return TurnedAway("origin_not_allowed", reply, is_final=True)
        if self.token_name(visit) is None:
            challenge = {"WWW-Authenticate": "Bearer"}
            text = "a valid token is needed: `Authorization: Bearer TOKEN`, or as a second subprotocol"
            if visit.path == TWILIO.path:
                text = "a valid X-Twilio-Signature is needed: see docs/twilio.md, if this is Twilio"
            reply = error_reply(HTTPStatus.UNAUTHORIZED, text, challenge)
            return TurnedAway("unauthorized", reply, is_final=True)
        return None

    def may_read_metrics(self, visit: Visit) -> bool:
        rules = self._rules
        if rules.metrics_token:
            return hmac.compare_digest((visit.token or "").encode(), rules.metrics_token.encode())
        return rules.metrics_public or visit.is_local

    @property
    def metrics_need_token(self) -> bool:
        return bool(self._rules.metrics_token)

    def token_name(self, visit: Visit) -> str | None:
        """Of the token that was shown; "" where it has none, or none is needed. None: this caller is not known."""
        rules = self._rules
        signing = rules.twilio if visit.path == TWILIO.path else None
        if signing is not None and signing.proves(visit.headers, visit.target):
            return ""
        if not rules.tokens:
            return "" if signing is None and (rules.insecure or visit.is_local) else None
        shown = (visit.token or "").encode()
        matches = [token for token in rules.tokens if hmac.compare_digest(shown, token.encode())]
        # Every one was compared: time tells nothing about which.
        return rules.token_names.get(matches[0], "") if matches else None


def _refused(reason: str, retry_after_ms: int, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> TurnedAway:
    return TurnedAway(reason, refusal_reply(Refuse(reason, retry_after_ms), status))


def session_request(visit: Visit, token: str = "") -> SessionRequest | Reply:
    """What admission needs, out of the query; a 400 where that makes no sense. `token`: its name."""
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
    return SessionRequest(
        peer=visit.peer,
        budget_ms=budget_ms,
        route=route,
        token=token,
        address=quota_address(visit.peer),
        may_wait=visit.can_wait,
        patience_s=math.inf if visit.door.held_s is None else visit.door.held_s,
    )


def refusal_reply(refuse: Refuse, status: HTTPStatus | None = None) -> Reply:
    """By default 429 where the caller has used up its own quota, 503 where the server has no room."""
    if status is None:
        own = refuse.reason in _QUOTA_REASONS
        status = HTTPStatus.TOO_MANY_REQUESTS if own else HTTPStatus.SERVICE_UNAVAILABLE
    body = {"refused": {"reason": refuse.reason, "retry_after_ms": refuse.retry_after_ms}}
    seconds = math.ceil(refuse.retry_after_ms / 1000)
    return json_reply(status, body, {"Retry-After": str(seconds)})


def own_origins(port: int) -> frozenset[str]:
    hosts = ("localhost", "127.0.0.1", "[::1]")
    return frozenset(f"{scheme}://{host}:{port}" for scheme in ("http", "https") for host in hosts)


def quota_address(peer: str) -> str:
    """What quotas per address count by: an IPv4 address, or the 64 bits of an IPv6 one that belong to one network.
    "" on loopback, where a proxy may stand for everyone."""
    address = address_of(peer)
    if address is None or address.is_loopback:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))


def is_loopback(peer: str) -> bool:
    address = address_of(peer)
    return address is not None and address.is_loopback
