"""What a server says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from voicepipe.app import Serving
from voicepipe.commands.ready import authority, is_local, ready_text
from voicepipe.config import parse_config
from voicepipe.warmup import WarmUp


def served(warm: WarmUp, achievable_ms: float) -> Serving:
    """As far as it is looked at."""
    fields = {
        "warm": warm,
        "engines": SimpleNamespace(turn_model=None),
        "server": SimpleNamespace(port=8765),
        "achievable_ms": achievable_ms,
        "warmed_s": 1.5,
    }
    return cast("Serving", SimpleNamespace(**fields))


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("a.b", "a.b:80")])
def test_an_address_is_written_as_in_a_url(host: str, shown: str) -> None:
    assert authority(host, 80) == shown


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("a", False),
    ],
)
def test_a_name_is_taken_for_another_machines_unless_it_is_localhost(host: str, local: bool) -> None:
    """Who is warned in vain loses less than who is not warned."""
    assert is_local(host) is local


def test_it_says_what_a_turn_takes_here_and_of_what() -> None:
    """Milliseconds; and where that is too much, what comes of it."""
    config = parse_config({"admission": {"policy": "count"}})
    assert ready_text(config, served(WarmUp(0.05, 0.06, 0.04), 150.0)) == (
        "ready: ws://127.0.0.1:8765/v1/voice; an unhurried turn takes 150 ms here (decode 50 ms, think 60 ms, "
        "speak 40 ms; measured for 1.5 s), the budget is 200 ms"
    )
    late = ready_text(config, served(WarmUp(0.15, 0.16, 0.04), 350.0))
    assert late.endswith("; turns that are not begun ahead will miss it")


@pytest.mark.parametrize(("max_sessions", "told"), [(1, False), (4, True)])
def test_it_says_where_deadlines_leave_room_for_one_session(max_sessions: int, told: bool) -> None:
    """Only where more were allowed."""
    config = parse_config({"limits": {"max_sessions": max_sessions}})
    text = ready_text(config, served(WarmUp(0.15, 0.16, 0.04), 350.0))
    assert ("takes one session at a time" in text) is told
