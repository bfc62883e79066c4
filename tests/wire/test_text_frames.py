"""A text frame before it is decoded: its size in bytes, and that it is UTF-8."""

from __future__ import annotations

import pytest

from voicepipe.errors import BadJson, TooLarge
from voicepipe.wire.text_frames import utf8_of


@pytest.mark.parametrize("text", ["", "abcd", "né!", "äö"])
def test_what_fits_is_its_bytes(text: str) -> None:
    assert utf8_of(text, 4, "an event") == text.encode()


@pytest.mark.parametrize(("text", "size"), [("abcde", 5), ("äöü", 6), ("x" * 10**6, 10**6)])
def test_what_is_too_large_is_named_with_the_limit(text: str, size: int) -> None:
    """The limit is one of bytes, and not of characters."""
    with pytest.raises(TooLarge, match=rf"^an event may have 4 bytes, not {size}$") as caught:
        utf8_of(text, 4, "an event")
    assert caught.value.field == "text frame"


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(BadJson, match="lone surrogate"):
        utf8_of("\ud800", 4, "an event")
