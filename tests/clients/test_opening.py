"""URLs, as people write them, to the one that is opened. The rest is tested with the client."""

from __future__ import annotations

import pytest

from voicepipe.errors import UsageError
from voicepipe_client.opening import check_token, masked, voice_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://h:1", "ws://h:1/v1/voice"),
        ("http://h/", "ws://h/v1/voice"),
        ("https://h", "wss://h/v1/voice"),
        ("wss://h/other", "wss://h/other"),
        ("ws://[::1]:2", "ws://[::1]:2/v1/voice"),
        ("ws://h/?route=a", "ws://h/v1/voice?route=a"),
    ],
)
def test_scheme_and_path_are_filled_in(url: str, expected: str) -> None:
    """http becomes ws; a path of one's own stays."""
    assert voice_url(url, None, None) == expected


def test_what_admission_needs_goes_into_the_query() -> None:
    """Beside what the URL brings already."""
    assert voice_url("ws://h?x=1", 150.0, "sales team") == "ws://h/v1/voice?x=1&budget_ms=150&route=sales+team"


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h", "ws://", "ws://h:port", "ws://h:99999"])
def test_what_is_no_url_is_wrong_usage(url: str) -> None:
    """With an example of one."""
    with pytest.raises(UsageError) as caught:
        voice_url(url, None, None)
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ws://h:1/v1?a=b", "ws://h:1/v1?a=b"),
        ("ws://[::1]:2", "ws://[::1]:2"),
        ("ws://user@h:1", "ws://user@h:1"),
        ("ws://user:secret@h:1/x", "ws://user:***@h:1/x"),
        ("wss://:secret@h", "wss://:***@h"),
        ("ws://user:se@cret@h:1", "ws://user:***@h:1"),
        ("ws://user:se/cret@h:1", "ws://user:***@h:1"),
        ("user:secret@h:1", "user:***@h:1"),
        ("ws://user:secret@h:port", "ws://user:***@h:port"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    """However wrong the URL is."""
    assert masked(url) == shown


@pytest.mark.parametrize("url", ["ws://u:pw@h:port", "ftp://u:pw@h", "u:pw@h", "ws://u:pw/pw@h"])
def test_errors_show_no_password(url: str) -> None:
    """Nor half of one, as the port that it was taken for."""
    with pytest.raises(UsageError) as caught:
        voice_url(url, None, None)
    assert "pw" not in caught.value.message


@pytest.mark.parametrize("sign", ["\n", "\r", "\0", "\x7f", "\u200b", "\udcff", "\u20ac"])
def test_a_token_that_no_header_can_carry_is_wrong_usage(sign: str) -> None:
    """The text shows nothing of it."""
    with pytest.raises(UsageError) as caught:
        check_token(f"hush{sign}hush")
    assert caught.value.field == "token"
    assert "hush" not in caught.value.message and "VOICEPIPE_TOKEN" in caught.value.message


@pytest.mark.parametrize("token", [None, "", "abc.DEF-123_~+/=", "two words", "schl\u00fcssel"])
def test_other_tokens_are_taken(token: str | None) -> None:
    """None and an empty one are none."""
    check_token(token)
