"""Whom a request comes from: what a caller writes into a header itself counts for nothing."""

from __future__ import annotations

import pytest

from voicepipe.proxies import Proxies, address_of

OURS = Proxies(["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("peer", "header", "caller"),
    [
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7, 10.0.0.9", "192.0.2.7"),
        ("10.0.0.1", "127.0.0.1, 192.0.2.7,10.0.0.9", "192.0.2.7"),
        ("10.0.0.1", "evil, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "2001:db9::1, 2001:db8::5", "2001:db9::1"),
        ("10.0.0.1", "192.0.2.7, evil\r\nX: y", ""),
        ("10.0.0.1", "192.0.2.7:443", ""),
        ("10.0.0.1", "", ""),
        ("10.0.0.1", "127.0.0.1", ""),
        ("192.0.2.1", "203.0.113.5", "192.0.2.1"),
        ("127.0.0.2", "203.0.113.5", "127.0.0.2"),
    ],
)
def test_the_last_address_that_is_no_trusted_proxy_is_the_caller(peer: str, header: str, caller: str) -> None:
    """From the end: each trusted proxy has added the one before it."""
    assert OURS.caller(peer, {"x-forwarded-for": header}) == (caller, True)


def test_a_request_without_the_header_is_its_peers() -> None:
    """Also a trusted proxy's own, such as its check of our health."""
    assert OURS.caller("10.0.0.1", {}) == ("10.0.0.1", False)
    assert Proxies().caller("127.0.0.1", {}) == ("127.0.0.1", False)


def test_whoever_says_that_it_was_forwarded_is_told_so() -> None:
    """By either header; the newer one is not read."""
    assert Proxies().caller("127.0.0.1", {"forwarded": "for=192.0.2.7"}) == ("127.0.0.1", True)
    assert OURS.caller("127.0.0.1", {"forwarded": "for=192.0.2.7"}) == ("", True)


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="evil"):
        Proxies(["evil"])


def test_addresses() -> None:
    assert str(address_of(" ::ffff:192.0.2.1 ")) == "192.0.2.1"
    assert address_of("localhost") is None
