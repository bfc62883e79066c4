"""The table of events: all of the protocol's, by the official types; the page; and what is really sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent

from tests.wire.realtime.talking import Wire, codes
from tests.wire.realtime.test_events import SMALLEST
from voicepipe.wire.realtime.dialect import _ACTIVE
from voicepipe.wire.realtime.faults import _CODES
from voicepipe.wire.realtime.names import BETA_CLIENT_EVENTS, CLIENT_EVENTS, SERVER_EVENTS

PAGE = Path(__file__).parents[3] / "docs/openai-realtime.md"
ROW = re.compile(r"^\| `([a-z_.]+)` \| (supported|ignored|refused|not sent)\b", re.MULTILINE)


def names(union: Any) -> set[str]:
    members, *_ = get_args(union)
    return {name for model in get_args(members) for name in get_args(model.model_fields["type"].annotation)}


def test_the_table_has_every_event_of_the_protocol() -> None:
    assert set(CLIENT_EVENTS) == names(RealtimeClientEvent)
    assert set(SERVER_EVENTS) == names(RealtimeServerEvent)


def test_the_page_says_what_the_table_says() -> None:
    """Row by row."""
    rows = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
    assert rows == {**CLIENT_EVENTS, **SERVER_EVENTS, **dict.fromkeys(BETA_CLIENT_EVENTS, "supported")}


@pytest.mark.parametrize(("kind", "fate"), CLIENT_EVENTS.items())
def test_what_is_refused_is_refused_and_nothing_else(kind: str, fate: str) -> None:
    """By its name: what an event refuses of what it holds is something else."""
    refused = codes(Wire().send(kind, **SMALLEST.get(kind, {}))) == ["unsupported"]
    assert refused is (fate == "refused")


def test_the_page_names_every_code_of_an_error() -> None:
    """Those that the package gives, wherever it says so."""
    folder = Path(__file__).parents[3] / "voicepipe/wire/realtime"
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    given = set(re.findall(r'Refusal\(\s*"([a-z_]+)"', source)) | set(_CODES.values()) | {_ACTIVE}
    given |= {f"item_{verb}_invalid_item_id" for verb in ("retrieve", "delete", "truncate", "create", "reference")}
    page = PAGE.read_text(encoding="utf-8")
    assert not {code for code in given if f"`{code}`" not in page}
