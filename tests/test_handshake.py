"""Requests and answers between two forms."""

from __future__ import annotations

import json
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.typing import Subprotocol

from voicepipe.handshake import headers_of, response_of, select_subprotocol, too_large, unreadable
from voicepipe.webfiles import Reply
from voicepipe.wire.doors import NATIVE, REALTIME, Door
from voicepipe.wire.native import PROTOCOL


def test_headers_of_a_request_are_found_by_lower_case_names_and_joined() -> None:
    headers = Headers([("Origin", "a"), ("X-Forwarded-For", "1"), ("x-forwarded-for", "2")])
    assert headers_of(Request("/v1/voice?budget_ms=9", headers, "GET")) == {
        "origin": "a",
        "x-forwarded-for": "1, 2",
    }


@pytest.mark.parametrize(("head", "body"), [(False, b"hello"), (True, b"")])
def test_an_answer_to_head_has_all_but_the_body(head: bool, body: bytes) -> None:
    response = response_of(Reply(HTTPStatus.OK, "text/plain", b"hello"), head=head)
    assert (response.status_code, response.reason_phrase, response.body) == (200, "OK", body)
    assert response.headers["Content-Length"] == "5" and response.headers["Date"].endswith("GMT")


@pytest.mark.parametrize(("method", "status"), [(b"GET", 400), (b"HEAD", 400), (b"POST", 405), (b"\x16\x03", 405)])
def test_what_cannot_be_read_gets_a_whole_answer(method: bytes, status: int) -> None:
    """Which says, to other methods, what is allowed."""
    answer = unreadable(method)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (b"Allow: GET, HEAD" in answer) is (status == 405)


@pytest.mark.parametrize(
    ("offered", "selected"),
    [([PROTOCOL], PROTOCOL), (["token.s3cret", PROTOCOL], PROTOCOL), (["other"], None), ([], None)],
)
def test_the_protocol_is_ours_or_none(offered: list[str], selected: str | None) -> None:
    """A token that is offered beside it is never sent back."""
    assert select_subprotocol(asking("/v1/voice?route=a"), [Subprotocol(name) for name in offered]) == selected


def test_each_door_has_its_own_protocol() -> None:
    """Neither its key nor another door's protocol is sent back."""
    offered = [Subprotocol(name) for name in (PROTOCOL, "openai-insecure-api-key.s3cret", "realtime")]
    assert select_subprotocol(asking("/v1/realtime"), offered) == "realtime"
    assert select_subprotocol(asking("/v1/realtime"), offered[:2]) is None


@pytest.mark.parametrize(
    ("door", "limit"), [(NATIVE, "65536"), (REALTIME, "1048576")], ids=lambda value: str(value)
)
def test_what_was_too_large_is_said_in_the_doors_own_words(door: Door, limit: str) -> None:
    """With its own limit."""
    told = json.loads(too_large(9_999_999, door))
    assert told["type"] == "error" and limit in str(told) and "too_large" in str(told)


def asking(target: str) -> Any:
    return SimpleNamespace(request=SimpleNamespace(path=target))
