"""Requests and answers between two forms."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.typing import Subprotocol

from voicepipe.handshake import response_of, select_subprotocol, unreadable, visit_of
from voicepipe.webfiles import Reply
from voicepipe.wire.native import PROTOCOL


def test_headers_of_a_request_are_found_by_lower_case_names_and_joined() -> None:
    headers = Headers([("Origin", "a"), ("X-Forwarded-For", "1"), ("x-forwarded-for", "2")])
    visit = visit_of(Request("/v1/voice?budget_ms=9", headers, "GET"), "127.0.0.1")
    assert (visit.method, visit.path, visit.peer) == ("GET", "/v1/voice", "127.0.0.1")
    assert visit.headers == {"origin": "a", "x-forwarded-for": "1, 2"}


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
    nobody = cast("Any", None)
    assert select_subprotocol(nobody, [Subprotocol(name) for name in offered]) == selected
