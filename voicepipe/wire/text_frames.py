"""What every dialect asks of a text frame before it is decoded."""

from __future__ import annotations

from voicepipe.errors import BadJson, TooLarge


def utf8_of(text: str, most: int, what: str) -> bytes:
    """The UTF-8 of `what`, of `most` bytes at most; its characters are counted before it is copied. Raises BadJson
    for a lone surrogate, TooLarge."""
    size = len(text)
    if size <= most:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            raise BadJson("a text frame holds a lone surrogate") from None
        if len(raw) <= most:
            return raw
        size = len(raw)
    raise TooLarge(f"{what} may have {most} bytes, not {size}", field="text frame")
