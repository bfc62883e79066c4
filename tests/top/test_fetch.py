"""From a URL to a page of metrics, or to the error that says what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from voicepipe.errors import Forbidden, ServerUnreachable, Unauthorized, UsageError, VoicepipeError
from voicepipe.top.fetch import fetch, metrics_url


@contextmanager
def answering(status: int, body: bytes = b"", **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server's URL, and the tokens that it was shown."""
    shown: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics", shown
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("127.0.0.1:8765", "http://127.0.0.1:8765/metrics"),
        ("http://127.0.0.1:8765/", "http://127.0.0.1:8765/metrics"),
        ("ws://127.0.0.1:8765/v1/voice", "http://127.0.0.1:8765/metrics"),
        ("wss://voice.example", "https://voice.example/metrics"),
        ("https://voice.example/behind/metrics?x=1#y", "https://voice.example/behind/metrics"),
        ("[::1]:8765", "http://[::1]:8765/metrics"),
    ],
)
def test_where_metrics_are(url: str, expected: str) -> None:
    """However the server is named elsewhere."""
    assert metrics_url(url) == expected


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://a b", "http://h:99999", "http://[::1"])
def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:8765") as caught:
        metrics_url(url)
    assert caught.value.field == "url"


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        metrics_url("http://me:hush@host")
    assert "hush" not in caught.value.message and "VOICEPIPE_METRICS_TOKEN" in caught.value.message


def test_the_token_is_shown() -> None:
    with answering(200, b"voicepipe_turns_total 1\n") as (url, shown):
        assert fetch(url, "") == fetch(url, "s3cret") == "voicepipe_turns_total 1\n"
    assert shown == ["", "Bearer s3cret"]


@pytest.mark.parametrize(
    ("status", "token", "error", "says"),
    [
        (401, "", Unauthorized, "needs its metrics' token"),
        (401, "s3cret", Unauthorized, "does not take the token"),
        (403, "", Forbidden, "to its own machine alone"),
        (404, "", ServerUnreachable, "is it a voicepipe server?"),
        (503, "", ServerUnreachable, "HTTP 503"),
    ],
)
def test_an_answer_that_is_none_says_what_to_do(
    status: int, token: str, error: type[VoicepipeError], says: str
) -> None:
    with answering(status) as (url, _), pytest.raises(error, match=says) as caught:
        fetch(url, token)
    assert "s3cret" not in caught.value.message


def test_a_token_does_not_follow_to_another_server() -> None:
    with (
        answering(200) as (other, shown),
        answering(302, Location=other) as (url, _),
        pytest.raises(ServerUnreachable, match="HTTP 302"),
    ):
        fetch(url, "s3cret")
    assert shown == []


def test_nobody_there_is_told() -> None:
    with answering(200) as (url, _):
        pass
    with pytest.raises(ServerUnreachable, match=r"nobody answers .*voicepipe serve"):
        fetch(url, "")
