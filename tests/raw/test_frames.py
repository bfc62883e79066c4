"""What RFC 6455 forbids, and what it allows and nobody expects, on the real socket of a whole server."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

import pytest

from tests.raw.client import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    START,
    TEXT,
    close,
    frame,
    open_raw,
    say,
    text,
)
from tests.raw.house import beside_a_good_client, shorten, within
from voicepipe.wire.native import MAX_BINARY_BYTES, MAX_TEXT_BYTES


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    sent: bytes
    code: int
    """With which the server closes."""
    counted: str | None = None
    """As which client error."""


def fragments(opcode: int, *pieces: bytes) -> bytes:
    last = len(pieces) - 1
    return b"".join(frame(CONT if n else opcode, piece, fin=n == last) for n, piece in enumerate(pieces))


WORD = '{"type": "input.text", "text": "é"}'.encode()
DEFLATED = zlib.compress(WORD)[2:-4]
PROTOCOL = [
    *(Case(f"reserved bit {bit}", frame(TEXT, WORD, rsv=bit), 1002, "protocol") for bit in (1, 2, 4)),
    Case("compressed, which was not agreed on", frame(TEXT, DEFLATED, rsv=4), 1002, "protocol"),
    *(Case(f"opcode {code}", frame(code, b"x"), 1002, "protocol") for code in (3, 4, 5, 6, 7, 11, 12, 15)),
    Case("not masked", frame(TEXT, WORD, masked=False), 1002, "protocol"),
    Case("a control frame that is not masked", frame(PING, b"x", masked=False), 1002, "protocol"),
    Case("a ping in fragments", frame(PING, b"x", fin=False), 1002, "protocol"),
    Case("a close in fragments", frame(CLOSE, b"\x03\xe8", fin=False), 1002, "protocol"),
    Case("a ping that is too long", frame(PING, bytes(126)), 1002, "protocol"),
    Case("a pong that is too long", frame(PONG, bytes(126)), 1002, "protocol"),
    Case("a close that is too long", frame(CLOSE, b"\x03\xe8" + b"x" * 124), 1002, "protocol"),
    Case("a continuation of nothing", frame(CONT, b"x"), 1002, "protocol"),
    Case("a continuation behind a whole message", say("Hi.") + frame(CONT, b"x"), 1002, "protocol"),
    Case("a message inside another one", frame(TEXT, b"{", fin=False) + frame(TEXT, WORD), 1002, "protocol"),
    Case("sound inside a text", frame(TEXT, b"{", fin=False) + frame(BINARY, bytes(9)), 1002, "protocol"),
    Case("a close inside a message", frame(TEXT, b"{", fin=False) + close(1000), 1002, "protocol"),
    Case("a close of one byte", frame(CLOSE, b"\x03"), 1002, "protocol"),
    *(
        Case(f"close code {code}", close(code), 1002, "protocol")
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    ),
]
ENCODING = [
    Case("no UTF-8", frame(TEXT, b"\xff\xfe"), 1007, "encoding"),
    Case("no UTF-8 in the second fragment", fragments(TEXT, b'{"a": "', b'\xff"}'), 1007, "encoding"),
    Case("a letter that is not whole", frame(TEXT, WORD[:-3]), 1007, "encoding"),
    Case("an overlong letter", frame(TEXT, b'{"type": "\xc0\xaf"}'), 1007, "encoding"),
    Case("a surrogate", frame(TEXT, b'{"type": "\xed\xa0\x80"}'), 1007, "encoding"),
    Case("beyond the last letter there is", frame(TEXT, b"\xf4\x90\x80\x80"), 1007, "encoding"),
    Case("a close whose reason is no UTF-8", close(1000, b"\xff"), 1007, "encoding"),
]
SIZE = [
    Case("a text that is too long", frame(TEXT, b"x" * (MAX_TEXT_BYTES + 1)), 1009, "too_large"),
    Case("sound that is too long", frame(BINARY, bytes(MAX_BINARY_BYTES + 1)), 1009, "too_large"),
    Case("far too long", frame(TEXT, b"x" * 300_000), 1009, "too_large"),
    Case("a length of a terabyte", frame(BINARY, b"x", size=1 << 40), 1009, "too_large"),
    Case("a length with its first bit set", frame(BINARY, b"x", size=1 << 63), 1009, "too_large"),
    Case("too long by its fragments", fragments(TEXT, *[b"x" * 60_000] * 5), 1009, "too_large"),
    Case("far too many fragments", fragments(TEXT, *[b" "] * 70_000), 1009, "too_large"),
]
SESSION = [
    Case("sound without a header", frame(BINARY, b"x"), 4400, "bad_frame"),
    Case("no JSON", frame(TEXT, b"{"), 4400, "bad_json"),
    Case("an empty text", frame(TEXT), 4400, "bad_json"),
    Case("another start", frame(TEXT, START), 4400, "out_of_order"),
]


@pytest.mark.parametrize("case", PROTOCOL + ENCODING + SIZE + SESSION, ids=lambda case: case.name)
async def test_who_breaks_the_rules_is_closed_with_a_code_and_counted(case: Case) -> None:
    async with beside_a_good_client() as house:
        async with open_raw(house.port) as client:
            await client.send(case.sent)
            got = await client.until_ended()
            assert got.code == case.code, got
        if case.counted is not None:
            await within(lambda: house.value("client_errors_total", code=case.counted) == 1, "it is counted")


GOODBYES = [
    ("1000", close(1000, b"bye"), 1000),
    ("nothing in it", frame(CLOSE), 1005),
    *((str(code), close(code), code) for code in (1001, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999)),
    ("the longest", close(1000, b"x" * 123), 1000),
    ("with more behind it", close(1000) + frame(7, b"x") * 100, 1000),
]


@pytest.mark.parametrize(
    ("sent", "code"), [(sent, code) for _, sent, code in GOODBYES], ids=[g[0] for g in GOODBYES]
)
async def test_a_close_is_answered_with_its_code(sent: bytes, code: int) -> None:
    async with beside_a_good_client() as house, open_raw(house.port) as client:
        await client.send(sent)
        assert (await client.until_ended()).code == code


LONG_TEXT = json.dumps({"type": "session.update", "instructions": "x" * 4000}).encode()
UNUSUAL = [
    ("a text in fragments of a byte", fragments(TEXT, *[bytes([byte]) for byte in LONG_TEXT]), 0),
    ("a letter over two fragments", fragments(TEXT, WORD[:-3], WORD[-3:]), 0),
    ("empty fragments", fragments(TEXT, *[b""] * 100, WORD, *[b""] * 100), 0),
    ("a ping between fragments", frame(TEXT, WORD[:5], fin=False) + frame(PING, b"a") + frame(CONT, WORD[5:]), 1),
    ("pongs that nobody asked for", frame(PONG, b"x" * 125) * 200, 0),
    ("an empty ping", frame(PING), 1),
    ("the longest ping", frame(PING, b"p" * 125), 1),
    ("a length in more bytes than it needs", frame(PING, b"x") + frame(TEXT, WORD, length_bytes=8), 1),
    ("the longest text", text(type="input.clear", pad="x" * (MAX_TEXT_BYTES - 100)), 0),
    ("the longest sound", frame(BINARY, struct.pack(">II", 0, 0) + bytes(MAX_BINARY_BYTES - 8)), 0),
    ("an unknown type", text(type="bonjour"), 0),
]


@pytest.mark.parametrize(
    ("sent", "pongs"), [(sent, pongs) for _, sent, pongs in UNUSUAL], ids=[name for name, _, _ in UNUSUAL]
)
async def test_what_is_allowed_is_taken(sent: bytes, pongs: int) -> None:
    """The session lives on: it answers, and ends as it is asked to."""
    async with beside_a_good_client() as house, open_raw(house.port) as client:
        await client.send(sent + frame(PING, b"last"))
        while b"last" not in client.got.pongs:
            opcode, _ = await client._frame()
            assert opcode not in (None, CLOSE), client.got
        assert len(client.got.pongs) == pongs + 1
        await client.send(text(type="session.end"))
        assert (await client.until_ended()).code == 1000
