"""Every way in which a network may cut an event stream gives the same events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.engines.sse import EVENT_BYTES_MAX, SseParser
from voicepipe.errors import EngineUnavailable


def parse(*chunks: bytes) -> list[str]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_events_end_at_an_empty_line(end: bytes) -> None:
    assert parse(b"data: a" + end + end + b"data: b" + end) == ["a"]


def test_lone_carriage_returns_end_lines() -> None:
    assert parse(b"data: a\r\rdata: b\r\r", b"data: c\n") == ["a", "b"]


def test_comments_names_ids_and_empty_events_are_read_over() -> None:
    stream = b": ping\n\nevent: x\nid: 7\nretry: 9\ndata: a\n\n\n\n:\n\ndata:b\n\n"
    assert parse(stream) == ["a", "b"]


def test_several_data_lines_are_one_event() -> None:
    assert parse(b"data: a\ndata:\ndata:  b\n\n") == ["a\n\n b"]


def test_byte_order_mark() -> None:
    assert parse(b"\xef\xbb\xbfdata: a\n\n") == ["a"]


def test_an_endless_event_is_an_error() -> None:
    with pytest.raises(EngineUnavailable, match="event of over"):
        parse(b"data: " + b"x" * EVENT_BYTES_MAX)
    with pytest.raises(EngineUnavailable, match="event of over"):
        parse(*[b"data: " + b"x" * 9999 + b"\n"] * (EVENT_BYTES_MAX // 9999 + 2))


STREAM = 'data: {"a": "naïve 🦜"}\r\n\r\n: ping\r\ndata: x\r\ndata: y\r\n\r\ndata: [DONE]\r\n\r\n'.encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_cuts_do_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(edges)]
    assert parse(*chunks) == ['{"a": "naïve 🦜"}', "x\ny", "[DONE]"]
