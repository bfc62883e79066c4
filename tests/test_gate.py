"""The gate's rules, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from voicepipe.core.admission import Reason, Refuse, SessionRequest
from voicepipe.gate import (
    AccessRules,
    Crowd,
    Gate,
    Visit,
    is_loopback,
    quota_address,
    refusal_reply,
    session_request,
)
from voicepipe.proxies import Proxies
from voicepipe.webfiles import Reply
from voicepipe.wire.doors import REALTIME
from voicepipe.wire.twilio.signature import Signing, signature

FEW = Crowd(1, 1)
LAN = "192.0.2.7"


def visit(target: str = "/v1/voice", *, peer: str = "127.0.0.1", **headers: str) -> Visit:
    return Visit("GET", target, {k.replace("_", "-"): v for k, v in headers.items()}, peer)


def check(rules: AccessRules, request: Visit, crowd: Crowd = FEW, **kw: Any) -> str | None:
    away = Gate(rules).check(request, crowd, **{"port": 8765, "draining": False, **kw})
    return None if away is None else f"{away.reply.status.value} {away.reason}"


def test_a_loopback_client_without_anything_passes() -> None:
    assert check(AccessRules(), visit()) is None


def test_a_visit_is_from_whom_a_trusted_proxy_names() -> None:
    """And what came through a proxy is not this machine's, whatever its address."""
    gate = Gate(AccessRules(proxies=Proxies(["10.0.0.0/8"])))
    seen = gate.visit("GET", "/v1/voice", {"x-forwarded-for": "192.0.2.7"}, "10.1.2.3")
    assert (seen.peer, seen.forwarded, seen.is_local) == ("192.0.2.7", True, False)
    near = gate.visit("GET", "/v1/voice", {"x-forwarded-for": "192.0.2.7"}, "127.0.0.1")
    assert (near.peer, near.is_local) == ("127.0.0.1", False)
    assert gate.visit("GET", "/v1/voice", {}, "127.0.0.1").is_local
    assert gate.check(near, FEW, port=8765, draining=False) is not None


def test_the_checks_run_in_their_order() -> None:
    rules = AccessRules(max_connections=4, max_connections_per_address=2, tokens=frozenset({"t"}))
    hostile = visit(peer=LAN, origin="https://evil.example")
    assert check(rules, hostile, Crowd(5, 5), draining=True) == "503 draining"
    assert check(rules, hostile, Crowd(5, 5)) == "503 connections"
    assert check(rules, hostile, Crowd(4, 3)) == "429 connections_per_address"
    assert check(rules, hostile, Crowd(4, 2)) == "403 origin_not_allowed"
    assert check(rules, visit(peer=LAN), Crowd(4, 2)) == "401 unauthorized"
    assert check(rules, visit(peer=LAN, authorization="Bearer t"), Crowd(4, 2)) is None


def test_a_proxy_on_loopback_may_stand_for_many() -> None:
    assert check(AccessRules(max_connections_per_address=2), visit(), Crowd(50, 50)) is None


@pytest.mark.parametrize("origin", ["http://localhost:8765", "http://127.0.0.1:8765", "https://[::1]:8765"])
def test_our_own_page_on_loopback_may_connect(origin: str) -> None:
    assert check(AccessRules(), visit(origin=origin)) is None
    assert check(AccessRules(), visit(origin=origin), port=9999) == "403 origin_not_allowed"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://app.example.evil.test",
        "https://evil.test/https://app.example",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example, https://app.example",
        "http://localhost:8765.evil.test",
    ],
)
def test_origins_are_matched_whole(origin: str) -> None:
    rules = AccessRules(origins=frozenset({"https://app.example"}))
    assert check(rules, visit(origin=origin)) == "403 origin_not_allowed"
    assert check(rules, visit(origin="https://app.example")) is None


def test_without_tokens_only_loopback_gets_in_unless_told_otherwise() -> None:
    assert check(AccessRules(), visit(authorization="Bearer anything")) is None
    assert check(AccessRules(), visit(peer=LAN)) == "401 unauthorized"
    assert check(AccessRules(), visit(peer=LAN, authorization="Bearer x")) == "401 unauthorized"
    assert check(AccessRules(insecure=True), visit(peer=LAN)) is None


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"authorization": "Bearer second"}, True),
        ({"authorization": "bearer first"}, True),
        ({"sec_websocket_protocol": "voicepipe.v1, second"}, True),
        ({"sec_websocket_protocol": "second,voicepipe.v1"}, True),
        ({"sec_websocket_protocol": "voicepipe.v1"}, False),
        ({"authorization": "Bearer wrong", "sec_websocket_protocol": "voicepipe.v1, first"}, False),
        ({"authorization": "Bearer first, Bearer first"}, False),
        ({"authorization": "Basic first"}, False),
        ({"authorization": "Bearer "}, False),
        ({}, False),
    ],
)
def test_configured_tokens_are_needed_even_on_loopback(headers: dict[str, str], passes: bool) -> None:
    rules = AccessRules(tokens=frozenset({"first", "second"}), insecure=True)
    assert check(rules, visit(**headers)) == (None if passes else "401 unauthorized")


def test_tokens_do_not_show_in_a_repr() -> None:
    assert "hush" not in repr(AccessRules(tokens=frozenset({"hush"})))


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.7", False),
        ("fe80::1%eth0", False),
        ("192.0.2.7", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_loopback(peer: str, expected: bool) -> None:
    assert is_loopback(peer) is expected


def test_metrics_are_for_loopback_unless_public() -> None:
    assert Gate(AccessRules()).may_read_metrics(visit())
    assert not Gate(AccessRules()).may_read_metrics(visit(peer=LAN))
    assert Gate(AccessRules(metrics_public=True)).may_read_metrics(visit(peer=LAN))


@pytest.mark.parametrize("peer", ["127.0.0.1", LAN])
def test_where_metrics_have_a_token_everybody_shows_it(peer: str) -> None:
    """On this machine too, where a proxy may stand for everyone; a caller's token is not it."""
    gate = Gate(AccessRules(tokens=frozenset({"caller"}), metrics_token="s3cret"))
    assert gate.metrics_need_token and not Gate(AccessRules()).metrics_need_token
    assert gate.may_read_metrics(visit("/metrics", peer=peer, authorization="Bearer s3cret"))
    assert not gate.may_read_metrics(visit("/metrics", peer=peer, authorization="Bearer caller"))
    assert not gate.may_read_metrics(visit("/metrics", peer=peer))
    assert "s3cret" not in repr(AccessRules(metrics_token="s3cret"))


def test_what_admission_is_told() -> None:
    request = visit("/v1/voice?budget_ms=250&route=support&x=1&route=sales")
    assert session_request(request) == SessionRequest("127.0.0.1", 250.0, "sales")
    assert session_request(visit()) == SessionRequest("127.0.0.1", None, "")


@pytest.mark.parametrize(
    ("text", "budget_ms"), [("1", 1.0), ("1.0", 1.0), ("0200", 200.0), ("1234.57", 1234.57), ("60000", 60_000.0)]
)
def test_budgets_are_decimal_numbers(text: str, budget_ms: float) -> None:
    assert session_request(visit(f"/v1/voice?budget_ms={text}")) == SessionRequest("127.0.0.1", budget_ms, "")


@pytest.mark.parametrize(
    "query",
    [
        "budget_ms=",
        "budget_ms=fast",
        "budget_ms=nan",
        "budget_ms=inf",
        "budget_ms=-1",
        "budget_ms=0",
        "budget_ms=60001",
        "budget_ms=60000.5",
        "budget_ms=0.99",
        "budget_ms=1e-300",
        "budget_ms=2e2",
        "budget_ms=1_0",
        "budget_ms=%2B200",
        "budget_ms=%20200",
        "budget_ms=200%0A",
        "budget_ms=.5",
        "budget_ms=200.",
        "budget_ms=0x10",
        "budget_ms=%D9%A2%D9%A0%D9%A0",
        "route=a/b",
        "route=" + 65 * "a",
        "route=%0A",
    ],
)
def test_parameters_without_sense_are_a_bad_request(query: str) -> None:
    reply = session_request(visit(f"/v1/voice?{query}"))
    assert isinstance(reply, Reply) and reply.status == 400
    assert json.loads(reply.body)["error"]["field"] == query.partition("=")[0]


def test_a_flood_of_parameters_is_not_parsed() -> None:
    assert visit("/v1/voice?" + "&".join(f"k{i}=v" for i in range(17))).query == {}


@pytest.mark.parametrize(
    ("target", "protocols", "expected"),
    [
        ("/v1/voice", "voicepipe.v1", True),
        ("/v1/voice", "voicepipe.v1, token", True),
        ("/v1/voice?refuse=http", "voicepipe.v1", False),
        ("/v1/voice", "", False),
        ("/v1/voice", "chat", False),
    ],
)
def test_who_can_read_a_refusal_after_the_upgrade(target: str, protocols: str, expected: bool) -> None:
    assert visit(target, sec_websocket_protocol=protocols).can_read_refusal is expected


@pytest.mark.parametrize(
    ("target", "headers", "expected"),
    [
        ("/v1/voice", {"origin": "https://a.example", "sec_websocket_protocol": "voicepipe.v1, t"}, True),
        ("/v1/voice", {"sec_websocket_protocol": "voicepipe.v1"}, False),
        ("/v1/voice", {"origin": "https://a.example"}, False),
        ("/v1/voice?refuse=http", {"origin": "https://a.example", "sec_websocket_protocol": "voicepipe.v1"}, False),
    ],
)
def test_who_is_a_page(target: str, headers: dict[str, str], expected: bool) -> None:
    assert visit(target, **headers).is_page is expected


def test_only_what_time_does_not_change_is_final() -> None:
    """The others answer a flood, which must not be given upgrades."""
    rules = AccessRules(max_connections=1, max_connections_per_address=1, tokens=frozenset({"t"}))
    gate, page = Gate(rules), visit(peer=LAN, origin="https://evil.example")
    final = {}
    for draining, crowd in ((True, FEW), (False, Crowd(2, 1)), (False, Crowd(1, 2)), (False, FEW)):
        away = gate.check(page, crowd, port=1, draining=draining)
        assert away is not None
        final[away.reason] = away.is_final
    away = gate.check(visit(peer=LAN), FEW, port=1, draining=False)
    assert away is not None and away.reason == "unauthorized" and away.is_final
    assert final == {
        "draining": False,
        "connections": False,
        "connections_per_address": False,
        "origin_not_allowed": True,
    }


def test_a_refusal_says_when_to_come_back_rounded_up_to_seconds() -> None:
    reply = refusal_reply(Refuse("capacity", 1_001))
    assert reply.status == 503 and reply.headers["Retry-After"] == "2"
    assert json.loads(reply.body) == {"refused": {"reason": "capacity", "retry_after_ms": 1001}}


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("127.0.0.1", ""),
        ("::1", ""),
        ("", ""),
    ],
)
def test_quotas_count_by_address_or_network(peer: str, expected: str) -> None:
    """Whoever has one IPv6 address has 2^64; on loopback a proxy may stand for everyone."""
    assert quota_address(peer) == expected


def test_a_token_is_known_by_its_configured_name() -> None:
    rules = AccessRules(tokens=frozenset({"hush", "plain"}), token_names={"hush": "kiosk"})
    gate = Gate(rules)
    assert gate.token_name(visit(authorization="Bearer hush")) == "kiosk"
    assert gate.token_name(visit(sec_websocket_protocol="voicepipe.v1, plain")) == ""
    assert gate.token_name(visit(authorization="Bearer nonsense")) is None
    assert "hush" not in repr(rules)
    assert session_request(visit(), "kiosk") == SessionRequest("127.0.0.1", token="kiosk")


def test_admission_is_told_who_can_wait_and_whose_address_it_is() -> None:
    assert session_request(visit(peer=LAN, sec_websocket_protocol="voicepipe.v1")) == SessionRequest(
        LAN, address=LAN, may_wait=True
    )


def test_clients_that_know_no_waiting_room_wait_for_a_while_unless_they_do_not_want_to() -> None:
    patient = session_request(visit(target="/v1/realtime"))
    assert isinstance(patient, SessionRequest) and patient.may_wait and patient.patience_s == REALTIME.held_s
    hasty = session_request(visit(target="/v1/realtime?refuse=http", sec_websocket_protocol="realtime"))
    assert isinstance(hasty, SessionRequest) and not hasty.may_wait


def test_every_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those behind the one that matches: time tells nothing about which."""
    compared: list[bytes] = []

    def digest(shown: bytes, known: bytes) -> bool:
        compared.append(known)
        return shown == known

    monkeypatch.setattr("voicepipe.gate.hmac.compare_digest", digest)
    gate = Gate(AccessRules(tokens=frozenset({"a", "b", "c"})))
    for shown in ("a", "b", "c", "d"):
        compared.clear()
        gate.token_name(visit(authorization=f"Bearer {shown}"))
        assert sorted(compared) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("reason", Reason)
def test_a_quota_is_the_callers_own_429_and_all_else_the_servers_503(reason: Reason) -> None:
    assert refusal_reply(Refuse(reason, 1_000)).status == (429 if reason.is_quota else 503)


SIGNED = "wss://voice.example/v1/twilio"
SIGNING = Signing("s3cret", "wss://voice.example")
SIGNATURE = signature("s3cret", SIGNED).decode()


@pytest.mark.parametrize("peer", ["127.0.0.1", LAN])
def test_a_call_with_an_auth_token_configured_needs_a_signature(peer: str) -> None:
    """On loopback, too, where a proxy may stand for everyone; a bearer token does as well."""
    rules, with_token = AccessRules(twilio=SIGNING), AccessRules(twilio=SIGNING, tokens=frozenset({"t"}))
    for each in (rules, with_token, AccessRules(twilio=SIGNING, insecure=True)):
        assert check(each, visit("/v1/twilio", peer=peer, x_twilio_signature=SIGNATURE)) is None
        assert check(each, visit("/v1/twilio", peer=peer)) == "401 unauthorized"
        assert check(each, visit("/v1/twilio", peer=peer, x_twilio_signature=SIGNATURE[::-1])) == "401 unauthorized"
    assert check(with_token, visit("/v1/twilio", peer=peer, authorization="Bearer t")) is None
    assert check(rules, visit("/v1/twilio", peer=peer, authorization="Bearer t")) == "401 unauthorized"


def test_a_signature_opens_no_other_door() -> None:
    rules = AccessRules(twilio=Signing("s3cret", "wss://voice.example"))
    shown = signature("s3cret", "wss://voice.example/v1/voice").decode()
    assert check(rules, visit("/v1/voice", peer=LAN, x_twilio_signature=shown)) == "401 unauthorized"


def test_without_an_auth_token_a_call_is_let_in_like_any_other_session() -> None:
    assert check(AccessRules(), visit("/v1/twilio")) is None
    assert check(AccessRules(), visit("/v1/twilio", peer=LAN, x_twilio_signature=SIGNATURE)) == "401 unauthorized"
    assert check(AccessRules(tokens=frozenset({"t"})), visit("/v1/twilio")) == "401 unauthorized"
    assert "s3cret" not in repr(AccessRules(twilio=SIGNING))
