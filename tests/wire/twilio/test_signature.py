"""Twilio's signature: by another implementation, and a websocket's URL in all of its spellings."""

from __future__ import annotations

import pytest

from voicepipe.wire.twilio.signature import Signing, signature, spellings

TOKEN = "12345"
URL = "wss://voice.example/v1/twilio"
PATH = "/v1/twilio"


def signed(url: str, token: str = TOKEN, host: str = "voice.example") -> dict[str, str]:
    return {"host": host, "x-twilio-signature": signature(token, url).decode()}


def test_it_is_the_hmac_of_the_url() -> None:
    """Computed by `openssl dgst -sha1 -hmac 12345 -binary | base64`."""
    assert signature(TOKEN, URL) == b"XSi4FBqWoCrAo//fGbmBAEkLjtA="


@pytest.mark.parametrize(
    "url",
    [URL, URL + "/", "wss://voice.example:443/v1/twilio", "wss://voice.example:443/v1/twilio/"],
)
def test_any_spelling_of_the_url_is_taken(url: str) -> None:
    for public in ("", "wss://voice.example", "wss://voice.example/", "wss://voice.example:443"):
        assert Signing(TOKEN, public).proves(signed(url), PATH)


def test_behind_a_proxy_the_public_url_is_the_one_that_is_signed() -> None:
    headers = signed("wss://voice.example/phone/v1/twilio", host="10.0.0.7:8765")
    assert Signing(TOKEN, "wss://voice.example/phone").proves(headers, PATH)
    assert not Signing(TOKEN).proves(headers, PATH)
    assert not Signing(TOKEN, "wss://voice.example").proves(headers, PATH)
    assert not Signing(TOKEN, "wss://voice.example").proves(
        signed("wss://evil.example" + PATH, host="evil.example"), PATH
    )


def test_a_port_of_ones_own_may_be_left_out() -> None:
    assert Signing(TOKEN).proves(signed("wss://voice.example:8443/v1/twilio", host="voice.example:8443"), PATH)
    assert Signing(TOKEN).proves(signed(URL, host="voice.example:8443"), PATH)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "voice.example"},
        {"host": "voice.example", "x-twilio-signature": ""},
        {"host": "voice.example", "x-twilio-signature": "ÄÖ"},
        {"x-twilio-signature": signature(TOKEN, URL).decode()},
        {"host": "voice.example:nan", "x-twilio-signature": signature(TOKEN, URL).decode()},
        {"host": "[", "x-twilio-signature": signature(TOKEN, URL).decode()},
        signed(URL, token="another"),
        signed("wss://other.example/v1/twilio"),
        signed("wss://voice.example/v1/twilio?x=1"),
    ],
)
def test_everything_else_is_not(headers: dict[str, str]) -> None:
    assert not Signing(TOKEN).proves(headers, PATH)


def test_a_query_is_a_part_of_it() -> None:
    assert Signing(TOKEN).proves(signed(URL + "?x=1"), PATH + "?x=1")
    assert len(set(spellings(URL))) == 4


def test_the_token_is_not_shown() -> None:
    assert "s3cret" not in repr(Signing("s3cret", URL))
