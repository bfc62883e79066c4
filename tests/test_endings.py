"""How sessions that end with an error are closed."""

from __future__ import annotations

import pytest

from voicepipe.connection import ConnectionClosed
from voicepipe.endings import BUG, GOOD, Ending, ending_of
from voicepipe.errors import BadJson, EngineUnavailable, SessionLimit


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionClosed(), GOOD),
        (BadJson("no"), Ending(4400, "bad_json", "bad_json")),
        (SessionLimit("idle"), Ending(4409, "session_limit", "session_limit")),
        (EngineUnavailable("down"), Ending(1011, "engine_unavailable")),
        (ExceptionGroup("tasks", [ConnectionClosed(), ConnectionClosed()]), GOOD),
        (
            ExceptionGroup("tasks", [ConnectionClosed(), ExceptionGroup("", [BadJson("no")])]),
            Ending(4400, "bad_json", "bad_json"),
        ),
    ],
)
def test_errors_say_how_they_close(error: Exception, expected: Ending) -> None:
    assert ending_of(error) == expected


def test_a_bug_outweighs_the_rest_and_is_described_without_its_text() -> None:
    def session(said: str) -> None:
        raise ValueError(said)

    words = "my card " + "number"
    with pytest.raises(ValueError, match=words) as caught:
        session(words)
    ending = ending_of(ExceptionGroup("tasks", [BadJson("no"), caught.value]))
    assert (ending.code, ending.reason, ending.client_error) == (BUG.code, BUG.reason, None)
    (text,) = ending.bugs
    assert text.startswith("ValueError\n") and "in session" in text
    assert words not in text
